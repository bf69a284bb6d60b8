// A kernel that needs no device library: there is none for the newest versions of the code object's ABI. Where the
// workgroup's size comes from is a matter of that version: the packet, or a hidden argument.
#ifdef __AMDGCN__
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()
#define GROUP_ID __builtin_amdgcn_workgroup_id_x()
#define GROUP_SIZE __builtin_amdgcn_workgroup_size_x()
#define BARRIER                                                                                                      \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                                           \
    __builtin_amdgcn_s_barrier();                                                                                    \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
#else
#define LOCAL_ID get_local_id(0)
#define GROUP_ID get_group_id(0)
#define GROUP_SIZE get_local_size(0)
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#endif

// Told apart by it from the same kernel that somebody has changed.
#ifndef ADDED
#define ADDED 0
#endif

// What each work-item sees of its workgroup.
kernel void neighbours(global const int* in, global int* out, local int* room) {
    uint l = LOCAL_ID, size = GROUP_SIZE, i = GROUP_ID * size + l;
    room[l] = in[i];
    BARRIER;
    int sum = ADDED;
    for (uint k = 0; k < size; ++k) sum = sum * 3 + (room[(l + k) % size] ^ (int)k);
    out[i] = sum;
}

// In place, with one argument and without hidden ones.
kernel void increment(global uint* words) { words[GROUP_ID * 64 + LOCAL_ID] += 1; }

// Counts once, whatever the grid, with one argument and without hidden ones.
kernel void tally(global uint* word) {
    if (GROUP_ID == 0 && LOCAL_ID == 0) *word += 1;
}
