// Floats of eight bits of gfx942: conversions of every code and around every boundary, products of matrices of them, and of sparse
// matrices. The host's side is computed here from the formats' names and the documented layout; where HIP has types of these formats, its
// conversions on the host are compared as well.
#if __has_include(<hip/hip_fp8.h>)
#include <hip/hip_fp8.h>
#define HAS_TYPES 1
#endif

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "check.h"

typedef float F4 __attribute__((ext_vector_type(4)));
typedef float F16 __attribute__((ext_vector_type(16)));
typedef int I2 __attribute__((ext_vector_type(2)));
typedef int I4 __attribute__((ext_vector_type(4)));
typedef int I16 __attribute__((ext_vector_type(16)));
typedef _Float16 H4 __attribute__((ext_vector_type(4)));
typedef _Float16 H8 __attribute__((ext_vector_type(8)));
typedef short S4 __attribute__((ext_vector_type(4)));
typedef short S8 __attribute__((ext_vector_type(8)));

#if defined(__gfx942__)
#define HERE 1
#else
#define HERE 0
#endif

// A format: mantissa bits. The exponent has the others, the bias is half of its range, and minus zero is NaN.
static float value(int mantissa, unsigned code) {
    if (code == 0x80) return NAN;
    int exponent = (code & 0x7f) >> mantissa, bias = 1 << (6 - mantissa);
    double digits = double(code & ((1 << mantissa) - 1)) / (1 << mantissa) + (exponent ? 1 : 0);
    double magnitude = std::ldexp(digits, std::max(exponent, 1) - bias);
    return float(code & 0x80 ? -magnitude : magnitude);
}

// The code of the nearest value; of two, the even one. As if there were one more value above the largest, which is NaN or the largest.
static unsigned nearest(int mantissa, float x, bool saturates) {
    if (std::isnan(x)) return 0x80;
    unsigned sign = std::signbit(x) ? 0x80 : 0, too_large = saturates ? 0x7f | sign : 0x80;
    double magnitude = std::fabs(x), above = mantissa == 3 ? 256 : 65536;
    if (magnitude >= above) return too_large;
    unsigned low = 0;
    while (low < 0x7f && value(mantissa, low + 1) <= magnitude) ++low;
    double bottom = value(mantissa, low), top = low == 0x7f ? above : value(mantissa, low + 1);
    bool up = magnitude - bottom > top - magnitude || (magnitude - bottom == top - magnitude && low & 1);
    unsigned code = low + up;
    if (code > 0x7f) return too_large;
    return code ? code | sign : 0;
}

// What the emulated GPU is asked for, with everything that chooses a part of a register.
enum { WIDE = 12, NARROW = 8 };

__global__ void widen(const unsigned* words, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float* o = out + i * WIDE * 2;
    (void)o;
#if HERE
    unsigned w = words[i];
#define FORMAT(f)                                               \
    o[0] = __builtin_amdgcn_cvt_f32_##f(w, 0);                  \
    o[1] = __builtin_amdgcn_cvt_f32_##f(w, 1);                  \
    o[2] = __builtin_amdgcn_cvt_f32_##f(w, 2);                  \
    o[3] = __builtin_amdgcn_cvt_f32_##f(w, 3);                  \
    {                                                           \
        auto low = __builtin_amdgcn_cvt_pk_f32_##f(w, false);   \
        auto high = __builtin_amdgcn_cvt_pk_f32_##f(w, true);   \
        o[4] = low[0], o[5] = low[1], o[6] = high[0], o[7] = high[1]; \
    }                                                           \
    o[8] = fminf(fmaxf(__builtin_amdgcn_cvt_f32_##f(w, 0), 0.0f), 1.0f); \
    o[9] = __shfl_xor(__builtin_amdgcn_cvt_f32_##f(w, 2), 1);   \
    o += WIDE;
    FORMAT(fp8)
    FORMAT(bf8)
#undef FORMAT
#endif
}

__global__ void narrow(const float* a, const float* b, const unsigned* seeds, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned* o = out + i * NARROW * 2;
    (void)o;
#if HERE
    float x = a[i], y = b[i];
    int old = 0x11223344, seed = seeds[i];
#define FORMAT(f)                                               \
    o[0] = __builtin_amdgcn_cvt_pk_##f##_f32(x, y, old, false); \
    o[1] = __builtin_amdgcn_cvt_pk_##f##_f32(-y, fabsf(x), old, true); \
    o[2] = __builtin_amdgcn_cvt_sr_##f##_f32(x, seed, old, 0);  \
    o[3] = __builtin_amdgcn_cvt_sr_##f##_f32(y, seed, old, 1);  \
    o[4] = __builtin_amdgcn_cvt_sr_##f##_f32(-x, seed, old, 2); \
    o[5] = __builtin_amdgcn_cvt_sr_##f##_f32(y, ~seed, old, 3); \
    /* MODE.FP16_OVFL: what is too large is the largest. */     \
    asm volatile("v_mov_b32 %0, 0\n\tv_mov_b32 %1, 0\n\ts_nop 1\n\ts_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n\ts_nop 1\n\t" \
                 "v_cvt_pk_" #f "_f32 %0, %2, %3\n\tv_cvt_sr_" #f "_f32 %1, %2, %4\n\t" \
                 "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 0" \
                 : "=&v"(o[6]), "=&v"(o[7]) : "v"(x), "v"(y), "v"(0)); \
    o += NARROW;
    FORMAT(fp8)
    FORMAT(bf8)
#undef FORMAT
#endif
}

static const int MANTISSA[2] = {3, 2};

static bool same(float a, float b) { return std::memcmp(&a, &b, 4) == 0 || (std::isnan(a) && std::isnan(b)); }

static void check_widening() {
    std::vector<unsigned> words(256);
    for (unsigned i = 0; i < 256; ++i) words[i] = i | (i * 7 + 1 & 255) << 8 | (255 - i) << 16 | (i * 31 + 128 & 255) << 24;
    Array<unsigned> d(words);
    Array<float> out(256 * WIDE * 2);
    widen<<<1, 256>>>(d, out, 256);
    std::vector<float> got = out.host();
    for (unsigned i = 0; i < 256; ++i) {
        for (int f = 0; f < 2; ++f) {
            const float* o = &got[(i * 2 + f) * WIDE];
            float v[4];
            for (int n = 0; n < 4; ++n) v[n] = value(MANTISSA[f], words[i] >> 8 * n & 255);
            for (int n = 0; n < 8; ++n) EXPECT(same(o[n], v[n % 4]), "code %#x of word %#x is %g, expected %g", words[i] >> 8 * (n % 4) & 255, words[i], o[n], v[n % 4]);
            float clamped = std::isnan(v[0]) ? 0 : std::min(std::max(v[0], 0.0f), 1.0f);
            EXPECT(same(o[8], clamped), "code %#x between 0 and 1 is %g, expected %g", i, o[8], clamped);
            float other = value(MANTISSA[f], words[i ^ 1] >> 16 & 255);
            EXPECT(same(o[9], other), "the neighbour of %u is %g, expected %g", i, o[9], other);
#if HAS_TYPES
            float hip = internal::cast_from_f8<float, true>(i, MANTISSA[f], 7 - MANTISSA[f]);
            EXPECT(same(o[0], hip), "code %#x is %g, HIP says %g", i, o[0], hip);
#endif
        }
    }
    std::printf("every code is the float that its format says\n");
}

// A number that lies between two values is one of them: the upper one if the random bits carry.
static unsigned stochastic(int mantissa, float x, unsigned seed, bool saturates) {
    if (std::isnan(x)) return 0x80;
    unsigned sign = std::signbit(x) ? 0x80 : 0, too_large = saturates ? 0x7f | sign : 0x80;
    double magnitude = std::fabs(x);
    if (magnitude >= (mantissa == 3 ? 256 : 65536)) return too_large;
    unsigned low = 0;
    while (low < 0x7f && value(mantissa, low + 1) <= magnitude) ++low;
    double bottom = value(mantissa, low), top = low == 0x7f ? (mantissa == 3 ? 256 : 65536) : value(mantissa, low + 1);
    // As many bits as the mantissa loses.
    double steps = std::ldexp(1, 23 - mantissa);
    double place = std::floor((magnitude - bottom) / (top - bottom) * steps);
    unsigned code = low + (place + (seed >> (9 + mantissa)) >= steps);
    if (code > 0x7f) return too_large;
    return code ? code | sign : 0;
}

static void check_narrowing() {
    std::vector<float> values;
    for (int mantissa : MANTISSA) {
        for (unsigned low = 0; low <= 0x7f; ++low) {
            float bottom = value(mantissa, low), top = low == 0x7f ? (mantissa == 3 ? 256 : 65536) : value(mantissa, low + 1);
            float middle = (bottom + top) / 2;
            for (float v : {bottom, std::nextafter(bottom, top), std::nextafter(middle, bottom), middle, std::nextafter(middle, top), std::nextafter(top, bottom)}) {
                values.push_back(v);
                values.push_back(-v);
            }
        }
    }
    for (float v : {INFINITY, -INFINITY, NAN, 1e30f, -1e-30f, 1e-45f, -0.0f, 300.0f, -70000.0f}) values.push_back(v);
    std::mt19937 random(5);
    while (values.size() % 256 || values.size() < 8192) {
        unsigned bits = random(), exponent = 127 - 22 + random() % 44;
        bits = (bits & 0x807fffff) | exponent << 23;
        float v;
        std::memcpy(&v, &bits, 4);
        values.push_back(v);
    }
    const int n = int(values.size());
    std::vector<float> others(n);
    std::vector<unsigned> seeds(n);
    for (int i = 0; i < n; ++i) others[i] = values[(i * 173 + 11) % n], seeds[i] = random();
    Array<float> a(values), b(others);
    Array<unsigned> s(seeds), out(size_t(n) * NARROW * 2);
    narrow<<<n / 256, 256>>>(a, b, s, out, n);
    std::vector<unsigned> got = out.host();
    const unsigned old = 0x11223344;
    for (int i = 0; i < n; ++i) {
        for (int f = 0; f < 2; ++f) {
            const int m = MANTISSA[f];
            const unsigned* o = &got[(i * 2 + f) * NARROW];
            const float x = values[i], y = others[i];
            const unsigned expected[NARROW] = {
                (old & 0xffff0000) | nearest(m, x, false) | nearest(m, y, false) << 8,
                (old & 0xffff) | nearest(m, -y, false) << 16 | nearest(m, std::fabs(x), false) << 24,
                (old & 0xffffff00) | stochastic(m, x, seeds[i], false),
                (old & 0xffff00ff) | stochastic(m, y, seeds[i], false) << 8,
                (old & 0xff00ffff) | stochastic(m, -x, seeds[i], false) << 16,
                (old & 0x00ffffff) | stochastic(m, y, ~seeds[i], false) << 24,
                nearest(m, x, true) | nearest(m, y, true) << 8,
                stochastic(m, x, 0, true),
            };
            for (int k = 0; k < NARROW; ++k) EXPECT(o[k] == expected[k], "conversion %d with %d bits of %a, %a, %#x: %#x, expected %#x", k, m, x, y, seeds[i], o[k], expected[k]);
#if HAS_TYPES
            // HIP takes no more than the largest value unless it saturates, and makes the largest of NaN; its random bits are the lower ones.
            if (std::isfinite(x)) {
                unsigned hip = __hip_cvt_float_to_fp8(x, __HIP_SATFINITE, m == 3 ? __HIP_E4M3_FNUZ : __HIP_E5M2_FNUZ);
                EXPECT((o[6] & 255) == hip, "%a saturates to %#x, HIP says %#x", x, o[6] & 255, hip);
            }
            if (std::fabs(x) <= value(m, 0x7f)) {
                unsigned hip = internal::cast_to_f8<float, true>(x, m, 7 - m, false, true, seeds[i] >> (9 + m));
                EXPECT((o[2] & 255) == hip, "%a with %#x is %#x, HIP says %#x", x, seeds[i], o[2] & 255, hip);
            }
#endif
        }
    }
    std::printf("%d floats are rounded as their formats say\n", n);
}

// Types of elements: bits, and codes of whole numbers and quarters.
enum Type { HALF, BFLOAT, BYTE, FP8, BF8 };
static int bits_of(Type type) { return type == HALF || type == BFLOAT ? 16 : 8; }
static unsigned code_of(Type type, int number) {
    float v = number;
    unsigned bits;
    _Float16 half = v;
    std::memcpy(&bits, &v, 4);
    switch (type) {
        case HALF: std::memcpy(&bits, &half, 2); return bits & 0xffff;
        case BFLOAT: return bits >> 16;
        case BYTE: return unsigned(number) & 255;
        case FP8: return nearest(3, v, false);
        default: return nearest(2, v, false);
    }
}

// One instruction: what a lane's shares are, and the builtin.
#define DENSE(shape, types, Sum)                                                                               \
    __global__ void dense_##shape##_##types(const long* a, const long* b, const int*, const Sum* c, Sum* d) { \
        int l = threadIdx.x;                                                                                   \
        (void)l;                                                                                               \
        CALL(d[l] = __builtin_amdgcn_mfma_f32_##shape##_##types(a[l], b[l], c[l], 0, 0, 0))                    \
    }
#define SPARSE(sum, shape, types, A, B, Sum)                                                                  \
    template <int CBSZ, int ABID>                                                                             \
    __global__ void sparse_##shape##_##types(const A* a, const B* b, const int* places, const Sum* c, Sum* d) { \
        int l = threadIdx.x;                                                                                  \
        (void)l;                                                                                              \
        CALL(d[l] = __builtin_amdgcn_smfmac_##sum##_##shape##_##types(a[l], b[l], c[l], places[l], CBSZ, ABID)) \
    }
#if HERE
#define CALL(statement) statement;
#else
#define CALL(statement)
#endif
DENSE(16x16x32, bf8_bf8, F4)
DENSE(16x16x32, bf8_fp8, F4)
DENSE(16x16x32, fp8_bf8, F4)
DENSE(16x16x32, fp8_fp8, F4)
DENSE(32x32x16, bf8_bf8, F16)
DENSE(32x32x16, bf8_fp8, F16)
DENSE(32x32x16, fp8_bf8, F16)
DENSE(32x32x16, fp8_fp8, F16)
SPARSE(f32, 16x16x32, f16, H4, H8, F4)
SPARSE(f32, 32x32x16, f16, H4, H8, F16)
SPARSE(f32, 16x16x32, bf16, S4, S8, F4)
SPARSE(f32, 32x32x16, bf16, S4, S8, F16)
SPARSE(i32, 16x16x64, i8, I2, I4, I4)
SPARSE(i32, 32x32x32, i8, I2, I4, I16)
SPARSE(f32, 16x16x64, bf8_bf8, I2, I4, F4)
SPARSE(f32, 16x16x64, bf8_fp8, I2, I4, F4)
SPARSE(f32, 16x16x64, fp8_bf8, I2, I4, F4)
SPARSE(f32, 16x16x64, fp8_fp8, I2, I4, F4)
SPARSE(f32, 32x32x32, bf8_bf8, I2, I4, F16)
SPARSE(f32, 32x32x32, bf8_fp8, I2, I4, F16)
SPARSE(f32, 32x32x32, fp8_bf8, I2, I4, F16)
SPARSE(f32, 32x32x32, fp8_fp8, I2, I4, F16)

// A product of matrices `size` x `depth` and back, as the host sums it. Lane l has row (column) l % size of the factors, and of the
// depth as many elements as a lane's share has, from l / size of these on. Of a sparse factor a lane has two of every four, and their
// places: two bits each, from bit `first` of its register on.
template <class A, class B, class Sum, class Number>
static void check_product(const char* name, void (*kernel)(const A*, const B*, const int*, const Sum*, Sum*), int size, int depth, Type first, Type second, bool sparse, int set, std::mt19937& random) {
    const int share = depth * size / 64, given = sparse ? share / 2 : share, results = size * size / 64;
    std::vector<std::vector<int>> a(size, std::vector<int>(depth)), b(depth, std::vector<int>(size)), c(size, std::vector<int>(size));
    std::vector<unsigned> a_words(64 * sizeof(A) / 4), b_words(64 * sizeof(B) / 4);
    std::vector<int> places(64);
    auto put = [](std::vector<unsigned>& words, size_t lane_words, int lane, int at, Type type, int number) {
        int in_word = 32 / bits_of(type);
        words[lane * lane_words + at / in_word] |= code_of(type, number) << (at % in_word * bits_of(type));
    };
    for (int l = 0; l < 64; ++l) {
        unsigned chosen = random();
        for (int at = 0; at < given; ++at) {
            int number = int(random() % 15) - 7, k = l / size * share + at;
            if (sparse) {
                static const int PAIRS[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
                // Which pair of places is from the lane and the group.
                int place = PAIRS[(l * 5 + at / 2 * 7 + set) % 6][at % 2], shift = set * 2 * given + 2 * at;
                chosen = (chosen & ~(3u << shift)) | unsigned(place) << shift;
                k = l / size * share + at / 2 * 4 + place;
            }
            a[l % size][k] = number;
            put(a_words, sizeof(A) / 4, l, at, first, number);
        }
        places[l] = int(chosen);
        for (int at = 0; at < share; ++at) {
            int number = int(random() % 15) - 7;
            b[l / size * share + at][l % size] = number;
            put(b_words, sizeof(B) / 4, l, at, second, number);
        }
    }
    std::vector<Number> sums(64 * results), expected(64 * results);
    for (int l = 0; l < 64; ++l) {
        for (int r = 0; r < results; ++r) {
            int row = 8 * (r / 4) + 4 * (l / size) + r % 4, column = l % size;
            Number sum = sums[l * results + r] = Number(int(random() % 1000) - 500);
            for (int k = 0; k < depth; ++k) sum += Number(a[row][k] * b[k][column]);
            expected[l * results + r] = sum;
        }
    }
    Array<unsigned> da(a_words), db(b_words);
    Array<int> dp(places);
    Array<Number> dc(sums), dd(sums.size());
    kernel<<<1, 64>>>((const A*)(unsigned*)da, (const B*)(unsigned*)db, dp, (const Sum*)(Number*)dc, (Sum*)(Number*)dd);
    expect_same(name, dd.host(), expected);
}

__global__ void has_small_floats(int* yes) { *yes = HERE; }

int main() {
    Array<int> yes(1);
    has_small_floats<<<1, 1>>>(yes);
    if (!yes.host()[0]) {
        std::printf("this processor has no floats of eight bits\nPASS\n");
        return 0;
    }
    check_widening();
    check_narrowing();
    std::mt19937 random(9);
#define RUN_DENSE(shape, types, Sum, size, depth, first, second) \
    check_product<long, long, Sum, float>("mfma " #shape " " #types, dense_##shape##_##types, size, depth, first, second, false, 0, random);
    RUN_DENSE(16x16x32, bf8_bf8, F4, 16, 32, BF8, BF8)
    RUN_DENSE(16x16x32, bf8_fp8, F4, 16, 32, BF8, FP8)
    RUN_DENSE(16x16x32, fp8_bf8, F4, 16, 32, FP8, BF8)
    RUN_DENSE(16x16x32, fp8_fp8, F4, 16, 32, FP8, FP8)
    RUN_DENSE(32x32x16, bf8_bf8, F16, 32, 16, BF8, BF8)
    RUN_DENSE(32x32x16, bf8_fp8, F16, 32, 16, BF8, FP8)
    RUN_DENSE(32x32x16, fp8_bf8, F16, 32, 16, FP8, BF8)
    RUN_DENSE(32x32x16, fp8_fp8, F16, 32, 16, FP8, FP8)
    // CBSZ other than zero: the first set of places, whatever ABID is.
#define RUN_SPARSE(shape, types, A, B, Sum, Number, size, depth, first, second)                                                        \
    check_product<A, B, Sum, Number>("smfmac " #shape " " #types ", set 0", sparse_##shape##_##types<0, 0>, size, depth, first, second, true, 0, random); \
    check_product<A, B, Sum, Number>("smfmac " #shape " " #types ", set 1", sparse_##shape##_##types<0, 1>, size, depth, first, second, true, 1, random); \
    check_product<A, B, Sum, Number>("smfmac " #shape " " #types ", first", sparse_##shape##_##types<1, 1>, size, depth, first, second, true, 0, random);
    RUN_SPARSE(16x16x32, f16, H4, H8, F4, float, 16, 32, HALF, HALF)
    RUN_SPARSE(32x32x16, f16, H4, H8, F16, float, 32, 16, HALF, HALF)
    RUN_SPARSE(16x16x32, bf16, S4, S8, F4, float, 16, 32, BFLOAT, BFLOAT)
    RUN_SPARSE(32x32x16, bf16, S4, S8, F16, float, 32, 16, BFLOAT, BFLOAT)
    RUN_SPARSE(16x16x64, i8, I2, I4, I4, int, 16, 64, BYTE, BYTE)
    RUN_SPARSE(32x32x32, i8, I2, I4, I16, int, 32, 32, BYTE, BYTE)
    RUN_SPARSE(16x16x64, bf8_bf8, I2, I4, F4, float, 16, 64, BF8, BF8)
    RUN_SPARSE(16x16x64, bf8_fp8, I2, I4, F4, float, 16, 64, BF8, FP8)
    RUN_SPARSE(16x16x64, fp8_bf8, I2, I4, F4, float, 16, 64, FP8, BF8)
    RUN_SPARSE(16x16x64, fp8_fp8, I2, I4, F4, float, 16, 64, FP8, FP8)
    RUN_SPARSE(32x32x32, bf8_bf8, I2, I4, F16, float, 32, 32, BF8, BF8)
    RUN_SPARSE(32x32x32, bf8_fp8, I2, I4, F16, float, 32, 32, BF8, FP8)
    RUN_SPARSE(32x32x32, fp8_bf8, I2, I4, F16, float, 32, 32, FP8, BF8)
    RUN_SPARSE(32x32x32, fp8_fp8, I2, I4, F16, float, 32, 32, FP8, FP8)
    std::printf("PASS\n");
    return 0;
}
