// Kernels of which it is known what each line does to cache lines, LDS banks and lanes; and kernels with an error each.
#include "check.h"

constexpr int TILE = 32;

// Every `stride`th word: `stride` times the cache lines of a row.
__global__ void strided(const float* in, float* out, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = in[i * stride];  // strided load
    out[i] = value;                // row store
}

// A tile through LDS, with and without a padding that moves each row to other banks.
template <int PADDING>
__device__ void transpose_tile(const float* in, float* out, int n) {
    __shared__ float tile[TILE][TILE + PADDING];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];  // row write
    __syncthreads();
    out[(blockIdx.x * TILE + threadIdx.y) * n + blockIdx.y * TILE + threadIdx.x] =
        tile[threadIdx.x][threadIdx.y];  // column read
}
__global__ void transposed(const float* in, float* out, int n) { transpose_tile<0>(in, out, n); }
__global__ void transposed_padded(const float* in, float* out, int n) { transpose_tile<1>(in, out, n); }

// A quarter of the lanes multiply and add `rounds` times.
__global__ void divergent(const float* in, float* out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i];
    if (i % 4 == 0)
        for (int r = 0; r < rounds; ++r) a = __builtin_fmaf(a, 1.5f, 0.25f);  // chain
    out[i] = a;
}

// Waves read what others write.
__global__ void without_barrier(const float* in, float* out) {
    __shared__ float words[256];
    words[threadIdx.x] = in[threadIdx.x];
    __builtin_amdgcn_wave_barrier();
    out[threadIdx.x] = words[255 - threadIdx.x];
}

// Reads LDS that nothing has written, and addresses memory by it.
__global__ void unwritten(const float* in, float* out) {
    __shared__ unsigned words[256];
    if (threadIdx.x < 200) words[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = in[words[threadIdx.x] % 256];
}

// Reads behind the end of its input.
__global__ void behind_the_end(const float* in, float* out, int n) {
    int i = threadIdx.x;
    out[i] = in[i < n ? i + 1 : i];
}

int main() {
    const int n = 4096;
    std::vector<float> values(n);
    for (int i = 0; i < n; ++i) values[i] = float(i % 251);
    Array<float> in(values), out(n);
    strided<<<4, 256>>>(in, out, 4);
    transposed<<<dim3(2, 2), dim3(TILE, TILE)>>>(in, out, 64);
    transposed_padded<<<dim3(2, 2), dim3(TILE, TILE)>>>(in, out, 64);
    divergent<<<4, 256>>>(in, out, 10);
    without_barrier<<<1, 256>>>(in, out);
    unwritten<<<1, 256>>>(in, out);
    Array<float> small(std::vector<float>(64, 1.0f)), result(64);
    behind_the_end<<<1, 64>>>(small, result, 64);
    CHECK(hipDeviceSynchronize());
    std::puts("PASS");
}
