// Functions with a bounded error. The reference computes them in REAL, wider than T. Result k of work-item i is
// out[n * k + i].
#ifndef REAL
#define REAL T
#endif
#define R(value) out[n * k++ + i] = (value);

// Where the GPU's own library is further off than it may be, arguments are left out: tgamma of negative numbers.
// The bounds are those of OpenCL C's table, in its order of magnitude: one kernel for each bound and domain.
kernel void ulp_2(global const T* as, global const T* bs, global const T* cs, global REAL* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    REAL a = as[i];
    R(rsqrt(fabs(a)))
    R(cbrt(a))
}

kernel void ulp_3(global const T* as, global const T* bs, global const T* cs, global REAL* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    REAL a = as[i];
    R(exp(a)) R(exp2(a)) R(exp10(a)) R(expm1(a)) R(log(a)) R(log2(a)) R(log10(a)) R(log1p(a))
}

kernel void ulp_4(global const T* as, global const T* bs, global const T* cs, global REAL* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    REAL a = as[i];
    R(sin(a)) R(cos(a)) R(sinh(a)) R(cosh(a)) R(asinh(a)) R(acosh(a)) R(acos(a)) R(asin(a))
    R(hypot(a, (REAL)bs[i]))
}

kernel void ulp_5(global const T* as, global const T* bs, global const T* cs, global REAL* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    REAL a = as[i];
    R(tan(a)) R(atan(a)) R(tanh(a)) R(acospi(a)) R(asinpi(a)) R(atanpi(a)) R(atanh(a))
}

kernel void ulp_16(global const T* as, global const T* bs, global const T* cs, global REAL* out, uint n) {
    size_t i = get_global_id(0), k = 0;
    REAL a = as[i], b = bs[i];
    R(pow(a, b)) R(powr(fabs(a), b)) R(pown(a, (int)(i % 21) - 10)) R(rootn(fabs(a), (int)(i % 9) + 1)) R(erf(a)) R(erfc(a))
    R(tgamma(fabs(a) < 30 ? fabs(a) : 1)) R(atan2(a, b))
}
