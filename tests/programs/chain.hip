// Two kernels after each other: the first sums tiles of values, in a time that grows with the square of a tile's size; the second gathers
// the sums, one after the other, and clears them. A large tile is slow alone, and makes both together fast.
//   chain TIMES
#include "check.h"

#ifndef TILE
#define TILE 4
#endif

constexpr unsigned COUNT = 1024;

extern "C" __global__ void partial(unsigned* sums, unsigned* count, const unsigned* values) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) *count = COUNT / TILE;
    if (i >= COUNT / TILE) return;
    unsigned sum = 0;
#pragma clang loop unroll(disable)
    for (unsigned a = 0; a < TILE; ++a) {
        const unsigned value = values[i * TILE + a];
        sum += value;
        // No value is as large as this.
#pragma clang loop unroll(disable)
        for (unsigned b = 0; b < TILE; ++b) sum += values[i * TILE + b] > value + 1000000u;
    }
    sums[i] = sum;
}

extern "C" __global__ void gather(unsigned* total, unsigned* sums, unsigned* count) {
    unsigned sum = 0;
    const unsigned found = *count;
#pragma clang loop unroll(disable)
    for (unsigned i = 0; i < found; ++i) {
        sum += sums[i];
        sums[i] = 0;
    }
    *count = 0;
    *total += sum;
}

int main(int argc, char** argv) {
    const int times = argc > 1 ? atoi(argv[1]) : 3;
    unsigned *values, *sums, *count, *total;
    CHECK(hipMalloc((void**)&values, COUNT * sizeof(unsigned)));
    CHECK(hipMalloc((void**)&sums, COUNT * sizeof(unsigned)));
    CHECK(hipMalloc((void**)&count, sizeof(unsigned)));
    CHECK(hipMalloc((void**)&total, sizeof(unsigned)));
    unsigned host[COUNT], expected = 0, found = 0;
    for (unsigned i = 0; i < COUNT; ++i) host[i] = i * 2654435761u % 1000;
    for (unsigned value : host) expected += value * times;
    CHECK(hipMemcpy(values, host, sizeof host, hipMemcpyHostToDevice));
    CHECK(hipMemset(sums, 0, COUNT * sizeof(unsigned)));
    CHECK(hipMemset(count, 0, sizeof(unsigned)));
    CHECK(hipMemset(total, 0, sizeof(unsigned)));
    CHECK(hipDeviceSynchronize());
    for (int i = 0; i < times; ++i) {
        partial<<<COUNT / 64, 64>>>(sums, count, values);
        gather<<<1, 1>>>(total, sums, count);
        CHECK(hipGetLastError());
    }
    CHECK(hipMemcpy(&found, total, sizeof found, hipMemcpyDeviceToHost));
    if (found != expected) return 1;
    std::printf("PASS\n");
    return 0;
}
