// Waves on several compute units write and read words of 4, 8 and 16 bytes at the same time, without locks. What a load
// finds must be what one store wrote, never parts of two.
#include <vector>

#include "check.h"

// As atomic loads are compiled.
#if defined(__gfx942__) || defined(__gfx950__)
#define COHERENT "sc1"
#else
#define COHERENT "glc"
#endif

typedef unsigned int Four __attribute__((ext_vector_type(4)));

__device__ void store16(Four* to, Four value) {
    asm volatile("global_store_dwordx4 %0, %1, off\n s_waitcnt vmcnt(0)" ::"v"(to), "v"(value) : "memory");
}

__device__ Four load16(const Four* from) {
    Four value;
    asm volatile("global_load_dwordx4 %0, %1, off " COHERENT "\n s_waitcnt vmcnt(0)" : "=&v"(value) : "v"(from) : "memory");
    return value;
}

__device__ void flat_store16(Four* to, Four value) {
    asm volatile("flat_store_dwordx4 %0, %1\n s_waitcnt vmcnt(0) lgkmcnt(0)" ::"v"(to), "v"(value) : "memory");
}

__device__ Four flat_load16(const Four* from) {
    Four value;
    asm volatile("flat_load_dwordx4 %0, %1 " COHERENT "\n s_waitcnt vmcnt(0) lgkmcnt(0)" : "=&v"(value) : "v"(from) : "memory");
    return value;
}

__device__ bool torn(Four v) { return v.x != v.y || v.x != v.z || v.x != v.w; }

// Even workgroups write, odd ones read. Lanes use words in an order of their own, so that no wave's words lie in a row.
__global__ void meet(Four* words, volatile unsigned long long* pairs, unsigned* torn_words, int n, int rounds) {
    unsigned lane = threadIdx.x, wrong = 0;
    for (int r = 0; r < rounds; ++r) {
        int place = (lane * 29 + r) % n;
        if (blockIdx.x % 2 == 0) {
            unsigned pattern = (blockIdx.x << 20) + r + 1;
            Four value = {pattern, pattern, pattern, pattern};
            if (r & 1) store16(words + place, value); else flat_store16(words + place, value);
            pairs[place] = (unsigned long long)pattern << 32 | pattern;
        } else {
            Four value = r & 1 ? flat_load16(words + place) : load16(words + place);
            wrong += torn(value);
            unsigned long long pair = pairs[place];
            wrong += (unsigned)(pair >> 32) != (unsigned)pair;
        }
    }
    if (wrong) atomicAdd(torn_words, wrong);
}

// A scalar load of 16 bytes while other workgroups write them.
__global__ void meet_scalar(Four* words, unsigned* torn_words, int rounds) {
    unsigned wrong = 0;
    for (int r = 0; r < rounds; ++r) {
        if (blockIdx.x % 2 == 0) {
            unsigned pattern = (blockIdx.x << 20) + r + 1;
            Four value = {pattern, pattern, pattern, pattern};
            if (threadIdx.x == 0) store16(words, value);
        } else {
            Four value;
            asm volatile("s_dcache_inv\n s_load_dwordx4 %0, %1, 0x0\n s_waitcnt lgkmcnt(0)" : "=&s"(value) : "s"(words) : "memory");
            wrong += torn(value);
        }
    }
    if (wrong && threadIdx.x == 0) atomicAdd(torn_words, wrong);
}

// Lanes in turn read from two allocations that are far apart.
__global__ void apart(const unsigned* const* from, unsigned* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (unsigned k = 0; k < 8; ++k) sum += from[i & 1][(i + k * 64) % n];
    out[i] = sum;
}

static void lanes_in_two_allocations() {
    const unsigned n = 1 << 24;
    std::vector<unsigned> values(n);
    for (unsigned i = 0; i < n; ++i) values[i] = i * 2654435761u;
    Array<unsigned> first(values);
    for (unsigned& value : values) value = ~value;
    Array<unsigned> second(values), out(1024);
    Array<const unsigned*> from(std::vector<const unsigned*>{first, second});
    apart<<<4, 256>>>(from, out, n);
    std::vector<unsigned> expected(1024);
    for (unsigned i = 0; i < 1024; ++i) {
        for (unsigned k = 0; k < 8; ++k) expected[i] += i & 1 ? values[i + k * 64] : ~values[i + k * 64];
    }
    expect_same("lanes in two allocations", out.host(), expected);
}

int main() {
    lanes_in_two_allocations();
    const int n = 61;
    Four* words;
    unsigned long long* pairs;
    unsigned *torn_words, found = 0;
    CHECK(hipMalloc(&words, n * sizeof(Four)));
    CHECK(hipMalloc(&pairs, n * sizeof(unsigned long long)));
    CHECK(hipMalloc(&torn_words, sizeof(unsigned)));
    CHECK(hipMemset(words, 0, n * sizeof(Four)));
    CHECK(hipMemset(pairs, 0, n * sizeof(unsigned long long)));
    CHECK(hipMemset(torn_words, 0, sizeof(unsigned)));
    meet<<<8, 64>>>(words, pairs, torn_words, n, 20000);
    CHECK(hipMemcpy(&found, torn_words, sizeof found, hipMemcpyDeviceToHost));
    EXPECT(found == 0, "vector loads: %u words are of two stores", found);
    meet_scalar<<<8, 64>>>(words, torn_words, 20000);
    CHECK(hipMemcpy(&found, torn_words, sizeof found, hipMemcpyDeviceToHost));
    EXPECT(found == 0, "scalar loads: %u words are of two stores", found);

    // The copy engine fills and copies while kernels read.
    Four* source;
    CHECK(hipHostMalloc(&source, n * sizeof(Four)));
    for (int i = 0; i < n; ++i) source[i] = Four{7, 7, 7, 7};
    hipStream_t reading, copying;
    CHECK(hipStreamCreate(&reading));
    CHECK(hipStreamCreate(&copying));
    CHECK(hipMemset(words, 0, n * sizeof(Four)));
    meet<<<2, 64, 0, reading>>>(words, pairs, torn_words, n, 20000);
    for (int i = 0; i < 200; ++i) CHECK(hipMemcpyAsync(words, source, n * sizeof(Four), hipMemcpyHostToDevice, copying));
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(&found, torn_words, sizeof found, hipMemcpyDeviceToHost));
    EXPECT(found == 0, "beside copies: %u words are of two stores", found);
    std::printf("PASS\n");
    return 0;
}
