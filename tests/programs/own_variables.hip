// A kernel whose replacement, the same source with -DOTHER, has variables that the program lacks: it counts its launches in
// them, and adds the count to the upper halves of what it computes. The program looks at the lower halves. With -DTHIRD
// the replacement has other code.
#include "check.h"

constexpr int N = 64, LAUNCHES = 4;

__device__ unsigned shared_by_both;

#ifdef OTHER
__device__ unsigned counts[4] = {3, 0, 0, 0};
// An address in data: it is where the last launch has counted.
__device__ unsigned* latest = counts;
#endif

extern "C" __global__ void step(unsigned* words) {
    unsigned i = threadIdx.x, added = 0;
#ifdef OTHER
    added = *latest << 16;
#ifdef THIRD
    asm volatile("s_nop 7");
#endif
    __syncthreads();
    if (i == 0) {
        unsigned* next = counts + (latest - counts + 1) % 4;
        *next = *latest + 1;
        latest = next;
    }
#endif
    words[i] = added + i + shared_by_both;
    __syncthreads();
    if (i == 0) shared_by_both += 5;
}

int main() {
    Array<unsigned> words(N);
    for (unsigned n = 0; n < LAUNCHES; ++n) {
        step<<<1, N>>>(words);
        auto found = words.host();
        for (unsigned i = 0; i < N; ++i) EXPECT((found[i] & 0xffff) == i + 5 * n, "launch %u: words[%u] = %#x", n, i, found[i]);
        std::printf("launch %u: %u\n", n, found[0] >> 16);
    }
    std::printf("PASS\n");
}
