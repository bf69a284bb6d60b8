// A kernel in many builds: each define is one difference that a swap has to notice, or not.
#ifndef FACTOR
#define FACTOR float
#endif
#ifndef ATTRIBUTES
#define ATTRIBUTES
#endif

#ifdef TABLE
constant int table[4] = {1, 2, 3, 4};
#endif
#ifdef STATE
global int state = 4;
#endif
#ifdef ELSEWHERE
extern global int elsewhere __attribute__((visibility("default")));
#elif defined UNUSED
// Left behind by macros of assembly.
__asm__(".globl UNDEF\n.set alias, UNDEF");
#endif

ATTRIBUTES kernel void scale(
#ifdef ORDER
    FACTOR factor, global float* data
#elif defined SPACE
    constant float* data, FACTOR factor
#else
    global float* data, FACTOR factor
#endif
#ifdef COUNT
    , int more
#endif
#ifdef DYNAMIC_LDS
    , local float* dynamic
#endif
) {
    int i = __builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workgroup_id_x() * 64;
#ifdef SPACE
    // The same 64 bits.
    global float* out = (global float*)(unsigned long)data;
#else
    global float* out = data;
#endif
#ifdef BLOCKS
    i = __builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x();
#endif
#ifdef LDS
    local float shared[LDS];
    shared[i & (LDS - 1)] = out[i];
    __builtin_amdgcn_s_barrier();
    out[i] = shared[(i + 1) & (LDS - 1)];
#endif
#ifdef SCRATCH
    volatile float stack[SCRATCH];
    stack[i & (SCRATCH - 1)] = out[i];
    out[i] += stack[(int)out[i] & (SCRATCH - 1)];
#endif
#ifdef REGISTERS
    __asm__ volatile("v_mov_b32 v100, 0" ::: "v100");
#endif
#ifdef TABLE
    out[i] += table[i & 3];
#endif
#ifdef ELSEWHERE
    out[i] += elsewhere;
#endif
#ifdef HIDDEN
    // What the device's library does to find the buffer for printf and others: LLVM sees which of them are used.
    constant char* hidden = (constant char*)__builtin_amdgcn_implicitarg_ptr();
    out[i] += *(constant unsigned long*)(hidden + HIDDEN);
#endif
#ifdef LONG
    // Four hundred kilobytes of instructions that do nothing.
    __asm__ volatile(".fill 100000, 4, 0xbf800000");
#endif
#ifdef STATE
    out[i] += state++;
#endif
#ifdef DYNAMIC_LDS
    dynamic[i & 63] = out[i];
    __builtin_amdgcn_s_barrier();
    out[i] = dynamic[(i + 1) & 63];
#endif
    out[i] *= (float)factor;
}
