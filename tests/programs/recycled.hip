// Streams come and go, more of them than the GPU has queues: the runtime gives a queue to one stream after another.
#include <vector>

#include "check.h"

const int N = 256, STREAMS = 9;

__global__ void add(int* words, int value) { words[threadIdx.x] += value; }

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 4;
    for (int round = 0; round < rounds; ++round) {
        hipStream_t streams[STREAMS];
        Array<int> words(N);
        std::vector<int> got(N);
        CHECK(hipMemset(words, 0, words.bytes()));
        // These streams do not wait for the null stream.
        CHECK(hipDeviceSynchronize());
        for (auto& stream : streams) CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
        for (int s = 0; s < STREAMS; ++s) {
            add<<<1, N, 0, streams[s]>>>(words, s + 1);
            // One at a time, so that they add to the same words.
            CHECK(hipStreamSynchronize(streams[s]));
        }
        for (auto& stream : streams) CHECK(hipStreamDestroy(stream));
        CHECK(hipMemcpy(got.data(), words, words.bytes(), hipMemcpyDeviceToHost));
        expect_same("recycled streams", got, std::vector<int>(N, STREAMS * (STREAMS + 1) / 2));
    }
    printf("PASS\n");
}
