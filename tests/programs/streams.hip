// Streams: several at once, events within and across them, times, callbacks, waits for values, host threads.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

const int N = 1024;

__global__ void step(int* words, int add, int multiply) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    words[i] = words[i] * multiply + add;
}

__global__ void combine(const int* a, const int* b, int* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] - b[i];
}

// Ends when the host says so.
__global__ void wait_for(volatile int* flag) {
    while (*flag == 0) __builtin_amdgcn_s_sleep(8);
}

static void launch_step(Array<int>& words, int add, int multiply, hipStream_t stream) {
    step<<<N / 256, 256, 0, stream>>>(words, add, multiply);
}

static std::vector<int> all(int value) { return std::vector<int>(N, value); }

static void check_several() {
    hipStream_t streams[4];
    std::vector<std::vector<int>> got(4, std::vector<int>(N));
    int least, greatest;
    CHECK(hipDeviceGetStreamPriorityRange(&least, &greatest));
    Array<int> a(N), b(N), c(N), d(N), *words[] = {&a, &b, &c, &d};
    for (int s = 0; s < 4; ++s) {
        if (s == 3) {
            CHECK(hipStreamCreateWithPriority(&streams[s], hipStreamNonBlocking, greatest));
        } else {
            CHECK(hipStreamCreateWithFlags(&streams[s], hipStreamNonBlocking));
        }
    }
    int expected[4] = {0, 0, 0, 0};
    for (int round = 0; round < 20; ++round) {
        for (int s = 0; s < 4; ++s) {
            launch_step(*words[s], round + s, 3, streams[s]);
            expected[s] = int(unsigned(expected[s]) * 3u + unsigned(round + s));
        }
    }
    for (int s = 0; s < 4; ++s) CHECK(hipMemcpyAsync(got[s].data(), (int*)*words[s], a.bytes(), hipMemcpyDeviceToHost, streams[s]));
    for (int s = 0; s < 4; ++s) {
        CHECK(hipStreamSynchronize(streams[s]));
        expect_same("one of several streams", got[s], all(expected[s]));
        CHECK(hipStreamDestroy(streams[s]));
    }
}

// A waits for the host, B for A, and C for both; the order of the enqueueing is the other way round.
static void check_events() {
    int* flag;
    CHECK(hipHostMalloc((void**)&flag, sizeof(int), hipHostMallocMapped));
    *flag = 0;
    hipStream_t a, b, c;
    hipEvent_t from_a, from_b;
    for (hipStream_t* s : {&a, &b, &c}) CHECK(hipStreamCreateWithFlags(s, hipStreamNonBlocking));
    for (hipEvent_t* e : {&from_a, &from_b}) CHECK(hipEventCreateWithFlags(e, hipEventDisableTiming));
    Array<int> x(N), y(N), z(N);
    wait_for<<<1, 1, 0, a>>>(flag);
    launch_step(x, 5, 1, a);
    CHECK(hipEventRecord(from_a, a));
    CHECK(hipStreamWaitEvent(b, from_a, 0));
    combine<<<N / 256, 256, 0, b>>>(x, y, y);
    CHECK(hipEventRecord(from_b, b));
    CHECK(hipStreamWaitEvent(c, from_a, 0));
    CHECK(hipStreamWaitEvent(c, from_b, 0));
    combine<<<N / 256, 256, 0, c>>>(x, y, z);
    launch_step(z, 1, 10, c);
    for (hipStream_t s : {a, b, c}) EXPECT(hipStreamQuery(s) == hipErrorNotReady, "a stream is ready that waits for the host");
    EXPECT(hipEventQuery(from_b) == hipErrorNotReady, "an event has happened that waits for the host");
    *(volatile int*)flag = 1;
    CHECK(hipEventSynchronize(from_b));
    CHECK(hipEventQuery(from_a));
    CHECK(hipStreamSynchronize(c));
    CHECK(hipStreamQuery(c));
    expect_same("events across streams", z.host(), all(1));
    expect_same("what the second stream did", y.host(), all(5));
    for (hipStream_t s : {a, b, c}) CHECK(hipStreamDestroy(s));
    for (hipEvent_t e : {from_a, from_b}) CHECK(hipEventDestroy(e));
    CHECK(hipHostFree(flag));
}

// Times of events frame the work between them, and no more than the host saw pass.
static void check_times() {
    hipEvent_t events[4];
    for (auto& e : events) CHECK(hipEventCreate(&e));
    Array<int> x(N);
    auto start = std::chrono::steady_clock::now();
    CHECK(hipEventRecord(events[0], 0));
    for (int n = 0; n < 3; ++n) {
        for (int k = 0; k < 10; ++k) launch_step(x, 1, 1, 0);
        CHECK(hipEventRecord(events[n + 1], 0));
    }
    CHECK(hipEventSynchronize(events[3]));
    float passed = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
    float sum = 0, all_of_them;
    for (int n = 0; n < 3; ++n) {
        float ms;
        CHECK(hipEventElapsedTime(&ms, events[n], events[n + 1]));
        EXPECT(ms > 0, "%g ms from one event to the next", ms);
        sum += ms;
    }
    CHECK(hipEventElapsedTime(&all_of_them, events[0], events[3]));
    EXPECT(std::abs(all_of_them - sum) < 1e-3f * all_of_them + 1e-3f, "%g ms in all, but %g ms in parts", all_of_them, sum);
    EXPECT(all_of_them <= passed * 1.01f + 0.5f, "%g ms between events, %g ms for the host", all_of_them, passed);
    for (auto& e : events) CHECK(hipEventDestroy(e));
    std::printf("times of events: in order and within the host's\n");
}

struct Called {
    std::atomic<int> times{0};
    int* word;
    int seen[2] = {-1, -1};
};
static void callback(hipStream_t, hipError_t status, void* data) {
    Called* called = (Called*)data;
    if (status != hipSuccess) return;
    called->seen[called->times] = called->word[called->times];
    ++called->times;
}

// HIP 5.2.3 declares hipLaunchHostFunc but does not have it.
static void check_callbacks() {
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    Called called;
    CHECK(hipHostMalloc((void**)&called.word, N * sizeof(int)));
    for (int i = 0; i < N; ++i) called.word[i] = 1;
    step<<<N / 256, 256, 0, stream>>>(called.word, 4, 2);
    CHECK(hipStreamAddCallback(stream, callback, &called, 0));
    CHECK(hipStreamAddCallback(stream, callback, &called, 0));
    step<<<N / 256, 256, 0, stream>>>(called.word, 7, 1);
    CHECK(hipStreamSynchronize(stream));
    while (called.times < 2) std::this_thread::yield();
    EXPECT(called.seen[0] == 6 && called.seen[1] == 6, "callbacks saw %d and %d", called.seen[0], called.seen[1]);
    EXPECT(called.word[0] == 13, "%d came after the callbacks", called.word[0]);
    CHECK(hipStreamDestroy(stream));
    CHECK(hipHostFree(called.word));
    std::printf("callbacks: in order\n");
}

// A word that one stream writes and another waits for: by a packet where the device has one, else by a kernel.
static void check_values() {
    int supported;
    CHECK(hipDeviceGetAttribute(&supported, hipDeviceAttributeCanUseStreamWaitValue, 0));
    std::printf("packets that wait for values: %s\n", supported ? "yes" : "no");
    uint64_t* signal;
    CHECK(hipExtMallocWithFlags((void**)&signal, 8, hipMallocSignalMemory));
    CHECK(hipStreamWriteValue64(0, signal, 0, 0));
    CHECK(hipDeviceSynchronize());
    hipStream_t a, b;
    CHECK(hipStreamCreateWithFlags(&a, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
    Array<int> x(N), y(N);
    CHECK(hipStreamWaitValue64(b, signal, 7, hipStreamWaitValueGte, ~0ull));
    combine<<<N / 256, 256, 0, b>>>(x, y, y);
    launch_step(x, 9, 1, a);
    EXPECT(hipStreamQuery(b) == hipErrorNotReady, "a stream is ready that waits for a value");
    CHECK(hipStreamWriteValue64(a, signal, 8, 0));
    CHECK(hipStreamSynchronize(b));
    expect_same("waits for values", y.host(), all(9));
    for (hipStream_t s : {a, b}) CHECK(hipStreamDestroy(s));
    CHECK(hipFree(signal));
}

// Host threads with a stream each, with the thread's own default stream, and all on one stream.
static void check_threads() {
    hipStream_t shared;
    CHECK(hipStreamCreate(&shared));
    int* total;
    CHECK(hipMalloc(&total, N * sizeof(int)));
    CHECK(hipMemset(total, 0, N * sizeof(int)));
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
        threads.emplace_back([=] {
            hipStream_t own = hipStreamPerThread;
            if (t % 2) CHECK(hipStreamCreate(&own));
            Array<int> x(N);
            std::vector<int> got(N);
            int expected = 0;
            for (int round = 0; round < 15; ++round) {
                launch_step(x, t, 2, own);
                step<<<N / 256, 256, 0, shared>>>(total, 1, 1);
                expected = expected * 2 + t;
            }
            CHECK(hipMemcpyAsync(got.data(), (int*)x, x.bytes(), hipMemcpyDeviceToHost, own));
            CHECK(hipStreamSynchronize(own));
            expect_same("a thread's own stream", got, all(expected));
            if (t % 2) CHECK(hipStreamDestroy(own));
        });
    }
    for (auto& t : threads) t.join();
    CHECK(hipStreamSynchronize(shared));
    std::vector<int> got(N);
    CHECK(hipMemcpy(got.data(), total, N * sizeof(int), hipMemcpyDeviceToHost));
    expect_same("a stream of all threads", got, all(90));
    CHECK(hipStreamDestroy(shared));
    CHECK(hipFree(total));
}

// The default stream waits for the others, and they for it.
static void check_default_stream() {
    hipStream_t a, b;
    CHECK(hipStreamCreate(&a));
    CHECK(hipStreamCreate(&b));
    Array<int> x(N);
    launch_step(x, 3, 1, a);
    launch_step(x, 0, 5, 0);
    launch_step(x, 2, 1, b);
    expect_same("the default stream between others", x.host(), all(17));
    for (hipStream_t s : {a, b}) CHECK(hipStreamDestroy(s));
}

int main() {
    check_several();
    check_events();
    check_times();
    check_callbacks();
    check_values();
    check_threads();
    check_default_stream();
    std::printf("PASS\n");
    return 0;
}
