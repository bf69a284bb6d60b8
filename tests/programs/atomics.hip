// Atomic operations on global memory and LDS: every one of them, of 32 and 64 bits, in a crowd.
#include <algorithm>
#include <climits>

#include "check.h"

const int BLOCKS = 16, WIDTH = 128, N = BLOCKS * WIDTH;

// What work-item `i` contributes.
__host__ __device__ inline long long term(int i) { return (i * 7919LL) % 4001 - 2000; }

// Rows: the operation on `*word`, and what it makes of `old` on the host. Their order does not matter for the result.
#define INTEGERS(ROW)                                                             \
    ROW(add, atomicAdd(word, T(t)), T(old + T(t)))                                \
    ROW(exchange_none, atomicAdd(word, T(0)), old)                                \
    ROW(minimum, atomicMin(word, T(t)), std::min(old, T(t)))                      \
    ROW(maximum, atomicMax(word, T(t)), std::max(old, T(t)))                      \
    ROW(and_, atomicAnd(word, T(t | 0xff)), T(old & T(t | 0xff)))                 \
    ROW(or_, atomicOr(word, T(t << 3)), T(old | T(t << 3)))                       \
    ROW(xor_, atomicXor(word, T(t)), T(old ^ T(t)))

template <class T>
struct Start {
    static T value() { return T(12345); }
};

#define KERNELS(name, of_device, of_host)                                         \
    struct I_##name {                                                             \
        template <class T>                                                        \
        __device__ static T device(T* word, long long t) { return of_device; }    \
        template <class T>                                                        \
        static T host(T old, long long t) { return of_host; }                     \
    };
INTEGERS(KERNELS)

// On global memory directly, and on LDS first: the workgroups' words are then combined by the host's function.
template <class Op, class T>
__global__ void crowd(T* global_word, T* group_words) {
    __shared__ T word;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) word = 12345;
    __syncthreads();
    Op::device(global_word, term(i));
    Op::device(&word, term(i));
    __syncthreads();
    if (threadIdx.x == 0) group_words[blockIdx.x] = word;
}

template <class Op, class T>
void check(const char* type, const char* name) {
    Array<T> word(std::vector<T>{Start<T>::value()}), groups(BLOCKS);
    crowd<Op, T><<<BLOCKS, WIDTH>>>(word, groups);
    std::vector<T> of_groups(BLOCKS, Start<T>::value()), of_all(1, Start<T>::value());
    for (int i = 0; i < N; ++i) {
        of_all[0] = Op::template host<T>(of_all[0], term(i));
        of_groups[i / WIDTH] = Op::template host<T>(of_groups[i / WIDTH], term(i));
    }
    expect_same((std::string(type) + " " + name + " in global memory").c_str(), word.host(), of_all);
    expect_same((std::string(type) + " " + name + " in LDS").c_str(), groups.host(), of_groups);
}

template <class T>
void check_integers(const char* type) {
#define RUN(name, of_device, of_host) check<I_##name, T>(type, #name);
    INTEGERS(RUN)
}

// What the operations return: every ticket is drawn once, an exchange hands on one word, wrapping counters wrap.
__global__ void tickets(unsigned* counters, unsigned long long* wide, unsigned* drawn, unsigned* wrapped, unsigned long long* handed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    drawn[i] = atomicAdd(&counters[0], 1u);
    wrapped[atomicInc(&counters[1], N / 4 - 1)] = 1;
    wrapped[N / 4 + atomicDec(&counters[2], N / 4 - 1)] = 1;
    handed[i] = atomicExch(wide, (unsigned long long)i + 1);
    atomicSub(&counters[3], 3u);
}

// A lock of compare-and-swap, taken by one lane at a time; the section that it guards is not atomic.
__global__ void guarded(unsigned* lock, volatile unsigned long long* sum) {
    for (int lane = 0; lane < 64; ++lane) {
        if (threadIdx.x % 64 != lane) continue;
        while (atomicCAS(lock, 0u, 1u) != 0u) __builtin_amdgcn_s_sleep(1);
        __threadfence();
        *sum = *sum + threadIdx.x + 1;
        __threadfence();
        atomicExch(lock, 0u);
    }
}

// A maximum of doubles by a loop of compare-and-swap of 64 bits.
__global__ void swapped(unsigned long long* most) {
    double mine = 0.5 * double(term(blockIdx.x * blockDim.x + threadIdx.x));
    unsigned long long seen = *most;
    while (__longlong_as_double(seen) < mine) {
        unsigned long long was = atomicCAS(most, seen, (unsigned long long)__double_as_longlong(mine));
        if (was == seen) break;
        seen = was;
    }
}

// Sums that are exact in any order.
template <class T>
__global__ void float_sums(T* sums, T* group_sums, int* returned) {
    __shared__ T sum;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    T mine = T(term(i)) * T(0.25);
    atomicAdd(&sums[0], mine);
    unsafeAtomicAdd(&sums[1], mine);
    atomicAdd(&sum, mine);
    T old = atomicAdd(&sums[2], T(1));
    atomicAdd(&returned[int(old)], 1);
    __syncthreads();
    if (threadIdx.x == 0) group_sums[blockIdx.x] = sum;
}

template <class T>
void check_floats(const char* type) {
    Array<T> sums(3), group_sums(BLOCKS);
    Array<int> returned(N);
    float_sums<T><<<BLOCKS, WIDTH>>>(sums, group_sums, returned);
    T all = 0;
    std::vector<T> groups(BLOCKS);
    for (int i = 0; i < N; ++i) {
        all += T(term(i)) * T(0.25);
        groups[i / WIDTH] += T(term(i)) * T(0.25);
    }
    expect_same((std::string("sums of ") + type).c_str(), sums.host(), {all, all, T(N)});
    expect_same((std::string("sums in LDS of ") + type).c_str(), group_sums.host(), groups);
    expect_same((std::string("returned sums of ") + type).c_str(), returned.host(), std::vector<int>(N, 1));
}

#if defined(__gfx90a__)
// The instructions that only this processor has.
typedef _Float16 Halves __attribute__((ext_vector_type(2)));
#endif
__global__ void of_the_processor(double* doubles, int* has) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double mine = double(term(i)) * 0.5;
#if defined(__gfx90a__)
    *has = 1;
    __builtin_amdgcn_global_atomic_fadd_f64((__attribute__((address_space(1))) double*)&doubles[0], mine);
    __builtin_amdgcn_global_atomic_fmin_f64((__attribute__((address_space(1))) double*)&doubles[1], mine);
    __builtin_amdgcn_global_atomic_fmax_f64((__attribute__((address_space(1))) double*)&doubles[2], mine);
    __builtin_amdgcn_flat_atomic_fadd_f64((double*)&doubles[3], mine);
#else
    (void)mine, (void)doubles, (void)has;
#endif
}

int main() {
    check_integers<int>("int");
    check_integers<unsigned>("unsigned");
    check_integers<unsigned long long>("unsigned long long");
    check_floats<float>("float");
    check_floats<double>("double");

    Array<unsigned> counters(std::vector<unsigned>{0, 0, 0, 3 * N + 5}), drawn(N), wrapped(N / 2);
    Array<unsigned long long> wide(1), handed(N);
    tickets<<<BLOCKS, WIDTH>>>(counters, wide, drawn, wrapped, handed);
    std::vector<unsigned> got = drawn.host();
    std::sort(got.begin(), got.end());
    std::vector<unsigned> in_order;
    for (int i = 0; i < N; ++i) in_order.push_back(i);
    expect_same("tickets", got, in_order);
    expect_same("wrapping counters", wrapped.host(), std::vector<unsigned>(N / 2, 1));
    expect_same("counters", counters.host(), {(unsigned)N, 0, 0, 5});
    std::vector<unsigned long long> passed = handed.host(), numbers;
    passed.push_back(wide.host()[0]);
    std::sort(passed.begin(), passed.end());
    for (int i = 0; i <= N; ++i) numbers.push_back(i);
    expect_same("exchanged words", passed, numbers);

    Array<unsigned> lock(1);
    Array<unsigned long long> sum(1), most(1);
    guarded<<<8, WIDTH>>>(lock, sum);
    expect_same("a guarded sum", sum.host(), {8ull * WIDTH * (WIDTH + 1) / 2});
    swapped<<<BLOCKS, WIDTH>>>(most);
    double expected[4] = {0, 1e9, -1e9, 0};
    for (int i = 0; i < N; ++i) {
        double mine = 0.5 * double(term(i));
        expected[0] += mine, expected[1] = std::min(expected[1], mine), expected[2] = std::max(expected[2], mine), expected[3] += mine;
    }
    unsigned long long bits;
    std::memcpy(&bits, &expected[2], 8);
    expect_same("a maximum by compare-and-swap", most.host(), {bits});

    Array<double> doubles(std::vector<double>{0, 1e9, -1e9, 0});
    Array<int> has(1);
    of_the_processor<<<BLOCKS, WIDTH>>>(doubles, has);
    if (has.host()[0]) {
        expect_same("atomic doubles of the processor", doubles.host(), std::vector<double>(expected, expected + 4));
    } else {
        std::printf("this processor has no atomic operations on doubles\n");
    }
    std::printf("PASS\n");
    return 0;
}
