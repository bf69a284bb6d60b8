// What instrumentation costs: nanoseconds of a launch and its end of a kernel that does nothing, nanoseconds of the drain thread's
// processor time for each lane's address (0 without one), and resident memory in KiB.
#include <algorithm>
#include <chrono>

#include "check.h"
#include "logdur_device.h"
#include "threads.h"

extern "C" __global__ void empty() {}
extern "C" __global__ void __amd_crk_emptyPv(void* descriptor) { logdur::block_start(descriptor, 0); }

constexpr int ADDRESSES = 1000, GROUPS = 64, LAUNCHES = 16;

__device__ void walk(int* out, void* descriptor) {
    for (int i = 0; i < ADDRESSES; ++i) logdur::submit_address(descriptor, out + i, logdur::WRITE, 4, logdur::GLOBAL);
    out[threadIdx.x] = 1;
}
extern "C" __global__ void walking(int* out) { walk(out, nullptr); }
extern "C" __global__ void __amd_crk_walkingPv(int* out, void* descriptor) { walk(out, descriptor); }

static long now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main() {
    std::vector<long> times;
    for (int i = 0; i < 500; ++i) {
        long start = now();
        empty<<<1, 64>>>();
        CHECK(hipDeviceSynchronize());
        times.push_back(now() - start);
    }
    std::sort(times.begin(), times.end());
    Array<int> out(ADDRESSES);
    long before = schedstat_of("logdur-drain", NS_RUN);
    for (int i = 0; i < LAUNCHES; ++i) walking<<<GROUPS, 64>>>(out);
    CHECK(hipDeviceSynchronize());
    long drained = schedstat_of("logdur-drain", NS_RUN) - before;
    const double lanes = 64.0 * ADDRESSES * GROUPS * LAUNCHES;
    std::printf("%ld %.3f %ld\n", times[times.size() / 2], before < 0 ? 0 : double(drained) / lanes, resident());
    return 0;
}
