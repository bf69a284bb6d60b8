// Vectors of every length. Result k of work-item i is out[n * k + i], a vector of the kernel's type.
#define R(value) out[n * k++ + i] = (value);

#define INTEGERS(V, U, S)                                                                                            \
    kernel void vector_##V(global const V* as, global const V* bs, global const V* cs, global V* out, uint n) {      \
        size_t i = get_global_id(0), k = 0;                                                                          \
        V a = as[i], b = bs[i], c = cs[i];                                                                           \
        U ua = as_##U(a), ub = as_##U(b), uc = as_##U(c);                                                            \
        R(as_##V(ua + ub)) R(as_##V(ua * ub - uc)) R(as_##V(ua / (ub | (U)1))) R(as_##V(ua % (ub | (U)1)))           \
        R(mul_hi(a, b)) R(mad_sat(a, b, c)) R(add_sat(a, b)) R(sub_sat(a, b)) R(rotate(a, b)) R(popcount(a))         \
        R(clz(a)) R(bitselect(a, b, c)) R(min(a, b)) R(max(a, b)) R(as_##V(abs_diff(a / (V)2, b / (V)2))) R(hadd(a, b))            \
        R(select(a, b, as_##S(c))) R(as_##V(a < b)) R(as_##V(a == b || b > c)) R(as_##V(!a))                         \
        R((V)(c.lo, a.hi)) R(shuffle(a, ub)) R(shuffle2(a, c, ub))                                                   \
    }

INTEGERS(char4, uchar4, char4)
INTEGERS(uchar16, uchar16, char16)
INTEGERS(short2, ushort2, short2)
INTEGERS(ushort8, ushort8, short8)
INTEGERS(int4, uint4, int4)
INTEGERS(uint2, uint2, int2)
INTEGERS(long2, ulong2, long2)
INTEGERS(ulong4, ulong4, long4)

// Vectors of three, which lie in memory as those of four but for vload3 and vstore3.
kernel void vector_3(global const int* as, global const int* bs, global int* out, uint n) {
    size_t i = get_global_id(0);
    int3 a = vload3(i, as), b = vload3(i, bs);
    uint3 ua = as_uint3(a), ub = as_uint3(b);
    vstore3(as_int3(ua + ub), i, out);
    vstore3(as_int3(ua * ub), n + i, out);
    vstore3(min(a.zxy, b.yyx), 2 * n + i, out);
    int3 moved = a;
    moved.xz = b.zx;
    vstore3(moved, 3 * n + i, out);
}

// Elements by number, loads and stores at addresses that only fit an element.
kernel void vector_elements(global const char* as, global const char* bs, global char* out, uint n) {
    size_t i = get_global_id(0);
    char16 a = vload16(0, as + i * 16), b = vload16(0, bs + 16 * i);
    char8 even = a.even, odd = b.odd;
    vstore16((char16)(even, odd), 0, out + 16 * i);
    vstore4(a.s37bf, 0, out + 16 * n + 16 * i + 1);
    vstore8(b.hi, 0, out + 16 * n + 16 * i + 5);
    vstore2(a.s0f, 0, out + 16 * n + 16 * i + 13);
    short2 words = vload2(0, (global const short*)(as + 16 * i + 6));
    int4 sum = convert_int4(a.lo.lo) + convert_int4(b.s89ab) * (int)words.x + (int4)words.y;
    vstore16(as_char16(sum), 0, out + 32 * n + 16 * i);
}

kernel void vector_float4(global const float4* as, global const float4* bs, global const float4* cs, global float4* out,
                          uint n) {
    size_t i = get_global_id(0), k = 0;
    float4 a = as[i], b = bs[i], c = cs[i];
    R(a + b) R(a - b) R(a * b) R(fma(a, b, c)) R(fmin(a, b)) R(fmax(a, b)) R(floor(a)) R(trunc(b)) R(fabs(c))
    R(as_float4(isgreater(a, b))) R(as_float4(isnan(a))) R(select(a, b, isless(b, c))) R(bitselect(a, b, c))
    R(copysign(a, b)) R(as_float4((int4)(any(isless(a, b)), all(isless(a, b)), signbit(a.x), isequal(b.y, b.y))))
}

kernel void vector_double2(global const double2* as, global const double2* bs, global const double2* cs,
                           global double2* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    double2 a = as[i], b = bs[i], c = cs[i];
    R(a + b) R(a - b) R(a * b) R(fma(a, b, c)) R(fmin(a, b)) R(fmax(a, b)) R(floor(a)) R(trunc(b)) R(fabs(c))
    R(as_double2(isgreater(a, b))) R(select(a, b, isless(b, c)))
}
