// The same values, computed or, if `INIT` is defined, from a variable that only an initialiser fills.
#define L __builtin_amdgcn_workitem_id_x()
#ifdef INIT
global uint table[64];
__attribute__((constructor)) void fill(void) {
    for (uint k = 0; k < 64; ++k) table[k] = k * 3 + 1;
}
kernel void lookup(global uint *out) { out[L] = table[L]; }
#else
kernel void lookup(global uint *out) { out[L] = L * 3 + 1; }
#endif
kernel void plain(global uint *out) { out[L] = L + PLUS; }
