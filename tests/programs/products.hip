// Products of square matrices by matrix instructions, with factors read from global memory: `products KIND` computes one of them and
// checks it. It measures how fast matrix instructions are emulated together with the loads that feed them.
#include <cstdint>
#include <string>

#include "check.h"

typedef float F16 __attribute__((ext_vector_type(16)));
typedef _Float16 H4 __attribute__((ext_vector_type(4)));
typedef short S4 __attribute__((ext_vector_type(4)));

// A tile of 32 x 32 results for each wave, four of them one below the other for a workgroup. The second factor is given with its columns
// in sequence. `Share` is what a lane has of a factor; half of a step's products are of the lower lanes.
template <class Share, class Element, class Multiply>
__device__ void tile(const Element* a, const Element* b, float* c, int n, Multiply multiply) {
    constexpr int SHARE = sizeof(Share) / sizeof(Element);
    const int lane = threadIdx.x % 64, top = (blockIdx.y * 4 + threadIdx.x / 64) * 32, start = blockIdx.x * 32;
    const Element* left = a + (top + lane % 32) * n + lane / 32 * SHARE;
    const Element* right = b + (start + lane % 32) * n + lane / 32 * SHARE;
    F16 sums = {};
    for (int k = 0; k < n; k += 2 * SHARE) sums = multiply(*(const Share*)(left + k), *(const Share*)(right + k), sums);
    for (int r = 0; r < 16; ++r) c[(top + r / 4 * 8 + lane / 32 * 4 + r % 4) * n + start + lane % 32] = sums[r];
}

#if defined(__gfx90a__) || defined(__gfx942__)
#define HALVES(name, x, y, sums) __builtin_amdgcn_mfma_f32_32x32x8##name(x, y, sums, 0, 0, 0)
#else
#define HALVES(name, x, y, sums) sums
#endif
#if defined(__gfx942__)
#define BYTES(x, y, sums) __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(x, y, sums, 0, 0, 0)
#else
#define BYTES(x, y, sums) sums
#endif

__global__ void f16(const _Float16* a, const _Float16* b, float* c, int n) {
    tile<H4>(a, b, c, n, [](H4 x, H4 y, F16 sums) { return HALVES(f16, x, y, sums); });
}

__global__ void bf16(const short* a, const short* b, float* c, int n) {
    tile<S4>(a, b, c, n, [](S4 x, S4 y, F16 sums) { return HALVES(bf16_1k, x, y, sums); });
}

__global__ void fp8(const uint8_t* a, const uint8_t* b, float* c, int n) {
    tile<int64_t>(a, b, c, n, [](int64_t x, int64_t y, F16 sums) { return BYTES(x, y, sums); });
}

// Whole numbers from -3 to 3 in each format.
static _Float16 half(int x) { return _Float16(x); }

static short bfloat(int x) {
    const float value = float(x);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return short(bits >> 16);
}

// Four bits of exponent with the bias 8, three of mantissa.
static uint8_t small(int x) {
    const uint8_t codes[] = {0, 0x40, 0x48, 0x4c};
    return x < 0 ? 0x80 | codes[-x] : codes[x];
}

template <class Element>
static void run(void (*kernel)(const Element*, const Element*, float*, int), Element (*element)(int), bool only_gfx942) {
    const int n = 1024;
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    const bool gfx942 = std::strstr(properties.gcnArchName, "gfx942"), gfx90a = std::strstr(properties.gcnArchName, "gfx90a");
    EXPECT(gfx942 || (gfx90a && !only_gfx942), "no such product on %s", properties.gcnArchName);
    std::vector<int> a(n * n), b(n * n);
    std::vector<Element> ea(n * n), eb(n * n);
    for (int i = 0; i < n * n; ++i) {
        ea[i] = element(a[i] = i * 31 % 7 - 3);
        eb[i] = element(b[i] = i * 17 % 5 - 2);
    }
    Array<Element> da(ea), db(eb);
    Array<float> dc(size_t(n) * n);
    kernel<<<dim3(n / 32, n / 128), 256>>>(da, db, dc, n);
    const auto c = dc.host();
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            int sum = 0;
            for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[j * n + k];
            EXPECT(c[i * n + j] == float(sum), "result (%d, %d) is %g, expected %d", i, j, c[i * n + j], sum);
        }
    }
    std::printf("values correct\n");
}

int main(int argc, char** argv) {
    // A host thread that spins would take a core from the emulated GPU.
    CHECK(hipSetDeviceFlags(hipDeviceScheduleBlockingSync));
    const std::string wanted = argc > 1 ? argv[1] : "";
    if (wanted == "f16") run<_Float16>(f16, half, false);
    else if (wanted == "bf16") run<short>(bf16, bfloat, false);
    else if (wanted == "fp8") run<uint8_t>(fp8, small, true);
    else {
        std::printf("usage: products f16 | bf16 | fp8\n");
        return 2;
    }
    std::printf("PASS\n");
    return 0;
}
