// Mathematical functions of the device library, in single and double precision, against the host's in a wider type.
// The bounds are the errors that the HIP and OpenCL documentation grants, in units in the last place.
#include <cmath>
#include <random>

#include "check.h"

template <class F, class T>
__global__ void apply(const T* x, const T* y, T* result, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) result[i] = F::device(x[i], y[i]);
}

// A function of x, or of x and y: of the device in type T, of the host in type W.
#define FUNCTION(name, ...)                                            \
    struct F_##name {                                                  \
        template <class T>                                             \
        __device__ static T device(T x, T y) { return __VA_ARGS__; }   \
        template <class W>                                             \
        static W host(W x, W y) { using namespace std; return __VA_ARGS__; } \
        static constexpr const char* text = #name;                     \
    }

FUNCTION(sqrt, sqrt(x));
FUNCTION(divide, x / y);
FUNCTION(fma, fma(x, y, x));
FUNCTION(cbrt, cbrt(x));
FUNCTION(hypot, hypot(x, y));
FUNCTION(exp, exp(x));
FUNCTION(exp2, exp2(x));
FUNCTION(expm1, expm1(x));
FUNCTION(log, log(x));
FUNCTION(log2, log2(x));
FUNCTION(log10, log10(x));
FUNCTION(log1p, log1p(x));
FUNCTION(sin, sin(x));
FUNCTION(cos, cos(x));
FUNCTION(tan, tan(x));
FUNCTION(asin, asin(x));
FUNCTION(acos, acos(x));
FUNCTION(atan, atan(x));
FUNCTION(atan2, atan2(x, y));
FUNCTION(sinh, sinh(x));
FUNCTION(cosh, cosh(x));
FUNCTION(tanh, tanh(x));
FUNCTION(asinh, asinh(x));
FUNCTION(pow, pow(x, y));
FUNCTION(fmod, fmod(x, y));
FUNCTION(remainder, remainder(x, y));
FUNCTION(erf, erf(x));
FUNCTION(erfc, erfc(x));
FUNCTION(tgamma, tgamma(x));
FUNCTION(floor, floor(x));
FUNCTION(ceil, ceil(x));
FUNCTION(trunc, trunc(x));
FUNCTION(rint, rint(x));
FUNCTION(round, round(x));
FUNCTION(fmin, fmin(x, y));
FUNCTION(fmax, fmax(x, y));
FUNCTION(copysign, copysign(x, y));
FUNCTION(fdim, fdim(x, y));
FUNCTION(scalbn, scalbn(x, 7) + scalbn(x, -9));

// Distance in units in the last place of the nearest value of type T.
template <class T, class W>
double ulps(T got, W exact) {
    T nearest = T(exact);
    if (std::isnan(nearest)) return std::isnan(got) ? 0 : INFINITY;
    if (got == nearest) return std::fabs(double((W(got) - exact) == 0 || std::isinf(got) ? W(0) : (W(got) - exact) / W(std::nextafter(std::fabs(nearest), T(INFINITY)) - std::fabs(nearest))));
    if (std::isinf(nearest) || std::isinf(got) || std::isnan(got)) return INFINITY;
    W unit = W(std::nextafter(std::fabs(nearest), T(INFINITY))) - W(std::fabs(nearest));
    return std::fabs(double((W(got) - exact) / unit));
}

template <class T>
struct Samples {
    std::vector<T> x, y;
};

// Values of both signs between the bounds, evenly and by their exponents, and the special ones.
template <class T>
Samples<T> samples(double low, double high) {
    Samples<T> s;
    const T infinite = INFINITY;
    for (T x : {T(0), T(-0.0), T(1), T(-1), T(0.5), T(-2.5), T(3.5), infinite, -infinite, T(NAN)}) {
        for (T y : {T(0), T(-1), T(2), T(0.5), T(-3), infinite, T(NAN)}) {
            s.x.push_back(x);
            s.y.push_back(y);
        }
    }
    std::mt19937_64 random(11);
    std::uniform_real_distribution<double> even(low, high), exponent(-20, 3), other(-5, 5);
    while (s.x.size() < 512) {
        s.x.push_back(T(even(random)));
        s.y.push_back(T(other(random)));
        double small = std::exp2(exponent(random));
        s.x.push_back(T(random() % 2 && low < 0 ? -small : small));
        s.y.push_back(T(other(random)));
    }
    return s;
}

template <class F, class T, class W>
void check(const char* type, double bound, double low, double high) {
    Samples<T> s = samples<T>(low, high);
    int n = s.x.size();
    Array<T> x(s.x), y(s.y), result(n);
    apply<F, T><<<(n + 127) / 128, 128>>>(x, y, result, n);
    std::vector<T> got = result.host();
    double worst = 0;
    for (int i = 0; i < n; ++i) {
        double error = ulps<T, W>(got[i], F::template host<W>(s.x[i], s.y[i]));
        EXPECT(error <= bound, "%s %s(%.17g, %.17g) = %.17g is off by %g units", type, F::text, double(s.x[i]), double(s.y[i]), double(got[i]), error);
        if (error > worst) worst = error;
    }
    std::printf("%s %s: %d values within %g units, the worst %.3f\n", type, F::text, n, bound, worst);
}

// Half a unit, with room for the error of the wider type.
const double EXACT = 0.5000001;

template <class T, class W>
void check_type(const char* type, bool single) {
    check<F_sqrt, T, W>(type, single ? 1 : EXACT, 0, 1e6);
    check<F_divide, T, W>(type, EXACT, -1e3, 1e3);
    check<F_fma, T, W>(type, EXACT, -1e3, 1e3);
    check<F_cbrt, T, W>(type, 2, -1e6, 1e6);
    check<F_hypot, T, W>(type, 4, -1e6, 1e6);
    check<F_exp, T, W>(type, 2, single ? -80 : -700, single ? 80 : 700);
    check<F_exp2, T, W>(type, 2, -120, 120);
    check<F_expm1, T, W>(type, 2, -10, 60);
    check<F_log, T, W>(type, 2, 0, 1e6);
    check<F_log2, T, W>(type, 2, 0, 1e6);
    check<F_log10, T, W>(type, 2, 0, 1e6);
    check<F_log1p, T, W>(type, 2, -0.999, 1e6);
    check<F_sin, T, W>(type, 2, -1e6, 1e6);
    check<F_cos, T, W>(type, 2, -1e6, 1e6);
    check<F_tan, T, W>(type, 5, -1e6, 1e6);
    check<F_asin, T, W>(type, 4, -1, 1);
    check<F_acos, T, W>(type, 4, -1, 1);
    check<F_atan, T, W>(type, 5, -100, 100);
    check<F_atan2, T, W>(type, 6, -100, 100);
    check<F_sinh, T, W>(type, 4, -60, 60);
    check<F_cosh, T, W>(type, 4, -60, 60);
    check<F_tanh, T, W>(type, 5, -10, 10);
    check<F_asinh, T, W>(type, 4, -1e4, 1e4);
    check<F_pow, T, W>(type, 2, 0, 1e4);
    check<F_fmod, T, W>(type, 0, -1e3, 1e3);
    check<F_remainder, T, W>(type, 0, -1e3, 1e3);
    check<F_erf, T, W>(type, 16, -4, 4);
    check<F_erfc, T, W>(type, 16, -4, 4);
    check<F_tgamma, T, W>(type, 16, 0.1, 20);
    check<F_floor, T, W>(type, 0, -1e6, 1e6);
    check<F_ceil, T, W>(type, 0, -1e6, 1e6);
    check<F_trunc, T, W>(type, 0, -1e6, 1e6);
    check<F_rint, T, W>(type, 0, -1e6, 1e6);
    check<F_round, T, W>(type, 0, -1e6, 1e6);
    check<F_fmin, T, W>(type, 0, -10, 10);
    check<F_fmax, T, W>(type, 0, -10, 10);
    check<F_copysign, T, W>(type, 0, -10, 10);
    check<F_fdim, T, W>(type, EXACT, -10, 10);
    check<F_scalbn, T, W>(type, EXACT, -10, 10);
}

int main() {
    check_type<float, double>("float", true);
    check_type<double, long double>("double", false);
    std::printf("PASS\n");
    return 0;
}
