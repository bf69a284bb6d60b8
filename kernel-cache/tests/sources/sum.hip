// A kernel in many builds: each define is one thing that the device's library or other code takes part in.
#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>

#ifdef VARIABLE
__device__ int counter;
#elif defined CONSTANT
__constant__ float factors[16];
#elif defined OWN_VARIABLE
static __device__ int own;
#endif

#ifdef POINTERS
struct Shape {
    __device__ virtual float area(float x) const { return x; }
};
struct Square : Shape {
    __device__ float area(float x) const override { return x * x; }
};
__global__ void make(void* where) { new (where) Square; }
#endif

#ifdef RECURSION
__device__ __attribute__((noinline)) float deep(float x, int n) {
    volatile float kept = x;
    return n > 0 ? deep(x * 0.5f, n - 1) + kept : x;
}
#endif

__global__ void sum(float* out, const float* in, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float value = in[i];
#ifdef PRINT
    printf("%d\n", i);
#endif
#ifdef VARIABLE
    value += atomicAdd(&counter, 1);
#elif defined CONSTANT
    value += factors[i & 15];
#elif defined OWN_VARIABLE
    value += atomicAdd(&own, 1);
#elif defined OWN_TABLE
    const int table[5] = {3, 1, 4, 1, 5};
    value += table[n % 5];
#elif defined SINE
    value += sinf(value);
#elif defined RECURSION
    value += deep(value, n);
#elif defined COOPERATIVE
    cooperative_groups::this_grid().sync();
#endif
    out[i] += value;
}
