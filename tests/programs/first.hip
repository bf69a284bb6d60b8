// Runs one kernel and ends: what a process costs until its first kernel is done, or until its end.
//   first _exit|return
#include <unistd.h>

#include "check.h"

__global__ void mark(int* word) { *word = 42; }

int main(int argc, char** argv) {
    int* word;
    CHECK(hipHostMalloc(&word, sizeof(int), hipHostMallocDefault));
    mark<<<1, 1>>>(word);
    CHECK(hipGetLastError());
    CHECK(hipDeviceSynchronize());
    EXPECT(*word == 42, "the kernel did not run");
    std::printf("PASS\n");
    std::fflush(stdout);
    if (argc > 1 && !std::strcmp(argv[1], "_exit")) _exit(0);
    return 0;
}
