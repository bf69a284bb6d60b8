// What a captured dispatch costs: a process that holds MIB mebibytes of the GPU's memory, of which a kernel changes one: of the same
// allocation, or of one of its own if a third argument is given. Prints milliseconds of the first launch with its end, of each of COUNT
// others, and the process's largest resident memory in MiB.
// Arguments: MIB COUNT [apart].
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "check.h"
#include "threads.h"

constexpr size_t PIECE = 1 << 20;

__global__ void change(uint32_t* piece, uint32_t number) {
    const size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    piece[at] = uint32_t(at) * 2654435761u + number;
}

int main(int argc, char** argv) {
    const size_t bytes = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256) * PIECE;
    const int count = argc > 2 ? std::atoi(argv[2]) : 4;
    // Bytes that are no pattern, and other ones in each 64 KiB.
    std::vector<uint64_t> noise(PIECE / 8);
    uint64_t state = 1;
    char* memory = nullptr;
    CHECK(hipMalloc(&memory, bytes));
    for (size_t at = 0; at < bytes; at += PIECE) {
        if (at == 0)
            for (uint64_t& word : noise) state ^= state << 13, state ^= state >> 7, word = state ^= state << 17;
        for (size_t i = 0; i < noise.size(); i += 8192) noise[i] = at + i;
        CHECK(hipMemcpy(memory + at, noise.data(), PIECE, hipMemcpyHostToDevice));
    }
    char* changed = memory;
    if (argc > 3) CHECK(hipMalloc(&changed, PIECE));
    using Milliseconds = std::chrono::duration<double, std::milli>;
    auto start = std::chrono::steady_clock::now();
    Milliseconds first(0);
    for (int i = 0; i <= count; ++i) {
        change<<<PIECE / 4 / 256, 256>>>(reinterpret_cast<uint32_t*>(changed), i);
        CHECK(hipDeviceSynchronize());
        // All memory is new to the first capture.
        if (i == 0) {
            first = std::chrono::steady_clock::now() - start;
            start = std::chrono::steady_clock::now();
        }
    }
    const Milliseconds spent = std::chrono::steady_clock::now() - start;
    std::printf("%.3f %.3f %.1f\n", first.count(), spent.count() / count, peak() / 1024.0);
    return 0;
}
