// Vector addition, a saxpy loop and a reduction through LDS with float atomics; checks its own results.
#include <cmath>
#include <vector>

#include "check.h"

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void saxpy_loop(float a, const float* x, float* y, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = y[i];
    for (int r = 0; r < rounds; ++r) value = a * x[i] + value;
    y[i] = value;
}

__global__ void reduce(const float* in, float* sum, int n) {
    __shared__ float part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, part[0]);
}

static bool near(float got, float expected) {
    return std::fabs(got - expected) <= 1e-5f * std::fabs(expected) + 1e-6f;
}

int main() {
    const int n = 100000, rounds = 16;
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::printf("device: %s\n", properties.name);

    std::vector<float> a(n), b(n), c(n), y(n, 1.0f);
    for (int i = 0; i < n; ++i) {
        a[i] = 0.5f * (i % 1000);
        b[i] = 2.0f * (i % 37);
    }
    float *da, *db, *dc, *dy, *dsum;
    CHECK(hipMalloc(&da, n * sizeof(float)));
    CHECK(hipMalloc(&db, n * sizeof(float)));
    CHECK(hipMalloc(&dc, n * sizeof(float)));
    CHECK(hipMalloc(&dy, n * sizeof(float)));
    CHECK(hipMalloc(&dsum, sizeof(float)));
    CHECK(hipMemcpy(da, a.data(), n * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(db, b.data(), n * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(dy, y.data(), n * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemset(dsum, 0, sizeof(float)));
    // The runtime loads code through a queue of its own, beside ours.
    CHECK(hipDeviceSynchronize());

    dim3 block(256), grid((n + 255) / 256);
    vector_add<<<grid, block>>>(da, db, dc, n);
    saxpy_loop<<<grid, block>>>(0.25f, da, dy, n, rounds);
    reduce<<<grid, block>>>(dc, dsum, n);
    CHECK(hipDeviceSynchronize());

    float sum = 0;
    CHECK(hipMemcpy(c.data(), dc, n * sizeof(float), hipMemcpyDeviceToHost));
    CHECK(hipMemcpy(y.data(), dy, n * sizeof(float), hipMemcpyDeviceToHost));
    CHECK(hipMemcpy(&sum, dsum, sizeof(float), hipMemcpyDeviceToHost));

    double expected_sum = 0;
    for (int i = 0; i < n; ++i) {
        if (!near(c[i], a[i] + b[i])) return std::printf("FAIL vector_add[%d] = %g\n", i, c[i]), 1;
        float expected = 1.0f;
        for (int r = 0; r < rounds; ++r) expected = 0.25f * a[i] + expected;
        if (!near(y[i], expected)) return std::printf("FAIL saxpy_loop[%d] = %g\n", i, y[i]), 1;
        expected_sum += c[i];
    }
    std::printf("vector_add: %d elements correct\n", n);
    std::printf("saxpy_loop: %d elements correct\n", n);
    if (std::fabs(sum - expected_sum) > 1e-4 * expected_sum) return std::printf("FAIL reduce = %g, expected %g\n", sum, expected_sum), 1;
    std::printf("reduce: sum correct\n");

    for (void* p : {(void*)da, (void*)db, (void*)dc, (void*)dy, (void*)dsum}) CHECK(hipFree(p));
    std::printf("PASS\n");
    return 0;
}
