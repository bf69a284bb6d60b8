//! A kernel for tests, those of replays too.

use amdgpu_code_object::{Abi, KernelKind, Target, ValueKind};
use logdur_kernel_cache::{Interface, Parameter};

/// A kernel with some hidden arguments behind eight bytes of its own.
pub(crate) fn interface(hidden: &[(&str, u32)]) -> Interface {
    let mut offset = 8;
    let mut arguments = Vec::new();
    for &(kind, size) in hidden {
        arguments.push(Parameter {
            offset,
            size,
            kind: ValueKind::from_name(kind),
            address_space: None,
            pointee_align: None,
        });
        offset += size;
    }
    Interface {
        name: "k".to_owned(),
        abi: Abi::V5,
        target: Target::parse("gfx90a").unwrap(),
        kind: KernelKind::Normal,
        arguments,
        kernarg_size: offset,
        kernarg_align: 8,
        group_size: 0,
        private_size: 0,
        wavefront_size: 64,
        max_flat_workgroup_size: 1024,
        required_workgroup_size: None,
        uniform_workgroup_size: false,
        uses_dynamic_stack: false,
        preload: (0, 0),
        cluster_dims: None,
        sgprs: 16,
        vgprs: 8,
        agprs: 0,
        float_mode: None,
        variables: [].into(),
        stored_functions: [].into(),
        initialisers: [].into(),
    }
}
