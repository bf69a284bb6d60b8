// Integers of 8 to 64 bits: what the device makes of an expression is what the host makes of it.
#include <cstdint>
#include <random>
#include <type_traits>

#include "check.h"

template <class F, class T, class R>
__global__ void apply(const T* a, const T* b, R* result, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) result[i] = F::on(a[i], b[i]);
}

// Names an operation on two integers of one type.
#define OPERATION(name, ...)                                                   \
    struct name {                                                              \
        static constexpr const char* text = #__VA_ARGS__;                      \
        template <class T>                                                     \
        __host__ __device__ static T on(T a, T b) {                            \
            using U = typename std::make_unsigned<T>::type;                    \
            constexpr int bits = 8 * sizeof(T);                                \
            (void)bits;                                                        \
            return static_cast<T>(__VA_ARGS__);                                \
        }                                                                      \
    }

OPERATION(Add, U(a) + U(b));
OPERATION(Subtract, U(a) - U(b));
// Through 64 bits: a promoted 16-bit product could overflow an int.
OPERATION(Multiply, uint64_t(U(a)) * uint64_t(U(b)));
OPERATION(Divide, b == 0 || b == T(-1) ? T(0) : T(a / b));
OPERATION(Remainder, b == 0 || b == T(-1) ? T(0) : T(a % b));
OPERATION(ShiftLeft, U(a) << (U(b) % bits));
OPERATION(ShiftRight, a >> (U(b) % bits));
OPERATION(Rotate, (U(a) << (U(b) % bits)) | (U(a) >> ((bits - U(b) % bits) % bits)));
OPERATION(Smaller, a < b ? a : b);
OPERATION(Larger, a > b ? a : b);
OPERATION(Mixed, ((a & b) ^ T(~a)) | T(b >> 1));
OPERATION(Compared, (a < b) + 2 * (a == b) + 4 * (a <= b) + 8 * (a != b));

template <class T>
std::vector<T> samples() {
    using U = typename std::make_unsigned<T>::type;
    std::vector<T> values;
    for (U v : {U(0), U(1), U(2), U(3), U(7), U(10), U(-1), U(-2), U(-7), U(U(-1) / 2), U(U(-1) / 2 + 1), U(U(-1) / 2 + 2)}) values.push_back(T(v));
    std::mt19937_64 random(5);
    while (values.size() < 40) values.push_back(T(random() >> (random() % (8 * sizeof(T)))));
    return values;
}

// Every pair of sample values.
template <class T>
void pairs(std::vector<T>& a, std::vector<T>& b) {
    for (T x : samples<T>()) {
        for (T y : samples<T>()) {
            a.push_back(x);
            b.push_back(y);
        }
    }
}

template <class F, class T>
void check(const char* type, const std::vector<T>& a, const std::vector<T>& b, const Array<T>& da, const Array<T>& db) {
    int n = a.size();
    Array<T> result(n);
    apply<F, T, T><<<(n + 127) / 128, 128>>>(da, db, result, n);
    std::vector<T> expected(n);
    for (int i = 0; i < n; ++i) expected[i] = F::on(a[i], b[i]);
    expect_same((std::string(type) + " " + F::text).c_str(), result.host(), expected);
}

template <class T>
void check_type(const char* type) {
    std::vector<T> a, b;
    pairs(a, b);
    Array<T> da(a), db(b);
    check<Add>(type, a, b, da, db);
    check<Subtract>(type, a, b, da, db);
    check<Multiply>(type, a, b, da, db);
    check<Divide>(type, a, b, da, db);
    check<Remainder>(type, a, b, da, db);
    check<ShiftLeft>(type, a, b, da, db);
    check<ShiftRight>(type, a, b, da, db);
    check<Rotate>(type, a, b, da, db);
    check<Smaller>(type, a, b, da, db);
    check<Larger>(type, a, b, da, db);
    check<Mixed>(type, a, b, da, db);
    check<Compared>(type, a, b, da, db);
}

// The device's own functions.
enum { SAMPLED = 20 };
__global__ void intrinsics(const uint64_t* a, const uint64_t* b, uint64_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t x = a[i], y = b[i];
    uint32_t u = uint32_t(x), v = uint32_t(y);
    uint64_t* o = out + size_t(i) * SAMPLED;
    o[0] = __popc(u);
    o[1] = __popcll(x);
    o[2] = __clz(u);
    o[3] = __clzll(x);
    o[4] = __ffs(u);
    o[5] = __ffsll((unsigned long long)x);
    o[6] = __brev(u);
    o[7] = __brevll(x);
    o[8] = uint32_t(__mulhi(int(u), int(v)));
    o[9] = __umulhi(u, v);
    o[10] = uint64_t(__mul64hi((long long)x, (long long)y));
    o[11] = __umul64hi(x, y);
    o[12] = uint32_t(__mul24(int(u), int(v)));
    o[13] = uint32_t(__umul24(u, v));
    o[14] = __byte_perm(u, v, uint32_t(x >> 32));
    o[15] = __usad(u, v, 3);
    o[16] = __bitinsert_u32(u, v, uint32_t(x >> 40) % 24, 7);
    o[17] = __funnelshift_r(u, v, uint32_t(x >> 33));
    o[18] = __bitextract_u32(u, v % 23, 9);
    o[19] = __lastbit_u32_u64(x);
}

static int leading_zeros(uint64_t x, int bits) {
    int n = 0;
    while (n < bits && !(x >> (bits - 1 - n) & 1)) ++n;
    return n;
}
static int first_bit(uint64_t x) {
    for (int n = 0; n < 64; ++n) {
        if (x >> n & 1) return n + 1;
    }
    return 0;
}
static uint64_t reversed(uint64_t x, int bits) {
    uint64_t r = 0;
    for (int n = 0; n < bits; ++n) r |= (x >> n & 1) << (bits - 1 - n);
    return r;
}
static int64_t signed24(uint32_t x) { return int32_t(x << 8) >> 8; }
static uint32_t permuted(uint32_t x, uint32_t y, uint32_t selector) {
    uint64_t bytes = uint64_t(y) << 32 | x;
    uint32_t r = 0;
    for (int n = 0; n < 4; ++n) r |= uint32_t(bytes >> (8 * (selector >> (4 * n) & 7)) & 0xff) << (8 * n);
    return r;
}
static uint32_t inserted(uint32_t x, uint32_t y, uint32_t at) { return (x & ~(127u << at)) | (y & 127) << at; }

void check_intrinsics() {
    std::vector<uint64_t> a, b, expected;
    pairs(a, b);
    for (size_t i = 0; i < a.size(); ++i) {
        uint64_t x = a[i], y = b[i];
        uint32_t u = uint32_t(x), v = uint32_t(y);
        const uint64_t all[SAMPLED] = {
            (uint64_t)__builtin_popcount(u),
            (uint64_t)__builtin_popcountll(x),
            (uint64_t)leading_zeros(u, 32),
            (uint64_t)leading_zeros(x, 64),
            (uint64_t)first_bit(u),
            (uint64_t)first_bit(x),
            reversed(u, 32),
            reversed(x, 64),
            uint32_t(uint64_t(int64_t(int32_t(u)) * int32_t(v)) >> 32),
            uint64_t(u) * v >> 32,
            uint64_t((__int128(int64_t(x)) * int64_t(y)) >> 64),
            uint64_t((static_cast<unsigned __int128>(x) * y) >> 64),
            uint32_t(signed24(u) * signed24(v)),
            uint32_t(uint64_t(u & 0xffffff) * (v & 0xffffff)),
            permuted(u, v, uint32_t(x >> 32)),
            (u > v ? u - v : v - u) + 3u,
            inserted(u, v, uint32_t(x >> 40) % 24),
            uint32_t((uint64_t(v) << 32 | u) >> (uint32_t(x >> 33) % 32)),
            (u >> (v % 23)) & 0x1ff,
            uint32_t(x ? first_bit(x) - 1 : -1),
        };
        expected.insert(expected.end(), all, all + SAMPLED);
    }
    int n = a.size();
    Array<uint64_t> da(a), db(b), out(size_t(n) * SAMPLED);
    intrinsics<<<(n + 63) / 64, 64>>>(da, db, out, n);
    std::vector<uint64_t> got = out.host();
    for (int f = 0; f < SAMPLED; ++f) {
        std::vector<uint64_t> g, e;
        for (int i = 0; i < n; ++i) {
            g.push_back(got[i * SAMPLED + f]);
            e.push_back(expected[i * SAMPLED + f]);
        }
        expect_same(("integer function " + std::to_string(f)).c_str(), g, e);
    }
}

int main() {
    check_type<int8_t>("int8");
    check_type<uint8_t>("uint8");
    check_type<int16_t>("int16");
    check_type<uint16_t>("uint16");
    check_type<int32_t>("int32");
    check_type<uint32_t>("uint32");
    check_type<int64_t>("int64");
    check_type<uint64_t>("uint64");
    check_intrinsics();
    std::printf("PASS\n");
    return 0;
}
