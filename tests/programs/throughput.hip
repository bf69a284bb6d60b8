// Two kernels that do little but compute, to measure how fast waves are emulated; checks its own results.
#include <cmath>
#include <vector>

#include "check.h"

__global__ void saxpy_loop(float a, const float* x, float* y, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = y[i];
    for (int r = 0; r < rounds; ++r) value = a * x[i] + value;
    y[i] = value;
}

constexpr int TILE = 16;

__global__ void tiled_matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

int main() {
    const int n = 1 << 16, rounds = 4096, size = 448;
    std::vector<float> x(n, 1.0f), y(n, 2.0f), a(size * size), b(size * size), c(size * size);
    for (int i = 0; i < size * size; ++i) {
        a[i] = float(i % 7);
        b[i] = float(i % 5);
    }
    // A host thread that spins would take a core from the emulated GPU.
    CHECK(hipSetDeviceFlags(hipDeviceScheduleBlockingSync));
    float *dx, *dy, *da, *db, *dc;
    CHECK(hipMalloc(&dx, n * sizeof(float)));
    CHECK(hipMalloc(&dy, n * sizeof(float)));
    CHECK(hipMalloc(&da, size * size * sizeof(float)));
    CHECK(hipMalloc(&db, size * size * sizeof(float)));
    CHECK(hipMalloc(&dc, size * size * sizeof(float)));
    CHECK(hipMemcpy(dx, x.data(), n * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(dy, y.data(), n * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(da, a.data(), size * size * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(db, b.data(), size * size * sizeof(float), hipMemcpyHostToDevice));
    saxpy_loop<<<n / 256, 256>>>(0.5f, dx, dy, n, rounds);
    tiled_matmul<<<dim3(size / TILE, size / TILE), dim3(TILE, TILE)>>>(da, db, dc, size);
    CHECK(hipMemcpy(y.data(), dy, n * sizeof(float), hipMemcpyDeviceToHost));
    CHECK(hipMemcpy(c.data(), dc, size * size * sizeof(float), hipMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) EXPECT(y[i] == 2.0f + 0.5f * rounds, "saxpy_loop: element %d is %g", i, y[i]);
    for (int i = 0; i < size; ++i) {
        for (int j = 0; j < size; ++j) {
            float sum = 0;
            for (int k = 0; k < size; ++k) sum += a[i * size + k] * b[k * size + j];
            EXPECT(c[i * size + j] == sum, "tiled_matmul: element %d,%d is %g, expected %g", i, j, c[i * size + j], sum);
        }
    }
    std::printf("PASS\n");
    return 0;
}
