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

// Words of which some bytes are written, as arithmetic on parts of registers reads them. `store` is the part of a result that is stored.
#define PARTS(name, written, store, text)                                          \
    __global__ void name(const unsigned* in, unsigned* out) {                      \
        __shared__ volatile unsigned char s[256];                                  \
        unsigned t = threadIdx.x, word, old = in[t], result = old;                 \
        for (unsigned byte = 0; byte < 4; byte++)                                  \
            if ((written) >> byte & 1) s[4 * t + byte] = in[t];                    \
        __syncthreads();                                                           \
        word = *reinterpret_cast<volatile unsigned*>(s + 4 * (63 - t));            \
        asm volatile(text : "+&v"(result) : "v"(word), "v"(old));                   \
        reinterpret_cast<store*>(out)[t] = result;                                 \
    }
PARTS(right_low_half, 3, unsigned short, "v_pk_add_f16 %0, %1, %1")
PARTS(right_high_twice, 12, unsigned, "v_pk_add_f16 %0, %1, %2 op_sel:[1,0] op_sel_hi:[1,1]")
PARTS(wrong_low_twice, 12, unsigned, "v_pk_add_f16 %0, %1, %2 op_sel_hi:[0,1]")
PARTS(right_accumulated_half, 3, unsigned short, "v_mov_b32 %0, %1\n v_fma_f16 %0, %1, %1, %0")
PARTS(right_three_bytes, 7, unsigned, "v_mad_u32_u24 %0, %1, %1, %2")
PARTS(wrong_addend, 7, unsigned, "v_mad_u32_u24 %0, %2, %2, %1")
PARTS(right_chosen_half, 12, unsigned, "v_mad_u32_u16 %0, %1, %1, %2 op_sel:[1,1,0,0]")
PARTS(wrong_chosen_half, 3, unsigned, "v_mad_u32_u16 %0, %1, %1, %2 op_sel:[1,0,0,0]")
PARTS(right_mixed, 12, unsigned, "v_fma_mix_f32 %0, %1, %1, %2 op_sel:[1,1,0] op_sel_hi:[1,1,0]")
PARTS(wrong_mixed, 12, unsigned, "v_fma_mix_f32 %0, %1, %1, %2 op_sel:[0,1,0] op_sel_hi:[1,1,0]")
PARTS(right_mixed_high, 12, unsigned, "v_fma_mixhi_f16 %0, %1, %1, %2 op_sel:[1,1,0] op_sel_hi:[1,1,0]")
PARTS(wrong_kept_half, 3, unsigned, "v_mov_b32 %0, %1\n v_fma_mixlo_f16 %0, %2, %2, %2")
PARTS(right_written_half, 12, unsigned, "v_mov_b32 %0, %1\n v_fma_mixlo_f16 %0, %2, %2, %2")

int main() {
    Array<unsigned> in(1024), out(1024);
    for (auto kernel : {right_small, right_wide, right_bit_field, right_bytes, wrong_element, wrong_sum, wrong_byte, wrong_branch,
                        right_low_half, right_high_twice, wrong_low_twice, right_accumulated_half, right_three_bytes, wrong_addend,
                        right_chosen_half, wrong_chosen_half, right_mixed, wrong_mixed, right_mixed_high, wrong_kept_half,
                        right_written_half}) {
        kernel<<<1, 64>>>(in, out);
        CHECK(hipDeviceSynchronize());
    }
    std::puts("PASS");
}
