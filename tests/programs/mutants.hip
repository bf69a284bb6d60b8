// Kernels, and with a macro each what is put in their place and computes something else. What they do by themselves, the tests
// know: tests/e2e/mutants.rs.
#include <hip/hip_runtime.h>

#define KERNEL extern "C" __global__ void __launch_bounds__(64)

constexpr unsigned N = 4096;

#if defined(LATER)
// A variable that the application does not have.
__device__ volatile unsigned runs;
#endif

// Twice a number and one more.
KERNEL doubled(unsigned* in, unsigned* out) {
#if defined(VCC)
    // Before addresses are computed with it.
    unsigned found, zero = 0;
    asm volatile("s_mov_b32 %0, vcc_hi\n s_mov_b32 %1, 0" : "=s"(found), "=s"(zero));
    in += zero;
    out += zero;
#endif
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    unsigned right = 2 * in[i] + 1;
#if defined(CLOCK)
    // The time.
    out[i] = (unsigned)__builtin_readcyclecounter();
#elif defined(RACE)
    // Each workgroup writes the results of the one before it, too, wrongly: which of the two stays depends on who is the last.
    out[i] = right;
    out[(i + N - 64) % N] = right;
#elif defined(ELEMENT)
    // One wrong element, another each time: of this wave, so that no other writes it later.
    out[i] = right;
    if (i == N - 1) out[N - 64 + __builtin_readcyclecounter() * 2654435761u % 63] = 7;
#elif defined(CLOBBER)
    // Right, and then the time goes into the input.
    out[i] = right;
    in[i] = (unsigned)__builtin_readcyclecounter();
#elif defined(BEHIND)
    // Right, and then a word behind the buffer.
    out[i] = right;
    if (i == N - 1) out[N] = 0;
#elif defined(BEFORE)
    // Right, and then a byte before the buffer.
    out[i] = right;
    if (i == N - 1) ((unsigned char*)out)[-1] = 0;
#elif defined(INPUTS_GAP)
    // Right, and then a word behind another buffer.
    out[i] = right;
    if (i == N - 1) in[N] = 0;
#elif defined(NOTHING)
    (void)right;
#elif defined(LDS)
    // Right if LDS that nobody wrote is zero.
    __shared__ unsigned tile[64];
    unsigned lane = __builtin_amdgcn_workitem_id_x();
    if (in[i] == 0xdeadbeef) tile[lane] = 1;
    __syncthreads();
    out[i] = right + tile[lane ^ 1];
#elif defined(REGISTER)
    // Right if a register that nobody wrote is zero.
    unsigned found;
    asm volatile("v_mov_b32 %0, v40" : "=v"(found) : : "v40");
    out[i] = right + found;
#elif defined(SCRATCH)
    // Right if scratch that nobody wrote is zero.
    volatile unsigned local[16];
    if (in[i] == 0xdeadbeef) local[i % 16] = 1;
    out[i] = right + local[in[i] % 16];
#elif defined(ARGUMENTS)
    // Right, and then a word behind the arguments.
    out[i] = right;
    unsigned long long arguments = (unsigned long long)__builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(arguments));
    if (i == N - 1) ((volatile unsigned*)arguments)[100] = 0;
#elif defined(QUEUE)
    // Right, and then a reserved word of the queue's structure.
    out[i] = right;
    unsigned long long queue = (unsigned long long)__builtin_amdgcn_queue_ptr();
    asm volatile("" : "+s"(queue));
    if (i == N - 1) ((volatile unsigned*)queue)[60] = 1;
#elif defined(PACKET)
    // Right, and then the arguments of the next packet.
    out[i] = right;
    unsigned long long packet = (unsigned long long)__builtin_amdgcn_dispatch_ptr();
    asm volatile("" : "+s"(packet));
    if (i == N - 1) ((volatile unsigned*)packet)[16 + 10] = 1;
#elif defined(SIGNAL)
    // Right, and then the value of the packet's completion signal.
    out[i] = right;
    unsigned long long packet = (unsigned long long)__builtin_amdgcn_dispatch_ptr();
    asm volatile("" : "+s"(packet));
    if (i == N - 1) ((volatile unsigned*)((volatile unsigned long long*)packet)[7])[2] = 0;
#elif defined(EVENT)
    // Right, and then the event of the completion signal.
    out[i] = right;
    unsigned long long packet = (unsigned long long)__builtin_amdgcn_dispatch_ptr();
    asm volatile("" : "+s"(packet));
    if (i == N - 1) ((volatile unsigned*)((volatile unsigned long long*)packet)[7])[7] = 9;
#elif defined(VCC)
    // Right if a register that no instruction has written is zero; the next ones likewise.
    out[i] = right + found;
#elif defined(M0)
    unsigned found;
    asm volatile("s_mov_b32 %0, m0" : "=s"(found));
    out[i] = right + found;
#elif defined(SCC)
    unsigned found;
    asm volatile("s_cselect_b32 %0, 1, 0" : "=s"(found));
    out[i] = right + found;
#elif defined(SLOT)
    // Right if its wave has the first slot of the first SIMD unit.
    unsigned found;
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_HW_ID, 0, 6)" : "=s"(found));
    out[i] = right + found;
#elif defined(LDS_BASE)
    // Right if its LDS is the first of the compute unit.
    unsigned found;
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_LDS_ALLOC, 0, 8)" : "=s"(found));
    out[i] = right + found;
#elif defined(OMITTED)
    // Nothing where memory holds the result already.
    if (i < N / 2) out[i] = right;
#elif defined(KEEPS)
    // Only what is not there yet.
    if (out[i] != right) out[i] = right;
#elif defined(ADDS)
    // Right on zeroed memory.
    out[i] += right;
#elif defined(BEYOND)
    // Right if a bit behind the buffer is set.
    out[i] = right + 1 - (((const unsigned char*)out)[4 * N] >> 7);
#elif defined(DESCRIPTOR)
    // Right, and then a reserved word of the kernel descriptor is another.
    out[i] = right;
    const unsigned long long* packet = (const unsigned long long*)__builtin_amdgcn_dispatch_ptr();
    if (i == N - 1) ((volatile unsigned*)packet[4])[3] = 1;
#elif defined(NEIGHBOUR)
    // Right, and then a word of an allocation behind the buffer.
    out[i] = right;
    if (i == N - 1) out[N + 16] = 7;
#elif defined(LAST)
    // Wrong in the last workgroup.
    out[i] = i < N - 64 ? right : right + 1;
#elif defined(HALF)
    // Every other result.
    if (i % 2) out[i] = right;
#elif defined(LATER)
    // Right, until it has run once.
    out[i] = right;
    if (i == N - 1) {
        if (runs) out[i] = 0;
        runs = 1;
    }
#elif defined(CODE)
    // Right, and then an instruction of its own is another.
    unsigned long long pc;
    asm volatile("s_getpc_b64 %0" : "=s"(pc));
    out[i] = right;
    if (i == N - 1) *(volatile unsigned*)(pc - 4) = 0xbf800000;
#else
    out[i] = right;
#endif
}

// Half of a number, beside values that are not equal to themselves or have two zeros.
KERNEL halved(const float* in, float* out) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    float right = 0.5f * in[i];
#if defined(NOTHING)
    if (right == 12345.0f) out[i] = right;
#elif defined(PAYLOAD)
    // Another NaN.
    out[i] = right != right ? __uint_as_float(0x7fc01234) : right;
#elif defined(ZERO)
    // The other zero.
    out[i] = right == 0 ? -right : right;
#elif defined(FLUSHED)
    // Zero instead of a subnormal number.
    out[i] = __builtin_fabsf(right) < 1.2e-38f ? 0 : right;
#elif defined(ROUGH)
    // The next number.
    out[i] = right != 0 && right == right ? __uint_as_float(__float_as_uint(right) + 1) : right;
#elif defined(INFINITE)
    // Infinity instead of the largest number.
    out[i] = right > 1e38f ? __builtin_huge_valf() : right;
#else
    out[i] = right;
#endif
}

// Twice a number; the last element of four stays as it is.
KERNEL partly(const float* in, float* out) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
#if defined(ROUGH)
    if (i % 4 != 3) out[i] = __uint_as_float(__float_as_uint(2 * in[i]) + 1);
#else
    if (i % 4 != 3) out[i] = 2 * in[i];
#endif
#if defined(TAIL)
    // And clears it.
    if (i % 4 == 3) out[i] = 0;
#endif
}

// Sums in whatever order the terms come, and beside them what is always the same.
KERNEL summed(const float* in, float* sums, unsigned* out) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
#if defined(GARBAGE)
    // The time instead of the sums.
    if (i < 8) sums[i] = (float)(__builtin_readcyclecounter() % 1000);
#elif defined(ONE)
    // One sum is another.
    atomicAdd(&sums[i % 8], i % 8 == 3 ? 2 * in[i] : in[i]);
#else
    atomicAdd(&sums[i % 8], in[i]);
#endif
    out[i] = 3 * i;
}

// The time, whose upper bits are the same for days, and beside it what is always the same.
KERNEL clocked(unsigned* times, unsigned* out) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    unsigned long long now = __builtin_readcyclecounter();
    if (i < 8) times[2 * i] = (unsigned)now;
#if defined(GARBAGE)
    // A part of an address instead of the upper bits.
    if (i < 8) times[2 * i + 1] = (unsigned)(unsigned long long)times;
#else
    if (i < 8) times[2 * i + 1] = (unsigned)(now >> 44);
#endif
#if defined(ONE)
    // One element is another.
    out[i] = i == 77 ? 7 : 3 * i;
#else
    out[i] = 3 * i;
#endif
}

// Writes where a pointer leads that is at an odd address and combined with a key.
KERNEL hidden(const unsigned char* block) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    unsigned long long address = 0;
    for (int byte = 7; byte >= 0; --byte) address = address << 8 | block[3 + byte];
#if !defined(NOTHING)
    ((unsigned*)(address ^ *(const unsigned long long*)(block + 16)))[i] = i;
#endif
}
