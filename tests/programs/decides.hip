// A host that decides by what a kernel has computed: it copies words of the GPU to itself, and launches another kernel if one is odd.
// Prints "brought BYTES" in front of each launch behind such a copy, and PASS. With "waits", it copies nothing, but waits as often.
//   decides [waits]
#include "check.h"

#include <string>

constexpr int WORDS = 4096, ROUNDS = 5;

extern "C" __global__ void step(unsigned* to, unsigned by) { to[blockIdx.x * blockDim.x + threadIdx.x] += by; }

extern "C" __global__ void odd(unsigned* to) { to[blockIdx.x * blockDim.x + threadIdx.x] += 7; }

extern "C" __global__ void last(unsigned* to) { to[threadIdx.x] ^= 1; }

int main(int argc, char** argv) {
    const bool waits = argc > 1 && std::string(argv[1]) == "waits";
    hipStream_t stream;
    CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    Array<unsigned> words(WORDS);
    std::vector<unsigned> expected(WORDS, 0);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        step<<<WORDS / 256, 256, 0, stream>>>(words, round);
        for (unsigned& word : expected) word += round;
        CHECK(hipStreamSynchronize(stream));
        if (waits || round == 4) continue;
        // Memory of the host that the runtime has to lock or to stage.
        std::vector<unsigned> found(WORDS / round);
        CHECK(hipMemcpy(found.data(), words, found.size() * sizeof(unsigned), hipMemcpyDeviceToHost));
        std::printf("brought %zu\n", found.size() * sizeof(unsigned));
        EXPECT(found[0] == expected[0], "round %u: %u, not %u", round, found[0], expected[0]);
        if (found[0] % 2 == 0) continue;
        odd<<<WORDS / 256, 256, 0, stream>>>(words);
        for (unsigned& word : expected) word += 7;
    }
    last<<<1, 256, 0, stream>>>(words);
    CHECK(hipStreamSynchronize(stream));
    for (int i = 0; i < 256; ++i) expected[i] ^= 1;
    expect_same("words", words.host(), expected);
    std::printf("PASS\n");
}
