// Threads that launch at the same time, by turns on one stream of all and on one of their own: the grid of each launch says which thread
// it is by. Prints the system's number of each thread; the last two lines are of threads that copy only.
//   launched_by [THREADS [LAUNCHES]]
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

__global__ void marked(int* sum) { atomicAdd(sum, 1); }

static std::atomic<int> waiting{0};
static int* sum;

static void launch(int number, int of, int launches, hipStream_t shared, long* tid) {
    *tid = syscall(SYS_gettid);
    hipStream_t own;
    CHECK(hipStreamCreate(&own));
    for (++waiting; waiting.load() < of;) std::this_thread::yield();
    for (int i = 0; i < launches; ++i) marked<<<number + 1, 64, 0, i % 2 ? own : shared>>>(sum);
    CHECK(hipGetLastError());
    CHECK(hipStreamSynchronize(own));
    CHECK(hipStreamDestroy(own));
}

static void copy(long* tid) {
    *tid = syscall(SYS_gettid);
    std::vector<char> large(8 << 20);
    void* device;
    CHECK(hipMalloc(&device, large.size()));
    CHECK(hipMemcpy(device, large.data(), large.size(), hipMemcpyHostToDevice));
    CHECK(hipFree(device));
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 6;
    const int launches = argc > 2 ? std::atoi(argv[2]) : 100;
    CHECK(hipMalloc((void**)&sum, sizeof(int)));
    CHECK(hipMemset(sum, 0, sizeof(int)));
    CHECK(hipDeviceSynchronize());
    hipStream_t shared;
    CHECK(hipStreamCreate(&shared));
    std::vector<long> tids(count + 2);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(launch, i, count, launches, shared, &tids[i]);
    for (auto& thread : threads) thread.join();
    CHECK(hipDeviceSynchronize());
    for (int i = 0; i < 2; ++i) std::thread(copy, &tids[count + i]).join();
    int total = 0, expected = 0;
    CHECK(hipMemcpy(&total, sum, sizeof total, hipMemcpyDeviceToHost));
    for (int i = 0; i < count; ++i) expected += launches * (i + 1) * 64;
    EXPECT(total == expected, "%d instead of %d", total, expected);
    for (long tid : tids) std::printf("thread %ld\n", tid);
    std::puts("PASS");
}
