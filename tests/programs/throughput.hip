// Kernels that each keep one part of the machine busy, to measure how fast waves are emulated: `throughput KIND` runs one of
// them and checks what it computed.
#include <hip/hip_fp16.h>

#include <cmath>
#include <string>

#include "check.h"

typedef _Float16 H4 __attribute__((ext_vector_type(4)));
typedef float F4 __attribute__((ext_vector_type(4)));
typedef float F16 __attribute__((ext_vector_type(16)));

// Of a generator: the same values in every run.
static std::vector<float> values(size_t count, int modulus) {
    std::vector<float> v(count);
    for (size_t i = 0; i < count; ++i) v[i] = float(int(i * 7919 % modulus)) - float(modulus / 2);
    return v;
}

// One element a work-item: short waves.
__global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

static void run_saxpy() {
    const int n = 1 << 22;
    auto x = values(n, 1021), y = values(n, 509);
    Array<float> dx(x), dy(y);
    saxpy<<<n / 256, 256>>>(3.0f, dx, dy, n);
    for (int i = 0; i < n; ++i) y[i] = 3.0f * x[i] + y[i];
    expect_same("saxpy", dy.host(), y);
}

// A chain of multiply-adds in registers.
__global__ void fma_loop(const float* x, float* y, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float factor = x[i], a = y[i], b = 1, c = 2, d = 3;
    for (int r = 0; r < rounds; ++r) {
        a = __builtin_fmaf(a, factor, 1.0f);
        b = __builtin_fmaf(b, factor, a);
        c = __builtin_fmaf(c, factor, b);
        d = __builtin_fmaf(d, factor, c);
    }
    y[i] = a + b + c + d;
}

static void run_fma_loop() {
    const int n = 1 << 13, rounds = 10000;
    std::vector<float> x(n), y = values(n, 17), expected(n);
    for (int i = 0; i < n; ++i) {
        x[i] = 0.5f + float(i % 64) / 256.0f;
        float a = y[i], b = 1, c = 2, d = 3;
        for (int r = 0; r < rounds; ++r) {
            a = std::fma(a, x[i], 1.0f);
            b = std::fma(b, x[i], a);
            c = std::fma(c, x[i], b);
            d = std::fma(d, x[i], c);
        }
        expected[i] = a + b + c + d;
    }
    Array<float> dx(x), dy(y);
    fma_loop<<<n / 256, 256>>>(dx, dy, rounds);
    expect_same("fma_loop", dy.host(), expected);
}

constexpr int TILE = 16;

__global__ void sgemm(const float* a, const float* b, float* c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

static void run_sgemm() {
    const int n = 320;
    auto a = values(n * n, 7), b = values(n * n, 5);
    std::vector<float> c(n * n);
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < n; ++k) {
            for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
        }
    }
    Array<float> da(a), db(b), dc(size_t(n) * n);
    sgemm<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(da, db, dc, n);
    expect_same("sgemm", dc.host(), c);
}

constexpr int COLUMNS = 1024;

// A row for each workgroup: reductions over lanes and waves, exponentials, a division.
__global__ void softmax(const float* in, float* out) {
    __shared__ float parts[4];
    const int lane = threadIdx.x % 64, wave = threadIdx.x / 64;
    const float* row = in + blockIdx.x * COLUMNS;
    float own[COLUMNS / 256], most = -INFINITY;
    for (int k = 0; k < COLUMNS / 256; ++k) most = fmaxf(most, own[k] = row[k * 256 + threadIdx.x]);
    for (int step = 32; step; step /= 2) most = fmaxf(most, __shfl_xor(most, step));
    if (lane == 0) parts[wave] = most;
    __syncthreads();
    most = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
    __syncthreads();
    float sum = 0;
    for (float& value : own) sum += value = expf(value - most);
    for (int step = 32; step; step /= 2) sum += __shfl_xor(sum, step);
    if (lane == 0) parts[wave] = sum;
    __syncthreads();
    sum = parts[0] + parts[1] + parts[2] + parts[3];
    for (int k = 0; k < COLUMNS / 256; ++k) out[blockIdx.x * COLUMNS + k * 256 + threadIdx.x] = own[k] / sum;
}

static void run_softmax() {
    const int rows = 4096;
    auto in = values(size_t(rows) * COLUMNS, 37);
    Array<float> din(in), dout(in.size());
    softmax<<<rows, 256>>>(din, dout);
    auto out = dout.host();
    for (int r = 0; r < rows; r += 61) {
        double sum = 0;
        for (int c = 0; c < COLUMNS; ++c) sum += std::exp(double(in[r * COLUMNS + c]) - 18);
        for (int c = 0; c < COLUMNS; ++c) {
            const double expected = std::exp(double(in[r * COLUMNS + c]) - 18) / sum, got = out[r * COLUMNS + c];
            EXPECT(std::fabs(got - expected) <= 1e-5 * expected + 1e-37, "softmax[%d][%d] is %g, expected %g", r, c, got, expected);
        }
    }
    std::printf("softmax: values correct\n");
}

constexpr int BINS = 256;

__global__ void histogram(const unsigned* in, unsigned* bins, int n) {
    __shared__ unsigned own[BINS];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        const unsigned word = in[i];
        for (int byte = 0; byte < 4; ++byte) atomicAdd(&own[word >> 8 * byte & 255], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

static void run_histogram() {
    const int n = 1 << 22;
    std::vector<unsigned> in(n), expected(BINS);
    unsigned state = 1;
    for (unsigned& word : in) {
        word = state = state * 1664525u + 1013904223u;
        for (int byte = 0; byte < 4; ++byte) ++expected[word >> 8 * byte & 255];
    }
    const size_t length = BINS;
    Array<unsigned> din(in), bins(length);
    histogram<<<64, BINS>>>(din, bins, n);
    expect_same("histogram", bins.host(), expected);
}

// Four waves for a block of 64 x 64 results, as compilers of tensor programs lay it out: factors of halves through LDS.
constexpr int BLOCK = 64, STEP = 32, PAD = 4;

__global__ void matmul(const _Float16* a, const _Float16* b, float* c, int n) {
    __shared__ _Float16 left[BLOCK][STEP + PAD], right[BLOCK][STEP + PAD];
    const int lane = threadIdx.x % 64, wave = threadIdx.x / 64;
    const int top = wave / 2 * 32, start = wave % 2 * 32;
    F16 sums = {};
    for (int t = 0; t < n; t += STEP) {
        for (int part = threadIdx.x; part < BLOCK * STEP / 4; part += 256) {
            const int row = part / (STEP / 4), column = part % (STEP / 4) * 4;
            *(H4*)&left[row][column] = *(const H4*)&a[(blockIdx.y * BLOCK + row) * n + t + column];
            // The second factor is given with its columns in sequence.
            *(H4*)&right[row][column] = *(const H4*)&b[(blockIdx.x * BLOCK + row) * n + t + column];
        }
        __syncthreads();
        for (int k = 0; k < STEP; k += 8) {
            const H4 x = *(const H4*)&left[top + lane % 32][k + lane / 32 * 4];
            const H4 y = *(const H4*)&right[start + lane % 32][k + lane / 32 * 4];
#if defined(__gfx90a__)
            sums = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, sums, 0, 0, 0);
#else
            for (int r = 0; r < 4; ++r) sums[r] += float(x[r]) * float(y[r]);
#endif
        }
        __syncthreads();
    }
    for (int r = 0; r < 16; ++r) {
        const int row = blockIdx.y * BLOCK + top + r / 4 * 8 + lane / 32 * 4 + r % 4;
        c[row * n + blockIdx.x * BLOCK + start + lane % 32] = sums[r];
    }
}

static void run_matmul() {
    const int n = 512;
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    EXPECT(std::strstr(properties.gcnArchName, "gfx90a"), "matmul is for gfx90a, found %s", properties.gcnArchName);
    std::vector<_Float16> a(n * n), b(n * n);
    for (int i = 0; i < n * n; ++i) {
        a[i] = _Float16(i * 31 % 7 - 3);
        b[i] = _Float16(i * 17 % 5 - 2);
    }
    std::vector<float> c(n * n);
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            for (int k = 0; k < n; ++k) c[i * n + j] += float(a[i * n + k]) * float(b[j * n + k]);
        }
    }
    Array<_Float16> da(a), db(b);
    Array<float> dc(size_t(n) * n);
    matmul<<<dim3(n / BLOCK, n / BLOCK), 256>>>(da, db, dc, n);
    expect_same("matmul", dc.host(), c);
}

// What generators of random numbers do to skip ahead: products of 64 bits with a carry to 128, shifts, conditional sums.
__host__ __device__ inline void skip(uint64_t& low, uint64_t& high, uint64_t factor) {
    // high:low times factor, modulo 2^128, plus a constant.
    const uint64_t l0 = uint32_t(low), l1 = low >> 32, f0 = uint32_t(factor), f1 = factor >> 32;
    const uint64_t p00 = l0 * f0, p01 = l0 * f1 + (p00 >> 32), p10 = l1 * f0 + uint32_t(p01);
    const uint64_t carried = l1 * f1 + (p01 >> 32) + (p10 >> 32);
    low = p10 << 32 | uint32_t(p00);
    high = high * factor + carried;
    low += 0x14057b7ef767814full;
    high += (low < 0x14057b7ef767814full) + 0x5851f42d4c957f2dull;
}

__host__ __device__ inline uint64_t stir(uint64_t state, const uint64_t* rows) {
    uint64_t sum = 0;
    for (int bit = 0; bit < 64; ++bit) {
        if (state >> bit & 1) sum ^= rows[bit];
    }
    return sum << 13 ^ sum >> 7;
}

__host__ __device__ inline uint64_t jumped(uint64_t low, int rounds, const uint64_t* rows) {
    uint64_t high = ~low;
    for (int r = 0; r < rounds; ++r) {
        skip(low, high, 0x2360ed051fc65da4ull | uint64_t(r) << 1);
        high ^= stir(low, rows);
    }
    return low ^ high;
}

__global__ void jump_ahead(uint64_t* out, const uint64_t* rows, int rounds) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = jumped(0x9e3779b97f4a7c15ull * (i + 1), rounds, rows);
}

static void run_jump_ahead() {
    const int n = 1 << 14, rounds = 32;
    std::vector<uint64_t> rows(64), expected(n);
    for (int bit = 0; bit < 64; ++bit) rows[bit] = 0xd1342543de82ef95ull * (bit * bit + 1);
    for (int i = 0; i < n; ++i) expected[i] = jumped(0x9e3779b97f4a7c15ull * (i + 1), rounds, rows.data());
    Array<uint64_t> drows(rows), out(rows.size() * (n / 64));
    jump_ahead<<<n / 256, 256>>>(out, drows, rounds);
    auto got = out.host();
    for (int i = 0; i < n; ++i) EXPECT(got[i] == expected[i], "jump_ahead[%d] is %llx", i, (unsigned long long)got[i]);
    std::printf("jump_ahead: values correct\n");
}

// Accesses whose lanes are anywhere in a buffer: reads of one and of two dwords by index, writes to permuted places.
__global__ void scattered(const unsigned* order, const unsigned* words, uint64_t* out, int n, int rounds) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned at = order[i];
    uint64_t sum = 0;
    for (int r = 0; r < rounds; ++r) {
        sum += words[at];
        at = order[at];
        sum ^= out[at];
    }
    out[n + order[i]] = sum;
}

static void run_scattered() {
    const int n = 1 << 15, rounds = 256;
    std::vector<unsigned> order(n), words(n);
    std::vector<uint64_t> out(2 * n), expected(n);
    for (int i = 0; i < n; ++i) {
        order[i] = unsigned(i * 7919 + 13) % n;
        words[i] = unsigned(i) * 2654435761u;
        out[i] = uint64_t(i) * 0x9e3779b97f4a7c15ull;
    }
    for (int i = 0; i < n; ++i) {
        unsigned at = order[i];
        uint64_t sum = 0;
        for (int r = 0; r < rounds; ++r) {
            sum += words[at];
            at = order[at];
            sum ^= out[at];
        }
        expected[order[i]] = sum;
    }
    Array<unsigned> dorder(order), dwords(words);
    Array<uint64_t> dout(out);
    scattered<<<n / 256, 256>>>(dorder, dwords, dout, n, rounds);
    auto got = dout.host();
    for (int i = 0; i < n; ++i) EXPECT(got[n + i] == expected[i], "scattered[%d] is %llx", i, (unsigned long long)got[n + i]);
    std::printf("scattered: values correct\n");
}

// A state in private memory, as generators of random numbers have it: its elements are chosen when the kernel runs.
constexpr int STATE = 32;

__host__ __device__ inline unsigned twisted(unsigned seed, int rounds) {
    unsigned state[STATE];
    for (int k = 0; k < STATE; ++k) state[k] = seed = seed * 1664525u + 1013904223u;
    for (int r = 0; r < rounds; ++r) {
        const unsigned at = seed % STATE, mixed = state[at] & 0x80000000u | state[(at + 1) % STATE] & 0x7fffffffu;
        state[at] = state[(at + 17) % STATE] ^ mixed >> 1 ^ (mixed & 1 ? 0x9908b0dfu : 0);
        seed += state[at];
    }
    return seed;
}

__global__ void private_memory(unsigned* out, int rounds) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = twisted(i, rounds);
}

static void run_private_memory() {
    const int n = 1 << 13, rounds = 256;
    std::vector<unsigned> expected(n);
    for (int i = 0; i < n; ++i) expected[i] = twisted(i, rounds);
    const size_t length = n;
    Array<unsigned> out(length);
    private_memory<<<n / 256, 256>>>(out, rounds);
    expect_same("private_memory", out.host(), expected);
}

// Numbers of elements in 64 bits, as algorithms for large inputs have them: counters, bounds, a binary search.
__host__ __device__ inline uint64_t found(uint64_t wanted, uint64_t first, uint64_t last) {
    uint64_t steps = 0;
    while (first < last) {
        const uint64_t middle = first + (last - first) / 2;
        if (middle * 3 < wanted) first = middle + 1;
        else last = middle;
        ++steps;
    }
    return first << 6 ^ steps;
}

__global__ void wide_indices(uint64_t* out, uint64_t n, uint64_t stride, int rounds) {
    const uint64_t first = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x;
    uint64_t sum = 0, at = first * 0x100000001ull;
    for (int r = 0; r < rounds; ++r) {
        at += stride;
        if (at < n) sum += found(at, r, n);
        else at -= n;
    }
    out[first] = sum;
}

static void run_wide_indices() {
    const int threads = 1 << 13, rounds = 32;
    const uint64_t n = 1ull << 43, stride = 0x2360ed05123ull;
    std::vector<uint64_t> expected(threads);
    for (uint64_t i = 0; i < threads; ++i) {
        uint64_t at = i * 0x100000001ull;
        for (int r = 0; r < rounds; ++r) {
            at += stride;
            if (at < n) expected[i] += found(at, r, n);
            else at -= n;
        }
    }
    const size_t length = threads;
    Array<uint64_t> out(length);
    wide_indices<<<threads / 256, 256>>>(out, n, stride, rounds);
    auto got = out.host();
    for (int i = 0; i < threads; ++i) EXPECT(got[i] == expected[i], "wide_indices[%d] is %llx", i, (unsigned long long)got[i]);
    std::printf("wide_indices: values correct\n");
}

__host__ __device__ inline unsigned xorshift(unsigned state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ state << 5;
}

// A loop that each lane leaves at another time: most of it runs with a part of the lanes.
__host__ __device__ inline unsigned shuffled(unsigned state, unsigned rounds) {
    for (unsigned left = state * 2654435761u % rounds; left; --left) state = xorshift(state);
    return state;
}

__global__ void lanes_off(unsigned* out, unsigned rounds) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = shuffled(i + 1, rounds);
}

static void run_lanes_off() {
    const unsigned n = 1 << 14, rounds = 1024;
    std::vector<unsigned> expected(n);
    for (unsigned i = 0; i < n; ++i) expected[i] = shuffled(i + 1, rounds);
    const size_t length = n;
    Array<unsigned> out(length);
    lanes_off<<<n / 256, 256>>>(out, rounds);
    expect_same("lanes_off", out.host(), expected);
}

// A value that all lanes share, which compilers keep in scalar registers.
__host__ __device__ inline unsigned advanced(unsigned state, unsigned rounds) {
    for (unsigned r = 0; r < rounds; ++r) state = xorshift(state);
    return state;
}

__global__ void scalar_loop(unsigned* out, unsigned state, unsigned rounds) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = advanced(state, rounds) + threadIdx.x;
}

static void run_scalar_loop() {
    const unsigned n = 1 << 14, rounds = 1 << 13, state = 2463534242u;
    std::vector<unsigned> expected(n);
    for (unsigned i = 0; i < n; ++i) expected[i] = i < 256 ? advanced(state, rounds) + i : expected[i - 256];
    const size_t length = n;
    Array<unsigned> out(length);
    scalar_loop<<<n / 256, 256>>>(out, state, rounds);
    expect_same("scalar_loop", out.host(), expected);
}

int main(int argc, char** argv) {
    // A host thread that spins would take a core from the emulated GPU.
    CHECK(hipSetDeviceFlags(hipDeviceScheduleBlockingSync));
    const struct {
        const char* name;
        void (*run)();
    } kinds[] = {
        {"saxpy", run_saxpy},
        {"sgemm", run_sgemm},
        {"fma_loop", run_fma_loop},
        {"softmax", run_softmax},
        {"histogram", run_histogram},
        {"matmul", run_matmul},
        {"jump_ahead", run_jump_ahead},
        {"scattered", run_scattered},
        {"private_memory", run_private_memory},
        {"wide_indices", run_wide_indices},
        {"lanes_off", run_lanes_off},
        {"scalar_loop", run_scalar_loop},
    };
    const std::string wanted = argc > 1 ? argv[1] : "";
    for (const auto& kind : kinds) {
        if (wanted != kind.name) continue;
        kind.run();
        std::printf("PASS\n");
        return 0;
    }
    std::printf("usage: throughput KIND, which is one of");
    for (const auto& kind : kinds) std::printf(" %s", kind.name);
    std::printf("\n");
    return 2;
}
