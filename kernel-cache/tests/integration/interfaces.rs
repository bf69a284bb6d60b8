//! Kernels made by hand.

use amdgpu_code_object::{AddressSpace, Target, ValueKind};
use logdur_kernel_cache::{Interface, LdsPointers, PacketFacts, Parameter};

/// An argument.
pub(crate) fn argument(offset: u32, size: u32, kind: ValueKind) -> Parameter {
    let address_space = match kind {
        ValueKind::GlobalBuffer => Some(AddressSpace::Global),
        ValueKind::DynamicSharedPointer => Some(AddressSpace::Local),
        _ => None,
    };
    let pointee_align = (kind == ValueKind::DynamicSharedPointer).then_some(4);
    Parameter { offset, size, kind, address_space, pointee_align }
}

/// `void scale(float* data, float factor, local float* scratch)` with the block count in x.
pub(crate) fn scale() -> Interface {
    let target = Target::parse("gfx90a:sramecc+:xnack-").expect("a target ID");
    Interface {
        arguments: vec![
            argument(0, 8, ValueKind::GlobalBuffer),
            argument(8, 4, ValueKind::ByValue),
            argument(12, 4, ValueKind::DynamicSharedPointer),
            argument(16, 4, ValueKind::HiddenBlockCountX),
        ],
        kernarg_size: 272,
        group_size: 1024,
        private_size: 16,
        sgprs: 32,
        vgprs: 24,
        float_mode: Some(0x3f0),
        ..Interface::plain("_Z5scalePffPU3AS3f", target)
    }
}

/// A dispatch of [`scale`] with 256 bytes of dynamic LDS.
pub(crate) fn packet() -> PacketFacts {
    PacketFacts {
        grid: [1000, 6, 1],
        workgroup: [256, 2, 1],
        dimensions: 2,
        private: 16,
        group: 1024 + 256,
        original_group: 1024,
        cooperative: false,
        queue: 0x7f12_3456_7890,
        private_base_hi: 0x1_0000,
        shared_base_hi: 0x2_0000,
        pointers: LdsPointers { least: 1024, most: 1024, misaligned: false },
    }
}
