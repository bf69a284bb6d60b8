// Launches an empty kernel many times, in each of several threads on a stream of its own; prints host nanoseconds of a
// launch, and of a launch together with its completion (all launches, then one wait, divided by their number).
//   launch [LAUNCHES [THREADS]]
#include <time.h>

#include <thread>
#include <vector>

#include "check.h"

__global__ void empty() {}

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void launch(int launches, double* times) {
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    for (int i = 0; i < 200; ++i) empty<<<1, 64, 0, stream>>>();
    CHECK(hipStreamSynchronize(stream));
    const double start = now();
    for (int i = 0; i < launches; ++i) empty<<<1, 64, 0, stream>>>();
    times[0] = (now() - start) / launches;
    CHECK(hipStreamSynchronize(stream));
    times[1] = (now() - start) / launches;
    CHECK(hipGetLastError());
    CHECK(hipStreamDestroy(stream));
}

int main(int argc, char** argv) {
    const int launches = argc > 1 ? std::atoi(argv[1]) : 2000;
    const int count = argc > 2 ? std::atoi(argv[2]) : 1;
    std::vector<double> times(2 * count);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(launch, launches, &times[2 * i]);
    for (auto& thread : threads) thread.join();
    double sums[2] = {0, 0};
    for (int i = 0; i < 2 * count; ++i) sums[i % 2] += times[i];
    std::printf("%.1f %.1f\n", sums[0] / count, sums[1] / count);
    return 0;
}
