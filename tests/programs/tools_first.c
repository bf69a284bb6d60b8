// Preloaded: puts the tool that TEST_FIRST_TOOL names before those that the runtime is to load, as applications do that bring a
// tool of their own.
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void add(void) {
    const char* first = getenv("TEST_FIRST_TOOL");
    const char* tools = getenv("HSA_TOOLS_LIB");
    if (!first || !tools) return;
    char both[8192];
    snprintf(both, sizeof both, "%s %s", first, tools);
    setenv("HSA_TOOLS_LIB", both, 1);
}
