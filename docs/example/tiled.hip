// The application of docs/tuning-example.md: a product of two matrices, by workgroups that share tiles of them. TILE columns of
// the one and rows of the other are fetched at a time, UNROLL of their products are computed in a row.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

#ifndef TILE
#define TILE 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

constexpr int SIDE = 16;

extern "C" __global__ __launch_bounds__(SIDE* SIDE) void multiply(const float* a, const float* b, float* c, int n) {
    __shared__ float rows[SIDE][TILE], columns[TILE][SIDE];
    const int x = threadIdx.x, y = threadIdx.y, item = y * SIDE + x;
    const int row = blockIdx.y * SIDE, column = blockIdx.x * SIDE;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        for (int i = item; i < SIDE * TILE; i += SIDE * SIDE) {
            rows[i / TILE][i % TILE] = a[(row + i / TILE) * n + k + i % TILE];
            columns[i / SIDE][i % SIDE] = b[(k + i / SIDE) * n + column + i % SIDE];
        }
        __syncthreads();
#pragma unroll UNROLL
        for (int i = 0; i < TILE; i++) sum += rows[y][i] * columns[i][x];
        __syncthreads();
    }
    c[(row + y) * n + column + x] = sum;
}

int main() {
    const int n = 64;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; i++) a[i] = float(i % 7), b[i] = float(i % 5);
    float *on_gpu[3];
    for (float*& matrix : on_gpu) {
        if (hipMalloc(&matrix, n * n * sizeof(float))) return 1;
    }
    if (hipMemcpy(on_gpu[0], a.data(), n * n * sizeof(float), hipMemcpyHostToDevice)) return 1;
    if (hipMemcpy(on_gpu[1], b.data(), n * n * sizeof(float), hipMemcpyHostToDevice)) return 1;
    const dim3 workgroups(n / SIDE, n / SIDE), workgroup(SIDE, SIDE);
    multiply<<<workgroups, workgroup>>>(on_gpu[0], on_gpu[1], on_gpu[2], n);
    if (hipMemcpy(c.data(), on_gpu[2], n * n * sizeof(float), hipMemcpyDeviceToHost)) return 1;
    std::printf("%g %g %g\n", c[0], c[n], c[n * n - 1]);
}
