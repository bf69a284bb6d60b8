// Structures with padding, bit fields and packed bytes, which are copied whole: kernels `right_` use only what was written.

#include "check.h"

struct Small {
    char c;
    unsigned u;
};
struct Wide {
    int i;
    double d;
};
struct Bits {
    unsigned low : 12, high : 20;
};

__global__ void right_small(const unsigned* in, unsigned* out) {
    __shared__ Small s[64];
    unsigned t = threadIdx.x;
    s[t].c = in[t];
    s[t].u = in[t + 64];
    __syncthreads();
    reinterpret_cast<Small*>(out)[t] = s[63 - t];
}
__global__ void right_wide(const unsigned* in, unsigned* out) {
    __shared__ Wide s[64];
    unsigned t = threadIdx.x;
    s[t].i = in[t];
    s[t].d = in[t + 64];
    __syncthreads();
    Wide sum = s[63 - t];
    sum.i += t;
    reinterpret_cast<Wide*>(out)[t] = sum;
}
__global__ void right_bit_field(const unsigned* in, unsigned* out) {
    __shared__ Bits s[64];
    unsigned t = threadIdx.x;
    ((volatile Bits*)s)[t].low = in[t];
    ((volatile Bits*)s)[t].high = t;
    __syncthreads();
    out[t] = s[63 - t].low + s[63 - t].high;
}
// Of four bytes two are written, and used: for an address, in a branch, and in a sum.
__global__ void right_bytes(const unsigned* in, unsigned* out) {
    __shared__ unsigned char s[256];
    unsigned t = threadIdx.x;
    s[4 * t] = in[t] & 63;
    s[4 * t + 1] = t;
    __syncthreads();
    unsigned word = reinterpret_cast<volatile unsigned*>(s)[63 - t];
    unsigned low = word & 0xff, next = (word >> 8) & 0xff;
    if (next > 5) low += 1;
    out[low & 63] = next;
    reinterpret_cast<unsigned char*>(out + 256)[t] = word;
}

__global__ void wrong_element(const unsigned* in, unsigned* out) {
    __shared__ volatile unsigned s[128];
    unsigned t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    out[t] = s[t + 64];  // stored, not written
}
__global__ void wrong_sum(const unsigned* in, unsigned* out) {
    __shared__ volatile unsigned s[128];
    unsigned t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    reinterpret_cast<uint4*>(out)[t] = make_uint4(1, 2, s[t + 64] * 3 + s[t], 4);  // a sum of what is not written
}
__global__ void wrong_byte(const unsigned* in, unsigned* out) {
    __shared__ volatile unsigned char s[256];
    unsigned t = threadIdx.x;
    s[4 * t] = in[t];
    __syncthreads();
    reinterpret_cast<unsigned char*>(out)[t] = s[4 * t + 1];  // a byte that is not written
}
__global__ void wrong_branch(const unsigned* in, unsigned* out) {
    __shared__ volatile unsigned char s[256];
    unsigned t = threadIdx.x;
    s[4 * t] = in[t];
    __syncthreads();
    unsigned word = *reinterpret_cast<volatile unsigned*>(s + 4 * (63 - t));
    if ((word >> 8) & 1) out[t] = 1;  // a branch on what is not written
}

int main() {
    Array<unsigned> in(1024), out(1024);
    for (auto kernel : {right_small, right_wide, right_bit_field, right_bytes, wrong_element, wrong_sum, wrong_byte, wrong_branch}) {
        kernel<<<1, 64>>>(in, out);
        CHECK(hipDeviceSynchronize());
    }
    std::puts("PASS");
}
