// What HIP programs do with streams, graphs and events. Prints "launches N": its own kernels.
//   stories threads N    8 threads, each on a stream of its own and on the default stream
//   stories graphs N     a captured graph of several kernels, launched many times
//   stories events N     pairs of events around kernels; prints "elapsed NS" of each pair
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__global__ void add(unsigned* words, unsigned n) {
    if (blockIdx.x == 0) words[threadIdx.x] += n;
}

__global__ void spin(unsigned* words, unsigned rounds) {
    unsigned x = words[threadIdx.x];
    for (unsigned i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
    words[64 + threadIdx.x] = x;
}

static unsigned* zeroed(size_t words) {
    unsigned* memory;
    CHECK(hipMalloc(&memory, words * sizeof(unsigned)));
    std::vector<unsigned> zeros(words);
    CHECK(hipMemcpy(memory, zeros.data(), words * sizeof(unsigned), hipMemcpyHostToDevice));
    return memory;
}

static unsigned first_of(const unsigned* memory) {
    unsigned word;
    CHECK(hipMemcpy(&word, memory, sizeof word, hipMemcpyDeviceToHost));
    return word;
}

static unsigned long threads(int count) {
    std::vector<std::thread> all;
    std::vector<unsigned*> memory;
    for (int t = 0; t < 8; ++t) memory.push_back(zeroed(64));
    for (int t = 0; t < 8; ++t) {
        all.emplace_back([=, words = memory[t]] {
            hipStream_t stream;
            CHECK(hipStreamCreate(&stream));
            for (int i = 0; i < count; ++i) add<<<1, 64, 0, stream>>>(words, 1);
            CHECK(hipGetLastError());
            CHECK(hipStreamSynchronize(stream));
            for (int i = 0; i < count / 4; ++i) add<<<1, 64>>>(words, 1);
            CHECK(hipDeviceSynchronize());
            CHECK(hipStreamDestroy(stream));
        });
    }
    for (std::thread& thread : all) thread.join();
    const unsigned each = count + count / 4;
    for (int t = 0; t < 8; ++t) EXPECT(first_of(memory[t]) == each, "thread %d: %u of %u", t, first_of(memory[t]), each);
    return 8ul * each;
}

static unsigned long graphs(int count) {
    constexpr int KERNELS = 7;
    unsigned* words = zeroed(64);
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    hipGraph_t graph;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (int k = 0; k < KERNELS; ++k) add<<<2, 64, 0, stream>>>(words, 1);
    CHECK(hipStreamEndCapture(stream, &graph));
    hipGraphExec_t ready;
    CHECK(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
    for (int i = 0; i < count; ++i) {
        CHECK(hipGraphLaunch(ready, stream));
        add<<<1, 64, 0, stream>>>(words, 1);
    }
    CHECK(hipStreamSynchronize(stream));
    const unsigned all = (KERNELS + 1) * count;
    EXPECT(first_of(words) == all, "%u of %u kernels ran", first_of(words), all);
    CHECK(hipGraphExecDestroy(ready));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipStreamDestroy(stream));
    return all;
}

static unsigned long events(int count) {
    unsigned* words = zeroed(128);
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    std::vector<hipEvent_t> start(count), stop(count);
    for (int i = 0; i < count; ++i) {
        CHECK(hipEventCreate(&start[i]));
        CHECK(hipEventCreate(&stop[i]));
    }
    for (int i = 0; i < count; ++i) {
        CHECK(hipEventRecord(start[i], stream));
        spin<<<1, 64, 0, stream>>>(words, 2000 + 400 * (i % 10));
        CHECK(hipEventRecord(stop[i], stream));
        if (i % 3 == 0) CHECK(hipEventSynchronize(stop[i]));
    }
    CHECK(hipStreamSynchronize(stream));
    for (int i = 0; i < count; ++i) {
        float ms = -1;
        CHECK(hipEventElapsedTime(&ms, start[i], stop[i]));
        std::printf("elapsed %.0f\n", ms * 1e6);
    }
    return count;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: stories threads|graphs|events N");
    const int count = std::atoi(argv[2]);
    unsigned long launches = 0;
    if (!std::strcmp(argv[1], "threads")) launches = threads(count);
    if (!std::strcmp(argv[1], "graphs")) launches = graphs(count);
    if (!std::strcmp(argv[1], "events")) launches = events(count);
    EXPECT(launches, "no mode %s", argv[1]);
    std::printf("launches %lu\nPASS\n", launches);
    return 0;
}
