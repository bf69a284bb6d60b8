// Kernels with one error each that a check of `omniprobe analyze` must find, beside the same kernels without it.
#include <string>

#include "check.h"

// Reads one element too many: the last work-item's is behind its array.
__global__ void pooled(const float* in, float* out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = in[i + 1];  // pooled load
}

// Atomics of one byte, as compilers make them of those of the dword, which reaches over the end. And a read that really does.
__global__ void byte_atomics(unsigned char* out) {
    unsigned* word = reinterpret_cast<unsigned*>(out + 64);
    unsigned expected, value = *word;
    do {
        expected = value;
        value = atomicCAS(word, expected, (expected & ~255u) | ((expected + threadIdx.x) & 255));
    } while (value != expected);
    atomicOr(word, 1u);
}
__global__ void over_the_end(const unsigned char* in, unsigned* out) {
    out[threadIdx.x] = *reinterpret_cast<const unsigned*>(in + 64 - threadIdx.x % 2 * 4);  // read over the end
}

// Two instructions that need wait states between them, with one too few, and with enough. What is between is the first number of `s_nop`.
#define NOP_0
#define NOP_1 "s_nop 0\n"
#define NOP_2 "s_nop 1\n"
#define NOP_3 "s_nop 2\n"
#define NOP_4 "s_nop 3\n"
#define NOP_5 "s_nop 4\n"
#define NOP_6 "s_nop 5\n"
#define NOP_7 "s_nop 6\n"
#define NOP_8 "s_nop 7\n"
#define NOP_11 "s_nop 7\n s_nop 2\n"
#define NOP_12 "s_nop 7\n s_nop 3\n"
#define NOP_17 "s_nop 7\n s_nop 7\n s_nop 0\n"
#define NOP_18 "s_nop 7\n s_nop 7\n s_nop 1\n"
#define NOP_19 "s_nop 7\n s_nop 7\n s_nop 2\n"

// The registers that the pairs use; `%0` is the result, `%1` the work-item's number, `%2` an address, `%3` and `%4` its halves.
#define USED                                                                                                                   \
    "s20", "s21", "s22", "s23", "vcc", "memory", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", \
        "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

__device__ static unsigned low(unsigned* at) { return reinterpret_cast<uintptr_t>(at); }
__device__ static unsigned high(unsigned* at) { return reinterpret_cast<uintptr_t>(at) >> 32; }

#define PAIR(name, before, first, few, enough, second, behind)                                                    \
    __global__ void name##_early(unsigned* out) {                                                                 \
        unsigned result = 0, lane = threadIdx.x;                                                                  \
        asm volatile(before first few second behind : "+v"(result) : "v"(lane), "v"(out), "v"(low(out)), "v"(high(out)) : USED);                 \
        out[lane] = result;                                                                                       \
    }                                                                                                             \
    __global__ void name##_late(unsigned* out) {                                                                  \
        unsigned result = 0, lane = threadIdx.x;                                                                  \
        asm volatile(before first enough second behind : "+v"(result) : "v"(lane), "v"(out), "v"(low(out)), "v"(high(out)) : USED);              \
        out[lane] = result;                                                                                       \
    }

#define EVERYWHERE(ROW)                                                                                                          \
    ROW(memory_scalar, "v_readfirstlane_b32 s20, %3\n v_lshlrev_b32 v9, 2, %1\n v_mov_b32 v8, %1\n s_nop 4\n",                  \
        "v_readfirstlane_b32 s21, %4\n", NOP_4, NOP_5, "global_load_dword %0, v9, s[20:21]\n", "s_waitcnt vmcnt(0)\n")          \
    ROW(dpp, "", "v_mov_b32 v8, %1\n", NOP_1, NOP_2, "v_mov_b32_dpp %0, v8 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n", "") \
    ROW(dpp_exec, "s_mov_b64 s[22:23], exec\n v_mov_b32 v8, %1\n s_nop 1\n", "v_cmpx_eq_u32_e32 vcc, v8, v8\n", NOP_4, NOP_5,    \
        "v_mov_b32_dpp %0, v8 row_shr:1 row_mask:0xf bank_mask:0xf\n", "s_mov_b64 exec, s[22:23]\n")                             \
    ROW(div_fmas, "", "v_cmp_eq_u32_e32 vcc, %1, %1\n", NOP_3, NOP_4, "v_div_fmas_f32 %0, %1, %1, %1\n", "")                     \
    ROW(lane_select, "", "v_readfirstlane_b32 s20, %1\n", NOP_3, NOP_4, "v_readlane_b32 s21, %1, s20\n", "s_nop 1\n v_mov_b32 %0, s21\n")  \
    ROW(get_register, "", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0\n", NOP_1, NOP_2,                                      \
        "s_getreg_b32 s20, hwreg(HW_REG_MODE, 0, 4)\n", "v_mov_b32 %0, s20\n")                                                   \
    ROW(set_register, "", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0\n", NOP_1, NOP_2,                                      \
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0\n", "")

// gfx942 and gfx950 need two for a store.
#if defined(__gfx942__) || defined(__gfx950__)
#define FEW NOP_1
#define ENOUGH NOP_2
#else
#define FEW NOP_0
#define ENOUGH NOP_1
#endif
#define STORE(ROW) ROW(wide_store, WIDE, "global_store_dwordx4 v[16:17], v[8:11], off\n", FEW, ENOUGH, "v_mov_b32 v9, 0\n", "")
#define WIDE                                                                                                                 \
    "v_mov_b32 v8, 1\n v_mov_b32 v9, 2\n v_mov_b32 v10, 3\n v_mov_b32 v11, 4\n v_lshlrev_b32 v18, 4, %1\n"                      \
    "v_add_co_u32_e32 v16, vcc, %3, v18\n s_nop 1\n v_addc_co_u32_e32 v17, vcc, 0, %4, vcc\n"

#define CLEARED \
    "v_mov_b32 v8, 0\n v_mov_b32 v9, 0\n v_mov_b32 v10, 0\n v_mov_b32 v11, 0\n v_mov_b32 v12, 1.0\n v_mov_b32 v13, 1.0\n s_nop 1\n"

// A processor's own. Others have kernels of that name that do nothing.
#define GFX90A(ROW) \
    ROW(matrix_read, CLEARED, "v_mfma_f32_4x4x1f32 v[8:11], v12, v13, v[8:11]\n", NOP_4, NOP_5, "v_mov_b32 %0, v11\n", "")     \
    ROW(matrix_read_far, "", "v_mfma_f32_32x32x2f32 v[16:31], %1, %1, 0\n", NOP_18, NOP_19, "v_mov_b32 %0, v31\n", "")         \
    ROW(matrix_written, CLEARED, "v_mfma_f32_4x4x1f32 v[8:11], v12, v13, v[8:11]\n", NOP_4, NOP_5, "v_mov_b32 v8, 0\n", "")    \
    ROW(matrix_factor, CLEARED, "v_mfma_f32_4x4x1f32 v[8:11], v12, v13, v[8:11]\n", NOP_4, NOP_5,                              \
        "v_mfma_f32_4x4x1f32 v[16:19], v8, v13, 0\n", "s_nop 7\n")                                                            \
    ROW(matrix_multiplies, CLEARED, "v_mov_b32 v12, 2.0\n", NOP_1, NOP_2, "v_mfma_f32_4x4x1f32 v[8:11], v12, v13, v[8:11]\n",  \
        "s_nop 7\n")                                                                                                          \
    ROW(matrix_stored, CLEARED, "v_mfma_f32_4x4x1f32 v[8:11], v12, v13, v[8:11]\n", NOP_4, NOP_5,                              \
        "global_store_dword %2, v8, off\n", "s_waitcnt vmcnt(0)\n")                                                           \
    ROW(matrix_added, CLEARED, "v_mfma_f32_4x4x1f32 v[16:19], v12, v13, v[8:11]\n", NOP_0, NOP_1, "v_mov_b32 v8, 0\n", "")

#define GFX942(ROW) \
    ROW(transcendental, "", "v_rcp_f32 v8, %1\n", NOP_0, NOP_1, "v_mov_b32 %0, v8\n", "")                                          \
    ROW(half_of_register, "", "v_mov_b32_sdwa v8, %1 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD\n", NOP_0, NOP_1,         \
        "v_mov_b32 %0, v8\n", "")                                                                                                  \
    ROW(carry, "", "v_cmp_eq_u32_e32 vcc, %1, %1\n", NOP_1, NOP_2, "v_cndmask_b32_e32 %0, %1, %1, vcc\n", "")                      \
    ROW(lane_source, "", "v_mov_b32 v8, %1\n", NOP_0, NOP_1, "v_readfirstlane_b32 s20, v8\n", "s_nop 1\n v_mov_b32 %0, s20\n")     \
    ROW(matrix_read_942, CLEARED, "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[12:13], v[12:13], v[8:11]\n", NOP_4, NOP_5, "v_mov_b32 %0, v11\n", "") \
    ROW(matrix_read_single, CLEARED, "v_mfma_f32_4x4x1_16b_f32 v[8:11], v12, v13, v[8:11]\n", NOP_3, NOP_4, "v_mov_b32 %0, v11\n", "")

#define MANY                                                                                                                \
    "v_mov_b32 v16, 0\n v_mov_b32 v17, 0\n v_mov_b32 v18, 0\n v_mov_b32 v19, 0\n v_mov_b32 v20, 0\n v_mov_b32 v21, 0\n" \
    "v_mov_b32 v22, 0\n v_mov_b32 v23, 0\n" CLEARED
#define GFX950(ROW)                                                                                                          \
    ROW(matrix_read_950, MANY, "v_mfma_f32_16x16x32_f16 v[8:11], v[16:19], v[16:19], v[8:11]\n", NOP_7, NOP_8,                \
        "v_mov_b32 %0, v11\n", "")                                                                                           \
    ROW(matrix_of_bytes, MANY, "v_mfma_f32_16x16x128_f8f6f4 v[8:11], v[16:23], v[16:23], v[8:11]\n", NOP_11, NOP_12,          \
        "v_mov_b32 %0, v11\n", "")                                                                                           \
    ROW(matrix_of_nibbles, MANY, "v_mfma_f32_16x16x128_f8f6f4 v[8:11], v[16:19], v[20:23], v[8:11] cbsz:4 blgp:4\n", NOP_7,   \
        NOP_8, "v_mov_b32 %0, v11\n", "")                                                                                    \
    ROW(matrix_scale, MANY, "v_mov_b32 v13, 1.0\n", NOP_1, NOP_2,                                                            \
        "v_mfma_scale_f32_16x16x128_f8f6f4 v[8:11], v[16:19], v[20:23], v[8:11], v12, v13 cbsz:4 blgp:4\n",                  \
        "s_nop 7\n s_nop 7\n")                                                                                               \
    ROW(rows_of_lanes, MANY, "v_mov_b32 v8, %1\n", NOP_1, NOP_2, "v_permlane16_swap_b32 v9, v8\n", "v_mov_b32 %0, v8\n")

#define GFX908(ROW) \
    ROW(accumulator_read, "v_accvgpr_write_b32 a0, %1\n", "v_accvgpr_write_b32 a1, %1\n", NOP_2, NOP_3, "v_accvgpr_read_b32 %0, a1\n", "s_nop 1\n") \
    ROW(accumulator_read_far, "", "v_mfma_f32_32x32x2f32 a[0:15], %1, %1, a[0:15]\n", NOP_17, NOP_18, "v_accvgpr_read_b32 %0, a15\n", "s_nop 1\n")      \
    ROW(accumulator_stored, "v_accvgpr_write_b32 a0, %1\n s_nop 2\n", "v_accvgpr_read_b32 v8, a0\n", NOP_1, NOP_2,                 \
        "global_store_dword %2, v8, off\n", "s_waitcnt vmcnt(0)\n")

#define NO_PAIR(name, ...)                        \
    __global__ void name##_early(unsigned*) {}     \
    __global__ void name##_late(unsigned*) {}
#if defined(__gfx90a__)
#define PAIR_90A PAIR
#else
#define PAIR_90A NO_PAIR
#endif
#if defined(__gfx942__) || defined(__gfx950__)
#define PAIR_942 PAIR
#else
#define PAIR_942 NO_PAIR
#endif
#if defined(__gfx950__)
#define PAIR_950 PAIR
#else
#define PAIR_950 NO_PAIR
#endif
#if defined(__gfx908__)
#define PAIR_908 PAIR
#else
#define PAIR_908 NO_PAIR
#endif

EVERYWHERE(PAIR)
STORE(PAIR)
GFX90A(PAIR_90A)
GFX942(PAIR_942)
GFX950(PAIR_950)
GFX908(PAIR_908)

// Workgroups that write what others read or write, without and with an order.
__global__ void plain_histogram(const unsigned* in, unsigned* bins) {
    bins[in[blockIdx.x * blockDim.x + threadIdx.x] % 16 + 16 * threadIdx.x] += 1;  // plain increment
}
__global__ void atomic_histogram(const unsigned* in, unsigned* bins) {
    atomicAdd(bins + in[blockIdx.x * blockDim.x + threadIdx.x] % 16, 1);
}
__global__ void own_tiles(const unsigned* in, unsigned* out) {
    __shared__ unsigned tile[8][9];
    unsigned x = threadIdx.x % 8, y = threadIdx.x / 8;
    tile[y][x] = in[(blockIdx.y * 8 + y) * 32 + blockIdx.x * 8 + x];
    __syncthreads();
    out[(blockIdx.x * 8 + y) * 32 + blockIdx.y * 8 + x] = tile[x][y];
}
__global__ void own_halves(unsigned short* out) { out[blockIdx.x * 65 + threadIdx.x] = threadIdx.x; }
__global__ void first_halves(unsigned short* out) {
    if (threadIdx.x == 0) out[1] = blockIdx.x;  // write of one half
}
__global__ void neighbours(unsigned* out, unsigned* sum) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = i;
    sum[i] = out[(i + blockDim.x) % (gridDim.x * blockDim.x)];  // read of a neighbour
}
__global__ void one_word(unsigned* out) {
    if (threadIdx.x == 0) out[0] = blockIdx.x;  // write of one word
}
__global__ void one_value(unsigned* out) {
    if (threadIdx.x == 0) out[0] = 1;
}
__global__ void one_counter(unsigned* out) { atomicAdd(out, 1); }
__global__ void own_bytes(unsigned char* out) { out[blockIdx.x * 65 + threadIdx.x] = 3; }
__global__ void last_block(unsigned* parts, unsigned* counter, unsigned* sum) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        last = atomicAdd(counter, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        unsigned total = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) total += reinterpret_cast<volatile unsigned*>(parts)[b];
        *sum = total;
    }
}

// Two waves that store into LDS without a barrier: the same bytes, other bytes of a dword, and different values.
template <typename T>
__device__ void stored_twice(unsigned* out, unsigned value, unsigned at) {
    __shared__ T words[256];
    volatile T* word = words + at;
    *word = T(value);  // store by two waves
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x];
}
__global__ void same_bytes(unsigned* out) { stored_twice<unsigned char>(out, threadIdx.x % 64 + 1, threadIdx.x % 64); }
__global__ void same_halves(unsigned* out) { stored_twice<unsigned short>(out, threadIdx.x % 64 + 1, threadIdx.x % 64); }
__global__ void other_bytes(unsigned* out) { stored_twice<unsigned char>(out, threadIdx.x, threadIdx.x); }
__global__ void different_bytes(unsigned* out) { stored_twice<unsigned char>(out, threadIdx.x + 1, threadIdx.x % 64); }
__global__ void different_halves(unsigned* out) { stored_twice<unsigned short>(out, threadIdx.x + 1, threadIdx.x % 64); }
// The first wave stores again what it had stored, and then something else, while the second one has stored in between.
__global__ void stored_again(unsigned* out) {
    __shared__ unsigned words[64];
    volatile unsigned* word = words + threadIdx.x % 64;
    *word = 1;
    if (threadIdx.x < 64) {
        __builtin_amdgcn_s_sleep(100);
        *word = 1;
        *word = 2;  // store of another value
    }
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x % 64];
}

static void run(void (*kernel)(unsigned*)) {
    Array<unsigned> out(64 * 4);
    kernel<<<1, 64>>>(out);
    CHECK(hipDeviceSynchronize());
}

int main() {
    Array<float> pool(std::vector<float>(1024, 1.0f));
    pooled<<<1, 64>>>(pool, pool + 512, 64);
    CHECK(hipDeviceSynchronize());

    Array<unsigned char> bytes(65);
    Array<unsigned> read(64);
    byte_atomics<<<1, 64>>>(bytes);
    over_the_end<<<1, 64>>>(bytes, read);
    CHECK(hipDeviceSynchronize());

    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::string name = properties.gcnArchName;
    std::string processor = name.substr(0, name.find(':'));
#define START(pair, ...)             \
    run(pair##_early); \
    run(pair##_late);
    EVERYWHERE(START)
    STORE(START)
    if (processor == "gfx90a") {
        GFX90A(START)
    }
    if (processor == "gfx942" || processor == "gfx950") {
        GFX942(START)
    }
    if (processor == "gfx950") {
        GFX950(START)
    }
    if (processor == "gfx908") {
        GFX908(START)
    }

    Array<unsigned> out(4096), sum(4096);
    neighbours<<<4, 64>>>(out, sum);
    one_word<<<4, 64>>>(out);
    one_value<<<4, 64>>>(out);
    one_counter<<<4, 64>>>(out);
    own_bytes<<<4, 65>>>(reinterpret_cast<unsigned char*>(static_cast<unsigned*>(sum)));
    own_halves<<<4, 65>>>(reinterpret_cast<unsigned short*>(static_cast<unsigned*>(sum)));
    first_halves<<<4, 65>>>(reinterpret_cast<unsigned short*>(static_cast<unsigned*>(sum)));
    plain_histogram<<<4, 64>>>(out, sum);
    atomic_histogram<<<4, 64>>>(out, sum);
    own_tiles<<<dim3(4, 4), 64>>>(out, sum);
    for (auto kernel : {same_bytes, same_halves, other_bytes, different_bytes, different_halves, stored_again})
        kernel<<<1, 128>>>(sum);
    Array<unsigned> parts(64), counter(1), total(1);
    last_block<<<16, 64>>>(parts, counter, total);
    EXPECT(total.host()[0] == 136, "the sum is %u", total.host()[0]);
    std::puts("PASS");
}
