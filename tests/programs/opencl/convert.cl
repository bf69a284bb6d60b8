// Conversions with every rounding and with saturation. Result k of work-item i is out[n * k + i].
#define R(value) out[n * k++ + i] = (value);
#define ROUNDED(T, a) R(convert_##T##_sat(a)) R(convert_##T##_sat_rte(a)) R(convert_##T##_sat_rtz(a)) R(convert_##T##_sat_rtp(a)) R(convert_##T##_sat_rtn(a))

// From floating point, the unlike widths of the results in one.
#define FROM_REAL(S)                                                                                                  \
    kernel void from_##S(global const S* as, global const S* bs, global const S* cs, global long* out, uint n) {      \
        size_t i = get_global_id(0), k = 0;                                                                           \
        S a = isnan(as[i]) ? (S)0 : as[i];                                                                            \
        ROUNDED(char, a) ROUNDED(uchar, a) ROUNDED(short, a) ROUNDED(ushort, a) ROUNDED(int, a) ROUNDED(uint, a)      \
        ROUNDED(long, a) R(as_long(convert_ulong_sat(a))) R(as_long(convert_ulong_sat_rte(a)))                        \
        R(as_long(convert_ulong_sat_rtp(a))) R(as_long(convert_ulong_sat_rtn(a)))                                     \
        S small = a - trunc(a) + (S)(i % 100);                                                                        \
        small = fabs(small) < 1000 ? small : (S)0.5;                                                                  \
        R((char)small) R((short)small) R((int)small) R((long)small) R((uchar)fabs(small)) R((uint)fabs(small))        \
        R((long)(ulong)fabs(small)) R(convert_int_rte(small)) R(convert_int_rtp(small)) R(convert_int_rtn(small))     \
    }
FROM_REAL(float)
FROM_REAL(double)

#define REALS(a) R(convert_float(a)) R(convert_float_rte(a)) R(convert_float_rtz(a)) R(convert_float_rtp(a)) R(convert_float_rtn(a))
kernel void to_float(global const long* as, global const long* bs, global const long* cs, global float* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    long a = as[i], b = bs[i];
    REALS((char)a) REALS((uchar)a) REALS((short)a) REALS((ushort)a) REALS((int)a) REALS((uint)a) REALS(a) REALS((ulong)a)
    REALS((int)b) REALS((uint)b) REALS(b >> 8) REALS((ulong)b >> 20)
}

#define DOUBLES(a) R(convert_double(a)) R(convert_double_rte(a)) R(convert_double_rtz(a)) R(convert_double_rtp(a)) R(convert_double_rtn(a))
kernel void to_double(global const long* as, global const long* bs, global const long* cs, global double* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    long a = as[i], b = bs[i];
    DOUBLES((char)a) DOUBLES((uchar)a) DOUBLES((short)a) DOUBLES((ushort)a) DOUBLES((int)a) DOUBLES((uint)a) DOUBLES(a)
    DOUBLES((ulong)a) DOUBLES(b >> 8) DOUBLES((ulong)b >> 20)
}

kernel void narrow(global const double* as, global const double* bs, global const double* cs, global float* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    double a = as[i], near = (double)(float)bs[i] * (1.0 + (double)(i % 64) * 0x1p-30);
    REALS(a) REALS(near)
}

kernel void widen(global const float* as, global const float* bs, global const float* cs, global double* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    R((double)as[i]) R((double)bs[i] * (double)cs[i]) R((double)as[i] + (double)cs[i])
}

#define HALVES(a, at)                                                                                  \
    vstore_half(a, n * (at) + i, out), vstore_half_rte(a, n * (at + 1) + i, out),                       \
        vstore_half_rtz(a, n * (at + 2) + i, out), vstore_half_rtp(a, n * (at + 3) + i, out),           \
        vstore_half_rtn(a, n * (at + 4) + i, out)
kernel void to_half(global const float* as, global const float* bs, global const float* cs, global half* out, uint n) {
    size_t i = get_global_id(0);
    HALVES(as[i], 0);
    // Of the size of a half: its subnormal numbers too.
    HALVES(as[i] - trunc(as[i]) + 0x1p-14f, 5);
    HALVES(ldexp(1.0f + (float)(i % 4099) / 4099.0f, (int)(i % 43) - 26), 10);
}

kernel void double_to_half(global const double* as, global const double* bs, global const double* cs, global half* out,
                           uint n) {
    size_t i = get_global_id(0);
    HALVES(as[i], 0);
    HALVES(ldexp(1.0 + (double)(i % 4099) / 4099.0, (int)(i % 43) - 26), 5);
}

kernel void from_half(global const half* as, global const half* bs, global const half* cs, global float* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    R(vload_half(i, as)) R(vload_half(i, bs) * vload_half(i, cs)) R(vload_half(i, as) + vload_half(i, bs))
}

// Between integers, saturating.
#define TO_ALL(a)                                                                                                      \
    R(convert_char_sat(a)) R(convert_uchar_sat(a)) R(convert_short_sat(a)) R(convert_ushort_sat(a))                    \
    R(convert_int_sat(a)) R(convert_uint_sat(a)) R(convert_long_sat(a)) R(as_long(convert_ulong_sat(a)))               \
    R(convert_char(a)) R(convert_ushort(a)) R(convert_int(a)) R(convert_long(a))
kernel void integers(global const long* as, global const long* bs, global const long* cs, global long* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    long a = as[i];
    TO_ALL((char)a) TO_ALL((uchar)a) TO_ALL((short)a) TO_ALL((ushort)a) TO_ALL((int)a) TO_ALL((uint)a) TO_ALL(a)
    TO_ALL((ulong)a) TO_ALL(a >> 30)
}
