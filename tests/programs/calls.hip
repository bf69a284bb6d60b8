// Scratch memory and the call stack: private arrays, recursion, function pointers, virtual calls, closures as kernels.
#include <algorithm>
#include <functional>

#include "check.h"

const int N = 512;

// A private array that is indexed by data, too large for registers.
__global__ void sorted(const int* in, int* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    int items[24];
    for (int k = 0; k < 24; ++k) items[k] = in[(at * 7 + k * 31) % n];
    for (int k = 1; k < 24; ++k) {
        int item = items[k], j = k;
        for (; j > 0 && items[j - 1] > item; --j) items[j] = items[j - 1];
        items[j] = item;
    }
    out[at] = items[at % 24] + 3 * items[23 - at % 24];
}

// Bytes and words of a private array, through pointers that the compiler cannot see through.
__host__ __device__ __attribute__((noinline)) unsigned tally(const unsigned char* bytes, const unsigned short* words, int n) {
    unsigned sum = 0;
    for (int k = 0; k < n; ++k) sum = sum * 31 + bytes[k] * 7 + words[n - 1 - k];
    return sum;
}
__host__ __device__ inline unsigned bytes_and_words(int seed) {
    unsigned char bytes[37];
    unsigned short words[37];
    for (int k = 0; k < 37; ++k) {
        bytes[(k * 5 + seed) % 37] = (unsigned char)(seed + k * 3);
        words[(k * 11 + seed) % 37] = (unsigned short)(seed * 257 + k);
    }
    return tally(bytes, words, 37);
}

// Recursion, to a different depth in every lane.
__host__ __device__ __attribute__((noinline)) unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}
__host__ __device__ __attribute__((noinline)) unsigned fibonacci(unsigned n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

// Functions by pointer, chosen per lane.
typedef int (*Function)(int, int);
__device__ __attribute__((noinline)) int plus(int a, int b) { return a + b; }
__device__ __attribute__((noinline)) int minus(int a, int b) { return a - b; }
__device__ __attribute__((noinline)) int times(int a, int b) { return a * b; }
__device__ Function functions[] = {plus, minus, times};
__global__ void by_pointer(int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = functions[i % 3](i, 5) + functions[(i / 3) % 3](i, -7);
}

// Objects made and called on the device.
struct Shape {
    __device__ virtual ~Shape() {}
    __device__ virtual int area(int scale) const = 0;
};
struct Square : Shape {
    int side;
    __device__ explicit Square(int s) : side(s) {}
    __device__ int area(int scale) const override { return side * side * scale; }
};
struct Box : Shape {
    int width, height;
    __device__ Box(int w, int h) : width(w), height(h) {}
    __device__ int area(int scale) const override { return width * height * scale; }
};
__global__ void virtual_calls(int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Square square(i);
    Box box(i, 3);
    const Shape* shapes[] = {&square, &box};
    out[i] = shapes[i % 2]->area(2) + shapes[(i / 2) % 2]->area(1);
}

// A structure passed and returned by value, too large for registers of a call; 64-bit and floating-point arguments.
struct Matrix {
    double m[4][4];
};
__host__ __device__ __attribute__((noinline)) Matrix product(Matrix a, Matrix b) {
    Matrix c;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            c.m[i][j] = 0;
            for (int k = 0; k < 4; ++k) c.m[i][j] += a.m[i][k] * b.m[k][j];
        }
    }
    return c;
}
__host__ __device__ inline double trace_of_power(int seed) {
    Matrix a;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) a.m[i][j] = (seed * 3 + i * 5 + j * 7) % 11 - 5;
    }
    Matrix c = product(product(a, a), a);
    return c.m[0][0] + c.m[1][1] + c.m[2][2] + c.m[3][3];
}

// Any closure, as a kernel.
template <class F>
__global__ void closure(F f) {
    f(int(blockIdx.x * blockDim.x + threadIdx.x));
}

// A kernel of any number of arguments of any types.
template <class... T>
__global__ void sum_all(double* out, T... terms) {
    double sum = 0;
    (void)std::initializer_list<int>{(sum += double(terms), 0)...};
    out[threadIdx.x] = sum * threadIdx.x;
}

// An argument block as large as many libraries pass.
struct Large {
    int words[900];
};
__global__ void large_argument(Large large, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = large.words[(i * 37) % 900];
}

static std::vector<int> each(const std::function<int(int)>& f) {
    std::vector<int> r;
    for (int i = 0; i < N; ++i) r.push_back(f(i));
    return r;
}

int main() {
    std::vector<int> in = each([](int i) { return (i * 7919) % 1009 - 500; });
    Array<int> din(in), out(N);
    const dim3 grid(N / 128), block(128);

    sorted<<<grid, block>>>(din, out, N);
    expect_same("sorted private arrays", out.host(), each([&](int i) {
                    std::vector<int> items;
                    for (int k = 0; k < 24; ++k) items.push_back(in[(i * 7 + k * 31) % N]);
                    std::sort(items.begin(), items.end());
                    return items[i % 24] + 3 * items[23 - i % 24];
                }));

    int* p = out;
    closure<<<grid, block>>>([p] __device__(int i) { p[i] = int(bytes_and_words(i)); });
    expect_same("bytes and words of private arrays", out.host(), each([](int i) { return int(bytes_and_words(i)); }));

    closure<<<grid, block>>>([p] __device__(int i) { p[i] = int(fibonacci(i % 9) + 1000 * ackermann(i % 3, i % 4)); });
    expect_same("recursion", out.host(), each([](int i) { return int(fibonacci(i % 9) + 1000 * ackermann(i % 3, i % 4)); }));

    by_pointer<<<grid, block>>>(out);
    auto call = [](int f, int a, int b) { return f == 0 ? a + b : f == 1 ? a - b : a * b; };
    expect_same("function pointers", out.host(), each([&](int i) { return call(i % 3, i, 5) + call(i / 3 % 3, i, -7); }));

    virtual_calls<<<grid, block>>>(out);
    auto area = [](int shape, int i) { return shape == 0 ? i * i : 3 * i; };
    expect_same("virtual calls", out.host(), each([&](int i) { return 2 * area(i % 2, i) + area(i / 2 % 2, i); }));

    closure<<<grid, block>>>([p] __device__(int i) { p[i] = int(trace_of_power(i)); });
    expect_same("structures by value", out.host(), each([](int i) { return int(trace_of_power(i)); }));

    Array<double> sums(64);
    sum_all<<<1, 64>>>((double*)sums, (signed char)-3, 2.5f, 7ull, true, (unsigned short)40000, -1.25, 'a');
    std::vector<double> expected;
    for (int i = 0; i < 64; ++i) expected.push_back((-3 + 2.5 + 7 + 1 + 40000 - 1.25 + 97) * i);
    expect_same("arguments of many types", sums.host(), expected);

    Large large;
    for (int i = 0; i < 900; ++i) large.words[i] = i * i;
    large_argument<<<grid, block>>>(large, out);
    expect_same("a large argument", out.host(), each([](int i) { return i * 37 % 900 * (i * 37 % 900); }));
    std::printf("PASS\n");
    return 0;
}
