// A texture in the arguments of a kernel, and a variable beside it. The kernel reads the texture only if it is told to: the
// emulated GPU has no such instructions.
#include "check.h"

constexpr int N = 64;

__device__ int by = 3;

extern "C" __global__ void sampled(int* out, hipTextureObject_t texture, int use) {
    int i = threadIdx.x;
    out[i] = i * by;
    if (use) out[i] = tex1Dfetch<int>(texture, i);
}

int main() {
    Array<int> out(N), data(N);
    hipResourceDesc resource = {};
    resource.resType = hipResourceTypeLinear;
    resource.res.linear.devPtr = (int*)data;
    resource.res.linear.desc = hipCreateChannelDesc<int>();
    resource.res.linear.sizeInBytes = N * sizeof(int);
    hipTextureDesc description = {};
    description.readMode = hipReadModeElementType;
    hipTextureObject_t texture = nullptr;
    CHECK(hipCreateTextureObject(&texture, &resource, &description, nullptr));
    sampled<<<1, N>>>(out, texture, 0);
    std::vector<int> expected(N);
    for (int i = 0; i < N; ++i) expected[i] = 3 * i;
    std::vector<int> got = out.host();
    for (int i = 0; i < N; ++i) EXPECT(got[i] == expected[i], "element %d is %d", i, got[i]);
    CHECK(hipDestroyTextureObject(texture));
    std::printf("PASS\n");
    return 0;
}
