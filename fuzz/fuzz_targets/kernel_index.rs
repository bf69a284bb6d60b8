//! An index of kernels with bytes changed anywhere and a checksum that is right all the same: it is decoded, or refused with
//! a reason, and nothing may panic.
//!
//! Five bytes are a change: where, in little-endian order, and to what. What is left over says how much of the index there is.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use amdgpu_code_object::container::{CodeLocation, Kind};
use amdgpu_code_object::{Abi, AddressSpace, KernelKind, Target, ValueKind};
use libfuzzer_sys::fuzz_target;
use logdur_kernel_cache::{Candidate, Interface, Parameter, Stamp, index};

/// An index of two files with kernels that have everything.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let argument = |offset, kind: &ValueKind| Parameter {
        offset,
        size: 8,
        kind: kind.clone(),
        address_space: Some(AddressSpace::Other("another".to_owned())),
        pointee_align: Some(16),
    };
    let kernel = |name: &str, later: ValueKind| Interface {
        name: name.to_owned(),
        abi: Abi::V5,
        target: Target::parse("gfx90a:sramecc+:xnack-").expect("a target ID"),
        kind: KernelKind::Normal,
        arguments: ValueKind::ALL.iter().chain([&later]).zip(0..).map(|(k, n)| argument(n * 8, k)).collect(),
        kernarg_size: 320,
        kernarg_align: 8,
        group_size: 1024,
        private_size: 16,
        wavefront_size: 64,
        max_flat_workgroup_size: 1024,
        required_workgroup_size: Some([64, 1, 1]),
        uniform_workgroup_size: true,
        uses_dynamic_stack: true,
        preload: (4, 1),
        cluster_dims: Some([2, 1, 1]),
        sgprs: 32,
        vgprs: 24,
        agprs: 8,
        float_mode: Some(0x3f0),
        variables: ["counter".to_owned()].into(),
        stored_functions: ["twice".to_owned()].into(),
        initialisers: ["amdgcn.device.init".to_owned()].into(),
    };
    let place = CodeLocation {
        kind: Kind::CompressedBundle,
        in_host_elf: true,
        id: "hipv4-amdgcn-amd-amdhsa--gfx90a".to_owned(),
        container_offset: 4096,
        container_length: 9000,
        offset: 4096,
        length: 10000,
    };
    let candidate = |path: &str, interface| Candidate {
        path: path.into(),
        stamp: Stamp { modified: 1, changed: 2, size: 3, inode: 4 },
        place: place.clone(),
        interface,
    };
    let kernels = [
        candidate("/kernels/a.co", kernel("_Z3addPf", ValueKind::HiddenNone)),
        candidate("/kernels/b/c.so", kernel("other", ValueKind::Other("hidden_later".to_owned()))),
    ];
    index::made(Path::new(ROOT), &kernels)
});

const ROOT: &str = "/kernels";

fuzz_target!(|data: &[u8]| {
    let mut bytes = WHOLE.clone();
    let (changes, rest) = data.as_chunks::<5>();
    for &[a, b, c, d, to] in changes {
        let at = u32::from_le_bytes([a, b, c, d]) as usize % bytes.len();
        bytes[at] = to;
    }
    if let [a, b, ..] = rest {
        bytes.truncate(usize::from(u16::from_le_bytes([*a, *b])) % bytes.len());
    }
    let _ = index::examine(bytes, Path::new(ROOT));
});
