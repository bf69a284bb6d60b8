// Launches an empty kernel many times, in each of several threads on a stream of its own, and again and again; prints
// host nanoseconds of a launch, and of a launch together with its completion (all launches, then one wait, divided by
// their number): those of the first time, and the medians of all times. Threads' numbers are averaged.
//   launch [LAUNCHES [THREADS [REPEATS]]]
#include <time.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "check.h"

__global__ void empty() {}

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static double median(std::vector<double> numbers) {
    std::sort(numbers.begin(), numbers.end());
    return numbers[numbers.size() / 2];
}

static void launch(int launches, int repeats, double* times) {
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    for (int i = 0; i < 200; ++i) empty<<<1, 64, 0, stream>>>();
    CHECK(hipStreamSynchronize(stream));
    std::vector<double> launched, complete;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        const double start = now();
        for (int i = 0; i < launches; ++i) empty<<<1, 64, 0, stream>>>();
        launched.push_back((now() - start) / launches);
        CHECK(hipStreamSynchronize(stream));
        complete.push_back((now() - start) / launches);
    }
    times[0] = launched[0];
    times[1] = complete[0];
    times[2] = median(launched);
    times[3] = median(complete);
    CHECK(hipGetLastError());
    CHECK(hipStreamDestroy(stream));
}

int main(int argc, char** argv) {
    const int launches = argc > 1 ? std::atoi(argv[1]) : 2000;
    const int count = argc > 2 ? std::atoi(argv[2]) : 1;
    const int repeats = argc > 3 ? std::atoi(argv[3]) : 7;
    std::vector<double> times(4 * count);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(launch, launches, repeats, &times[4 * i]);
    for (auto& thread : threads) thread.join();
    double sums[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4 * count; ++i) sums[i % 4] += times[i];
    for (int i = 0; i < 4; ++i) std::printf(i < 3 ? "%.1f " : "%.1f\n", sums[i] / count);
    return 0;
}
