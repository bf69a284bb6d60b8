// Shapes of grids, cooperative launches, occupancy, and what the device says of itself.
#include "check.h"
#include "cooperative.h"

__host__ __device__ inline unsigned mixed(unsigned x, unsigned y, unsigned z) { return x + 1000u * y + 1000000u * z; }

// Every item of a box writes what it is; blocks at the edges are partly outside.
__global__ void number(unsigned* out, uint3 size) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < size.x && y < size.y && z < size.z) out[(z * size.y + y) * size.x + x] = mixed(x, y, z) + gridDim.x * gridDim.y * gridDim.z;
}

// By a grid of work-items that is no multiple of the workgroup: the last workgroups are smaller.
extern "C" __global__ void count_items(unsigned* counts) {
    atomicAdd(&counts[0], 1u);
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) atomicAdd(&counts[1], 1u);
    atomicMax(&counts[2], blockDim.x * blockDim.y * blockDim.z);
}

__global__ void __launch_bounds__(1024) wide(unsigned* sums) {
    __shared__ unsigned part[1024];
    part[threadIdx.x] = threadIdx.x + blockIdx.x;
    __syncthreads();
    for (unsigned step = 512; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

// All workgroups of the grid meet, several times over.
__global__ void relay(unsigned* words, int n, int rounds) {
    cg::grid_group grid = cg::this_grid();
    int i = int(grid.thread_rank());
    for (int r = 0; r < rounds; ++r) {
        unsigned next = words[(r % 2) * n + (i + 1) % n];
        words[((r + 1) % 2) * n + i] = next + 1;
        grid.sync();
    }
}

// The device library's reductions do not compile without optimization: they have instructions of other processors.
#if defined(__OPTIMIZE__)
__global__ void votes(int* out) {
    out[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0) + 1000 * __syncthreads_or(threadIdx.x == 77) + 10000 * __syncthreads_and(threadIdx.x < 200);
}
static void check_votes() {
    Array<int> voted(256);
    votes<<<1, 256>>>(voted);
    expect_same("votes of a workgroup", voted.host(), std::vector<int>(256, 1086));
}
#else
static void check_votes() {}
#endif

static void check_boxes() {
    const uint3 sizes[] = {{1, 1, 1}, {63, 1, 1}, {65, 3, 1}, {17, 13, 5}, {5, 33, 9}, {70, 1, 21}};
    const dim3 blocks[] = {dim3(64), dim3(8, 8), dim3(4, 3, 5), dim3(1, 1, 64), dim3(33, 2, 2)};
    for (uint3 size : sizes) {
        for (dim3 block : blocks) {
            dim3 grid((size.x + block.x - 1) / block.x, (size.y + block.y - 1) / block.y, (size.z + block.z - 1) / block.z);
            Array<unsigned> out(size.x * size.y * size.z);
            number<<<grid, block>>>(out, size);
            std::vector<unsigned> got = out.host();
            for (unsigned n = 0; n < got.size(); ++n) {
                unsigned expected = mixed(n % size.x, n / size.x % size.y, n / size.x / size.y) + grid.x * grid.y * grid.z;
                EXPECT(got[n] == expected, "item %u of %ux%ux%u: %u, expected %u", n, size.x, size.y, size.z, got[n], expected);
            }
        }
    }
    std::printf("boxes: every item is there once\n");
}

static void check_counts() {
    Array<unsigned> counts(3);
    auto check = [&](const char* what, unsigned items, unsigned groups, unsigned largest) { expect_same(what, counts.host(), {items, groups, largest}); };
    count_items<<<6000, 64>>>(counts);
    check("6000 workgroups", 384000, 6000, 64);
    CHECK(hipMemset(counts, 0, counts.bytes()));
    count_items<<<dim3(3, 2, 200), dim3(2, 5, 7)>>>(counts);
    check("a deep grid", 1200 * 70, 1200, 70);
    CHECK(hipMemset(counts, 0, counts.bytes()));
    unsigned* address = counts;
    void* arguments[] = {&address};
    CHECK(hipExtLaunchKernel((void*)count_items, dim3(5), dim3(200), arguments, 0, 0, nullptr, nullptr, 0));
    check("hipExtLaunchKernel", 1000, 5, 200);
    count_items<<<1, 1025>>>(counts);
    EXPECT(hipGetLastError() != hipSuccess, "1025 work-items were accepted");
}

static void check_cooperation() {
    int per_unit, units, supported;
    CHECK(hipDeviceGetAttribute(&supported, hipDeviceAttributeCooperativeLaunch, 0));
    CHECK(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, 0));
    CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&per_unit, relay, 128, 0));
    EXPECT(supported && per_unit > 0, "no cooperative launch: %d, %d workgroups", supported, per_unit);
    int blocks = std::min(16, per_unit * units), n = blocks * 128, rounds = 12;
    std::vector<unsigned> words(2 * n), expected(n);
    for (int i = 0; i < n; ++i) words[i] = i * 7;
    Array<unsigned> out(words);
    unsigned* address = out;
    void* arguments[] = {&address, &n, &rounds};
    CHECK(hipLaunchCooperativeKernel((void*)relay, dim3(blocks), dim3(128), arguments, 0, 0));
    for (int i = 0; i < n; ++i) expected[i] = unsigned((i + rounds) % n * 7 + rounds);
    std::vector<unsigned> got = out.host();
    got.resize(n);
    expect_same("a grid that meets", got, expected);
    EXPECT(hipLaunchCooperativeKernel((void*)relay, dim3(per_unit * units + 1), dim3(128), arguments, 0, 0) != hipSuccess, "too large a grid was accepted");
    (void)hipGetLastError();
}

static void check_properties() {
    hipDeviceProp_t p;
    int devices, grid, block, blocks;
    CHECK(hipGetDeviceCount(&devices));
    CHECK(hipGetDeviceProperties(&p, 0));
    const size_t lds = std::strncmp(p.gcnArchName, "gfx950", 6) == 0 ? 163840 : 65536;
    EXPECT(devices >= 1 && p.warpSize == 64 && p.maxThreadsPerBlock == 1024 && p.sharedMemPerBlock == lds, "%d devices; lanes %d, items %d, LDS %zu", devices,
           p.warpSize, p.maxThreadsPerBlock, p.sharedMemPerBlock);
    EXPECT(p.major == 9 && std::strncmp(p.gcnArchName, "gfx9", 4) == 0, "%s is of generation %d", p.gcnArchName, p.major);
    size_t free_bytes, total;
    CHECK(hipMemGetInfo(&free_bytes, &total));
    EXPECT(p.totalGlobalMem == total && free_bytes <= total, "%zu bytes of memory, or %zu", p.totalGlobalMem, total);
    EXPECT(p.multiProcessorCount > 0 && p.maxThreadsPerMultiProcessor >= 2048 && p.clockRate > 0 && p.memoryBusWidth > 0, "%d units, %d items, %d kHz, %d bits",
           p.multiProcessorCount, p.maxThreadsPerMultiProcessor, p.clockRate, p.memoryBusWidth);
    CHECK(hipOccupancyMaxPotentialBlockSize(&grid, &block, wide, 0, 0));
    CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, wide, 1024, 0));
    EXPECT(block > 0 && block <= 1024 && grid >= 1 && blocks >= 1, "a grid of %d by %d, %d workgroups in a unit", grid, block, blocks);
    hipFuncAttributes attributes;
    CHECK(hipFuncGetAttributes(&attributes, (const void*)wide));
    EXPECT(attributes.sharedSizeBytes == 4096 && attributes.maxThreadsPerBlock == 1024, "LDS %zu, items %d", attributes.sharedSizeBytes, attributes.maxThreadsPerBlock);
    std::printf("properties: consistent\n");
}

int main() {
    check_boxes();
    check_counts();
    Array<unsigned> sums(20);
    wide<<<20, 1024>>>(sums);
    std::vector<unsigned> expected;
    for (unsigned b = 0; b < 20; ++b) expected.push_back(1023 * 512 + 1024 * b);
    expect_same("workgroups of 1024", sums.host(), expected);
    check_votes();
    check_cooperation();
    check_properties();
    std::printf("PASS\n");
    return 0;
}
