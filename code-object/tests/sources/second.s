// A kernel whose metadata is in a note of its own, with formats of printf.
.text
.globl second
.p2align 8
.type second,@function
second:
  s_endpgm
.Lsecond_end:
.size second, .Lsecond_end-second

.rodata
.p2align 6
.amdhsa_kernel second
  .amdhsa_next_free_vgpr 1
  .amdhsa_next_free_sgpr 1
  .amdhsa_accum_offset 4
.end_amdhsa_kernel

.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.printf:
  - '1:1:4:%d\n'
amdhsa.kernels:
  - .name: second
    .symbol: second.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 4
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 1
    .vgpr_count: 1
    .max_flat_workgroup_size: 256
...
.end_amdgpu_metadata
