// Kernels of a code object with an initialiser, if `INIT` is defined: without it, the variable is zero.
#define L __builtin_amdgcn_workitem_id_x()
global uint table[64];
global uint *place = table;
global uint others[64] = {1, 2, 3};
constant uint seeds[4] = {5, 6, 7, 8};
#ifdef INIT
__attribute__((constructor)) void fill(void) {
    for (uint k = 0; k < 64; ++k)
        place[k] = k * 3 + seeds[k & 3];
}
#endif
kernel void lookup(global uint *out) { out[L] = table[L]; }
kernel void counted(global uint *out) { out[L] = others[L]++; }
kernel void seeded(global uint *out) { out[L] = seeds[L & 3]; }
kernel void plain(global uint *out) { out[L] = L * 3 + 1; }
