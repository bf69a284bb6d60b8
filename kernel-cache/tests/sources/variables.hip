// Variables of the device, and kernels that use them in every way that addresses are folded in. Each define is another file
// that somebody could have written in its place.
#include <hip/hip_runtime.h>

struct Pair {
    int a, b;
};

#ifdef ORDER
__device__ float samples[64];
__constant__ float coef[8];
#elif defined SIZE
__constant__ float coef[16];
__device__ float samples[64];
#else
__constant__ float coef[8];
__device__ float samples[64];
#endif
__device__ Pair pairs[16];
#ifdef INITIAL
__device__ int counter = 4;
#elif defined CONSTANT_COUNTER
extern "C" __device__ const int counter = 3;
#else
__device__ int counter = 3;
#endif
static __device__ int hidden;
__device__ const int table[4] = {5, 6, 7, 8};
#ifdef REFERS
#define MORE
extern __device__ __attribute__((visibility("default"))) int more[4];
#elif defined MORE
__device__ int more[4] = {1, 2, 3, 4};
#endif
#ifdef POINTER
__device__ float* pointer = samples + 2;
#endif
#ifdef MANAGED
__managed__ int managed;
#else
__device__ int* managed;
#endif

#ifdef OWN_MANAGED
__managed__ int mine = 5;
#endif

__device__ __attribute__((noinline)) float pick(const float* from, int i) { return from[i] * 2; }

extern "C" __global__ void none(int* out) { out[threadIdx.x] = 1; }
extern "C" __global__ void constant(int* out, int i) { out[threadIdx.x] = table[(threadIdx.x + i) & 3]; }
extern "C" __global__ void before(float* out, int i) { out[threadIdx.x] = coef[i - 1]; }
extern "C" __global__ void behind(float* out, int n, int i) { out[threadIdx.x] = coef[n + i + 3] + samples[i + 64]; }
extern "C" __global__ void structures(int* out) {
    const int i = threadIdx.x;
    out[i] = pairs[i].b;
    pairs[i + 1].a = i;
}
extern "C" __global__ void passed(float* out) { out[threadIdx.x] = pick(samples, threadIdx.x) + pick(coef, 2); }
extern "C" __global__ void counted(int* out) { out[0] = atomicAdd(&counter, 1) + atomicAdd(&hidden, 2); }
extern "C" __global__ void used(int* out) {
    out[0] = 0;
#ifdef MORE
    out[0] = more[threadIdx.x]++;
#endif
#ifdef POINTER
    out[1] = pointer[threadIdx.x];
#endif
#ifdef OWN_MANAGED
    out[3] = mine;
#endif
#ifdef MANAGED
    out[2] = managed;
#else
    out[2] = *managed;
#endif
}
