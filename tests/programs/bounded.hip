// A kernel as most are: work-items behind the end of their data do nothing, and the last block only returns.
#include "check.h"

__global__ void saxpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
    Array<float> x(std::vector<float>(256, 1.0f)), y(256);
    saxpy<<<4, 64>>>(x, y, 2.0f, 250);
    CHECK(hipDeviceSynchronize());
    std::puts("PASS");
}
