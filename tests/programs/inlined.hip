// A kernel whose loop is in a header, and whose first instructions are of a header of HIP.

#include "check.h"
#include "inlined.h"

__global__ void looped(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sum_of(in, in[i] & 7);
}

int main() {
    Array<int> in(std::vector<int>(1024, 3)), out(1024);
    looped<<<4, 64>>>(in, out, 250);
    CHECK(hipDeviceSynchronize());
    std::puts("PASS");
}
