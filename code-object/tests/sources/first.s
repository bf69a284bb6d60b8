// A kernel of hand-written assembly, with kinds of arguments and kernels that compilers seldom write.
.text
.globl first
.p2align 8
.type first,@function
first:
  s_endpgm
.Lfirst_end:
.size first, .Lfirst_end-first

.rodata
.p2align 6
.amdhsa_kernel first
  .amdhsa_next_free_vgpr 9
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
  .amdhsa_group_segment_fixed_size 1024
  .amdhsa_private_segment_fixed_size 48
  .amdhsa_kernarg_size 40
  .amdhsa_uses_dynamic_stack 1
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel

.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.kernels:
  - .name: first
    .symbol: first.kd
    .kind: init
    .language: Assembler
    .language_version: [ 3, 1 ]
    .device_enqueue_symbol: first.handle
    .kernarg_segment_size: 40
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 48
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 9
    .agpr_count: 1
    .sgpr_spill_count: 3
    .vgpr_spill_count: 4
    .max_flat_workgroup_size: 1024
    .uniform_work_group_size: 1
    .uses_dynamic_stack: true
    .workgroup_processor_mode: 1
    .cluster_dims: [ 2, 1, 1 ]
    .gfx1250_revision: 5
    .args:
      - .name: !str y
        .type_name: 'float*'
        .offset: 0
        .size: 8
        .value_kind: global_buffer
        .value_type: f32
        .address_space: generic
        .actual_access: read_write
        .is_const: true
        .is_volatile: true
        .later_key: [ 1, -2, true, text, { a: [ 7 ] } ]
      - .offset: 8
        .size: 8
        .value_kind: pipe
        .is_pipe: true
        .access: write_only
      - .offset: 16
        .size: 4
        .value_kind: hidden_private_base
      - .offset: 20
        .size: 4
        .value_kind: hidden_shared_base
      - .offset: 24
        .size: 8
        .value_kind: hidden_queue_ptr
      - .offset: 32
        .size: 8
        .value_kind: queue
...
.end_amdgpu_metadata
