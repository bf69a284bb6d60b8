//! The kernarg segment of a swapped dispatch.

use amdgpu_code_object::ValueKind;
use logdur_kernel_cache::{Copy, Fill, Interface, Kernarg, Layout, PacketFacts, What, fit};

use crate::compiled::Build;
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
    for one in &layout.moves {
        let place = &mut segment[one.at as usize..][..one.size as usize];
        let value = place.iter().rev().fold(0_i64, |all, byte| all << 8 | i64::from(*byte)) + i64::from(one.by);
        place.copy_from_slice(&value.to_le_bytes()[..one.size as usize]);
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

#[test]
fn offsets_into_dynamic_lds_move_with_the_lds_that_a_kernel_declares_and_keep_their_alignment() {
    let local = |options| Build { source: "local.cl", clang: 19, target: "gfx90a", abi: 5, options };
    let [none, small, large, wide] =
        ["-O2", "-O2 -DOWN=5", "-O2 -DOWN=64", "-O2 -DROOM=ulong16"].map(|options| local(options).kernel("turn"));
    // (original, candidate, how far, the packet's LDS behind its own, the candidate's with that)
    let cases = [(&none, &large, 256, 512, 768), (&large, &none, -256, 512, 512), (&none, &small, 32, 512, 544)];
    for (original, candidate, by, dynamic, expected) in cases {
        let swap = fit(original, candidate).expect("they fit");
        let own = original.group_size;
        let mut segment = vec![0_u8; original.kernarg_size as usize];
        let pointers: Vec<_> =
            candidate.explicit().filter(|a| a.kind == ValueKind::DynamicSharedPointer).cloned().collect();
        assert_eq!(pointers.len(), 2);
        for (pointer, offset) in pointers.iter().zip([own, own + 256]) {
            segment[pointer.offset as usize..][..4].copy_from_slice(&offset.to_le_bytes());
        }
        let read = |at: u32, size: u32| {
            let mut bytes = [0; 8];
            bytes[..size as usize].copy_from_slice(&segment[at as usize..][..size as usize]);
            bytes
        };
        let mut facts = PacketFacts { group: own + dynamic, original_group: own, ..packet() };
        facts.pointers = swap.kernarg.pointers(read);
        assert_eq!((facts.pointers.least, facts.pointers.most), (own.into(), u64::from(own) + 256));
        assert_eq!(swap.for_packet(&facts).map(|sizes| sizes.group), Ok(expected));
        let Kernarg::Relaid(layout) = &swap.kernarg else { panic!("{:?}", swap.kernarg) };
        for laid in [layout.lay(&segment, &facts), laid(layout, &segment, &facts)] {
            for (pointer, offset) in pointers.iter().zip([own, own + 256]) {
                let found = u32::from_le_bytes(laid[pointer.offset as usize..][..4].try_into().unwrap());
                assert_eq!(found, offset.wrapping_add_signed(by));
            }
        }
    }
    // The same LDS, but elements that need more alignment than the application has given them.
    let swap = fit(&none, &wide).expect("they fit");
    let pointers =
        |second: u32| swap.kernarg.pointers(move |at, _| u64::from(if at == 16 { 0 } else { second }).to_le_bytes());
    assert_eq!([0, 128, 4].map(|second| pointers(second).misaligned), [false, false, true]);
    assert_eq!(fit(&wide, &none).map(|swap| swap.kernarg), Ok(Kernarg::AsItIs));
}
