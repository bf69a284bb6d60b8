// A kernel with offsets into dynamic LDS; if `OWN` is defined, with LDS of its own in front of it.
#define L __builtin_amdgcn_workitem_id_x()
#define BARRIER                                                \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");     \
    __builtin_amdgcn_s_barrier();                              \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
kernel __attribute__((reqd_work_group_size(64, 1, 1))) void turn(global const uint *in, global uint *out, local uint *room,
                                                                 local uint *other) {
    uint l = L, more = 0;
#ifdef OWN
    local uint own[OWN];
    own[l % OWN] = in[l % OWN] * 5;
#endif
    room[l] = in[l];
    other[l] = in[63 - l];
    BARRIER
#ifdef OWN
    more = own[(l ^ 1) % OWN] - in[(l ^ 1) % OWN] * 5;
#endif
    out[l] = room[63 - l] * 3 + other[l ^ 1] + more;
}
