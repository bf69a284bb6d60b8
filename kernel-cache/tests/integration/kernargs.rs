//! The kernarg segment of a swapped dispatch.

use amdgpu_code_object::ValueKind;
use logdur_kernel_cache::{Copy, Fill, Interface, Kernarg, Layout, PacketFacts, What, fit};

use crate::interfaces::{argument, packet, scale};

/// Makes a segment as an application does.
pub(crate) fn laid(layout: &Layout, application: &[u8], facts: &PacketFacts) -> Vec<u8> {
    let mut segment = vec![0; layout.size as usize];
    for &Copy { from, to, len } in &layout.copies {
        segment[to as usize..][..len as usize].copy_from_slice(&application[from as usize..][..len as usize]);
    }
    for fill in &layout.fills {
        let value = fill.value(facts).to_le_bytes();
        segment[fill.to as usize..][..fill.size as usize].copy_from_slice(&value[..fill.size as usize]);
    }
    segment
}

fn layout(original: &Interface, candidate: &Interface) -> Layout {
    match fit(original, candidate).expect("they fit").kernarg {
        Kernarg::Relaid(layout) => layout,
        Kernarg::AsItIs => panic!("the segment cannot be used as it is"),
    }
}

/// Every hidden argument that the packet and the queue tell, at the offsets of AMDGPUUsage's version 5.
const FILLED: &[(u32, u32, ValueKind, u64)] = &[
    (16, 4, ValueKind::HiddenBlockCountX, 3),
    (20, 4, ValueKind::HiddenBlockCountY, 3),
    (24, 4, ValueKind::HiddenBlockCountZ, 1),
    (28, 2, ValueKind::HiddenGroupSizeX, 256),
    (30, 2, ValueKind::HiddenGroupSizeY, 2),
    (32, 2, ValueKind::HiddenGroupSizeZ, 1),
    (34, 2, ValueKind::HiddenRemainderX, 1000 - 3 * 256),
    (36, 2, ValueKind::HiddenRemainderY, 0),
    (38, 2, ValueKind::HiddenRemainderZ, 0),
    (56, 8, ValueKind::HiddenGlobalOffsetX, 0),
    (64, 8, ValueKind::HiddenGlobalOffsetY, 0),
    (72, 8, ValueKind::HiddenGlobalOffsetZ, 0),
    (80, 2, ValueKind::HiddenGridDims, 2),
    (136, 4, ValueKind::HiddenDynamicLdsSize, 256),
    (208, 4, ValueKind::HiddenPrivateBase, 0x1_0000),
    (212, 4, ValueKind::HiddenSharedBase, 0x2_0000),
    (216, 8, ValueKind::HiddenQueuePtr, 0x7f12_3456_7890),
];

#[test]
fn hidden_arguments_that_the_original_lacks_come_from_the_packet_and_the_queue() {
    let (mut original, mut candidate) = (scale(), scale());
    original.arguments.truncate(3);
    original.kernarg_size = 16;
    candidate.arguments.truncate(3);
    candidate.arguments.extend(FILLED.iter().map(|(offset, size, kind, _)| argument(*offset, *size, kind.clone())));
    let layout = layout(&original, &candidate);
    assert_eq!((layout.size, layout.align, layout.source_size), (272, 16, 16));
    assert_eq!(layout.copies, [Copy { from: 0, to: 0, len: 16 }]);
    let application: Vec<u8> = (1..=16).collect();
    let segment = laid(&layout, &application, &packet());
    assert_eq!(segment[..16], application);
    let mut expected = vec![0; 272];
    expected[..16].copy_from_slice(&application);
    for (offset, size, _, value) in FILLED {
        expected[*offset as usize..][..*size as usize].copy_from_slice(&value.to_le_bytes()[..*size as usize]);
    }
    assert_eq!(segment, expected);
}

#[test]
fn hidden_arguments_of_another_version_are_copied_by_kind() {
    let (mut original, mut candidate) = (scale(), scale());
    // Version 4: a list of eight bytes each; version 5: fixed places.
    original.arguments.truncate(3);
    original.arguments.extend([
        argument(16, 8, ValueKind::HiddenGlobalOffsetX),
        argument(24, 8, ValueKind::HiddenGlobalOffsetY),
        argument(32, 8, ValueKind::HiddenGlobalOffsetZ),
        argument(40, 8, ValueKind::HiddenHostcallBuffer),
        argument(48, 8, ValueKind::HiddenNone),
    ]);
    original.kernarg_size = 72;
    candidate.arguments.truncate(3);
    candidate.arguments.extend([
        argument(28, 2, ValueKind::HiddenGroupSizeX),
        argument(56, 8, ValueKind::HiddenGlobalOffsetX),
        argument(64, 8, ValueKind::HiddenGlobalOffsetY),
        argument(96, 8, ValueKind::HiddenHostcallBuffer),
    ]);
    let layout = layout(&original, &candidate);
    let copies = [(0, 0, 16), (16, 56, 16), (40, 96, 8)];
    assert_eq!(layout.copies, copies.map(|(from, to, len)| Copy { from, to, len }));
    assert_eq!(layout.fills, [Fill { to: 28, size: 2, what: What::GroupSize(0) }]);
    assert_eq!(layout.source_size, 48);
}

#[test]
fn a_segment_that_is_too_small_or_not_aligned_enough_is_laid_anew() {
    let relaid = |change: fn(&mut Interface)| {
        let mut candidate = scale();
        change(&mut candidate);
        let layout = layout(&scale(), &candidate);
        (layout.size, layout.align, layout.copies.len(), layout.fills.len())
    };
    assert_eq!(relaid(|c| c.kernarg_size = 280), (280, 16, 1, 0));
    assert_eq!(relaid(|c| c.kernarg_align = 64), (272, 64, 1, 0));
    assert_eq!(relaid(|c| c.arguments[3].offset = 20), (272, 16, 2, 0));
}

#[test]
fn a_packet_without_workgroups_divides_by_nothing() {
    let fill = |what| Fill { to: 0, size: 4, what };
    let facts = PacketFacts { workgroup: [0, 0, 0], ..packet() };
    assert_eq!(
        [What::BlockCount(0), What::Remainder(1), What::BlockCount(7)].map(|w| fill(w).value(&facts)),
        [0, 0, 0]
    );
}
