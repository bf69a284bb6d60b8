// Races that hardware hides, and waves that wait for each other: each kernel must end, with the right result.
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

// As the look-back of rocPRIM polls: a value beside its flag in one access.
#if defined(__gfx942__) || defined(__gfx950__)
#define COHERENT "sc1"
#else
#define COHERENT "glc"
#endif

// Every block takes tiles from a counter. The word with the tile's number is used for something else right after it was
// read, without a barrier in between: the waves that are late find what the first one wrote, unless they advance together.
__global__ void take_tiles(unsigned* counter, unsigned* least, unsigned* done, unsigned tiles) {
    __shared__ union {
        unsigned tile;
        unsigned least;
    } word;
    if (threadIdx.x == 0) word.tile = atomicAdd(counter, 1);
    __syncthreads();
    unsigned tile = word.tile;
    while (tile < tiles) {
        if (threadIdx.x == 0) word.least = __atomic_load_n(least, __ATOMIC_RELAXED);
        __syncthreads();
        if (word.least < tile) return;
        if (threadIdx.x % 64 == 0) atomicAdd(&done[tile], 1);
        if (threadIdx.x == 0) word.tile = atomicAdd(counter, 1);
        __syncthreads();
        tile = word.tile;
    }
}

// The last wave computes and then sets a word in LDS that the others poll.
__global__ void poll_lds(unsigned* out, unsigned rounds) {
    __shared__ volatile unsigned word;
    if (threadIdx.x == 0) word = 0;
    __syncthreads();
    if (threadIdx.x / 64 == blockDim.x / 64 - 1) {
        unsigned x = threadIdx.x | 1;
        for (unsigned r = 0; r < rounds; ++r) x = x * 1664525 + 1013904223;
        if (threadIdx.x % 64 == 0) word = x | 1;
    } else {
        while (word == 0) {}
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = word;
}

// The same through memory, between the waves of a block.
__global__ void poll_memory(volatile unsigned* words, unsigned rounds) {
    volatile unsigned* word = words + blockIdx.x;
    if (threadIdx.x / 64 == blockDim.x / 64 - 1) {
        unsigned x = threadIdx.x | 1;
        for (unsigned r = 0; r < rounds; ++r) x = x * 1664525 + 1013904223;
        if (threadIdx.x % 64 == 0) *word = x | 1;
    } else {
        while (*word == 0) {}
    }
}

typedef unsigned int Four __attribute__((ext_vector_type(4)));

// Each block adds its number to the sum of the blocks before it, which it polls.
__global__ void look_back(Four* sums, unsigned* counter, unsigned rounds) {
    __shared__ unsigned taken;
    if (threadIdx.x == 0) taken = atomicAdd(counter, 1);
    __syncthreads();
    unsigned block = taken, x = threadIdx.x;
    for (unsigned r = 0; r < rounds; ++r) x = x * 1664525 + 1013904223;
    if (threadIdx.x != 0) return;
    Four sum = {0, 0, 0, 1};
    while (block != 0) {
        asm volatile("global_load_dwordx4 %0, %1, off " COHERENT "\n s_waitcnt vmcnt(0)"
                     : "=&v"(sum) : "v"(sums + block - 1) : "memory");
        if (sum.w) break;
    }
    Four mine = {sum.x + block, sum.y + 2 * block, x, 1};
    asm volatile("global_store_dwordx4 %0, %1, off\n s_waitcnt vmcnt(0)" ::"v"(sums + block), "v"(mine) : "memory");
}

// Waits for the host.
__global__ void wait_for(volatile unsigned* flag, unsigned* polls) {
    unsigned n = 0;
    while (*flag == 0) ++n;
    if (threadIdx.x == 0) *polls = n;
}

// Computes, and stores at its end.
__global__ void compute(unsigned* out, unsigned rounds) {
    unsigned x = threadIdx.x;
    for (unsigned r = 0; r < rounds; ++r) x = x * 1664525 + 1013904223;
    out[threadIdx.x] = x;
}

// Until the log of the emulated GPU says that a kernel makes no progress. The test that runs this has a limit of its own.
static void wait_for_report(const char* log) {
    for (;;) {
        std::ifstream file(log);
        for (std::string line; std::getline(file, line);) {
            if (line.find("makes no progress") != std::string::npos) return;
        }
        std::this_thread::yield();
    }
}

int main(int argc, char** argv) {
    CHECK(hipSetDeviceFlags(hipDeviceScheduleBlockingSync));
    unsigned *flag, *polls;
    CHECK(hipHostMalloc(&flag, sizeof *flag));
    CHECK(hipMalloc(&polls, 256 * sizeof *polls));
    *flag = 0;
    if (argc == 3 && !std::strcmp(argv[1], "stuck")) {
        wait_for<<<3, 128>>>(flag, polls);
        wait_for_report(argv[2]);
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
        CHECK(hipDeviceSynchronize());
        std::printf("PASS\n");
        return 0;
    }
    if (argc == 3 && !std::strcmp(argv[1], "compute")) {
        compute<<<1, 64>>>(polls, std::stoul(argv[2]));
        CHECK(hipDeviceSynchronize());
        std::printf("PASS\n");
        return 0;
    }

    const unsigned tiles = 300, waves = 16;
    std::vector<unsigned> zeroes(tiles + 2, 0);
    zeroes[1] = ~0u;
    Array<unsigned> state(zeroes);
    take_tiles<<<7, 64 * waves>>>(state, state + 1, state + 2, tiles);
    CHECK(hipDeviceSynchronize());
    std::vector<unsigned> done = state.host();
    for (unsigned t = 0; t < tiles; ++t) EXPECT(done[t + 2] == waves, "tile %u was done by %u waves", t, done[t + 2]);

    Array<unsigned> out(4 * 1024);
    poll_lds<<<4, 1024>>>(out, 20000);
    CHECK(hipDeviceSynchronize());
    for (unsigned x : out.host()) EXPECT(x != 0, "poll_lds: a wave went on before the word was set");

    Array<unsigned> words(4);
    poll_memory<<<4, 512>>>(words, 20000);
    CHECK(hipDeviceSynchronize());
    for (unsigned x : words.host()) EXPECT(x != 0, "poll_memory: a word was not set");

    const unsigned blocks = 3000;
    Array<Four> sums(blocks);
    Array<unsigned> counter(1);
    look_back<<<blocks, 128>>>(sums, counter, 100);
    CHECK(hipDeviceSynchronize());
    std::vector<Four> host = sums.host();
    for (unsigned b = 0; b < blocks; ++b) {
        unsigned sum = b * (b + 1) / 2;
        EXPECT(host[b].x == sum && host[b].y == 2 * sum, "block %u: %u and %u, expected %u", b, host[b].x, host[b].y, sum);
    }
    std::printf("PASS\n");
    return 0;
}
