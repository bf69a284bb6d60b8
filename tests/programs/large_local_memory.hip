// Local memory of 160 KB on gfx950: the properties of the device, kernels that use all of it, as it was compiled and as it was launched,
// and a launch that asks for more.
#include "check.h"

#if defined(__gfx950__)
#define HERE 1
#define WORDS (160 * 1024 / 4)
#else
#define HERE 0
#define WORDS 1
#endif

enum { ALL = 160 * 1024 / 4, THREADS = 1024 };

extern __shared__ unsigned launched[];

template <class Pointer>
__device__ void reversed(Pointer words, const unsigned* from, unsigned* to) {
    for (int n = threadIdx.x; n < ALL; n += THREADS) words[n] = from[n] + blockIdx.x;
    __syncthreads();
    for (int n = threadIdx.x; n < ALL; n += THREADS) to[blockIdx.x * ALL + n] = words[ALL - 1 - n];
}

__global__ void __launch_bounds__(THREADS) of_the_launch(const unsigned* from, unsigned* to) { reversed(launched, from, to); }

__global__ void __launch_bounds__(THREADS) as_compiled(const unsigned* from, unsigned* to) {
#if HERE
    __shared__ unsigned words[WORDS];
    reversed(words, from, to);
#endif
}

__global__ void is_here(int* yes) { *yes = HERE; }

int main() {
    Array<int> yes(1);
    is_here<<<1, 1>>>(yes);
    if (!yes.host()[0]) {
        std::printf("this processor has less local memory\nPASS\n");
        return 0;
    }
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    EXPECT(properties.sharedMemPerBlock == ALL * 4, "the device says it has %zu bytes", properties.sharedMemPerBlock);
    std::printf("%s: %zu bytes\n", properties.name, properties.sharedMemPerBlock);
    const int blocks = 5;
    std::vector<unsigned> words(ALL), expected(blocks * ALL);
    for (int n = 0; n < ALL; ++n) words[n] = n * 2654435761u;
    for (int n = 0; n < blocks * ALL; ++n) expected[n] = words[ALL - 1 - n % ALL] + n / ALL;
    Array<unsigned> from(words);
    {
        Array<unsigned> to(blocks * ALL);
        of_the_launch<<<blocks, THREADS, ALL * 4>>>(from, to);
        expect_same("of the launch", to.host(), expected);
    }
    {
        Array<unsigned> to(blocks * ALL);
        as_compiled<<<blocks, THREADS>>>(from, to);
        expect_same("as compiled", to.host(), expected);
    }
    Array<unsigned> to(blocks * ALL);
    of_the_launch<<<blocks, THREADS, ALL * 4 + 4>>>(from, to);
    const hipError_t status = hipGetLastError();
    EXPECT(status != hipSuccess, "a launch with more than there is was accepted");
    std::printf("more: %s\nPASS\n", hipGetErrorName(status));
    return 0;
}
