// For the pass that instruments kernels: lanes that diverge, loops of other lengths in each lane, local memory, atomics.
#define GROUP 96

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void scattered(global const int *in, global int *out, global int *sums, int n) {
  local int words[GROUP];
  int i = (int)get_global_id(0), item = (int)get_local_id(0);
  words[item] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  int value = words[GROUP - 1 - item];
  for (int k = 0; k < i % 5; ++k) value += in[(value * 7 + i + k & 0xffff) % n];
  if (i % 3 == 1) atomic_add(sums + i % 8, value);
  out[i] = value;
}
