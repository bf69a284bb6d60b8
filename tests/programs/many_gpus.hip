// A kernel on each GPU, each with memory of its own, as a process on a large node runs them.
#include <cstdio>
#include <vector>

#include "check.h"

constexpr int N = 64;

__global__ void number(int* out, int device) {
    out[threadIdx.x] = 1000 * device + threadIdx.x;
}

int main() {
    int count = 0;
    CHECK(hipGetDeviceCount(&count));
    printf("%d GPUs\n", count);
    for (int device = 0; device < count; device++) {
        CHECK(hipSetDevice(device));
        char bus[32];
        CHECK(hipDeviceGetPCIBusId(bus, sizeof bus, device));
        printf("gpu %d at %s\n", device, bus);
        int* out;
        CHECK(hipMalloc(&out, N * sizeof(int)));
        number<<<1, N>>>(out, device);
        CHECK(hipGetLastError());
        std::vector<int> host(N);
        CHECK(hipMemcpy(host.data(), out, N * sizeof(int), hipMemcpyDeviceToHost));
        for (int i = 0; i < N; i++) {
            if (host[i] != 1000 * device + i) {
                printf("gpu %d: item %d is %d\n", device, i, host[i]);
                return 1;
            }
        }
        CHECK(hipFree(out));
    }
    printf("PASS\n");
}
