// One stream, events around kernels of known different lengths, and a kernel that waits for the clock: what the times of
// the GPU are used for. Prints every time.
//   timed [kernels]    kernels: without events. HIP gives an event of an idle stream the host's time, now and then.
#include "check.h"

__global__ void spin(unsigned* out, int rounds) {
    unsigned value = threadIdx.x;
    for (int r = 0; r < rounds; ++r) value = value * 1664525u + 1013904223u;
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Waits until the constant clock has moved by so many ticks; tells how far it came.
__global__ void wait_ticks(unsigned long long* out, unsigned long long ticks) {
    unsigned long long begin = __builtin_amdgcn_s_memrealtime(), now;
    do now = __builtin_amdgcn_s_memrealtime();
    while (now - begin < ticks);
    if (threadIdx.x == 0) *out = now - begin;
}

int main(int argc, char**) {
    const bool events = argc == 1;
    unsigned* words;
    unsigned long long* waited;
    CHECK(hipMalloc(&words, 1024 * sizeof(unsigned)));
    CHECK(hipMalloc(&waited, sizeof *waited));
    hipEvent_t before, after;
    CHECK(hipEventCreate(&before));
    CHECK(hipEventCreate(&after));
    // The runtime loads code through a queue of its own, beside ours.
    spin<<<1, 256>>>(words, 1);
    CHECK(hipDeviceSynchronize());
    float last = 0;
    for (int rounds : {1000, 10000, 100000}) {
        if (!events) {
            spin<<<4, 256>>>(words, rounds);
            continue;
        }
        CHECK(hipEventRecord(before));
        spin<<<4, 256>>>(words, rounds);
        CHECK(hipEventRecord(after));
        CHECK(hipEventSynchronize(after));
        float ms;
        CHECK(hipEventElapsedTime(&ms, before, after));
        std::printf("%d rounds: %.6f ms\n", rounds, ms);
        EXPECT(ms > last, "ten times the work took no longer: %g ms after %g ms", ms, last);
        last = ms;
    }
    wait_ticks<<<1, 64>>>(waited, 1000);
    unsigned long long host = 0;
    CHECK(hipMemcpy(&host, waited, sizeof host, hipMemcpyDeviceToHost));
    EXPECT(host >= 1000, "the clock was waited for, but moved by %llu only", host);
    std::printf("waited\n");
    std::printf("PASS\n");
    return 0;
}
