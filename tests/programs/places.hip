// Kernels for the summary of an analysis: one without floating-point operations although floats are converted, compared and chosen; one
// that has much LDS; one of whose work a small part is done by few lanes. With an argument, a kernel with a GPU fault comes after the
// first so many.
#include "check.h"

__global__ void sorted(int* numbers) {
    __shared__ float keys[64];
    unsigned i = threadIdx.x;
    keys[i] = float(numbers[i]);
    for (unsigned round = 0; round < 64; ++round) {
        __syncthreads();
        unsigned first = 2 * (i / 2) + round % 2;
        if (i % 2 == 0 && first + 1 < 64) {
            float a = keys[first], b = keys[first + 1];
            keys[first] = fminf(a, b);
            keys[first + 1] = fmaxf(a, b);
        }
    }
    __syncthreads();
    numbers[i] = int(keys[i]);
}

__global__ void with_much_lds(int* numbers) {
    __shared__ int many[10000];
    for (unsigned i = threadIdx.x; i < 10000; i += blockDim.x) many[i] = numbers[i % 64] + int(i);
    __syncthreads();
    numbers[threadIdx.x % 64] = many[9999 - threadIdx.x];
}

__global__ void nearly_full(float* numbers, int rounds) {
    float x = numbers[threadIdx.x];
    for (int i = 0; i < rounds; ++i) x = __builtin_fmaf(x, 0.5f, 1.0f);
    numbers[threadIdx.x] = x;
    if (threadIdx.x == 0) numbers[0] = x + 1.0f;
}

__global__ void wild(int* numbers) { numbers[size_t(threadIdx.x + 1) << 40] = 1; }

int main(int count, char** words) {
    Array<int> numbers(64);
    std::vector<int> mixed(64);
    for (int i = 0; i < 64; ++i) mixed[i] = i * 37 % 64;
    CHECK(hipMemcpy((int*)numbers, mixed.data(), numbers.bytes(), hipMemcpyHostToDevice));
    const int good = count > 1 ? std::atoi(words[1]) : 3;
    if (good > 0) sorted<<<1, 64>>>(numbers);
    CHECK(hipDeviceSynchronize());
    if (good > 0)
        for (int i = 0; i < 64; ++i) mixed[i] = i;
    expect_same("sorted", numbers.host(), mixed);
    if (good > 1) with_much_lds<<<2, 256>>>(numbers);
    CHECK(hipDeviceSynchronize());
    if (good > 2) nearly_full<<<1, 64>>>((float*)(int*)numbers, 1000);
    CHECK(hipDeviceSynchronize());
    if (count > 1) wild<<<1, 64>>>(numbers);
    CHECK(hipDeviceSynchronize());
    std::printf("PASS\n");
}
