// The application of docs/capture-example.md: every element becomes the mean of itself and its neighbours.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

extern "C" __global__ void smooth(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float left = in[i > 0 ? i - 1 : 0], right = in[i < n - 1 ? i + 1 : n - 1];
    out[i] = (left + in[i] + right) / 3;
}

int main() {
    const int n = 1024;
    std::vector<float> host(n);
    for (int i = 0; i < n; i++) host[i] = float(i % 10);
    float *in, *out;
    if (hipMalloc(&in, n * sizeof(float)) || hipMalloc(&out, n * sizeof(float))) return 1;
    if (hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice)) return 1;
    smooth<<<n / 256, 256>>>(in, out, n);
    if (hipMemcpy(host.data(), out, n * sizeof(float), hipMemcpyDeviceToHost)) return 1;
    std::printf("%g %g %g\n", host[0], host[1], host[n - 1]);
}
