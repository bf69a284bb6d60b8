// What each GPU says of itself: its units, its memory, where it is; and whether the host can use its memory.
#include <string>

#include "check.h"

__global__ void add(int* values, int amount) { values[blockIdx.x * blockDim.x + threadIdx.x] += amount; }

int main() {
    int count = 0;
    CHECK(hipGetDeviceCount(&count));
    std::printf("%d GPUs\n", count);
    for (int device = 0; device < count; device++) {
        CHECK(hipSetDevice(device));
        hipDeviceProp_t p;
        CHECK(hipGetDeviceProperties(&p, device));
        size_t available = 0, total = 0;
        CHECK(hipMemGetInfo(&available, &total));
        EXPECT(available <= total && total == p.totalGlobalMem, "%zu of %zu bytes, of %zu", available, total, p.totalGlobalMem);
        std::printf("gpu %d: %s, %d units, %zu MiB, integrated %d\n", device, p.name, p.multiProcessorCount, total >> 20, p.integrated);
        std::vector<int> start(1000 * 64);
        for (size_t n = 0; n < start.size(); n++) start[n] = (int)n * (device + 1);
        Array<int> values(start);
        add<<<1000, 64>>>(values, 7);
        for (int& value : start) value += 7;
        expect_same("sums", values.host(), start);
        if (p.integrated) {
            // One memory: the host's pointer is good for the GPU, and what each writes is there for the other.
            int* shared;
            CHECK(hipHostMalloc(&shared, 64 * sizeof(int), hipHostMallocDefault));
            for (int n = 0; n < 64; n++) shared[n] = n;
            add<<<1, 64>>>(shared, 5);
            CHECK(hipDeviceSynchronize());
            for (int n = 0; n < 64; n++) EXPECT(shared[n] == n + 5, "shared[%d] is %d", n, shared[n]);
            CHECK(hipHostFree(shared));
        }
    }
    std::printf("PASS\n");
}
