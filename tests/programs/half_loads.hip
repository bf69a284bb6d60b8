// Loads into half of a register: the device says whether it has error correction of its static memories (`sramecc+`),
// with which they clear the other half; code that the compiler makes of pairs is right with and without.
#include "check.h"

constexpr int N = 256;
constexpr uint32_t OLD = 0xabcd1234;
enum { GLOBAL_LOW, GLOBAL_HIGH, FLAT_LOW, FLAT_HIGH, LDS_LOW, LDS_HIGH, LOADS };

__global__ void halves(const uint16_t* in, uint32_t* out) {
    __shared__ uint16_t shared[N];
    int i = threadIdx.x;
    shared[i] = in[i];
    __syncthreads();
    uint32_t values[LOADS];
    for (uint32_t& value : values) value = OLD;
    const uint16_t* from = in + i;
    uint32_t at = uint32_t(size_t((__attribute__((address_space(3))) uint16_t*)(shared + i)));
    asm volatile("global_load_short_d16 %0, %1, off\n s_waitcnt vmcnt(0)" : "+v"(values[GLOBAL_LOW]) : "v"(from));
    asm volatile("global_load_short_d16_hi %0, %1, off\n s_waitcnt vmcnt(0)" : "+v"(values[GLOBAL_HIGH]) : "v"(from));
    asm volatile("flat_load_ubyte_d16 %0, %1\n s_waitcnt vmcnt(0) lgkmcnt(0)" : "+v"(values[FLAT_LOW]) : "v"(from));
    asm volatile("flat_load_sbyte_d16_hi %0, %1\n s_waitcnt vmcnt(0) lgkmcnt(0)" : "+v"(values[FLAT_HIGH]) : "v"(from));
    asm volatile("ds_read_u16_d16 %0, %1\n s_waitcnt lgkmcnt(0)" : "+v"(values[LDS_LOW]) : "v"(at));
    asm volatile("ds_read_u16_d16_hi %0, %1\n s_waitcnt lgkmcnt(0)" : "+v"(values[LDS_HIGH]) : "v"(at));
    for (int n = 0; n < LOADS; ++n) out[n * N + i] = values[n];
}

typedef uint16_t Pair __attribute__((ext_vector_type(2)));

// Of a device that is known to keep the other half, compilers make two loads into one register.
__global__ void pairs(const uint16_t* low, const uint16_t* high, uint32_t* out) {
    int i = threadIdx.x;
    out[i] = __builtin_bit_cast(uint32_t, Pair{low[i], high[N - 1 - i]} + Pair{1, 3});
}

int main() {
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    const bool clears = std::strstr(properties.gcnArchName, "sramecc+") != nullptr;
    std::printf("%s: %s\n", properties.gcnArchName, clears ? "cleared" : "kept");
    std::vector<uint16_t> in(N);
    for (int i = 0; i < N; ++i) in[i] = uint16_t(i * 257 + 0x80f0);
    Array<uint16_t> given(in);
    Array<uint32_t> out(LOADS * N);
    halves<<<1, N>>>(given, out);
    std::vector<uint32_t> expected(LOADS * N);
    const uint32_t low = clears ? 0 : OLD & 0xffff, high = clears ? 0 : OLD & 0xffff0000;
    for (int i = 0; i < N; ++i) {
        const uint32_t byte = in[i] & 0xff, signed_byte = uint16_t(int8_t(in[i]));
        expected[GLOBAL_LOW * N + i] = expected[LDS_LOW * N + i] = high | in[i];
        expected[GLOBAL_HIGH * N + i] = expected[LDS_HIGH * N + i] = uint32_t(in[i]) << 16 | low;
        expected[FLAT_LOW * N + i] = high | byte;
        expected[FLAT_HIGH * N + i] = signed_byte << 16 | low;
    }
    expect_same("halves", out.host(), expected);
    Array<uint32_t> both(N);
    pairs<<<1, N>>>(given, given, both);
    std::vector<uint32_t> sums(N);
    for (int i = 0; i < N; ++i) sums[i] = uint16_t(in[i] + 1) | uint32_t(uint16_t(in[N - 1 - i] + 3)) << 16;
    expect_same("pairs", both.host(), sums);
    std::printf("PASS\n");
    return 0;
}
