// Launches an empty kernel many times on one stream; prints host nanoseconds of a launch, and of a launch together with
// its completion (all launches, then one wait, divided by their number).
#include <time.h>

#include "check.h"

__global__ void empty() {}

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char** argv) {
    const int launches = argc > 1 ? std::atoi(argv[1]) : 2000;
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    for (int i = 0; i < 200; ++i) empty<<<1, 64, 0, stream>>>();
    CHECK(hipStreamSynchronize(stream));
    double start = now();
    for (int i = 0; i < launches; ++i) empty<<<1, 64, 0, stream>>>();
    double launched = now();
    CHECK(hipStreamSynchronize(stream));
    double completed = now();
    CHECK(hipGetLastError());
    std::printf("%.1f %.1f\n", (launched - start) / launches, (completed - start) / launches);
    CHECK(hipStreamDestroy(stream));
    return 0;
}
