// Variables of the device, in every way that compilers fold addresses of them, between kernels and the host. What each kernel
// finds is checked against what the host and the kernels before it wrote. With -DORDER the variables lie in another order,
// with -DMORE there is one more, with -DWRONG kernels compute something else: only code that takes another's place is compiled
// so.
#include "check.h"

#include <vector>

constexpr int N = 64;

#ifdef WRONG
constexpr int WRONG_BY = 1;
#else
constexpr int WRONG_BY = 0;
#endif

struct Pair {
    int a, b;
};

#ifdef ORDER
__device__ int samples[2 * N];
__constant__ int coef[N];
#else
__constant__ int coef[N];
__device__ int samples[2 * N];
#endif
#ifdef MORE
// Nobody but the kernel that was compiled with it knows this.
__device__ int more = 7;
#endif
__device__ Pair pairs[N + 1];
__device__ int counter = 3;
static __device__ int hidden;
__device__ const int table[4] = {5, 6, 7, 8};
__device__ int* pointer = samples + N;

__device__ __attribute__((noinline)) int pick(const int* from, int i) { return from[i] * 2 + WRONG_BY; }

extern "C" __global__ void none(int* out) { out[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void constants(int* out, int i) { out[threadIdx.x] = table[(threadIdx.x + i) & 3]; }
// The folded addresses lie in front of the variable and behind it.
extern "C" __global__ void before(int* out, int i) { out[threadIdx.x] = coef[i + (int)threadIdx.x - 1] + WRONG_BY; }
extern "C" __global__ void behind(int* out, int n) { out[threadIdx.x] = samples[N + n + threadIdx.x] + coef[n + threadIdx.x + N] + WRONG_BY; }
extern "C" __global__ void structures(int* out) {
    const int i = threadIdx.x;
    out[i] = pairs[i].b;
    pairs[i + 1].a = 10 * i + WRONG_BY;
}
extern "C" __global__ void passed(int* out) { out[threadIdx.x] = pick(samples, threadIdx.x) + pick(coef, N - 1 - threadIdx.x); }
extern "C" __global__ void counted(int* out) {
    if (threadIdx.x == 0) {
        out[0] = atomicAdd(&counter, 1);
        out[1] = atomicAdd(&hidden, 2 + WRONG_BY);
#ifdef MORE
        atomicAdd(&more, 1);
#endif
    }
}
extern "C" __global__ void indirect(int* out) { out[threadIdx.x] = pointer[threadIdx.x]++; pointer[threadIdx.x] += WRONG_BY; }

static Array<int>* results;

static std::vector<int> ran() { return results->host(); }

template <typename F>
static void expect(const char* what, const std::vector<int>& got, F expected, int count = N) {
    for (int i = 0; i < count; ++i) {
        if (got[i] != expected(i)) {
            std::printf("%s: element %d is %d, not %d\n", what, i, got[i], expected(i));
            std::exit(1);
        }
    }
}

int main() {
    Array<int> out(std::vector<int>(N, -1));
    results = &out;
    std::vector<int> seen(2 * N);
    for (int round = 1; round <= 6; ++round) {
        // The host writes between launches.
        std::vector<int> c(N), s(2 * N);
        for (int i = 0; i < N; ++i) c[i] = 1000 * round + i;
        for (int i = 0; i < 2 * N; ++i) s[i] = 100000 * round + i;
        std::vector<Pair> p(N + 1);
        for (int i = 0; i <= N; ++i) p[i] = {-round, i * round};
        CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coef), c.data(), N * sizeof(int)));
        CHECK(hipMemcpyToSymbol(HIP_SYMBOL(samples), s.data(), 2 * N * sizeof(int)));
        CHECK(hipMemcpyToSymbol(HIP_SYMBOL(pairs), p.data(), (N + 1) * sizeof(Pair)));

        none<<<1, N>>>(out);
        expect("none", ran(), [](int i) { return i; });
        constants<<<1, N>>>(out, round);
        expect("constants", ran(), [=](int i) { return 5 + ((i + round) & 3); });
        before<<<1, N>>>(out, 1);
        expect("before", ran(), [&](int i) { return c[i]; });
        behind<<<1, N>>>(out, -N);
        expect("behind", ran(), [&](int i) { return s[i] + c[i]; });
        structures<<<1, N>>>(out);
        expect("structures", ran(), [&](int i) { return i * round; });
        std::vector<Pair> after(N + 1);
        CHECK(hipMemcpyFromSymbol(after.data(), HIP_SYMBOL(pairs), (N + 1) * sizeof(Pair)));
        for (int i = 0; i < N; ++i) seen[i] = after[i + 1].a;
        expect("pairs", seen, [](int i) { return 10 * i; });
        passed<<<1, N>>>(out);
        expect("passed", ran(), [&](int i) { return 2 * s[i] + 2 * c[N - 1 - i]; });
        counted<<<1, N>>>(out);
        expect("counted", ran(), [=](int i) { return i == 0 ? 3 + round - 1 : 2 * (round - 1); }, 2);
        int count = 0;
        CHECK(hipMemcpyFromSymbol(&count, HIP_SYMBOL(counter), sizeof(int)));
        expect("counter", {count}, [=](int) { return 3 + round; }, 1);
        indirect<<<1, N>>>(out);
        expect("indirect", ran(), [&](int i) { return s[N + i]; });
        CHECK(hipMemcpyFromSymbol(seen.data(), HIP_SYMBOL(samples), 2 * N * sizeof(int)));
        expect("samples", seen, [&](int i) { return s[i] + (i >= N); }, 2 * N);
    }
    std::puts("PASS");
    return 0;
}
