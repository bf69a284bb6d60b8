// Eight streams that compute with each other's results, ordered by events alone: the host waits for the end only.
//
//   eight [ROUNDS]
#include "check.h"

enum { STREAMS = 8, WORDS = 700 };

__global__ void mix(unsigned* to, const unsigned* own, const unsigned* other, unsigned add) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < WORDS) to[i] = own[i] * 3 + other[(i * 5) % WORDS] + add;
}

int main(int argc, char** argv) {
    const unsigned rounds = argc > 1 ? atoi(argv[1]) : 12;
    hipStream_t streams[STREAMS];
    hipEvent_t done[2][STREAMS];
    unsigned* memory[2][STREAMS];
    std::vector<std::vector<unsigned>> expected(STREAMS, std::vector<unsigned>(WORDS));
    for (unsigned s = 0; s < STREAMS; ++s) {
        CHECK(hipStreamCreateWithFlags(&streams[s], hipStreamNonBlocking));
        for (unsigned i = 0; i < WORDS; ++i) expected[s][i] = i * 2654435761u + s;
        for (unsigned n = 0; n < 2; ++n) {
            CHECK(hipEventCreateWithFlags(&done[n][s], hipEventDisableTiming));
            CHECK(hipMalloc((void**)&memory[n][s], WORDS * sizeof(unsigned)));
            CHECK(hipMemcpy(memory[n][s], expected[s].data(), WORDS * sizeof(unsigned), hipMemcpyHostToDevice));
        }
    }
    CHECK(hipDeviceSynchronize());
    for (unsigned round = 0; round < rounds; ++round) {
        const unsigned now = (round + 1) % 2, before = round % 2;
        const std::vector<std::vector<unsigned>> was = expected;
        for (unsigned s = 0; s < STREAMS; ++s) {
            const unsigned next = (s + 1) % STREAMS, last = (s + STREAMS - 1) % STREAMS;
            if (round > 0) {
                // It reads what the next one wrote, and writes what the last one read.
                CHECK(hipStreamWaitEvent(streams[s], done[before][next], 0));
                CHECK(hipStreamWaitEvent(streams[s], done[before][last], 0));
            }
            mix<<<(WORDS + 63) / 64, 64, 0, streams[s]>>>(memory[now][s], memory[before][s], memory[before][next], round + s);
            CHECK(hipEventRecord(done[now][s], streams[s]));
            for (unsigned i = 0; i < WORDS; ++i) expected[s][i] = was[s][i] * 3 + was[next][(i * 5) % WORDS] + round + s;
        }
    }
    for (unsigned s = 0; s < STREAMS; ++s) {
        CHECK(hipStreamSynchronize(streams[s]));
        std::vector<unsigned> got(WORDS);
        CHECK(hipMemcpy(got.data(), memory[rounds % 2][s], WORDS * sizeof(unsigned), hipMemcpyDeviceToHost));
        expect_same("a stream", got, expected[s]);
    }
    std::printf("PASS\n");
}
