// Integer operations of every width: one kernel per type. Result k of work-item i is out[n * k + i].

// Signed sums, products and shifts go through the unsigned type: their overflow means nothing in C.
#define INTEGER(T, U, BITS)                                                                                          \
    kernel void integer_##T(global const T* as, global const T* bs, global const T* cs, global T* out, uint n) {    \
        size_t i = get_global_id(0), k = 0;                                                                          \
        T a = as[i], b = bs[i], c = cs[i];                                                                           \
        U ua = as_##U(a), ub = as_##U(b), uc = as_##U(c);                                                            \
        T lowest = as_##T((U)((U)1 << (BITS - 1)));                                                                  \
        bool overflows = (T)-1 < (T)0 && a == lowest && b == (T)-1;                                                  \
        /* The GPU's library subtracts signed numbers, so that newer compilers take overflow to be excluded. */         \
        T ha = a / 2, hb = b / 2;                                                                                    \
        T divisor = b == 0 || overflows ? (T)3 : b;                                                                  \
        R(as_##T((U)(ua + ub))) R(as_##T((U)(ua - ub))) R(as_##T((U)(ua * ub))) R(as_##T((U)(ua * ub + uc)))         \
        R(a / divisor) R(a % divisor) R(as_##T((U)(ua / (ub | 1)))) R(as_##T((U)(ua % (ub | 1)))) R(a / (T)7)        \
        R(a % (T)10) R(as_##T((U)-ua)) R(~a) R(a & b) R(a | b) R(a ^ b) R((T)(a & ~b)) R((T)(~(a ^ b)))              \
        R((T)((a & c) | (b & ~c))) R(as_##T((U)(ua << (uc & (BITS - 1))))) R((T)(a >> (uc & (BITS - 1))))            \
        R(as_##T((U)(ua >> (uc & (BITS - 1))))) R(as_##T((U)((ua << 3) + ub))) R(as_##T((U)((ua ^ ub) + uc)))        \
        R(mul_hi(a, b)) R(mad_hi(a, b, c)) R(mad_sat(a, b, c)) R(add_sat(a, b)) R(sub_sat(a, b)) R(hadd(a, b))       \
        R(rhadd(a, b)) R(rotate(a, b)) R(rotate(a, (T)5)) R(popcount(a)) R(clz(a)) R(bitselect(a, b, c))             \
        R(as_##T(abs(a))) R(as_##T(abs_diff(ha, hb))) R(min(a, b)) R(max(a, b)) R(max(min(a, b), c))                   \
        R(clamp(a, min(b, c), max(b, c))) R(a < b) R(a <= b) R(a == b) R(a != b) R(a > b) R(a >= b)                  \
        R(a < b ? c : a) R(a == 0 ? b : c) R(!a) R(a && b) R(select(a, b, c)) R((T)(uchar)a) R((T)(char)a)           \
        R((T)(ushort)b) R((T)(short)b) R((T)(uint)c) R((T)(int)c)                                                    \
    }
#define R(value) out[n * k++ + i] = (__typeof__(*out))(value);

INTEGER(char, uchar, 8)
INTEGER(uchar, uchar, 8)
INTEGER(short, ushort, 16)
INTEGER(ushort, ushort, 16)
INTEGER(int, uint, 32)
INTEGER(uint, uint, 32)
INTEGER(long, ulong, 64)
INTEGER(ulong, ulong, 64)

// Products of 24 bits, which are only defined for operands that fit.
kernel void integer_24(global const int* as, global const int* bs, global const int* cs, global int* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    int a = as[i] >> 8, b = bs[i] >> 8;
    uint ua = as_uint(as[i]) >> 8, ub = as_uint(bs[i]) >> 8;
    R(mul24(a, b)) R(mad24(a, b, cs[i])) R(mul24(ua, ub)) R(mad24(ua, ub, as_uint(cs[i])))
}
