// Kernels beside their instrumented clones, which send each address that they access. `cloned [SCENARIO [COUNT]]`; results are the
// same with and without instrumentation. With -DPLAIN it has no clones; with -DSAME_NAME the kernels have one argument more.
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "check.h"
#include "cooperative.h"
#include "logdur_device.h"

using namespace logdur;

#ifdef PLAIN
#define CLONE static inline __device__
#else
#define CLONE extern "C" __global__
#endif

// The kernels, as they are and instrumented: `descriptor` is null in the application's own.
__device__ void doubling(const int* in, int* out, unsigned n, void* descriptor) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    submit_address(descriptor, in + i, READ, 4, GLOBAL, LOGDUR_HERE);
    int value = in[i];
    submit_address(descriptor, out + i, WRITE, 4, GLOBAL, LOGDUR_HERE);
    out[i] = 2 * value;
}

#ifdef SAME_NAME
extern "C" __global__ void doubled(const int* in, int* out, unsigned n, void* descriptor) {
    doubling(in, out, n, descriptor);
}
#else
extern "C" __global__ void doubled(const int* in, int* out, unsigned n) { doubling(in, out, n, nullptr); }
CLONE void __amd_crk_doubledPv(const int* in, int* out, unsigned n, void* descriptor) {
    doubling(in, out, n, descriptor);
}

struct Packed {
    int values[5];
};

#endif

#ifndef SAME_NAME
// A mangled name, by-value arguments of odd sizes, LDS whose size is known at launch only, and all of the geometry.
__device__ void reversing(char tag, int* out, Packed packed, unsigned* shape, void* descriptor) {
    extern __shared__ int words[];
    unsigned size = blockDim.x * blockDim.y * blockDim.z;
    unsigned item = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned group = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    submit_address(descriptor, words + item, WRITE, 4, LDS);
    words[item] = tag + packed.values[item % 5] + int(item);
    __syncthreads();
    submit_address(descriptor, out + group * size + item, WRITE, 4, GLOBAL);
    out[group * size + item] = words[size - 1 - item];
    if (group == 0 && item == 0) {
        unsigned all[] = {gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z};
        for (int i = 0; i < 6; ++i) shape[i] = all[i];
    }
}

__global__ void reversed(char tag, int* out, Packed packed, unsigned* shape) {
    reversing(tag, out, packed, shape, nullptr);
}
CLONE void __amd_crk__Z8reversedcPi6PackedPjPv(char tag, int* out, Packed packed, unsigned* shape,
                                                               void* descriptor) {
    reversing(tag, out, packed, shape, descriptor);
}

// A variable of the code object, which kernel and clone share.
__device__ int calls;
extern "C" __global__ void counted() { atomicAdd(&calls, 1); }
CLONE void __amd_crk_countedPv(void* descriptor) {
    submit_address(descriptor, &calls, READ_WRITE, 4, GLOBAL);
    atomicAdd(&calls, 1);
}

// Workgroups that wait for each other: launched into a cooperative queue.
__device__ void relaying(int* out, int n, void* descriptor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, other = (i + 200) % n;
    submit_address(descriptor, out + i, WRITE, 4, GLOBAL);
    out[i] = 3 * i;
    cg::this_grid().sync();
    submit_address(descriptor, out + other, READ, 4, GLOBAL);
    int value = out[other];
    cg::this_grid().sync();
    submit_address(descriptor, out + i, WRITE, 4, GLOBAL);
    out[i] = value + 1;
}
extern "C" __global__ void relayed(int* out, int n) { relaying(out, n, nullptr); }
CLONE void __amd_crk_relayedPv(int* out, int n, void* descriptor) { relaying(out, n, descriptor); }
// The same kernel, which needs more registers than its clone.
extern "C" __global__ void relayed_wide(int* out, int n) {
    asm volatile("; more registers" ::: "v120", "s80");
    relaying(out, n, nullptr);
}
CLONE void __amd_crk_relayed_widePv(int* out, int n, void* descriptor) { relaying(out, n, descriptor); }

// Four loads of a lane, which the compiler makes one: each on a line of its own, and so are their messages.
template <bool SENDS>
__device__ void mixing(const int* in, int* out, void* descriptor) {
    in += 4 * threadIdx.x;
    if (SENDS) submit_address(descriptor, in, READ, 4, GLOBAL, LOGDUR_HERE); int a = in[0];  // first
    if (SENDS) submit_address(descriptor, in + 1, READ, 4, GLOBAL, LOGDUR_HERE); int b = in[1];  // second
    if (SENDS) submit_address(descriptor, in + 2, READ, 4, GLOBAL, LOGDUR_HERE); int c = in[2];  // third
    if (SENDS) submit_address(descriptor, in + 3, READ, 4, GLOBAL, LOGDUR_HERE); int d = in[3];  // fourth
    out[threadIdx.x] = a ^ b ^ c ^ d;
}
extern "C" __global__ void mixed(const int* in, int* out) { mixing<false>(in, out, nullptr); }
CLONE void __amd_crk_mixedPv(const int* in, int* out, void* descriptor) { mixing<true>(in, out, descriptor); }

// No clone.
extern "C" __global__ void plain(int* out) { out[threadIdx.x] = int(threadIdx.x); }

// A clone whose additional argument is none.
extern "C" __global__ void refused(int* out) { out[threadIdx.x] = 1; }
CLONE void __amd_crk_refusedPv(int* out, float number) { out[threadIdx.x] = int(number); }

// The clone writes a size that cannot be, as an error in a kernel could.
extern "C" __global__ void damaged(int* out) { out[threadIdx.x] = 7; }
CLONE void __amd_crk_damagedPv(int* out, void* descriptor) {
    auto* all = static_cast<Descriptor*>(descriptor);
    if (threadIdx.x == 0 && blockIdx.x == 0) all->sizes[0] = 123456789012345;
    if (threadIdx.x == 0 && blockIdx.x == 1 && all->sub_buffers > 1) {
        all->buffer[all->capacity] = 77;
        all->sizes[1] = 100;
    }
    out[threadIdx.x] = 7;
}

// A message larger than any sub-buffer.
struct Large {
    int words[600];
};
extern "C" __global__ void large(int* out) { out[threadIdx.x] = 7; }
CLONE void __amd_crk_largePv(int* out, void* descriptor) {
    Large value = {};
    value.words[threadIdx.x] = int(threadIdx.x);
    submit_message(descriptor, value, 100);
    block_start(descriptor, 3);
    out[threadIdx.x] = 7;
}

// Writes where no memory is, after it has sent something.
extern "C" __global__ void faulting(int* out) { *out = 1; }
CLONE void __amd_crk_faultingPv(int* out, void* descriptor) {
    submit_address(descriptor, out, WRITE, 4, GLOBAL);
    *reinterpret_cast<volatile int*>(uintptr_t(64)) = 1;
    *out = 1;
}

static void run_doubled(unsigned count, unsigned groups, hipStream_t stream = nullptr, bool shown = false) {
    const unsigned n = groups * 256 - 100;
    std::vector<int> values(n);
    for (unsigned i = 0; i < n; ++i) values[i] = int(i * 7 % 1000);
    Array<int> in(values), out(n);
    for (unsigned i = 0; i < count; ++i) doubled<<<groups, 256, 0, stream>>>(in, out, n);
    CHECK(hipStreamSynchronize(stream));
    std::vector<int> result = out.host();
    for (unsigned i = 0; i < n; ++i) EXPECT(result[i] == 2 * values[i], "doubled %u: %d", i, result[i]);
    if (shown) std::printf("doubled in %p out %p n %u\n", (void*)(int*)in, (void*)(int*)out, n);
}

static void run_reversed() {
    const dim3 grid(3, 2, 2), block(16, 3, 2);
    const unsigned size = 96, groups = 12;
    Array<int> out(size * groups);
    Array<unsigned> shape(6);
    Packed packed = {{1, 20, 300, 4000, 50000}};
    reversed<<<grid, block, size * sizeof(int)>>>('a', out, packed, shape);
    CHECK(hipDeviceSynchronize());
    std::vector<int> result = out.host();
    for (unsigned g = 0; g < groups; ++g)
        for (unsigned i = 0; i < size; ++i) {
            int item = int(size - 1 - i), expected = 'a' + packed.values[item % 5] + item;
            EXPECT(result[g * size + i] == expected, "reversed %u %u: %d", g, i, result[g * size + i]);
        }
    const unsigned expected[] = {3, 2, 2, 16, 3, 2};
    std::vector<unsigned> geometry = shape.host();
    for (int i = 0; i < 6; ++i) EXPECT(geometry[i] == expected[i], "geometry %d: %u", i, geometry[i]);
}

static void run_counted(int count) {
    for (int i = 0; i < count; ++i) counted<<<4, 64>>>();
    CHECK(hipDeviceSynchronize());
    int all = 0;
    CHECK(hipMemcpyFromSymbol(&all, HIP_SYMBOL(calls), sizeof(all)));
    EXPECT(all == count * 4 * 64, "counted: %d", all);
}

template <class Kernel>
static void run_one(Kernel kernel, int first) {
    Array<int> out(64);
    kernel<<<2, 64>>>(out);
    CHECK(hipDeviceSynchronize());
    EXPECT(out.host()[0] == first, "the first value is %d", out.host()[0]);
}

static void run_relayed(void (*kernel)(int*, int)) {
    int n = 8 * 128;
    Array<int> out(n);
    int* address = out;
    void* arguments[] = {&address, &n};
    CHECK(hipLaunchCooperativeKernel((void*)kernel, dim3(8), dim3(128), arguments, 0, 0));
    std::vector<int> result = out.host();
    for (int i = 0; i < n; ++i) EXPECT(result[i] == 3 * ((i + 200) % n) + 1, "relayed %d: %d", i, result[i]);
}

// Returns when the handler's report says that a dispatch has ended, if there is a handler.
static void wait_for_report() {
    const char* name = std::getenv("LOGDUR_HANDLER_OUTPUT");
    for (bool ended = name == nullptr; !ended; std::this_thread::yield()) {
        std::ifstream report(name);
        for (std::string line; !ended && std::getline(report, line);) ended = line.rfind("end ", 0) == 0;
    }
}

int main(int argc, char** argv) {
    std::string scenario = argc > 1 ? argv[1] : "all";
    unsigned count = argc > 2 ? unsigned(std::atoi(argv[2])) : 1;
    if (scenario == "all") {
        run_doubled(1, 3, nullptr, true);
        run_reversed();
        run_counted(2);
        run_one(plain, 0);
        run_one(refused, 1);
    } else if (scenario == "cooperative") {
        run_relayed(relayed);
        run_relayed(relayed_wide);
    } else if (scenario == "doubled") {
        run_doubled(count, 3);
    } else if (scenario == "wide") {
        run_doubled(count, 300);
    } else if (scenario == "one-by-one") {
        for (unsigned i = 0; i < count; ++i) run_doubled(1, 300);
    } else if (scenario == "damaged") {
        run_one(damaged, 7);
        run_doubled(1, 3);
    } else if (scenario == "mixed") {
        std::vector<int> numbers(256);
        for (int i = 0; i < 256; ++i) numbers[i] = i * i;
        Array<int> in(numbers), out(64);
        mixed<<<1, 64>>>(in, out);
        std::vector<int> expected(64);
        for (int i = 0; i < 256; ++i) expected[i / 4] ^= numbers[i];
        expect_same("mixed", out.host(), expected);
    } else if (scenario == "large") {
        run_one(large, 7);
    } else if (scenario == "faulting") {
        run_doubled(1, 3);
        wait_for_report();
        run_one(faulting, 1);
    } else if (scenario == "streams") {
        int devices = 0;
        CHECK(hipGetDeviceCount(&devices));
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 4; ++t)
            threads.emplace_back([=] {
                CHECK(hipSetDevice(int(t) % devices));
                hipStream_t stream;
                CHECK(hipStreamCreate(&stream));
                for (unsigned i = 0; i < count; ++i) run_doubled(8, 2 + t, stream);
                CHECK(hipStreamDestroy(stream));
            });
        for (auto& thread : threads) thread.join();
        std::printf("%d devices\n", devices);
    } else if (scenario == "for-ever") {
        for (;;) run_doubled(64, 40);
    }
    std::printf("PASS\n");
    std::fflush(stdout);
    if (argc > 3)
        std::thread([] {
            run_doubled(1, 3);
            std::exit(0);
        }).join();
    return 0;
}
#endif
