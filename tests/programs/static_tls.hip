// A process whose threads have 4 MiB of static thread-local storage, which the C library takes out of each thread's stack.
#include <hip/hip_runtime.h>

#include <cstdio>

#include "check.h"

__thread volatile char large[4 << 20];

__global__ void add_one(int* words) { words[threadIdx.x] += 1; }

int main() {
    large[1] = 1;
    int* words = nullptr;
    CHECK(hipMalloc(&words, 256));
    CHECK(hipMemset(words, 0, 256));
    add_one<<<1, 64>>>(words);
    CHECK(hipDeviceSynchronize());
    int result[64];
    CHECK(hipMemcpy(result, words, 256, hipMemcpyDeviceToHost));
    bool good = large[1] == 1;
    for (int word : result) good &= word == 1;
    CHECK(hipFree(words));
    printf(good ? "PASS\n" : "FAIL\n");
    return !good;
}
