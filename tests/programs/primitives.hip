// Kernels that nobody here wrote: rocPRIM's sort, scan, reduction, selection and histogram, against the C++ library.
#include "check.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include <rocprim/rocprim.hpp>

// Calls a function of rocPRIM twice, as it wants: for the size of its temporary memory, then with that.
template <class Call>
void run(Call call) {
    size_t bytes = 0;
    CHECK(call(nullptr, bytes));
    Array<char> temporary(std::max<size_t>(bytes, 1));
    CHECK(call(temporary, bytes));
}

template <class T>
std::vector<T> random_values(size_t n, long low, long high) {
    std::mt19937_64 random(n);
    std::uniform_int_distribution<long> values(low, high);
    std::vector<T> result(n);
    for (T& value : result) value = T(values(random));
    return result;
}

// Few keys, so that a sort that is not stable shows.
void sort(size_t n) {
    std::vector<int> keys = random_values<int>(n, -500, 500), places(n);
    std::iota(places.begin(), places.end(), 0);
    Array<int> in(keys), values(places), sorted(n), moved(n);
    run([&](void* temporary, size_t& bytes) {
        return rocprim::radix_sort_pairs<rocprim::default_config>(temporary, bytes, (int*)in, (int*)sorted, (int*)values, (int*)moved, n);
    });
    std::stable_sort(places.begin(), places.end(), [&](int a, int b) { return keys[a] < keys[b]; });
    expect_same("places after the sort", moved.host(), places);
    std::sort(keys.begin(), keys.end());
    expect_same("sorted keys", sorted.host(), keys);
}

void scan(size_t n) {
    std::vector<long> values = random_values<long>(n, -(1L << 40), 1L << 40), sums(n);
    Array<long> in(values), out(n);
    run([&](void* temporary, size_t& bytes) {
        return rocprim::inclusive_scan(temporary, bytes, (long*)in, (long*)out, n, rocprim::plus<long>());
    });
    std::partial_sum(values.begin(), values.end(), sums.begin());
    expect_same("sums so far", out.host(), sums);
}

// Whole numbers: every order gives the same sum.
void reduce(size_t n) {
    std::vector<double> values = random_values<double>(n, -1000, 1000);
    Array<double> in(values), out(1);
    run([&](void* temporary, size_t& bytes) {
        return rocprim::reduce(temporary, bytes, (double*)in, (double*)out, 0.0, n, rocprim::plus<double>());
    });
    expect_same("sum", out.host(), {std::accumulate(values.begin(), values.end(), 0.0)});
}

struct IsOdd {
    __host__ __device__ bool operator()(int value) const { return value & 1; }
};

void select(size_t n) {
    std::vector<int> values = random_values<int>(n, 0, 1 << 30), odd;
    Array<int> in(values), out(n);
    Array<unsigned> count(1);
    run([&](void* temporary, size_t& bytes) {
        return rocprim::select(temporary, bytes, (int*)in, (int*)out, (unsigned*)count, n, IsOdd());
    });
    std::copy_if(values.begin(), values.end(), std::back_inserter(odd), IsOdd());
    expect_same("number of odd values", count.host(), {unsigned(odd.size())});
    std::vector<int> got = out.host();
    got.resize(odd.size());
    expect_same("odd values", got, odd);
}

void histogram(size_t n) {
    const int levels = 65;
    std::vector<int> values = random_values<int>(n, 0, 639);
    std::vector<unsigned> counts(levels - 1);
    Array<int> in(values);
    Array<unsigned> out(levels - 1);
    run([&](void* temporary, size_t& bytes) {
        return rocprim::histogram_even(temporary, bytes, (int*)in, unsigned(n), (unsigned*)out, levels, 0, 640);
    });
    for (int value : values) ++counts[value / 10];
    expect_same("histogram", out.host(), counts);
}

int main() {
    // One block, and many whose last is not full.
    for (size_t n : {1000, 40001}) {
        sort(n);
        scan(n);
        reduce(n);
        select(n);
        histogram(n);
    }
    std::printf("PASS\n");
    return 0;
}
