// A kernel that ends for one and two workgroups, and for three does not.
#include "check.h"

__global__ void spin(int* out) {
    while (gridDim.x == 3) __builtin_amdgcn_s_sleep(1);
    if (blockIdx.x == 0) out[threadIdx.x] = 1;
}

int main() {
    Array<int> out(64);
    spin<<<1, 64>>>(out);
    for (int value : out.host()) EXPECT(value == 1, "%d", value);
    std::printf("PASS\n");
}
