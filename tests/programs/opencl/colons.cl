// Kernels whose names differ only in front of a colon.
#define L __builtin_amdgcn_workitem_id_x()
#ifndef ONE
kernel void first(global uint *out) __asm__("a:b");
kernel void first(global uint *out) { out[L] = L + FIRST; }
#endif
kernel void second(global uint *out) __asm__("b");
kernel void second(global uint *out) { out[L] = L + SECOND; }
