// LDS: static and dynamic, tiles with barriers, accesses of every width, addresses that do not say what they point to.
#include <functional>

#include "check.h"

const int TILE = 16;

// C = A * B through two tiles.
template <class T>
__global__ void product(const T* a, const T* b, T* c, int m, int n, int k) {
    __shared__ T ta[TILE][TILE + 1], tb[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int at = 0; at < k; at += TILE) {
        ta[threadIdx.y][threadIdx.x] = row < m && at + threadIdx.x < k ? a[row * k + at + threadIdx.x] : T(0);
        tb[threadIdx.y][threadIdx.x] = at + threadIdx.y < k && column < n ? b[(at + threadIdx.y) * n + column] : T(0);
        __syncthreads();
        for (int j = 0; j < TILE; ++j) sum += ta[threadIdx.y][j] * tb[j][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

// Sizes that leave partial tiles; values whose sums are exact.
template <class T>
void check_product(const char* what) {
    const int m = 45, n = 38, k = 51;
    std::vector<T> a(m * k), b(k * n), c(m * n);
    for (int i = 0; i < m * k; ++i) a[i] = T(i * 7 % 13 - 6);
    for (int i = 0; i < k * n; ++i) b[i] = T(i * 5 % 11 - 5);
    for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
            for (int l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
        }
    }
    Array<T> da(a), db(b), dc(m * n);
    product<T><<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE)>>>(da, db, dc, m, n, k);
    expect_same(what, dc.host(), c);
}

// Two arrays in the LDS that the launch asks for, beside a static one.
__global__ void dynamic(int* out, int shorts) {
    extern __shared__ char room[];
    __shared__ int fixed[256];
    short* first = (short*)room;
    double* second = (double*)(room + shorts * sizeof(short));
    int i = threadIdx.x;
    fixed[i] = 3 * i;
    for (int s = i; s < shorts; s += blockDim.x) first[s] = short(s * 5 + blockIdx.x);
    second[i] = 0.5 * i;
    __syncthreads();
    out[blockIdx.x * blockDim.x + i] = fixed[255 - i] + first[(i * 31) % shorts] + int(4 * second[(i + 100) % 256]);
}

// A word of every width, at places that are aligned to it and, by bytes, at places that are not.
struct Wide {
    unsigned a, b, c, d;
};
__global__ void widths(const unsigned char* in, unsigned char* out, int bytes) {
    __shared__ __attribute__((aligned(16))) unsigned char store[4096];
    int i = threadIdx.x;
    for (int n = i; n < bytes; n += 64) store[n] = in[n];
    __syncthreads();
    switch (i % 6) {
    case 0: *(unsigned short*)&store[i * 64] += 0x0101; break;
    case 1: *(unsigned*)&store[i * 64] *= 3; break;
    case 2: *(unsigned long long*)&store[i * 64] += 0x100000000ull; break;
    case 3: {
        Wide w = *(Wide*)&store[i * 64];
        *(Wide*)&store[i * 64 + 16] = Wide{w.d, w.c, w.b, w.a};
        break;
    }
    case 4: *(signed char*)&store[i * 64 + 3] /= 3; break;
    case 5: __builtin_memcpy(&store[i * 64 + 1], &store[i * 64 + 35], 11); break;
    }
    __syncthreads();
    for (int n = i; n < bytes; n += 64) out[n] = store[n];
}
static void widths_on_host(unsigned char* store) {
    for (int i = 0; i < 64; ++i) {
        unsigned char* at = store + i * 64;
        unsigned short half;
        unsigned word, four[4];
        unsigned long long wide;
        switch (i % 6) {
        case 0: std::memcpy(&half, at, 2), half += 0x0101, std::memcpy(at, &half, 2); break;
        case 1: std::memcpy(&word, at, 4), word *= 3, std::memcpy(at, &word, 4); break;
        case 2: std::memcpy(&wide, at, 8), wide += 0x100000000ull, std::memcpy(at, &wide, 8); break;
        case 3:
            std::memcpy(four, at, 16);
            for (int n = 0; n < 4; ++n) std::memcpy(at + 16 + 4 * n, &four[3 - n], 4);
            break;
        case 4: at[3] = (signed char)at[3] / 3; break;
        case 5: std::memcpy(at + 1, at + 35, 11); break;
        }
    }
}

// One pointer to LDS, scratch or global memory, as the lane's number says.
__global__ void generic(int* global_words, int* out) {
    __shared__ int shared_words[64];
    int own[4] = {1, 2, 3, 4};
    int i = threadIdx.x;
    shared_words[i] = 1000 + i;
    __syncthreads();
    int* where = i % 3 == 0 ? &shared_words[63 - i] : i % 3 == 1 ? &global_words[i] : &own[i % 4];
    *where += 5;
    atomicAdd(where, 7);
    __syncthreads();
    // A compiler may put private arrays into LDS.
    auto* generic = (const __attribute__((address_space(0))) void*)where;
    out[i] = *where + 100000 * (__builtin_amdgcn_is_shared(generic) + __builtin_amdgcn_is_private(generic));
}

// A histogram by atomics and a scan over it in log steps.
__global__ void histogram(const unsigned char* in, unsigned* scanned, int n) {
    __shared__ unsigned bins[2][256];
    int i = threadIdx.x, from = 0;
    bins[0][i] = 0;
    __syncthreads();
    for (int at = i; at < n; at += blockDim.x) atomicAdd(&bins[0][in[at]], 1u);
    __syncthreads();
    for (int step = 1; step < 256; step *= 2, from ^= 1) {
        bins[from ^ 1][i] = bins[from][i] + (i >= step ? bins[from][i - step] : 0);
        __syncthreads();
    }
    scanned[i] = bins[from][i];
}

static std::vector<int> each(int n, const std::function<int(int)>& f) {
    std::vector<int> r;
    for (int i = 0; i < n; ++i) r.push_back(f(i));
    return r;
}

int main() {
    check_product<float>("product of float");
    check_product<double>("product of double");
    check_product<int>("product of int");

    Array<int> out(1024);
    const int shorts = 12000;
    dynamic<<<4, 256, shorts * sizeof(short) + 256 * sizeof(double)>>>(out, shorts);
    expect_same("dynamic LDS", out.host(), each(1024, [&](int n) {
                    int i = n % 256;
                    return 3 * (255 - i) + short((i * 31 % shorts) * 5 + n / 256) + 2 * ((i + 100) % 256);
                }));

    std::vector<unsigned char> bytes(4096);
    for (int i = 0; i < 4096; ++i) bytes[i] = (unsigned char)(i * 37 + i / 64);
    Array<unsigned char> din(bytes), dout(4096);
    widths<<<1, 64>>>(din, dout, 4096);
    widths_on_host(bytes.data());
    expect_same("accesses of every width", dout.host(), bytes);

    Array<int> words(each(64, [](int i) { return 10 * i; })), results(64);
    generic<<<1, 64>>>(words, results);
    expect_same("generic addresses", results.host(), each(64, [](int i) {
                    return 12 + (i % 3 == 0 ? 1063 - i + 100000 : i % 3 == 1 ? 10 * i : i % 4 + 1 + 100000);
                }));

    Array<unsigned> scanned(256);
    histogram<<<1, 256>>>(din, scanned, 4096);
    std::vector<unsigned> expected(256);
    std::vector<unsigned char> in = din.host();
    for (unsigned char b : in) ++expected[b];
    for (int i = 1; i < 256; ++i) expected[i] += expected[i - 1];
    expect_same("a scanned histogram", scanned.host(), expected);
    std::printf("PASS\n");
    return 0;
}
