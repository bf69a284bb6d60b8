// Kernels that get to their memory in the ways that programs have: what they read decides what they write.
#include "check.h"

const int N = 1024, GROUP = 128;

__device__ int index() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void in_place(float* x) { x[index()] = x[index()] * 1.5f + 0.25f; }

// What is in each bin does not depend on who comes first.
extern "C" __global__ void counted(const unsigned* in, unsigned* bins) {
    atomicAdd(&bins[in[index()] % 16], in[index()]);
}

extern "C" __global__ void turned(const float* in, float* out) {
    __shared__ float group[GROUP];
    group[threadIdx.x] = in[index()] + 1;
    __syncthreads();
    out[index()] = group[GROUP - 1 - threadIdx.x];
}

// Pointers in structures that are in memory, and one of them leads to the next.
struct Link {
    const float* in;
    float* out;
    const Link* next;
};

extern "C" __global__ void linked(const Link* first) {
    for (const Link* link = first; link; link = link->next) link->out[index()] = link->in[index()] - 3;
}

// Pointers in structures that are arguments.
struct View {
    float* start;
    int length;
};

extern "C" __global__ void viewed(View in, View out, float factor) {
    if (index() < in.length) out.start[out.length - 1 - index()] = in.start[index()] * factor;
}

extern "C" __global__ void pooled(const unsigned* in, unsigned* out) { out[index()] = in[index()] * 3 + 1; }

template <class T>
static std::vector<T> numbers(T from) {
    std::vector<T> values(N);
    for (int i = 0; i < N; ++i) values[i] = from + T(i % 97);
    return values;
}

template <class T, class F>
static std::vector<T> each(const std::vector<T>& values, F f) {
    std::vector<T> results;
    for (T value : values) results.push_back(f(value));
    return results;
}

int main() {
    const std::vector<float> reals = numbers(1.5f);
    const std::vector<unsigned> words = numbers(5u);
    {
        Array<float> x(reals);
        in_place<<<N / GROUP, GROUP>>>(x);
        expect_same("in place", x.host(), each(reals, [](float v) { return v * 1.5f + 0.25f; }));
    }
    {
        Array<unsigned> in(words), bins(16);
        counted<<<N / GROUP, GROUP>>>(in, bins);
        std::vector<unsigned> expected(16);
        for (unsigned word : words) expected[word % 16] += word;
        expect_same("atomics", bins.host(), expected);
    }
    {
        Array<float> in(reals), out(N);
        turned<<<N / GROUP, GROUP>>>(in, out);
        std::vector<float> expected(N);
        for (int i = 0; i < N; ++i) expected[i] = reals[i / GROUP * GROUP + GROUP - 1 - i % GROUP] + 1;
        expect_same("LDS", out.host(), expected);
    }
    {
        Array<float> in(reals), middle(N), out(N);
        Array<Link> last(std::vector<Link>{{middle, out, nullptr}});
        Array<Link> first(std::vector<Link>{{in, middle, last}});
        linked<<<N / GROUP, GROUP>>>(first);
        expect_same("pointers in memory", out.host(), each(reals, [](float v) { return v - 3 - 3; }));
    }
    {
        Array<float> in(reals), out(N);
        viewed<<<N / GROUP, GROUP>>>(View{in, N}, View{out, N}, 0.75f);
        std::vector<float> expected(N);
        for (int i = 0; i < N; ++i) expected[N - 1 - i] = reals[i] * 0.75f;
        expect_same("pointers in arguments", out.host(), expected);
    }
    {
        // Two pieces of one allocation, neither at its beginning.
        Array<unsigned> pool(4 * N);
        unsigned *in = pool + N, *out = pool + 2 * N + 64;
        CHECK(hipMemcpy(in, words.data(), N * sizeof(unsigned), hipMemcpyHostToDevice));
        pooled<<<N / GROUP, GROUP>>>(in, out);
        std::vector<unsigned> all = pool.host();
        const std::vector<unsigned> got(all.begin() + 2 * N + 64, all.begin() + 3 * N + 64);
        expect_same("a pool", got, each(words, [](unsigned v) { return v * 3 + 1; }));
    }
    std::printf("PASS\n");
}
