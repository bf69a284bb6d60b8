// Waits for a kernel as HIP does by default, and says how much processor time the waiting thread used.
#include <ctime>

#include "check.h"

// Each round depends on the one before.
__global__ void busy(unsigned* out, unsigned state, unsigned rounds) {
    for (unsigned r = 0; r < rounds; ++r) state = state * 1664525u + (1013904223u ^ out[threadIdx.x]);
    out[threadIdx.x] = state;
}

static double seconds(clockid_t clock) {
    timespec now;
    EXPECT(clock_gettime(clock, &now) == 0, "no clock %d", clock);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int main() {
    Array<unsigned> out(64);
    double waited = 0, used = 0;
    // A kernel that takes long on this machine.
    for (unsigned rounds = 1 << 12; waited < 0.5; rounds *= 2) {
        const double wall = seconds(CLOCK_MONOTONIC), own = seconds(CLOCK_THREAD_CPUTIME_ID);
        busy<<<1, 64>>>(out, 1, rounds);
        CHECK(hipDeviceSynchronize());
        waited = seconds(CLOCK_MONOTONIC) - wall;
        used = seconds(CLOCK_THREAD_CPUTIME_ID) - own;
    }
    std::printf("waited %.0f ms, used %.0f ms\nPASS\n", waited * 1e3, used * 1e3);
}
