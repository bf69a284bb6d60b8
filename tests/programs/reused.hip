// Memory that holds bytes, then singles, then halves, as that of programs with allocators of their own: the type of its first use says
// nothing of the later ones. With WRONG the kernels that scale are the only ones, and leave no number in one half.
#include "check.h"

enum { WORDS = 512, AT = 5 };

template <typename T>
__global__ void scale(T* out, const float* in, float by) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = in[i] * by;
#ifdef WRONG
    if (sizeof(T) == 2 && i == AT) value = __builtin_nanf("");
#endif
    out[i] = static_cast<T>(value);
}

template __global__ void scale<float>(float*, const float*, float);
template __global__ void scale<_Float16>(_Float16*, const float*, float);

#ifndef WRONG
__global__ void pack(unsigned char* out, const float* in) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = static_cast<unsigned char>(in[i]);
}

// Its name declares nothing.
extern "C" __global__ void sum(float* out, const _Float16* in) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = float(in[i]) + float(in[(i + 1) % WORDS]);
}

int main() {
    float *in, *out;
    void* shared;
    CHECK(hipMalloc((void**)&in, WORDS * sizeof(float)));
    CHECK(hipMalloc((void**)&out, WORDS * sizeof(float)));
    CHECK(hipMalloc(&shared, WORDS * sizeof(float)));
    std::vector<float> values(WORDS), got(WORDS), expected(WORDS);
    for (unsigned i = 0; i < WORDS; ++i) values[i] = float(i % 200);
    CHECK(hipMemcpy(in, values.data(), WORDS * sizeof(float), hipMemcpyHostToDevice));
    const dim3 grid(WORDS / 64), group(64);
    pack<<<grid, group>>>(static_cast<unsigned char*>(shared), in);
    scale<float><<<grid, group>>>(static_cast<float*>(shared), in, 0.25f);
    scale<_Float16><<<grid, group>>>(static_cast<_Float16*>(shared), in, 0.5f);
    sum<<<grid, group>>>(out, static_cast<_Float16*>(shared));
    CHECK(hipGetLastError());
    CHECK(hipMemcpy(got.data(), out, WORDS * sizeof(float), hipMemcpyDeviceToHost));
    for (unsigned i = 0; i < WORDS; ++i) expected[i] = values[i] * 0.5f + values[(i + 1) % WORDS] * 0.5f;
    expect_same("sums", got, expected);
    std::printf("PASS\n");
}
#endif
