// Launches an empty kernel many times, in each of several threads on a stream of its own, and again and again; prints
// host nanoseconds of a launch, and of a launch together with its completion (all launches, then one wait, divided by
// their number): those of the first time, and the medians of all times. Threads' numbers are averaged.
//   launch [LAUNCHES [THREADS [REPEATS]]]
//   launch LAUNCHES THREADS REPEATS pinned   the whole process on two processors. Prints the two medians, and nanoseconds of
//                                            processor time for a launch: of the launching threads, of the emulated GPU,
//                                            and of the library's reaper and log thread
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "threads.h"

__global__ void empty() {}

static double now(clockid_t clock = CLOCK_MONOTONIC) {
    timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

// Leaves the process two of its processors, also those of its threads that are started later.
static void pin() {
    cpu_set_t allowed, two;
    EXPECT(!sched_getaffinity(0, sizeof allowed, &allowed), "the process's processors are not known");
    CPU_ZERO(&two);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu) {
        if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &two);
    }
    EXPECT(!sched_setaffinity(0, sizeof two, &two), "the process cannot be pinned");
}

// Processor time of the launching threads.
static std::atomic<double> launching{0};

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
    const double before = now(CLOCK_THREAD_CPUTIME_ID);
    for (int repeat = 0; repeat < repeats; ++repeat) {
        const double start = now();
        for (int i = 0; i < launches; ++i) empty<<<1, 64, 0, stream>>>();
        launched.push_back((now() - start) / launches);
        CHECK(hipStreamSynchronize(stream));
        complete.push_back((now() - start) / launches);
    }
    const double used = now(CLOCK_THREAD_CPUTIME_ID) - before;
    for (double sum = launching; !launching.compare_exchange_weak(sum, sum + used);) {
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
    const bool pinned = argc > 4 && !std::strcmp(argv[4], "pinned");
    if (pinned) pin();
    std::vector<double> times(4 * count);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(launch, launches, repeats, &times[4 * i]);
    for (auto& thread : threads) thread.join();
    double sums[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4 * count; ++i) sums[i % 4] += times[i];
    if (pinned) {
        const double each = double(launches) * repeats * count, log = idle_time_of("logdur-log");
        const double reaper = schedstat_of("logdur-reaper", NS_RUN), gpu = schedstat_of("kfdemu", NS_RUN);
        const double numbers[] = {launching / each, gpu / each, reaper / each, log / each};
        std::printf("%.1f %.1f", sums[2] / count, sums[3] / count);
        // Without the library there are none of its threads.
        for (double number : numbers) std::printf(" %.1f", std::max(number, 0.0));
        std::printf("\n");
        return 0;
    }
    for (int i = 0; i < 4; ++i) std::printf(i < 3 ? "%.1f " : "%.1f\n", sums[i] / count);
    return 0;
}
