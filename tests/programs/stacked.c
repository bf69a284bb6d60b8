// For the GPU: a kernel whose instrumented clone needs a stack of unknown size, since it calls itself. With -DBOTH the kernel does, too.
#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

static __attribute__((noinline)) unsigned nested(unsigned level, GLOBAL const unsigned *in) {
    volatile unsigned kept[8];
    for (unsigned i = 0; i < 8; ++i) kept[i] = in[level * 8 + i];
    unsigned sum = level ? nested(level - 1, in) : 0;
    // No loop does the same.
    for (unsigned i = 0; i < 8; ++i) sum = sum * 3 ^ kept[i];
    return sum;
}

static unsigned item(void) { return __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x(); }

KERNEL void summed(GLOBAL const unsigned *in, GLOBAL unsigned *out, unsigned levels) {
#ifdef BOTH
    unsigned sum = nested(levels, in);
#else
    unsigned sum = 0;
    for (unsigned i = 0; i < 8 * (levels + 1); ++i) sum = sum * 3 ^ in[i];
#endif
    out[item()] = sum + item();
}

KERNEL void __amd_crk_summedPv(GLOBAL const unsigned *in, GLOBAL unsigned *out, unsigned levels,
                                                       GLOBAL void *descriptor) {
    out[item()] = nested(levels, in) + item();
}
