// Floating point whose result IEEE 754 or OpenCL C fixes to the last bit. Result k of work-item i is out[n * k + i].
#pragma OPENCL FP_CONTRACT OFF
#define R(value) out[n * k++ + i] = (value);

#define REAL(T)                                                                                                                   \
    kernel void real_##T(global const T* as, global const T* bs, global const T* cs, global T* out, uint n) {                     \
        size_t i = get_global_id(0), k = 0;                                                                                       \
        T a = as[i], b = bs[i], c = cs[i];                                                                                        \
        /* Of two zeros, a minimum may be either; the sign of a zero from round, nextafter and sign is nobody's. */               \
        T p = a == 0 ? (T)1 : a;                                                                                                  \
        R(a + b) R(a - b) R(a * b) R(-a) R(a * b + c) R(fma(a, b, c)) R(fma(-a, b, c)) R(fma(a, b, -c)) R(fabs(a))                \
        R(fma(a, (T)2, b)) R(a * (T)0.5 - b) R(fmin(p, b)) R(fmax(p, b)) R(fmin(fmax(a, p), c)) R(floor(a))                       \
        R(ceil(a)) R(trunc(a)) R(rint(a)) R(round(a) + (T)0) R(copysign(a, b)) R(fdim(a, b)) R(nextafter(a, b) + (T)0) R(logb(a)) \
        R(ldexp(a, (int)(i % 300) - 150)) R(fmod(a, b)) R(remainder(a, b)) R(maxmag(p, b)) R(minmag(p, b))                        \
        R(step(a, b)) R(sign(a) + (T)0) R(a < b) R(a <= b) R(a == b) R(a != b) R(isnan(a)) R(isinf(a)) R(isfinite(a))             \
        R(isnormal(a)) R(signbit(a)) R(isordered(a, b)) R(isunordered(a, b)) R(islessgreater(a, b))                               \
        R(a < b ? c : a) R(isgreater(a, b) ? a : c)                                                                               \
        int e;                                                                                                                    \
        R(frexp(a, &e)) R(isfinite(a) ? e : 0)                                                                                    \
        R(isnan(a) || isinf(a) || a == 0 ? 0 : ilogb(a))                                                                          \
        T whole;                                                                                                                  \
        R(modf(a, &whole)) R(whole)                                                                                               \
    }
REAL(float)
#ifdef cl_khr_fp64
REAL(double)
#endif

// Division and roots, correctly rounded in double and by option in float.
#define ROOTS(T)                                                                                                      \
    kernel void roots_##T(global const T* as, global const T* bs, global const T* cs, global T* out, uint n) {        \
        size_t i = get_global_id(0), k = 0;                                                                           \
        T a = as[i], b = bs[i];                                                                                       \
        R(a / b) R(1 / a) R(sqrt(a)) R(sqrt(fabs(b))) R(a / (T)3)                                                     \
    }
ROOTS(float)
ROOTS(double)

// Half precision where there is some, elsewhere a wider type rounded once: the same for these operations.
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half narrow;
#define GET(from) from[i]
#define PUT(value) out[n * k++ + i] = (half)(value);
#else
typedef double narrow;
#define GET(from) vload_half(i, from)
#define PUT(value) vstore_half_rte((double)(value), n * k++ + i, out);
#endif
kernel void real_half(global const half* as, global const half* bs, global const half* cs, global half* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    narrow a = GET(as), b = GET(bs), c = GET(cs), p = a == 0 ? (narrow)1 : a;
    PUT(a + b) PUT(a - b) PUT(a * b) PUT(fma(a, b, c)) PUT(fma(-a, b, c)) PUT(a / b) PUT(sqrt(fabs(a))) PUT(fmin(p, b))
    PUT(fmax(p, b)) PUT(floor(a)) PUT(ceil(a)) PUT(trunc(a)) PUT(rint(a)) PUT(fabs(a)) PUT(-a) PUT(copysign(a, b))
    PUT(a < b) PUT(a == b) PUT(isnan(a)) PUT(a < b ? c : a)
}
