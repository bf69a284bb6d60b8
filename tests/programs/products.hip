// Products of square matrices by matrix instructions, with factors read from global memory: `products KIND` computes one of them and
// checks it. It measures how fast matrix instructions are emulated together with the loads that feed them.
#include <cstdint>
#include <string>

#include "check.h"

typedef float F16 __attribute__((ext_vector_type(16)));
typedef _Float16 H4 __attribute__((ext_vector_type(4)));
typedef short S4 __attribute__((ext_vector_type(4)));
typedef int I4 __attribute__((ext_vector_type(4)));
typedef int I8 __attribute__((ext_vector_type(8)));

// Rows, columns, and products of each result; how many of these share a scale.
enum { N = 1024, BLOCK = 32 };

// A tile of 32 x 32 results for each wave, four of them one below the other for a workgroup. The second factor is given with its columns
// in sequence.
struct Tile {
    int half = threadIdx.x % 64 / 32, row = (blockIdx.y * 4 + threadIdx.x / 64) * 32 + threadIdx.x % 32;
    int column = blockIdx.x * 32 + threadIdx.x % 32;
    F16 sums = {};

    __device__ void store(float* c) const {
        for (int r = 0; r < 16; ++r) c[(row / 32 * 32 + r / 4 * 8 + half * 4 + r % 4) * N + column] = sums[r];
    }
};

// `Share` is what a lane has of a factor in a step; half of the step's products are of the lower lanes.
template <class Share, class Multiply>
__device__ void tile(const void* a, const void* b, float* c, int bytes_of_row, Multiply multiply) {
    Tile tile;
    const char* left = (const char*)a + tile.row * bytes_of_row + tile.half * sizeof(Share);
    const char* right = (const char*)b + tile.column * bytes_of_row + tile.half * sizeof(Share);
    for (int k = 0; k < bytes_of_row; k += 2 * sizeof(Share)) {
        tile.sums = multiply(*(const Share*)(left + k), *(const Share*)(right + k), tile.sums);
    }
    tile.store(c);
}

// Which products a processor has. Bytes are those of one processor's format.
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define HALVES(name, x, y, sums) __builtin_amdgcn_mfma_f32_32x32x8##name(x, y, sums, 0, 0, 0)
#else
#define HALVES(name, x, y, sums) sums
#endif
#if defined(__gfx942__) || defined(__gfx950__)
#define BYTES(x, y, sums) __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(x, y, sums, 0, 0, 0)
#else
#define BYTES(x, y, sums) sums
#endif
#if defined(__gfx950__)
#define FORMATS(format, x, y, sums, n, sx, sy) __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, sums, format, format, n, sx, n, sy)
#else
#define FORMATS(format, x, y, sums, n, sx, sy) sums
#endif
enum { FP8 = 0, FP4 = 4 };

typedef void Kernel(const void* a, const void* b, const int* a_scales, const int* b_scales, float* c);

__global__ void f16(const void* a, const void* b, const int*, const int*, float* c) {
    tile<H4>(a, b, c, 2 * N, [](H4 x, H4 y, F16 sums) { return HALVES(f16, x, y, sums); });
}

__global__ void bf16(const void* a, const void* b, const int*, const int*, float* c) {
    tile<S4>(a, b, c, 2 * N, [](S4 x, S4 y, F16 sums) { return HALVES(bf16_1k, x, y, sums); });
}

__global__ void fp8(const void* a, const void* b, const int*, const int*, float* c) {
    tile<int64_t>(a, b, c, N, [](int64_t x, int64_t y, F16 sums) { return BYTES(x, y, sums); });
}

// A lane's 32 bytes are in two runs.
__global__ void fp8_64(const void* a, const void* b, const int*, const int*, float* c) {
    Tile tile;
    const I4 *left = (const I4*)a + tile.row * (N / 16) + tile.half, *right = (const I4*)b + tile.column * (N / 16) + tile.half;
    for (int k = 0; k < N / 16; k += 4) {
        const I8 x = __builtin_shufflevector(left[k], left[k + 2], 0, 1, 2, 3, 4, 5, 6, 7);
        const I8 y = __builtin_shufflevector(right[k], right[k + 2], 0, 1, 2, 3, 4, 5, 6, 7);
        tile.sums = FORMATS(FP8, x, y, tile.sums, 0, 0, 0);
    }
    tile.store(c);
}

// With scales: of the four steps of a lane, in the bytes of one register.
__global__ void fp4(const void* a, const void* b, const int* a_scales, const int* b_scales, float* c) {
    Tile tile;
    const I4 *left = (const I4*)a + tile.row * (N / 32) + tile.half, *right = (const I4*)b + tile.column * (N / 32) + tile.half;
    const int *sx = a_scales + tile.row * (N / 128) + tile.half, *sy = b_scales + tile.column * (N / 128) + tile.half;
    for (int k = 0; k < N / 32; k += 8, sx += 2, sy += 2) {
#define STEP(n)                                                                              \
    {                                                                                        \
        const I4 x = left[k + 2 * n], y = right[k + 2 * n];                                  \
        const I8 wide_x = __builtin_shufflevector(x, x, 0, 1, 2, 3, -1, -1, -1, -1);         \
        const I8 wide_y = __builtin_shufflevector(y, y, 0, 1, 2, 3, -1, -1, -1, -1);         \
        tile.sums = FORMATS(FP4, wide_x, wide_y, tile.sums, n, *sx, *sy);                    \
    }
        STEP(0) STEP(1) STEP(2) STEP(3)
    }
    tile.store(c);
}

// What is multiplied how, and the codes of 0, 1, 2 and 3.
struct Kind {
    const char* name;
    const char* archs;
    Kernel* kernel;
    int bits;
    uint32_t codes[4];
    bool scaled;
};

static const Kind KINDS[] = {
    {"f16", "gfx90a gfx942 gfx950", f16, 16, {0, 0x3c00, 0x4000, 0x4200}, false},
    {"bf16", "gfx90a gfx942 gfx950", bf16, 16, {0, 0x3f80, 0x4000, 0x4040}, false},
    // Four bits of exponent with the bias 8, three of mantissa; the same with the bias 7.
    {"fp8", "gfx942", fp8, 8, {0, 0x40, 0x48, 0x4c}, false},
    {"fp8", "gfx950", fp8_64, 8, {0, 0x38, 0x40, 0x44}, false},
    {"fp4", "gfx950", fp4, 4, {0, 2, 4, 5}, true},
};

// Numbers from -3 to 3 in the format, one behind the other.
static std::vector<uint8_t> packed(const Kind& kind, const std::vector<int>& numbers) {
    std::vector<uint8_t> bytes(numbers.size() * kind.bits / 8);
    for (size_t i = 0; i < numbers.size(); ++i) {
        const uint32_t code = kind.codes[std::abs(numbers[i])] | (numbers[i] < 0) << (kind.bits - 1);
        const size_t at = i * kind.bits;
        for (int bit = 0; bit < kind.bits; bit += 8) bytes[(at + bit) / 8] |= uint8_t(code >> bit << at % 8);
    }
    return bytes;
}

// The scales of a factor, powers of two by row and block, and how lanes find them: the bytes of a register are of four steps.
static std::vector<int> scales_by_lane(const std::vector<int>& powers) {
    std::vector<int> words(N * N / BLOCK / 4);
    for (int row = 0; row < N; ++row) {
        for (int block = 0; block < N / BLOCK; ++block) {
            const int word = row * (N / BLOCK / 4) + block / 8 * 2 + block % 2;
            words[word] |= (127 + powers[row * (N / BLOCK) + block]) << block / 2 % 4 * 8;
        }
    }
    return words;
}

static void run(const Kind& kind) {
    std::vector<int> a(N * N), b(N * N), a_powers(N * N / BLOCK), b_powers(N * N / BLOCK);
    for (int i = 0; i < N * N; ++i) {
        a[i] = i * 31 % 7 - 3;
        b[i] = i * 17 % 5 - 2;
    }
    for (int i = 0; kind.scaled && i < N * N / BLOCK; ++i) {
        a_powers[i] = i * 13 % 5;
        b_powers[i] = i * 29 % 3;
    }
    Array<uint8_t> da(packed(kind, a)), db(packed(kind, b));
    Array<int> sa(scales_by_lane(a_powers)), sb(scales_by_lane(b_powers));
    Array<float> dc(size_t(N) * N);
    kind.kernel<<<dim3(N / 32, N / 128), 256>>>(da, db, sa, sb, dc);
    const auto c = dc.host();
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; ++j) {
            int sum = 0;
            for (int block = 0; block < N / BLOCK; ++block) {
                int products = 0;
                for (int k = block * BLOCK; k < (block + 1) * BLOCK; ++k) products += a[i * N + k] * b[j * N + k];
                sum += products * (1 << (a_powers[i * (N / BLOCK) + block] + b_powers[j * (N / BLOCK) + block]));
            }
            EXPECT(c[i * N + j] == float(sum), "result (%d, %d) is %g, expected %d", i, j, c[i * N + j], sum);
        }
    }
    std::printf("values correct\n");
}

int main(int argc, char** argv) {
    // A host thread that spins would take a core from the emulated GPU.
    CHECK(hipSetDeviceFlags(hipDeviceScheduleBlockingSync));
    const std::string wanted = argc > 1 ? argv[1] : "";
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    const std::string arch = properties.gcnArchName, processor = arch.substr(0, arch.find(':'));
    for (const Kind& kind : KINDS) {
        if (wanted == kind.name && std::strstr(kind.archs, processor.c_str())) {
            run(kind);
            std::printf("PASS\n");
            return 0;
        }
    }
    std::printf("usage: products f16 | bf16 | fp8 | fp4; on %s:", processor.c_str());
    for (const Kind& kind : KINDS) {
        if (std::strstr(kind.archs, processor.c_str())) std::printf(" %s", kind.name);
    }
    std::printf("\n");
    return 2;
}
