// Products of matrices of floats of eight, six and four bits on gfx950, with a scale for every 32 elements: whole products of packed
// matrices, in both shapes of the instruction and in pairs of formats. The host's side is computed here from the formats' names.
#include <cmath>
#include <random>

#include "check.h"

typedef float F4 __attribute__((ext_vector_type(4)));
typedef float F16 __attribute__((ext_vector_type(16)));
typedef int I8 __attribute__((ext_vector_type(8)));

#if defined(__gfx950__)
#define HERE 1
#else
#define HERE 0
#endif

// Numbers of the formats in the instruction's fields: FP8, BF8, FP6, BF6, FP4.
enum { FP8, BF8, FP6, BF6, FP4 };
static const int EXPONENT[] = {4, 5, 2, 3, 2}, MANTISSA[] = {3, 2, 3, 2, 1};
constexpr __host__ __device__ int bits_of(int format) { return format < FP6 ? 8 : format < FP4 ? 6 : 4; }

// Rows and columns; how many products each result has; those of one instruction in the shape with 16 and with 32 rows.
enum { SIZE = 64, DEPTH = 512, BLOCK = 32, BLOCKS = DEPTH / BLOCK };

// A lane's share of a factor: 32 elements of its row, from packed bytes. Those of eight bits are in two runs.
template <int format, int rows>
__device__ I8 share(const unsigned char* matrix, int row, int first, int group) {
    I8 words = {0, 0, 0, 0, 0, 0, 0, 0};
    const int* start = (const int*)(matrix + row * (DEPTH * bits_of(format) / 8));
    if (bits_of(format) == 8) {
        const int groups = 64 / rows;
        for (int n = 0; n < 8; ++n) words[n] = start[(first + n / 4 * 16 * groups + 16 * group) / 4 + n % 4];
    } else {
        for (int n = 0; n < bits_of(format); ++n) words[n] = start[(first + BLOCK * group) * bits_of(format) / 32 + n];
    }
    return words;
}

// The scales of four steps of a lane, a byte for each.
__device__ int four_scales(const unsigned char* scales, int row, int first, int group, int step) {
    int word = 0;
    for (int n = 0; n < 4; ++n) word |= scales[row * BLOCKS + (first + n * step) / BLOCK + group] << 8 * n;
    return word;
}

#if HERE
#define STEP16(n) sum = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(share<fa, 16>(a, row, k + n * 128, group), share<fb, 16>(b, column, k + n * 128, group), sum, fa, fb, n, sa, n, sb)
#define STEP32(n) sum = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(share<fa, 32>(a, row, k + n * 64, group), share<fb, 32>(b, column, k + n * 64, group), sum, fa, fb, n, sa, n, sb)
#else
#define STEP16(n) (void)sa, (void)sb
#define STEP32(n) (void)sa, (void)sb
#endif

// A wave has a tile of results. The second factor is given by columns.
template <int fa, int fb>
__global__ void tiles_of_16(const unsigned char* a, const unsigned char* b, const unsigned char* as, const unsigned char* bs, float* c) {
    const int lane = threadIdx.x, group = lane / 16, row = blockIdx.y * 16 + lane % 16, column = blockIdx.x * 16 + lane % 16;
    F4 sum = {0, 0, 0, 0};
    for (int k = 0; k < DEPTH; k += 4 * 128) {
        int sa = four_scales(as, row, k, group, 128), sb = four_scales(bs, column, k, group, 128);
        STEP16(0);
        STEP16(1);
        STEP16(2);
        STEP16(3);
    }
    for (int r = 0; r < 4; ++r) c[(blockIdx.y * 16 + 4 * group + r) * SIZE + column] = sum[r];
}

template <int fa, int fb>
__global__ void tiles_of_32(const unsigned char* a, const unsigned char* b, const unsigned char* as, const unsigned char* bs, float* c) {
    const int lane = threadIdx.x, group = lane / 32, row = blockIdx.y * 32 + lane % 32, column = blockIdx.x * 32 + lane % 32;
    F16 sum = {0};
    for (int k = 0; k < DEPTH; k += 4 * 64) {
        int sa = four_scales(as, row, k, group, 64), sb = four_scales(bs, column, k, group, 64);
        STEP32(0);
        STEP32(1);
        STEP32(2);
        STEP32(3);
    }
    for (int r = 0; r < 16; ++r) c[(blockIdx.y * 32 + r / 4 * 8 + 4 * group + r % 4) * SIZE + column] = sum[r];
}

__global__ void has_products(int* yes) { *yes = HERE; }

static double value(int format, unsigned code) {
    const int exponent = EXPONENT[format], mantissa = MANTISSA[format], bias = (1 << (exponent - 1)) - 1;
    const int field = code >> mantissa & ((1 << exponent) - 1);
    const double digits = double(code & ((1 << mantissa) - 1)) / (1 << mantissa) + (field ? 1 : 0);
    const double magnitude = std::ldexp(digits, (field ? field : 1) - bias);
    return code >> (exponent + mantissa) & 1 ? -magnitude : magnitude;
}

// The codes that are numbers.
static bool is_number(int format, unsigned code) {
    return format == FP8 ? (code & 0x7f) != 0x7f : format == BF8 ? (code & 0x7f) < 0x7c : true;
}

struct Matrix {
    int format;
    std::vector<double> values;
    std::vector<unsigned char> packed, scales;

    Matrix(int format, std::mt19937& random) : format(format), values(SIZE * DEPTH), packed(SIZE * DEPTH * bits_of(format) / 8), scales(SIZE * BLOCKS) {
        const int bits = bits_of(format);
        for (auto& scale : scales) scale = 120 + random() % 15;
        for (int n = 0; n < SIZE * DEPTH; ++n) {
            unsigned code;
            do code = random() & ((1 << bits) - 1);
            while (!is_number(format, code));
            for (int bit = 0; bit < bits; ++bit) packed[(n * bits + bit) / 8] |= (code >> bit & 1) << (n * bits + bit) % 8;
            values[n] = std::ldexp(value(format, code), scales[n / BLOCK] - 127);
        }
    }
};

template <int fa, int fb>
static void check() {
    std::mt19937 random(fa * 5 + fb + 1);
    Matrix a(fa, random), b(fb, random);
    Array<unsigned char> da(a.packed), db(b.packed), as(a.scales), bs(b.scales);
    Array<float> small(SIZE * SIZE), large(SIZE * SIZE);
    tiles_of_16<fa, fb><<<dim3(SIZE / 16, SIZE / 16), 64>>>(da, db, as, bs, small);
    tiles_of_32<fa, fb><<<dim3(SIZE / 32, SIZE / 32), 64>>>(da, db, as, bs, large);
    const std::vector<float> got[] = {small.host(), large.host()};
    for (int i = 0; i < SIZE; ++i) {
        for (int j = 0; j < SIZE; ++j) {
            double sum = 0, most = 0;
            for (int k = 0; k < DEPTH; ++k) {
                const double product = a.values[i * DEPTH + k] * b.values[j * DEPTH + k];
                sum += product, most += std::fabs(product);
            }
            for (int shape = 0; shape < 2; ++shape) {
                const float result = got[shape][i * SIZE + j];
                // Each block's sum is rounded once.
                EXPECT(std::fabs(result - sum) <= most * BLOCKS * std::ldexp(1.0, -24), "formats %d and %d, shape %d: result %d, %d is %g, expected %g", fa, fb, shape, i, j, result, sum);
            }
        }
    }
    std::printf("formats %d and %d: %d sums in two shapes correct\n", fa, fb, SIZE * SIZE);
}

int main() {
    Array<int> yes(1);
    has_products<<<1, 1>>>(yes);
    if (!yes.host()[0]) {
        std::printf("this processor has no such products\nPASS\n");
        return 0;
    }
    check<FP8, FP8>();
    check<BF8, FP8>();
    check<FP8, FP4>();
    check<FP6, BF6>();
    check<BF6, FP6>();
    check<FP4, FP4>();
    check<FP4, BF8>();
    std::printf("PASS\n");
    return 0;
}
