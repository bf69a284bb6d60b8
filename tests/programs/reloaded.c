// Loads the HIP runtime, runs one kernel and unloads it; several times in one process.
//   reloaded ROUNDS
#include "hsa_check.h"

#include <dlfcn.h>

#define HIP(name, ...)                                                            \
    do {                                                                          \
        int (*call)() = (int (*)())dlsym(hip, #name);                             \
        EXPECT(call, "no " #name);                                                \
        int status = call(__VA_ARGS__);                                           \
        EXPECT(status == 0, #name " returned %d", status);                        \
    } while (0)

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: reloaded ROUNDS");
    const char* path = getenv("TEST_KERNELS");
    EXPECT(path, "TEST_KERNELS names no code object");
    for (int round = 0; round < atoi(argv[1]); ++round) {
        void* hip = dlopen("libamdhip64.so", RTLD_NOW);
        EXPECT(hip, "%s", dlerror());
        void *module, *function;
        uint32_t *words, first = 1;
        HIP(hipInit, 0);
        HIP(hipModuleLoad, &module, path);
        HIP(hipModuleGetFunction, &function, module, "increment");
        HIP(hipMalloc, (void**)&words, (size_t)4096);
        HIP(hipMemset, words, 0, (size_t)4096);
        void* arguments[] = {&words};
        HIP(hipModuleLaunchKernel, function, 1u, 1u, 1u, 64u, 1u, 1u, 0u, NULL, arguments, NULL);
        HIP(hipDeviceSynchronize);
        HIP(hipMemcpy, &first, words, sizeof first, 2);
        EXPECT(first == 1, "round %d: %u", round, first);
        EXPECT(!dlclose(hip), "%s", dlerror());
    }
    printf("PASS\n");
    return 0;
}
