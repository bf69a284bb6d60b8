// Matrix instructions of gfx908 and gfx90a: every shape against sums of products on the host.
// The places of the elements are computed here from the documented layout, of which the shape is the only parameter.
#include <cmath>

#include "check.h"

typedef float F4 __attribute__((ext_vector_type(4)));
typedef float F16 __attribute__((ext_vector_type(16)));
typedef float F32 __attribute__((ext_vector_type(32)));
typedef int I4 __attribute__((ext_vector_type(4)));
typedef int I16 __attribute__((ext_vector_type(16)));
typedef int I32 __attribute__((ext_vector_type(32)));
typedef double D4 __attribute__((ext_vector_type(4)));
typedef _Float16 H4 __attribute__((ext_vector_type(4)));
typedef short S2 __attribute__((ext_vector_type(2)));
typedef short S4 __attribute__((ext_vector_type(4)));

// Rows: builtin, processor's feature, type of a lane's share of the factors, element, values in the share,
// the result's share, its element, rows and columns, products, blocks.
#define TABLE(ROW)                                                          \
    ROW(f32_32x32x1f32, float, float, 1, F32, float, 32, 1, 2)              \
    ROW(f32_16x16x1f32, float, float, 1, F16, float, 16, 1, 4)              \
    ROW(f32_4x4x1f32, float, float, 1, F4, float, 4, 1, 16)                 \
    ROW(f32_32x32x2f32, float, float, 1, F16, float, 32, 2, 1)              \
    ROW(f32_16x16x4f32, float, float, 1, F4, float, 16, 4, 1)               \
    ROW(f32_32x32x4f16, H4, _Float16, 4, F32, float, 32, 4, 2)              \
    ROW(f32_16x16x4f16, H4, _Float16, 4, F16, float, 16, 4, 4)              \
    ROW(f32_4x4x4f16, H4, _Float16, 4, F4, float, 4, 4, 16)                 \
    ROW(f32_32x32x8f16, H4, _Float16, 4, F16, float, 32, 8, 1)              \
    ROW(f32_16x16x16f16, H4, _Float16, 4, F4, float, 16, 16, 1)             \
    ROW(f32_32x32x2bf16, S2, short, 2, F32, float, 32, 2, 2)                \
    ROW(f32_16x16x2bf16, S2, short, 2, F16, float, 16, 2, 4)                \
    ROW(f32_4x4x2bf16, S2, short, 2, F4, float, 4, 2, 16)                   \
    ROW(f32_32x32x4bf16, S2, short, 2, F16, float, 32, 4, 1)                \
    ROW(f32_16x16x8bf16, S2, short, 2, F4, float, 16, 8, 1)                 \
    ROW(f32_32x32x4bf16_1k, S4, short, 4, F32, float, 32, 4, 2)             \
    ROW(f32_16x16x4bf16_1k, S4, short, 4, F16, float, 16, 4, 4)             \
    ROW(f32_4x4x4bf16_1k, S4, short, 4, F4, float, 4, 4, 16)                \
    ROW(f32_32x32x8bf16_1k, S4, short, 4, F16, float, 32, 8, 1)             \
    ROW(f32_16x16x16bf16_1k, S4, short, 4, F4, float, 16, 16, 1)            \
    ROW(i32_32x32x4i8, int, signed char, 4, I32, int, 32, 4, 2)             \
    ROW(i32_16x16x4i8, int, signed char, 4, I16, int, 16, 4, 4)             \
    ROW(i32_4x4x4i8, int, signed char, 4, I4, int, 4, 4, 16)                \
    ROW(i32_32x32x8i8, int, signed char, 4, I16, int, 32, 8, 1)             \
    ROW(i32_16x16x16i8, int, signed char, 4, I4, int, 16, 16, 1)            \
    ROW(f64_16x16x4f64, double, double, 1, D4, double, 16, 4, 1)            \
    ROW(f64_4x4x4f64, double, double, 1, double, double, 4, 4, 4)

#if defined(__gfx90a__)
#define MFMA(name, a, b, c) __builtin_amdgcn_mfma_##name(a, b, c, 0, 0, 0)
#else
#define MFMA(name, a, b, c) c
#endif

#define KERNEL(name, Share, Element, per, Result, Sum, size, products, blocks)             \
    __global__ void k_##name(const Share* a, const Share* b, const Result* c, Result* d) { \
        int l = threadIdx.x;                                                               \
        Result r = MFMA(name, a[l], b[l], c[l]);                                           \
        d[l] = MFMA(name, b[l], a[l], r);                                                  \
    }
TABLE(KERNEL)

// Broadcasts and rearrangements of the first factor and of the second.
__global__ void modifiers(const float* a, const float* b, F4* d) {
    int l = threadIdx.x;
    (void)l;
#if defined(__gfx90a__)
    F4 zero = {0, 0, 0, 0};
    d[l] = __builtin_amdgcn_mfma_f32_4x4x1f32(a[l], b[l], zero, 4, 3, 0);
    d[64 + l] = __builtin_amdgcn_mfma_f32_4x4x1f32(a[l], b[l], zero, 0, 0, 1);
    d[128 + l] = __builtin_amdgcn_mfma_f32_4x4x1f32(a[l], b[l], zero, 0, 0, 4);
#endif
}

__global__ void has_matrices(int* yes) {
#if defined(__gfx90a__)
    *yes = 1;
#else
    *yes = 0;
#endif
}

static float value(float v) { return v; }
static double value(double v) { return v; }
static int value(signed char v) { return v; }
static float value(_Float16 v) { return v; }
static float value(short bf16) {
    unsigned bits = unsigned((unsigned short)bf16) << 16;
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}
static void set(float& e, int v) { e = v; }
static void set(double& e, int v) { e = v * 0.125; }
static void set(signed char& e, int v) { e = v * 9; }
static void set(_Float16& e, int v) { e = v * 0.25f; }
static void set(short& e, int v) {
    float f = v;
    unsigned bits;
    std::memcpy(&bits, &f, 4);
    e = short(bits >> 16);
}

// Element `k` of row `i` of the first factor (or of column `i` of the second) of block `n` is value k % per of lane
// i + size * (n + blocks * (k / per)).
template <class Element>
auto factor(const std::vector<Element>& f, int size, int per, int blocks, int n, int i, int k) -> decltype(value(Element())) {
    return value(f[(i + size * (n + blocks * (k / per))) * per + k % per]);
}

// Where result (i, j) of block `n` is: the value's number and the lane. Values lie in groups of `height` rows; the groups
// go round the lanes, then the rest of the registers. With 4 x 4 results a block has its own lanes.
static void place(int size, int height, int n, int i, int j, int results, int blocks, int* number, int* lane) {
    if (size == 4 && height == 4) {
        *number = i, *lane = 4 * n + j;
    } else if (size == 4) {
        *number = 0, *lane = 16 * i + 4 * n + j;
    } else {
        int groups = 64 / size;
        *number = i % height + height * (i / height / groups) + n * (results / blocks);
        *lane = j + size * (i / height % groups);
    }
}

template <class Share, class Element, class Result, class Sum>
void check(const char* name, void (*kernel)(const Share*, const Share*, const Result*, Result*), int size, int products, int per, int blocks) {
    const int results = sizeof(Result) / sizeof(Sum);
    // Doubles lie row by row, all others in fours.
    const int height = sizeof(Sum) == 8 ? 1 : 4;
    std::vector<Element> a(64 * per), b(64 * per);
    std::vector<Sum> c(64 * results), expected(64 * results);
    for (size_t i = 0; i < a.size(); ++i) set(a[i], int(i * 7 % 15) - 7), set(b[i], int(i * 11 % 13) - 6);
    for (size_t i = 0; i < c.size(); ++i) c[i] = Sum(int(i * 5 % 31) - 15);
    for (int n = 0; n < blocks; ++n) {
        for (int i = 0; i < size; ++i) {
            for (int j = 0; j < size; ++j) {
                int number, lane;
                place(size, height, n, i, j, results, blocks, &number, &lane);
                Sum sum = c[lane * results + number];
                for (int k = 0; k < products; ++k) {
                    sum += Sum(factor(a, size, per, blocks, n, i, k)) * Sum(factor(b, size, per, blocks, n, j, k));
                    sum += Sum(factor(b, size, per, blocks, n, i, k)) * Sum(factor(a, size, per, blocks, n, j, k));
                }
                expected[lane * results + number] = sum;
            }
        }
    }
    Array<Element> da(a), db(b);
    Array<Sum> dc(c), dd(c.size());
    kernel<<<1, 64>>>((const Share*)(Element*)da, (const Share*)(Element*)db, (const Result*)(Sum*)dc, (Result*)(Sum*)dd);
    expect_same(name, dd.host(), expected);
}

int main() {
    Array<int> yes(1);
    has_matrices<<<1, 1>>>(yes);
    if (!yes.host()[0]) {
        std::printf("this processor has no matrix instructions\nPASS\n");
        return 0;
    }
#define RUN(name, Share, Element, per, Result, Sum, size, products, blocks) \
    check<Share, Element, Result, Sum>(#name, k_##name, size, products, per, blocks);
    TABLE(RUN)

    std::vector<float> a(64), b(64), expected(3 * 256);
    for (int i = 0; i < 64; ++i) a[i] = i + 1, b[i] = 100 - 3 * i;
    for (int l = 0; l < 64; ++l) {
        for (int r = 0; r < 4; ++r) {
            // All 16 blocks take block 3's first factor; the first 32, and the first 16, lanes' second factor is everyone's.
            expected[l * 4 + r] = a[4 * 3 + r] * b[l];
            expected[256 + l * 4 + r] = a[l / 4 * 4 + r] * b[l % 32];
            expected[512 + l * 4 + r] = a[l / 4 * 4 + r] * b[l % 16];
        }
    }
    Array<float> da(a), db(b), dd(3 * 256);
    modifiers<<<1, 64>>>(da, db, (F4*)(float*)dd);
    expect_same("broadcasts of the factors", dd.host(), expected);
    std::printf("PASS\n");
    return 0;
}
