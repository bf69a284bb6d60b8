// Allocates memory of the GPU, and runs a command while it has it.
//   holds_memory BYTES COMMAND
#include "hsa_check.h"

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: holds_memory BYTES COMMAND");
    start();
    fflush(stdout);
    EXPECT(system(argv[2]) == 0, "%s failed before", argv[2]);
    void* memory = allocate(vram, strtoul(argv[1], NULL, 0));
    EXPECT(system(argv[2]) == 0, "%s failed", argv[2]);
    CHECK(hsa_amd_memory_pool_free(memory));
    EXPECT(system(argv[2]) == 0, "%s failed after", argv[2]);
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
