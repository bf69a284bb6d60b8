//! Every reason against a swap and every difference that is allowed, each by the least difference that shows it.

use std::collections::HashSet;

use amdgpu_code_object::{Abi, AddressSpace, KernelKind, Setting, Target, ValueKind};
use logdur_kernel_cache::rules::{ACCEPTED, ROWS, When};
use logdur_kernel_cache::{Interface, Kernarg, Launch, PacketFacts, Reason, Sizes, Swap, fit, fit_clone};

use crate::interfaces::{argument, packet, scale};

/// A change to the original, and one to the candidate.
type Change = fn(&mut Interface, &mut Interface);

fn pair(change: Change) -> (Interface, Interface) {
    let (mut original, mut candidate) = (scale(), scale());
    change(&mut original, &mut candidate);
    (original, candidate)
}

fn on(target: &str) -> Target {
    Target::parse(target).expect("a target ID")
}

/// A reason, what makes it the only one, and the words of it that name the two sides.
#[rustfmt::skip]
const REFUSED: &[(Reason, Change, &str)] = &[
    (Reason::Processor, |_, c| c.target = on("gfx906:sramecc+:xnack-"), "processor: expected gfx90a, found gfx906"),
    (Reason::Processor, |_, c| c.target = on("gfx9-generic:xnack-"), "processor: expected gfx90a, found gfx9-generic"),
    (Reason::Processor, |o, c| (o.target, c.target) = (on("gfx9-generic"), on("gfx906")), "processor: expected gfx9-generic, found gfx906"),
    (Reason::Xnack, |_, c| c.target.xnack = Setting::On, "xnack: expected gfx90a:sramecc+:xnack-, found gfx90a:sramecc+:xnack+"),
    (Reason::Sramecc, |_, c| c.target.sramecc = Setting::Off, "sramecc: expected gfx90a:sramecc+:xnack-, found gfx90a:sramecc-:xnack-"),
    (Reason::AbiVersion, |_, c| c.abi = Abi::Later(7), "ABI version: expected at most V6, found Later(7)"),
    (Reason::Kind, |_, c| c.kind = KernelKind::Init, "kind: expected normal, found init"),
    (Reason::Kind, |o, c| (o.kind, c.kind) = (KernelKind::Fini, KernelKind::Fini), "kind: expected normal, found fini"),
    (Reason::Descriptor, |_, c| c.float_mode = None, "descriptor: expected _Z5scalePffPU3AS3f.kd, found none"),
    (Reason::WavefrontSize, |_, c| c.wavefront_size = 32, "wave size: expected 64, found 32"),
    (Reason::ArgumentCount, |_, c| _ = c.arguments.remove(2), "argument count: expected 3, found 2"),
    (Reason::Argument, |_, c| c.arguments[1].size = 8, "argument: expected argument 2 of 4 bytes at 8, by_value, found argument 2 of 8 bytes at 8, by_value"),
    (Reason::Argument, |_, c| c.arguments[1].offset = 16, "argument: expected argument 2 of 4 bytes at 8, by_value, found argument 2 of 4 bytes at 16, by_value"),
    (Reason::Argument, |_, c| c.arguments[0].kind = ValueKind::ByValue, "argument: expected argument 1 of 8 bytes at 0, global_buffer (global), found argument 1 of 8 bytes at 0, by_value (global)"),
    (Reason::Argument, |_, c| c.arguments[0].address_space = Some(AddressSpace::Region), "argument: expected argument 1 of 8 bytes at 0, global_buffer (global), found argument 1 of 8 bytes at 0, global_buffer (region)"),
    (Reason::Argument, |_, c| c.arguments.swap(1, 2), "argument: expected argument 2 of 4 bytes at 8, by_value, found argument 2 of 4 bytes at 12, dynamic_shared_pointer (local)"),
    (Reason::HiddenArgument, |_, c| c.arguments.push(argument(80, 8, ValueKind::HiddenPrintfBuffer)), "hidden argument: expected what the original has, or the packet tells, found hidden_printf_buffer"),
    (Reason::HiddenArgument, |_, c| c.arguments.push(argument(96, 8, ValueKind::HiddenHostcallBuffer)), "hidden argument: expected what the original has, or the packet tells, found hidden_hostcall_buffer"),
    (Reason::HiddenArgument, |_, c| c.arguments.push(argument(96, 8, ValueKind::HiddenHeapV1)), "hidden argument: expected what the original has, or the packet tells, found hidden_heap_v1"),
    (Reason::HiddenArgument, |_, c| c.arguments.push(argument(96, 8, ValueKind::HiddenDefaultQueue)), "hidden argument: expected what the original has, or the packet tells, found hidden_default_queue"),
    (Reason::HiddenArgument, |_, c| c.arguments.push(argument(96, 8, ValueKind::HiddenCompletionAction)), "hidden argument: expected what the original has, or the packet tells, found hidden_completion_action"),
    (Reason::HiddenArgument, |_, c| c.arguments.push(argument(96, 8, ValueKind::HiddenMultigridSyncArg)), "hidden argument: expected what the original has, or the packet tells, found hidden_multigrid_sync_arg"),
    (Reason::HiddenArgument, |_, c| c.arguments.push(argument(96, 8, ValueKind::Other("hidden_later".to_owned()))), "hidden argument: expected what the original has, or the packet tells, found hidden_later"),
    (Reason::HiddenArgumentSize, |_, c| c.arguments[3].size = 8, "size of hidden argument: expected hidden_block_count_x of 4 bytes, found hidden_block_count_x of 8 bytes"),
    (Reason::HiddenArgumentSize, |_, c| c.arguments.push(argument(28, 4, ValueKind::HiddenGroupSizeX)), "size of hidden argument: expected hidden_group_size_x of 2 bytes, found hidden_group_size_x of 4 bytes"),
    (Reason::KernargSize, |_, c| c.kernarg_size = 65537, "kernarg size: expected at most 65536, found 65537 bytes"),
    (Reason::DynamicStack, |_, c| c.uses_dynamic_stack = true, "dynamic stack: expected none, found a dynamic stack"),
    (Reason::DynamicStack, |o, c| (o.uses_dynamic_stack, c.uses_dynamic_stack) = (true, true), "dynamic stack: expected none, found a dynamic stack"),
    (Reason::ClusterDims, |_, c| c.cluster_dims = Some([2, 1, 1]), "cluster: expected none, found 2x1x1"),
    (Reason::RequiredWorkgroupSize, |o, c| (o.required_workgroup_size, c.required_workgroup_size) = (Some([64, 1, 1]), Some([32, 2, 1])), "required workgroup: expected 64x1x1, found 32x2x1"),
    (Reason::MaxWorkgroupSize, |o, c| (o.required_workgroup_size, c.max_flat_workgroup_size) = (Some([16, 16, 2]), 256), "workgroup limit: expected at least 512, found 256"),
    (Reason::GroupSize, |_, c| c.group_size = 65537, "LDS: expected at most 65536, found 65537 bytes"),
    (Reason::PrivateSize, |_, c| c.private_size = 131057, "scratch: expected at most 131056, found 131057 bytes"),
];

#[test]
fn each_reason_refuses_a_swap_alone_and_names_both_sides() {
    for (reason, change, words) in REFUSED {
        let (original, candidate) = pair(*change);
        let refusals = fit(&original, &candidate).expect_err(words);
        assert_eq!(refusals.iter().map(ToString::to_string).collect::<Vec<_>>(), [*words]);
        assert_eq!(refusals[0].reason, *reason);
    }
    let tested: HashSet<Reason> = REFUSED.iter().map(|(reason, ..)| *reason).collect();
    let of_load: HashSet<Reason> = ROWS.iter().filter(|row| row.when == When::Load).map(|row| row.reason).collect();
    assert_eq!(tested, of_load, "every row of the table has its case");
}

/// What is allowed and shown: its name in the table, what makes it, and what is said.
#[rustfmt::skip]
const SHOWN: &[(&str, Change, &str)] = &[
    ("ABI version", |_, c| c.abi = Abi::V4, "ABI version: V5 becomes V4"),
    ("kernarg segment", |_, c| c.kernarg_size = 24, "kernarg segment: 272 bytes becomes 24 bytes"),
    ("kernarg preload", |_, c| c.preload = (4, 0), "kernarg preload: 0 becomes 4"),
    ("LDS", |_, c| c.group_size = 4096, "LDS: 1024 bytes becomes 4096 bytes"),
    ("scratch", |_, c| c.private_size = 512, "scratch: 16 bytes becomes 512 bytes"),
    ("registers", |_, c| c.vgprs = 128, "registers: 24 vector, 0 accumulation, 32 scalar becomes 128 vector, 0 accumulation, 32 scalar"),
    ("workgroup limit", |_, c| c.max_flat_workgroup_size = 256, "workgroup limit: 1024 becomes 256"),
    ("required workgroup", |_, c| c.required_workgroup_size = Some([256, 2, 1]), "required workgroup: none becomes 256x2x1"),
    ("complete workgroups", |_, c| c.uniform_workgroup_size = true, "complete workgroups: false becomes true"),
    ("dynamic stack", |o, _| o.uses_dynamic_stack = true, "dynamic stack: true becomes false"),
    ("float mode", |_, c| c.float_mode = Some(0x3c0), "float mode: 0x3f0 becomes 0x3c0"),
];

#[test]
fn each_difference_that_is_allowed_is_shown() {
    for (name, change, words) in SHOWN {
        let (original, candidate) = pair(*change);
        let swap = fit(&original, &candidate).unwrap_or_else(|refusals| panic!("{words}: {refusals:?}"));
        assert_eq!(swap.accepted.iter().map(ToString::to_string).collect::<Vec<_>>(), [*words]);
        assert_eq!(swap.accepted[0].name, *name);
    }
    let tested: Vec<&str> = SHOWN.iter().map(|(name, ..)| *name).collect();
    // Which variables a candidate has of its own is found in its code.
    let of_interfaces = ACCEPTED.iter().map(|row| row.name).filter(|name| *name != "variables");
    assert_eq!(tested, of_interfaces.collect::<Vec<_>>(), "every row of the table has its case");
}

/// What is allowed and of no interest to anybody.
#[rustfmt::skip]
const SILENT: &[Change] = &[
    |_, _| {},
    |_, c| c.target.xnack = Setting::Any,
    |o, _| o.target.sramecc = Setting::Any,
    |o, c| (o.target, c.target) = (on("gfx906:sramecc+:xnack-"), on("gfx9-generic")),
    |o, c| (o.target, c.target) = (on("gfx906:sramecc+:xnack-"), on("gfx9-generic:xnack-")),
    |o, c| (o.target, c.target) = (on("gfx942"), on("gfx9-4-generic")),
    |o, c| (o.abi, c.abi) = (Abi::Later(7), Abi::Later(7)),
    |_, c| c.arguments[0].address_space = Some(AddressSpace::Generic),
    |_, c| c.arguments[0].address_space = Some(AddressSpace::Constant),
    |_, c| c.arguments[0].address_space = None,
    |_, c| _ = c.arguments.remove(3),
    |_, c| c.arguments.push(argument(80, 8, ValueKind::HiddenNone)),
    |_, c| c.kernarg_align = 4,
    |_, c| c.kernarg_align = 16,
    |o, _| o.variables = ["counter".to_owned()].into(),
    |o, _| o.stored_functions = ["twice".to_owned()].into(),
];

#[test]
fn what_does_not_matter_leaves_the_kernarg_segment_as_it_is_and_is_not_spoken_of() {
    for (n, change) in SILENT.iter().enumerate() {
        let (original, candidate) = pair(*change);
        let swap = fit(&original, &candidate).unwrap_or_else(|refusals| panic!("case {n}: {refusals:?}"));
        assert_eq!((swap.kernarg, swap.accepted), (Kernarg::AsItIs, Vec::new()), "case {n}");
    }
}

/// A change to a packet.
type Turn = fn(&mut PacketFacts);

/// A packet that a swap refuses, and one that is just right.
#[rustfmt::skip]
const PACKETS: &[(Reason, Change, Turn, Turn, &str)] = &[
    (Reason::PacketWorkgroup, |_, c| c.required_workgroup_size = Some([256, 2, 1]),
        |p| p.workgroup = [256, 1, 1], |_| {}, "workgroup: expected 256x2x1, found 256x1x1"),
    (Reason::PacketWorkgroupSize, |_, c| c.max_flat_workgroup_size = 512,
        |p| p.workgroup = [513, 1, 1], |_| {}, "workgroup size: expected at most 512, found 513"),
    (Reason::PacketIncomplete, |_, c| c.uniform_workgroup_size = true,
        |_| {}, |p| p.grid = [1024, 6, 1], "incomplete workgroup: expected 256x2x1, found 1000x6x1"),
    (Reason::PacketGroup, |_, c| c.group_size = 65536 - 256,
        |p| p.group += 1, |_| {}, "LDS of the packet: expected at most 65536, found 65537 bytes"),
    (Reason::PacketGroup, |_, _| {},
        |p| p.group = 1023, |p| p.group = 1024, "LDS of the packet: expected at least 1024, found 1023 bytes"),
    (Reason::PacketPrivate, |o, c| (o.uses_dynamic_stack, c.private_size) = (true, 130_000),
        |p| p.private = 16 + 1057, |p| p.private = 16 + 1056, "scratch of the packet: expected at most 131056, found 131057 bytes"),
    (Reason::PacketPointer, |_, c| c.group_size = 4096,
        |p| p.pointers.least = 1023, |_| {}, "LDS pointer: expected offsets from 1024 to 1280, found offsets from 1023 to 1024"),
    (Reason::PacketPointer, |_, c| c.group_size = 0,
        |p| p.pointers.most = 1281, |_| {}, "LDS pointer: expected offsets from 1024 to 1280, found offsets from 1024 to 1281"),
    (Reason::PacketPointer, |_, c| c.arguments[2].pointee_align = Some(16),
        |p| p.pointers.misaligned = true, |_| {}, "LDS pointer: expected the candidate's alignment, found an offset without it"),
    (Reason::PacketCooperative, |_, c| c.vgprs = 25,
        |p| p.cooperative = true, |_| {}, "cooperative queue: expected no more than the original needs, found more registers, LDS or scratch"),
];

#[test]
fn a_packet_that_the_candidate_cannot_take_runs_the_original_and_its_neighbour_does_not() {
    for (reason, change, wrong, right, words) in PACKETS {
        let (original, candidate) = pair(*change);
        let swap = fit(&original, &candidate).unwrap_or_else(|refusals| panic!("{words}: {refusals:?}"));
        let (mut refused, mut taken) = (packet(), packet());
        wrong(&mut refused);
        right(&mut taken);
        let refusal = swap.for_packet(&refused).expect_err(words);
        assert_eq!((refusal.reason, refusal.to_string().as_str()), (*reason, *words));
        swap.for_packet(&taken).unwrap_or_else(|refusal| panic!("{words}: {refusal}"));
    }
    let apart = [Reason::PacketWarps];
    let tested: HashSet<Reason> = PACKETS.iter().map(|(reason, ..)| *reason).chain(apart).collect();
    let of_packets: HashSet<Reason> =
        ROWS.iter().filter(|row| row.when == When::Dispatch).map(|row| row.reason).collect();
    assert_eq!(tested, of_packets, "every row of the table has its case");
}

#[test]
fn a_kernel_of_tritons_gets_the_lds_that_it_is_launched_with_and_only_workgroups_that_it_was_made_for() {
    let (original, candidate) = pair(|_, _| {});
    let mut swap = fit(&original, &candidate).unwrap();
    let group = |swap: &Swap, facts: &PacketFacts| swap.for_packet(facts).map(|sizes| sizes.group);
    let facts = packet();
    let dynamic = facts.group - original.group_size;
    for (wanted, has) in [(dynamic + 4096, dynamic + 4096), (dynamic, dynamic), (0, dynamic)] {
        swap.limits.launch = Some(Launch { group: wanted, work_items: 512 });
        assert_eq!(group(&swap, &facts), Ok(candidate.group_size + has), "{wanted}");
    }
    swap.limits.launch = Some(Launch { group: 0, work_items: 256 });
    let refusal = group(&swap, &facts).expect_err("another number of warps");
    assert_eq!(refusal.to_string(), "workgroup size of Triton: expected 256, found 512");
}

#[test]
fn limits_that_the_original_has_as_well_are_not_looked_at_for_each_packet() {
    let (original, candidate) = pair(|o, c| {
        for kernel in [o, c] {
            kernel.required_workgroup_size = Some([64, 1, 1]);
            kernel.max_flat_workgroup_size = 64;
            kernel.uniform_workgroup_size = true;
        }
    });
    let swap = fit(&original, &candidate).expect("a kernel fits itself");
    assert_eq!(swap.for_packet(&packet()), Ok(Sizes { group: 1280, private: 16 }));
}

#[test]
fn lds_keeps_what_is_dynamic_and_scratch_is_the_larger() {
    let sizes = |change: Change, packet: PacketFacts| {
        let (original, candidate) = pair(change);
        fit(&original, &candidate).expect("they fit").for_packet(&packet).expect("the packet is right")
    };
    assert_eq!(sizes(|_, c| c.group_size = 4096, packet()), Sizes { group: 4096 + 256, private: 16 });
    assert_eq!(sizes(|_, c| c.group_size = 0, packet()), Sizes { group: 256, private: 16 });
    assert_eq!(sizes(|_, c| c.private_size = 64, packet()), Sizes { group: 1280, private: 64 });
    // The application asked for more than the original needs.
    let more = PacketFacts { private: 400, ..packet() };
    assert_eq!(sizes(|_, c| c.private_size = 64, more), Sizes { group: 1280, private: 400 });
    // The room for a dynamic stack is kept above what the candidate needs.
    let stack = |o: &mut Interface, c: &mut Interface| (o.uses_dynamic_stack, c.private_size) = (true, 64);
    assert_eq!(sizes(stack, more), Sizes { group: 1280, private: 64 + 384 });
}

#[test]
fn a_processor_with_more_lds_takes_more() {
    let (mut original, mut candidate) = (scale(), scale());
    for kernel in [&mut original, &mut candidate] {
        kernel.target = on("gfx950:sramecc+:xnack-");
    }
    candidate.group_size = 160 << 10;
    let swap = fit(&original, &candidate).expect("gfx950 has 160 KiB");
    let refusal = swap.for_packet(&packet()).expect_err("there is no room for what is dynamic");
    assert_eq!(refusal.to_string(), "LDS of the packet: expected at most 163840, found 164096 bytes");
}

#[test]
fn a_clone_with_a_stack_of_unknown_size_gets_what_the_runtime_gives_unless_it_may_call_other_code_objects() {
    let clone = |change: Change, beside: bool| {
        let (original, mut candidate) = pair(change);
        let end = candidate.kernarg_size.next_multiple_of(8);
        let mut added = candidate.arguments[0].clone();
        (added.offset, added.size, added.kind) = (end, 8, ValueKind::GlobalBuffer);
        candidate.arguments.retain(|argument| !argument.kind.is_hidden());
        candidate.arguments.push(added);
        candidate.kernarg_size = end + 8;
        fit_clone(&original, &candidate, beside)
    };
    let (only_clone, both): (Change, Change) =
        (|_, c| c.uses_dynamic_stack = true, |o, c| (o.uses_dynamic_stack, c.uses_dynamic_stack) = (true, true));
    for (change, beside, runs_fewer) in [(only_clone, false, true), (only_clone, true, true), (both, true, false)] {
        let swap = clone(change, beside).unwrap_or_else(|refusals| panic!("{refusals:?}"));
        let private = |facts: PacketFacts| swap.for_packet(&facts).map(|sizes| sizes.private);
        assert_eq!(private(packet()), Ok(16 + 1024));
        // The application asked for more.
        assert_eq!(private(PacketFacts { private: 8192, ..packet() }), Ok(8192));
        assert_eq!(private(PacketFacts { cooperative: true, ..packet() }).is_err(), runs_fewer);
    }
    let refused = clone(both, false).expect_err("it may call what the application points to");
    assert!(refused.iter().any(|refusal| refusal.reason == Reason::DynamicStack), "{refused:?}");
}
