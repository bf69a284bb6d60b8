// Exchanges between the lanes of a wave: shuffles, votes, DPP, swizzles, permutes, and reductions made of them.
#include <functional>
#include <random>

#include "check.h"

const int LANES = 64;

// A row: what lane `l` of `in` gives, on the device and, as a function of the lanes' values, on the host.
// An inactive source or one outside of the row gives what the builtin says: `old`, or zero with bound_ctrl.
#define DPP(control, row_mask, bank_mask, bound) __builtin_amdgcn_update_dpp(-1, x, control, row_mask, bank_mask, bound)
#define SWIZZLE(pattern) __builtin_amdgcn_ds_swizzle(x, pattern)

typedef std::vector<int> Lanes;

static Lanes each(const std::function<int(int)>& f) {
    Lanes r;
    for (int l = 0; l < LANES; ++l) r.push_back(f(l));
    return r;
}

// The DPP controls, as host functions: the source lane, or -1.
static int quad(int l, int perm) { return (l & ~3) | (perm >> 2 * (l & 3) & 3); }
static int row_shl(int l, int n) { return (l & 15) + n < 16 ? l + n : -1; }
static int row_shr(int l, int n) { return (l & 15) - n >= 0 ? l - n : -1; }
static int row_ror(int l, int n) { return (l & ~15) | ((l - n) & 15); }
static int reversed(int l) {
    int r = 0;
    for (int bit = 0; bit < 5; ++bit) r |= (l >> bit & 1) << (4 - bit);
    return r;
}
static int lane_of(const Lanes& in, int source, int otherwise) { return source < 0 ? otherwise : in[source]; }

#define TABLE(ROW)                                                                                                    \
    ROW(quad_perm, DPP(0x1b, 15, 15, false), in[quad(l, 0x1b)])                                                       \
    ROW(quad_broadcast, DPP(0x55, 15, 15, false), in[quad(l, 0x55)])                                                  \
    ROW(row_shl_1, DPP(0x101, 15, 15, false), lane_of(in, row_shl(l, 1), -1))                                         \
    ROW(row_shl_7_zero, DPP(0x107, 15, 15, true), lane_of(in, row_shl(l, 7), 0))                                      \
    ROW(row_shr_1, DPP(0x111, 15, 15, false), lane_of(in, row_shr(l, 1), -1))                                         \
    ROW(row_shr_15_zero, DPP(0x11f, 15, 15, true), lane_of(in, row_shr(l, 15), 0))                                    \
    ROW(row_ror_4, DPP(0x124, 15, 15, false), in[row_ror(l, 4)])                                                      \
    ROW(wave_shl_1, DPP(0x130, 15, 15, false), lane_of(in, l < 63 ? l + 1 : -1, -1))                                  \
    ROW(wave_rol_1, DPP(0x134, 15, 15, false), in[(l + 1) % 64])                                                      \
    ROW(wave_shr_1, DPP(0x138, 15, 15, false), lane_of(in, l - 1, -1))                                                \
    ROW(wave_ror_1, DPP(0x13c, 15, 15, false), in[(l + 63) % 64])                                                     \
    ROW(row_mirror, DPP(0x140, 15, 15, false), in[l ^ 15])                                                            \
    ROW(row_half_mirror, DPP(0x141, 15, 15, false), in[l ^ 7])                                                        \
    ROW(row_bcast_15, DPP(0x142, 15, 15, false), in[l < 16 ? l : (l & ~15) - 1])                                      \
    ROW(row_bcast_31, DPP(0x143, 15, 15, false), in[l < 32 ? l : 31])                                                 \
    ROW(masked_rows, DPP(0x111, 0xa, 15, false), l & 16 ? lane_of(in, row_shr(l, 1), -1) : -1)                        \
    ROW(masked_banks, DPP(0x124, 15, 0x5, false), l & 4 ? -1 : in[row_ror(l, 4)])                                     \
    ROW(swizzle_swap, SWIZZLE(0x041f), in[l ^ 1])                                                                     \
    ROW(swizzle_reverse, SWIZZLE(0x7c1f), in[l ^ 31])                                                                 \
    ROW(swizzle_broadcast, SWIZZLE(0x0018), in[l & ~7])                                                               \
    ROW(swizzle_quad, SWIZZLE(0x80b1), in[quad(l, 0xb1)])                                                             \
    ROW(swizzle_rotate_left, SWIZZLE(0xc0e0), in[(l & 32) | ((l + 7) & 31)])                                          \
    ROW(swizzle_rotate_right, SWIZZLE(0xc460), in[(l & 32) | ((l - 3) & 31)])                                         \
    ROW(swizzle_rotate_eights, SWIZZLE(0xc038), in[(l & ~7) | ((l + 1) & 7)])                                         \
    ROW(swizzle_fft, SWIZZLE(0xe000), in[(l & 32) | reversed(l)])                                                     \
    ROW(swizzle_fft_halves, SWIZZLE(0xe010), in[(l & 48) | (reversed(l & 15) >> 1)])                                  \
    ROW(readlane, __builtin_amdgcn_readlane(x, 37), in[37])                                                           \
    ROW(readfirstlane, __builtin_amdgcn_readfirstlane(x), in[0])                                                      \
    ROW(permute, __builtin_amdgcn_ds_permute(4 * (l * 5 % 64), x), in[l * 13 % 64])                                   \
    ROW(bpermute, __builtin_amdgcn_ds_bpermute(4 * (l * 5), x), in[l * 5 % 64])                                       \
    ROW(mbcnt, __builtin_amdgcn_mbcnt_hi(0xf0f0f0f0, __builtin_amdgcn_mbcnt_lo(0xff00ff00, 3)),                       \
        3 + __builtin_popcountll(0xf0f0f0f0ff00ff00ull & ((1ull << l) - 1)))                                          \
    ROW(shfl, __shfl(x, l * 3), in[l * 3 % 64])                                                                       \
    ROW(shfl_narrow, __shfl(x, (l + 5) % 16, 16), in[(l & ~15) | ((l + 5) & 15)])                                            \
    ROW(shfl_up, __shfl_up(x, 9), in[l < 9 ? l : l - 9])                                                              \
    ROW(shfl_down_narrow, __shfl_down(x, 3, 32), in[(l & 31) + 3 < 32 ? l + 3 : l])                                   \
    ROW(shfl_xor, __shfl_xor(x, 21), in[l ^ 21])                                                                      \
    ROW(shfl_long, int(__shfl((long long)x << 21, l ^ 1) >> 21), in[l ^ 1])                                           \
    ROW(shfl_double, int(__shfl_xor(x * 0.5, 32) * 2), in[l ^ 32])                                                    \
    ROW(ballot, int(__ballot(x > 0) >> l), int(positive(in) >> l))                                                    \
    ROW(any_and_all, __any(x == 0) + 2 * __all(x != 12345) + 4 * __all(x > 0), 2)                                     \
    ROW(active_lanes, l % 3 ? __popcll(__ballot(1)) : -__popcll(__ballot(x > 0)),                                     \
        l % 3 ? 42 : -__builtin_popcountll(positive(in) & 0x9249249249249249ull))                                     \
    ROW(divergent_first, l % 7 < 3 ? 0 : __builtin_amdgcn_readfirstlane(x), l % 7 < 3 ? 0 : in[3])

static unsigned long long positive(const Lanes& in) {
    unsigned long long mask = 0;
    for (int l = 0; l < LANES; ++l) mask |= (unsigned long long)(in[l] > 0) << l;
    return mask;
}

#define KERNEL(name, of_device, of_host)                       \
    __global__ void k_##name(const int* in, int* out) {  \
        int l = threadIdx.x, x = in[l];                  \
        out[l] = of_device;                                 \
    }
TABLE(KERNEL)

// A counter in LDS that is not the first word there.
__global__ void append(int* out) {
    __shared__ int counters[64];
    int l = threadIdx.x;
    counters[l] = 1000 * l;
    __syncthreads();
    int* counter = &counters[5];
    int old = __builtin_amdgcn_ds_append((__attribute__((address_space(3))) int*)counter);
    if (l & 1) old -= __builtin_amdgcn_ds_consume((__attribute__((address_space(3))) int*)counter);
    __syncthreads();
    out[l] = old;
    out[64 + l] = counters[l];
}

// Sums over a wave by DPP alone, as compilers and libraries write it; the last lane has the sum of all.
__global__ void dpp_scan(const int* in, int* out) {
    int x = in[blockIdx.x * 64 + threadIdx.x];
    x += __builtin_amdgcn_update_dpp(0, x, 0x111, 15, 15, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x112, 15, 15, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x114, 15, 15, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x118, 15, 15, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x142, 0xa, 15, false);
    x += __builtin_amdgcn_update_dpp(0, x, 0x143, 0xc, 15, false);
    out[blockIdx.x * 64 + threadIdx.x] = x;
}

// A float maximum over a wave, in which the compiler can merge the DPP moves into the operation.
__global__ void dpp_maximum(const float* in, float* out) {
    float x = in[threadIdx.x];
#define STEP(control) x = fmaxf(x, __int_as_float(__builtin_amdgcn_update_dpp(__float_as_int(x), __float_as_int(x), control, 15, 15, false)))
    STEP(0x111);
    STEP(0x112);
    STEP(0x114);
    STEP(0x118);
    STEP(0x142);
    STEP(0x143);
    if (threadIdx.x == 63) *out = x;
}

// A sum over a workgroup: shuffles within waves, LDS between them.
template <class T>
__global__ void block_sum(const T* in, T* out) {
    __shared__ T part[16];
    T x = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = 32; step > 0; step /= 2) x += __shfl_down(x, step);
    if (threadIdx.x % 64 == 0) part[threadIdx.x / 64] = x;
    __syncthreads();
    if (threadIdx.x == 0) {
        T sum = 0;
        for (unsigned w = 0; w < blockDim.x / 64; ++w) sum += part[w];
        out[blockIdx.x] = sum;
    }
}

template <class T>
void check_block_sums(const char* what) {
    std::vector<T> in(4 * 512), expected(4);
    for (size_t i = 0; i < in.size(); ++i) in[i] = T(i % 101) - 50, expected[i / 512] += in[i];
    Array<T> din(in), out(4);
    block_sum<T><<<4, 512>>>(din, out);
    expect_same(what, out.host(), expected);
}

int main() {
    std::mt19937 random(7);
    Lanes in = each([&](int) { return int(random() % 2000) - 999; });
    in[5] = -17;
    for (int& v : in) v += v == 0;
    Array<int> din(in), out(LANES);
#define RUN(name, of_device, of_host)           \
    k_##name<<<1, LANES>>>(din, out);     \
    expect_same(#name, out.host(), each([&](int l) { (void)l; return int(of_host); }));
    TABLE(RUN)

    Array<int> counted(128);
    append<<<1, 64>>>(counted);
    std::vector<int> counts(128);
    for (int l = 0; l < 64; ++l) counts[l] = l & 1 ? 5000 - 5064 : 5000, counts[64 + l] = 1000 * l + (l == 5 ? 32 : 0);
    expect_same("append and consume", counted.host(), counts);

    std::vector<int> many(256), sums(256);
    for (int i = 0; i < 256; ++i) many[i] = random() % 1000, sums[i] = many[i] + (i % 64 ? sums[i - 1] : 0);
    Array<int> dmany(many), dsums(256);
    dpp_scan<<<4, 64>>>(dmany, dsums);
    expect_same("scan by DPP", dsums.host(), sums);

    std::vector<float> floats(64);
    for (float& f : floats) f = float(random() % 5000) - 6000;
    Array<float> dfloats(floats), most(1);
    dpp_maximum<<<1, 64>>>(dfloats, most);
    expect_same("maximum by DPP", most.host(), {*std::max_element(floats.begin(), floats.end())});

    check_block_sums<int>("sums of int");
    check_block_sums<float>("sums of float");
    check_block_sums<double>("sums of double");
    check_block_sums<long long>("sums of long long");
    std::printf("PASS\n");
    return 0;
}
