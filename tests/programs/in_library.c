// Loads a library and runs the function `int program(int, char**)` in it, a C++ one, with the rest of the arguments.
//   in_library LIBRARY ARGUMENT...
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*program)(int, char**) = NULL;
    if (library) *(void**)&program = dlsym(library, "_Z7programiPPc");
    if (!program) {
        printf("FAIL %s\n", argc > 1 ? dlerror() : "expected a library");
        return 1;
    }
    return program(argc - 1, argv + 1);
}
