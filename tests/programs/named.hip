// Kernels whose names have everything that templates can put into them: lambdas, packs, values of deduced types, constraints.
#include <tuple>
#include <type_traits>
#include <utility>

#include "check.h"

namespace {
struct Hidden {
    __host__ __device__ int operator()(int x) const { return x + 1; }
};
}

template <class T>
concept Number = std::is_arithmetic_v<T>;

enum class Step : int { back = -1, ahead = 1 };

__host__ __device__ constexpr int twice(int x) { return 2 * x; }

template <class F>
__global__ void apply(int* out, F f) { *out = f(*out); }

template <Number T, auto N>
__global__ void add(T* out) { *out += static_cast<T>(N); }

template <auto F>
__global__ void by_function(int* out) { *out = F(*out); }

template <class T, T... V>
__global__ void sum(T* out, std::integer_sequence<T, V...>) { *out += (V + ... + 0); }

template <template <class...> class C, class... T>
__global__ void sizes(int* out, C<T...>) { *out += int(sizeof...(T)); }

template <class T, std::enable_if_t<(sizeof(T) > 2), int> = 0>
__global__ void wide(T* out) { *out += 1; }

template <class T>
__global__ auto constrained(T* out) -> void requires Number<T> && (sizeof(T) == 4) { *out += 1; }

template <int N>
__global__ void matrix(int* out, int (*rows)[N], int (*f)(int), const int& __restrict__ unused) { *out += N; }

template <class T>
struct Outer {
    template <class F>
    static void each(int* out, F f) { apply<<<1, 1>>>(out, [f] __device__(auto x) { return f(x) + 1; }); }
};

int main() {
    Array<int> value(std::vector<int>{0});
    int* out = value;
    apply<<<1, 1>>>(out, Hidden{});
    apply<<<1, 1>>>(out, [] __device__(int x) { return x + 10; });
    apply<<<1, 1>>>(out, [] __device__(auto x) { return x + 100; });
    Outer<std::tuple<float, Hidden>>::each(out, [] __device__(int x) { return x + 999; });
    add<int, 3u><<<1, 1>>>(out);
    add<int, Step::back><<<1, 1>>>(out);
    by_function<&twice><<<1, 1>>>(out);
    sum<<<1, 1>>>(out, std::integer_sequence<int, 1, 2, 3>{});
    sizes<<<1, 1>>>(out, std::tuple<int, long, Hidden>{});
    wide<<<1, 1>>>(out);
    constrained<<<1, 1>>>(out);
    matrix<5><<<1, 1>>>(out, nullptr, nullptr, 0);
    CHECK(hipDeviceSynchronize());
    const int expected = 2 * (1 + 10 + 100 + 1000 + 3 - 1) + 6 + 3 + 1 + 1 + 5;
    EXPECT(value.host()[0] == expected, "found %d, expected %d", value.host()[0], expected);
    std::printf("PASS\n");
    return 0;
}
