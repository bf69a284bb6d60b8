// Names that compilers mangle in every way that there is: constraints, packs, lambdas, expressions, qualified types. Nothing is
// run; the symbols of the object file are compared.
#include <cstddef>
#include <type_traits>
#include <utility>
#include <concepts>
#include <tuple>
template<class T> concept Number = std::is_arithmetic_v<T>;
template<class T, class U> concept Same = std::same_as<T,U>;
template<auto N> struct Val {};
struct A { int x; int f(int) const; static int s; template<class T> operator T() const; int operator()(int) const&; };
template<class T> A::operator T() const { return T(); }
template<Number T> void n1(T*) {}
template<class T> requires Number<T> && (sizeof(T) > 2) void n2(T) {}
template<class T> void n3(T t) requires requires (T a) { a + a; typename T::type; { a.f() } noexcept -> Number; requires !Number<T>; } {}
template<class T> void n4(T) requires Number<T> || (!Number<T> && std::is_class_v<T>) {}
template<Same<int> T, auto V> void n5(T) {}
template<Number auto V, class T> void n6(T*) {}
template<class T, T... V> void n7(std::integer_sequence<T, V...>) {}
template<class... T> void n8(std::tuple<T...>, T&&...) {}
template<class... T> auto n9(T... t) -> decltype((t + ...)) { return (t + ...); }
template<class... T> auto n10(T... t) -> decltype((0 + ... + t)) { return (0 + ... + t); }
template<class... T> auto n11(T... t) -> decltype((... && t)) { return (... && t); }
template<class... T> auto n12(T... t) -> std::enable_if_t<(sizeof...(t) > 1) && (sizeof...(T) < 9), int> { return 0; }
template<template<class...> class C, class T> void n13(C<T>) {}
template<class F> void call(F f) { f(1); }
template<int (*F)(int)> int nt() { return F(1); }
template<auto F, class T> int nt2(T) { return 0; }
template<int A::* M> int mp() { return 0; }
template<int (A::* M)(int) const> int mpf() { return 0; }
static int twice(int a) { return 2*a; }
struct S { int a; float b; };
template<S V> void sv() {}
template<float V> void fv() {}
template<double V> void dv() {}
template<bool B, char C, unsigned char UC, short SS, unsigned short US, long long LL, unsigned long long ULL, wchar_t W, char32_t C32> void ints() {}
enum class E : int { a = -1, b = 2 }; 
template<E e> void en() {}
template<std::nullptr_t P> void np() {}
template<class T> auto d1(T t) -> decltype(t.x) { return t.x; }
template<class T> auto d2(T t) -> decltype(static_cast<long>(t[1])) { return 0; }
template<class T> auto d3(T* t) -> decltype(t->x ? t->x : -t->x) { return 0; }
template<class T> auto d4(T t) -> decltype(new T(t)) { return 0; }
template<class T> auto d5(T t) -> decltype(T{1, 2.0f}) { return t; }
template<class T> auto d6(T t) -> decltype(noexcept(t), sizeof(t) + alignof(T)) { return 1; }
template<class T> auto d7(T t) -> decltype(T::template make<int>(t)) { return {}; }
template<class T> auto d8(T t) -> decltype(t.~T(), 1) { return 1; }
template<class T> auto d9(T t) -> decltype(t++ , ++t, t--, !t) { return 1; }
template<class T> auto d10(T t) -> decltype((t << 1) > 1 ? (T)(t) : T(t)) { return t; }
template<class T> auto d11(T t) -> Val<(T(3) > T(2))> { return {}; }
template<class T> auto d12(T t) -> decltype(::twice(t) * (t + 2)) { return 1; }
template<class T> auto d13(T t) -> decltype(t.template get<0>()) { return 1; }
struct G { template<int> int get() const { return 1;} template<class T> static int make(G) {return 1;} int x; using type=int; int f() noexcept; G operator+(G) const; template<class T> static constexpr T var = T{}; };
template<class T, std::enable_if_t<std::is_integral_v<T>, int> = 0> void e1(T) {}
template<class T, class = std::enable_if_t<!std::is_integral_v<T>>> void e2(T) {}
template<int N> void arr(int (&)[N], const float (*)[4][N]) {}
template<class R, class... As> void fp(R (*)(As...), R (&)(As...) noexcept, R (A::*)(As...) const &) {}
template<class T> using V4 = T __attribute__((ext_vector_type(4)));
void vec(V4<float>, V4<int>*) {}
void c1(_Complex double, __int128, unsigned __int128, _BitInt(7), unsigned _BitInt(33), __bf16, _Float16, char8_t, char16_t) {}
template<typename T> void bi(_BitInt(sizeof(T) * 8)*) {}
inline auto lam = [](auto x, auto... y) { return x; };
inline auto lam2 = []<class T, int N, template<class> class C, Number Q, class... R>(T x, C<T>*, Q, R...) { static int z; return &z; };
inline auto lam3 = []<class T> requires Number<T> (T x) requires (sizeof(T) == 4) { return x; };
namespace { struct Hidden { void m() {} }; template<class T> void hid(T) {} }
template<class T> struct Tmpl { template<class U> void m(U) const &&; template<class U> friend void fr(Tmpl, U) requires Number<U> {} Tmpl(int); ~Tmpl(); T operator[](int) volatile; operator T*() const; struct In { void g(); template<class V> struct Dp { void h(V); }; }; bool operator>(Tmpl const&) const; template<class U> bool operator<=>(U) const; };
template<class T> template<class U> void Tmpl<T>::m(U) const && {}
template<class T> Tmpl<T>::Tmpl(int) {} 
template<class T> Tmpl<T>::~Tmpl() {} 
template<class T> T Tmpl<T>::operator[](int) volatile { return T(); }
template<class T> Tmpl<T>::operator T*() const { return nullptr; }
template<class T> void Tmpl<T>::In::g() {}
template<class T> template<class V> void Tmpl<T>::In::Dp<V>::h(V) {}
template<class T> bool Tmpl<T>::operator>(Tmpl const&) const { return true; }
template<class T> template<class U> bool Tmpl<T>::operator<=>(U) const { return true; }
template<class T> void fw(typename Tmpl<T>::In*, typename T::type) {}
int operator""_km(unsigned long long x) { return x; }
void qual(int *__restrict a, const volatile char* const* b, float const (&c)[3], int (*(*d)(long))(char)) {}
template<class T> struct Ex { void self(this Ex const&, int) {} };
struct __attribute__((abi_tag("v1"))) Tag {}; Tag tg(Tag) { return {}; }
__attribute__((abi_tag("x","y"))) int tagged(int) { return 0; }
__attribute__((enable_if(true, "always"))) void enif(int) {}
void as(__attribute__((address_space(3))) int* a, const __attribute__((address_space(1))) float* b) {}
template<const char* P> void str() {} 
extern const char glob[3] = "ab";
int arr0[4]; template<int* P> void ptr() {} template<int& R> void ref() {}
template<class T> void req_(T) requires (Number<T> && requires { new T; sizeof(T); }) {}
template<class... T> struct Pk { template<class... U> void pp(std::pair<T, U>...) {} };
template<int... N> void fold2(Val<(N + ...)>, Val<(... * N)>, Val<N>...) {}
template<template<Number auto> class X> void ttn(X<1>) {}
template<template<class, auto...> class X> void ttp(X<int, 1>) {}
template<Number auto N> struct NA {}; template<class T, auto...> struct TA {};
template<class T> void unn(T) {}
auto hdr() { struct Local { int q; void lm() {} }; return Local{}; }
inline auto outer() { return [](int i) { return [=](auto j) { struct L {} l; unn(l); return i + j; }; }; }
union U_ { int a; }; enum { anon1 }; template<class T> void ts(struct A*, T) {}
int main() {
  int i = 0; A a; G g; int ar[5]; n1(&i); n2(1.0); n4(a); n5<int, 3>(1); n5<int, 'c'>(1); n6<3u>(&i); n7(std::integer_sequence<int,1,2,3>{}); n7(std::integer_sequence<char>{}); 
  n8(std::tuple<>{}); n8(std::tuple<int,float>{}, 1, 2.f); n9(1,2.0,3l); n10(1,2); n11(true,false); n12(1,2,3); n13(std::tuple<int>{});
  call([](int){ }); call([&]<class T>(T t) { unn([=]{ return t; }); }); call(lam); nt<twice>(); nt2<twice>(1); nt2<&A::x>(1.0); nt2<&A::f>(2); nt2<S{1,2.5f}>(1); nt2<&arr0[1]>(0); nt2<E::b>(0); nt2<1.5>(0); nt2<-3ll>(0); nt2<[](int x){ return x; }>(1);
  mp<&A::x>(); mpf<&A::f>(); sv<S{-3, 0.1f}>(); fv<-0.375f>(); fv<0.f>(); dv<1e300>(); dv<5e-324>(); ints<true,'a',(unsigned char)7,-3,4,-5ll,6ull,L'x',U'y'>(); en<E::a>(); np<nullptr>();
  d1(g); d2(ar); d3(&g); d4(g); d5(S{}); d6(1); d7(g); d9(1); d10(1); d11(4); d12(1); d13(g); d8(g); e1(1); e2(1.f); arr(ar, (const float(*)[4][5])nullptr); 
  float x = a; (void)x; lam(1, 2.0, 'c'); struct Q1{}; bi<int>(nullptr); lam3(1); lam3(2.0f); hid(Hidden{}); Hidden{}.m(); Tmpl<int> t(1); t[1]; std::move(t).m(2.0); (int*)t; fr(t, 1); Tmpl<float>::In{}.g(); Tmpl<float>::In::Dp<int>{}.h(1); t > t; (void)(t <=> 1); fw<G>(nullptr, 1); Ex<int>{}.self(1); str<glob>(); ptr<arr0>(); ptr<&arr0[2]>(); ref<arr0[1]>(); req_(1); Pk<int,char>{}.pp<long,bool>({}, {}); fold2<1,2>({}, {}, {}, {});  ttp(TA<int,1>{}); unn(hdr()); hdr().lm(); outer()(1)(2.0); unn(Q1{}); unn(anon1); ts(&a, U_{}); (&fp<int,int>); n3(g); 
}
template<class F> void unnamed(F) {}
int uses_locals(int n) {
    struct Local { int operator()(int) const { return 0; } };
    auto each = []<template<class> class C, class T, T... V>(C<T>*, T (&...array)[V]) { unnamed([] {}); };
    unnamed(Local{}); unnamed(each); unnamed([n](auto&&... x) mutable -> decltype(auto) { return n + (x + ...); });
    return n;
}
template<class T> __attribute__((noinline)) auto nested(T t) { return [t](auto u) { return [=](auto... v) { return ((t + u) + ... + v); }; }; }
int uses_nested() { auto a = nested(1)(2.0f); return a(3, 4l); }
