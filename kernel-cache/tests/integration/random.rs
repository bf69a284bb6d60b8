//! Kernels of every kind, at random.

use std::collections::BTreeSet;

use amdgpu_code_object::ValueKind;
use logdur_kernel_cache::{Interface, Kernarg, PacketFacts, Parameter, What, fit};
use proptest::prelude::*;

use crate::interfaces::{argument, packet, scale};
use crate::kernargs::laid;

/// Explicit arguments one behind the other, each aligned to its size.
fn explicit() -> impl Strategy<Value = Vec<Parameter>> {
    let kinds = prop_oneof![
        Just((8, ValueKind::GlobalBuffer)),
        Just((4, ValueKind::DynamicSharedPointer)),
        Just((8, ValueKind::Image)),
        prop::sample::select(vec![1_u32, 2, 4, 8, 16, 64]).prop_map(|size| (size, ValueKind::ByValue)),
    ];
    prop::collection::vec(kinds, 0..12).prop_map(|kinds| {
        let mut at = 0_u32;
        let place = |(size, kind): (u32, ValueKind)| {
            let offset = at.next_multiple_of(size.min(16));
            at = offset + size;
            argument(offset, size, kind)
        };
        kinds.into_iter().map(place).collect()
    })
}

/// The size of a hidden argument of each kind.
fn size(kind: &ValueKind) -> u32 {
    match What::of(kind) {
        Some(What::GroupSize(_) | What::Remainder(_) | What::GridDims) => 2,
        Some(What::BlockCount(_) | What::DynamicLdsSize | What::PrivateBase | What::SharedBase) => 4,
        _ => 8,
    }
}

/// Some of the hidden kinds, in some order, with room between them.
fn hidden(only_told: bool) -> impl Strategy<Value = Vec<(ValueKind, u32)>> {
    let kinds: Vec<ValueKind> =
        ValueKind::ALL.iter().filter(|k| k.is_hidden() && (!only_told || What::of(k).is_some())).cloned().collect();
    let some = prop::sample::subsequence(kinds.clone(), 0..=kinds.len()).prop_shuffle();
    some.prop_flat_map(|kinds| {
        let room = prop::collection::vec(0_u32..3, kinds.len());
        (Just(kinds), room).prop_map(|(kinds, room)| kinds.into_iter().zip(room).collect())
    })
}

fn kernel(explicit: Vec<Parameter>, hidden: Vec<(ValueKind, u32)>, wide: bool) -> Interface {
    let mut kernel = scale();
    kernel.arguments = explicit;
    let mut at = kernel.arguments.iter().map(|a| a.offset + a.size).max().unwrap_or(0).next_multiple_of(8);
    for (kind, room) in hidden {
        let size = if wide { 8 } else { size(&kind) };
        at = (at + 8 * room).next_multiple_of(size);
        kernel.arguments.push(argument(at, size, kind));
        at += size;
    }
    kernel.kernarg_size = at.next_multiple_of(8);
    kernel
}

fn any_kernel() -> impl Strategy<Value = Interface> {
    (explicit(), hidden(false), any::<bool>()).prop_map(|(e, h, wide)| {
        let told_in_eight_bytes = wide && h.iter().any(|(kind, _)| What::of(kind).is_some());
        kernel(e, h, wide && !told_in_eight_bytes)
    })
}

fn facts() -> impl Strategy<Value = PacketFacts> {
    let shape = |most: u32| [1..=most, 1..=most, 1..=most];
    (shape(5000), shape(16), 1_u16..4, 0_u32..4096).prop_map(|(grid, group, dimensions, dynamic)| PacketFacts {
        grid,
        workgroup: group.map(|n| n as u16),
        dimensions,
        group: packet().original_group + dynamic,
        ..packet()
    })
}

proptest! {
    #[test]
    fn every_kernel_fits_itself_as_it_is(kernel in any_kernel()) {
        let swap = fit(&kernel, &kernel).expect("a kernel fits itself");
        prop_assert_eq!(&swap.kernarg, &Kernarg::AsItIs);
        prop_assert!(swap.accepted.is_empty());
        prop_assert_eq!(swap.for_packet(&packet()).map(|s| (s.group, s.private)), Ok((packet().group, packet().private)));
    }

    #[test]
    fn a_segment_that_is_laid_anew_has_every_argument_at_its_place(
        explicit in explicit(),
        ours in hidden(false),
        theirs in hidden(true),
        facts in facts(),
        seed in any::<u8>(),
    ) {
        // What only the runtime knows, the candidate may have where the original has it.
        let known: Vec<(ValueKind, u32)> = ours.iter().filter(|(k, _)| What::of(k).is_none()).cloned().rev().collect();
        let original = kernel(explicit.clone(), ours, false);
        let candidate = kernel(explicit.clone(), theirs.into_iter().chain(known).collect(), false);
        let application: Vec<u8> = (0..original.kernarg_size).map(|n| (n as u8).wrapping_mul(31) ^ seed).collect();
        let segment = match fit(&original, &candidate).expect("they fit").kernarg {
            Kernarg::AsItIs => application.clone(),
            Kernarg::Relaid(layout) => {
                prop_assert!(layout.source_size <= original.kernarg_size);
                prop_assert_eq!(layout.size, candidate.kernarg_size);
                laid(&layout, &application, &facts)
            }
        };
        let bytes = |of: &[u8], a: &Parameter| of[a.offset as usize..][..a.size as usize].to_vec();
        for a in &explicit {
            prop_assert_eq!(bytes(&segment, a), bytes(&application, a));
        }
        let mut seen = BTreeSet::new();
        for h in candidate.hidden() {
            let expected = match original.hidden().find(|o| o.kind == h.kind) {
                Some(o) => bytes(&application, o),
                None => told(&h.kind, &facts).to_le_bytes()[..h.size as usize].to_vec(),
            };
            prop_assert_eq!(bytes(&segment, h), expected, "{}", &h.kind);
            seen.insert(h.kind.name().to_owned());
        }
        prop_assert_eq!(seen.len(), candidate.hidden().count());
    }
}

/// What a hidden argument has to be, in the words of AMDGPUUsage, with divisions written another way.
fn told(kind: &ValueKind, facts: &PacketFacts) -> u64 {
    let complete = |n: usize| (1..).take_while(|k| k * u32::from(facts.workgroup[n]) <= facts.grid[n]).count() as u64;
    let rest = |n: usize| u64::from(facts.grid[n]) - complete(n) * u64::from(facts.workgroup[n]);
    match kind.name() {
        "hidden_block_count_x" => complete(0),
        "hidden_block_count_y" => complete(1),
        "hidden_block_count_z" => complete(2),
        "hidden_group_size_x" => facts.workgroup[0].into(),
        "hidden_group_size_y" => facts.workgroup[1].into(),
        "hidden_group_size_z" => facts.workgroup[2].into(),
        "hidden_remainder_x" => rest(0),
        "hidden_remainder_y" => rest(1),
        "hidden_remainder_z" => rest(2),
        "hidden_grid_dims" => facts.dimensions.into(),
        "hidden_global_offset_x" | "hidden_global_offset_y" | "hidden_global_offset_z" => 0,
        "hidden_dynamic_lds_size" => u64::from(facts.group - facts.original_group),
        "hidden_queue_ptr" => facts.queue,
        "hidden_private_base" => facts.private_base_hi.into(),
        "hidden_shared_base" => facts.shared_base_hi.into(),
        other => panic!("{other} is not told by a packet"),
    }
}
