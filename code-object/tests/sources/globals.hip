// Variables of the device, and functions that are called through pointers.
#include <hip/hip_runtime.h>

__device__ int counter = 7;
__device__ int zeroed[100];
__constant__ float factors[16];
static __device__ int hidden_counter;
extern "C" {
__device__ int named;
}

struct Shape {
    __device__ virtual float area(float x) const { return x; }
};
struct Square : Shape {
    __device__ float area(float x) const override { return x * x; }
};

__device__ float twice(float x) { return 2 * x; }
__device__ float half_of(float x) { return x / 2; }
__device__ float (*functions[2])(float) = {twice, half_of};

__global__ void use_globals(float* out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = counter + zeroed[i % 100] + factors[i & 15] + named + atomicAdd(&hidden_counter, 1);
}

__global__ void use_functions(float* out, int which) {
    out[threadIdx.x] = functions[which & 1](out[threadIdx.x]);
}

__global__ void make_shape(void* where, int which) {
    if (which) new (where) Square; else new (where) Shape;
}

__global__ void use_shape(const Shape* shape, float* out) { out[threadIdx.x] = shape->area(out[threadIdx.x]); }

__global__ __launch_bounds__(64) void print(int x) { printf("%d\n", x); }

int main() {
    hipLaunchKernelGGL(use_globals, 1, 64, 0, 0, nullptr, 0);
    hipLaunchKernelGGL(use_functions, 1, 64, 0, 0, nullptr, 0);
    hipLaunchKernelGGL(make_shape, 1, 1, 0, 0, nullptr, 0);
    hipLaunchKernelGGL(use_shape, 1, 64, 0, 0, nullptr, nullptr);
    hipLaunchKernelGGL(print, 1, 64, 0, 0, 0);
}
