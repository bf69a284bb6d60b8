// A host that writes memory while a kernel reads other parts of it. Prints "beside ADDRESS BYTES" for each such write, and PASS.
// Compiled with another FACTOR, or with SILENT, kernels compute something else, or leave out stores to memory of the host.
// With PLAIN, nothing says that kernels only read there.
#include "check.h"

#ifndef FACTOR
#define FACTOR 3
#endif
#ifdef SILENT
constexpr bool TELLS = false;
#else
constexpr bool TELLS = true;
#endif

#ifdef PLAIN
using From = volatile unsigned*;
#else
using From = const unsigned* __restrict__;
#endif

constexpr unsigned WORDS = 1024, HALF = WORDS / 2, ROUNDS = 1 << 19, TRIES = 50;

// Says that it has begun, and reads the first half of `from` when it has run for some time.
extern "C" __global__ void slow(volatile unsigned* flags, unsigned* __restrict__ to, From from, unsigned rounds) {
    unsigned i = threadIdx.x, x = i;
    if (TELLS && i == 0) flags[0] += 1;
    for (unsigned round = 0; round < rounds; ++round) x = (x ^ round) * 1664525 + 1013904223;
    to[i] += from[i] + x;
    if (TELLS && i == 0) flags[1] += 1;
}

// Reads the second half.
extern "C" __global__ void sum(unsigned* __restrict__ to, From from) {
    to[threadIdx.x] = to[threadIdx.x] * FACTOR + from[HALF + threadIdx.x];
}

int main() {
    hipStream_t stream;
    CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    // Nothing is freed: what is there at the end is compared.
    unsigned *to, *from, *flags;
    CHECK(hipMalloc((void**)&to, 64 * sizeof(unsigned)));
    CHECK(hipMemset(to, 0, 64 * sizeof(unsigned)));
    CHECK(hipStreamSynchronize(nullptr));
    CHECK(hipHostMalloc((void**)&from, WORDS * sizeof(unsigned)));
    CHECK(hipHostMalloc((void**)&flags, 2 * sizeof(unsigned)));
    volatile unsigned* seen = flags;
    for (unsigned i = 0; i < WORDS; ++i) from[i] = i;
    flags[0] = flags[1] = 0;
    std::vector<unsigned> expected(64, 0);
    unsigned beside = 0;
    for (unsigned launch = 1; launch <= TRIES && beside < 3; ++launch) {
        slow<<<1, 64, 0, stream>>>(flags, to, from, ROUNDS);
        CHECK(hipGetLastError());
        while (seen[0] != launch) {
        }
        for (unsigned i = 0; i < 64; ++i) from[HALF + i] = launch * 1000003 + i;
        // If the kernel has not ended, the host wrote beside it.
        bool is_beside = seen[1] != launch;
        beside += is_beside;
        if (is_beside) std::printf("beside %p %zu\n", (void*)(from + HALF), 64 * sizeof(unsigned));
        sum<<<1, 64, 0, stream>>>(to, from);
        CHECK(hipStreamSynchronize(stream));
        for (unsigned i = 0; i < 64; ++i) {
            unsigned x = i;
            for (unsigned round = 0; round < ROUNDS; ++round) x = (x ^ round) * 1664525 + 1013904223;
            expected[i] = (expected[i] + from[i] + x) * FACTOR + from[HALF + i];
        }
    }
    std::vector<unsigned> found(64);
    CHECK(hipMemcpy(found.data(), to, 64 * sizeof(unsigned), hipMemcpyDeviceToHost));
    expect_same("words", found, expected);
    EXPECT(beside > 0, "no write of the host was beside a kernel");
    std::printf("PASS\n");
}
