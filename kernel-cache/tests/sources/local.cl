// A kernel with a pointer into dynamic LDS; if `OWN` is defined, with LDS of its own in front of it.
#define L __builtin_amdgcn_workitem_id_x()
#ifndef ROOM
#define ROOM uint
#endif
kernel void turn(global const uint *in, global uint *out, local uint *first, local ROOM *second) {
#ifdef OWN
    local uint own[OWN];
    own[L % OWN] = in[L];
    out[L + 64] = own[(L + 1) % OWN];
#endif
    first[L] = in[L];
    second[L] = (ROOM)in[L + 64];
    out[L] = first[63 - L];
}
