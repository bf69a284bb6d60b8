// Cooperative groups smaller than a block: tiles of a wave, the lanes that are active together; and the clocks of the device.
#include <algorithm>

#include "check.h"
#include "cooperative.h"

static const int BLOCK = 256, BLOCKS = 3, ITEMS = BLOCK * BLOCKS;

// What each work-item learns of its group.
struct Learned {
    int size, rank, sum, most, next, before, first;
};

static bool operator==(const Learned& a, const Learned& b) { return !std::memcmp(&a, &b, sizeof a); }

template <unsigned SIZE>
__global__ void tiles(const int* in, Learned* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
    cg::thread_block_tile<SIZE> tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    int sum = value, most = value;
    for (int step = SIZE / 2; step > 0; step /= 2) {
        sum += tile.shfl_xor(sum, step);
        most = max(most, tile.shfl_xor(most, step));
    }
    const int next = tile.shfl_down(value, 1), before = tile.shfl_up(value, 1), first = tile.shfl(value, 0);
    tile.sync();
    out[i] = {int(tile.size()), int(tile.thread_rank()), sum, most, next, before, first};
}

template <unsigned SIZE>
static void check_tiles(const std::vector<int>& values) {
    Array<int> in(values);
    Array<Learned> out(std::vector<Learned>(ITEMS, Learned{}));
    tiles<SIZE><<<BLOCKS, BLOCK>>>(in, out);
    const std::vector<Learned> got = out.host();
    for (int i = 0; i < ITEMS; ++i) {
        const int rank = i % SIZE, start = i - rank;
        Learned expected = {SIZE, rank, 0, values[start], 0, 0, values[start]};
        for (unsigned k = 0; k < SIZE; ++k) {
            expected.sum += values[start + k];
            expected.most = std::max(expected.most, values[start + k]);
        }
        // At the ends there is no neighbour: the own value comes back.
        expected.next = values[rank + 1 < int(SIZE) ? i + 1 : i];
        expected.before = values[rank > 0 ? i - 1 : i];
        EXPECT(got[i] == expected, "tile of %u, item %d: %d %d %d %d %d %d %d", SIZE, i, got[i].size, got[i].rank, got[i].sum,
               got[i].most, got[i].next, got[i].before, got[i].first);
    }
    std::printf("tiles of %u: correct\n", SIZE);
}

// The lanes that take a branch, as a group.
__global__ void branch(const int* in, Learned* out, int modulus) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
    if (i % modulus == 0) {
        cg::coalesced_group group = cg::coalesced_threads();
        const int last = int(group.size()) - 1;
        const int next = group.shfl_down(value, 1), before = group.shfl_up(value, 1);
        out[i] = {int(group.size()), int(group.thread_rank()), 0, 0, next, before, group.shfl(value, last)};
    }
}

static void check_branch(const std::vector<int>& values, int modulus, int wave) {
    Array<int> in(values);
    Array<Learned> out(std::vector<Learned>(ITEMS, Learned{-1, -1, -1, -1, -1, -1, -1}));
    branch<<<BLOCKS, BLOCK>>>(in, out, modulus);
    const std::vector<Learned> got = out.host();
    for (int start = 0; start < ITEMS; start += wave) {
        std::vector<int> members;
        for (int i = start; i < start + wave; ++i)
            if (i % modulus == 0) members.push_back(i);
        for (int i = start; i < start + wave; ++i) {
            Learned expected = {-1, -1, -1, -1, -1, -1, -1};
            if (i % modulus == 0) {
                const int rank = int(std::find(members.begin(), members.end(), i) - members.begin()), size = int(members.size());
                const int next = values[members[std::min(rank + 1, size - 1)]], before = values[members[std::max(rank - 1, 0)]];
                expected = {size, rank, 0, 0, next, before, values[members.back()]};
            }
            EXPECT(got[i] == expected, "one lane of %d, item %d: %d %d %d %d %d", modulus, i, got[i].size, got[i].rank, got[i].next,
                   got[i].before, got[i].first);
        }
    }
    std::printf("every lane of %d: correct\n", modulus);
}

// Clocks before and after some work. The header declares them for the device only.
__global__ void clocks(long long* out, int turns) {
#ifdef __HIP_DEVICE_COMPILE__
    const long long cycles = clock64(), ticks = wall_clock64();
    volatile int work = 0;
    for (int i = 0; i < turns; ++i) work = work + i;
    out[0] = clock64() - cycles;
    out[1] = wall_clock64() - ticks;
    out[2] = ticks;
#endif
}

static void check_clocks() {
    Array<long long> out(3);
    long long last = 0;
    for (int turns : {100, 10000}) {
        clocks<<<1, 1>>>(out, turns);
        const std::vector<long long> got = out.host();
        EXPECT(got[0] > 0 && got[1] >= 0, "%d turns took %lld cycles, %lld ticks", turns, got[0], got[1]);
        EXPECT(got[2] > last, "the clock went from %lld to %lld", last, got[2]);
        last = got[2] + got[1];
    }
    std::printf("clocks: correct\n");
}

int main() {
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::vector<int> values(ITEMS);
    for (int i = 0; i < ITEMS; ++i) values[i] = i * 7919 % 1009 - 500;
    check_tiles<2>(values);
    check_tiles<8>(values);
    check_tiles<32>(values);
    check_tiles<64>(values);
    for (int modulus : {1, 3, 17, 64}) check_branch(values, modulus, properties.warpSize);
    check_clocks();
    std::printf("PASS\n");
    return 0;
}
