//! What a HIP program cannot recreate, by name, and what it can only recreate in part.

use std::ops::Range;

use amdgpu_code_object::{ValueKind, load};
use hsa_sys::abi::aql::PacketType;
use logdur_capture::{Allocation, AllocationKind, Dispatch, Memory, Scope};

use super::fixups::Aim;
use super::kind::Kind;
use super::reach::Reach;
use super::subject::{Module, Step, Subject, is_packet, work_items};
use crate::dispatch::{CapturedDispatch, extent, lacks, name, packet, processor, without};
use crate::error::{CapturedError, Result};
use crate::region::Work;

/// What a HIP program makes of an argument that the runtime fills in.
enum Hidden {
    /// HIP gives what the application's runtime gave.
    Same,
    /// HIP gives something of its own.
    Own(&'static str),
    /// HIP gives 0, or something else that differs.
    Refused,
}

fn hidden(kind: &ValueKind, value: u64) -> Hidden {
    use ValueKind as K;
    match kind {
        _ if value == 0 => Hidden::Same,
        K::HiddenBlockCountX | K::HiddenBlockCountY | K::HiddenBlockCountZ => Hidden::Same,
        K::HiddenGroupSizeX | K::HiddenGroupSizeY | K::HiddenGroupSizeZ => Hidden::Same,
        K::HiddenRemainderX | K::HiddenRemainderY | K::HiddenRemainderZ => Hidden::Same,
        K::HiddenGridDims | K::HiddenNone | K::HiddenDynamicLdsSize => Hidden::Same,
        K::HiddenPrivateBase | K::HiddenSharedBase | K::HiddenQueuePtr => Hidden::Same,
        K::HiddenPrintfBuffer => Hidden::Own("a buffer for printf"),
        K::HiddenHostcallBuffer => Hidden::Own("a buffer for calls of the host"),
        K::HiddenHeapV1 => Hidden::Own("a heap for the device's malloc, without the application's blocks"),
        // What HIP gives to a launch that is not cooperative on several GPUs.
        K::HiddenMultigridSyncArg if value == 1 => Hidden::Own("no grid of several GPUs"),
        _ => Hidden::Refused,
    }
}

/// Refuses what has no memory to begin with.
///
/// # Errors
/// What the capture lacks.
pub(super) fn scope(scope: Scope, dispatch: u64) -> Result<()> {
    match scope {
        Scope::Kernarg => {
            let what = "memory, since its scope is kernarg:".to_owned();
            Err(CapturedError::Incomplete { dispatch, what: format!("{what} capture it with another --capture-scope") })
        }
        _ => Ok(()),
    }
}

/// Refuses memory, packets, code or arguments that cannot be recreated; else what is recreated in part only, a line each.
///
/// # Errors
/// Every reason, by name.
pub(super) fn check(subject: &Subject<'_>, reach: &Reach<'_>) -> Result<Vec<String>> {
    let captured = subject.captured;
    incomplete(subject)?;
    let mut doubts = captured.qualified();
    for text in subject.part.iter().flat_map(|part| &part.qualified) {
        if !doubts.contains(text) {
            doubts.push(text.clone());
        }
    }
    let steps = subject.part.iter().flat_map(|part| &part.steps);
    let meanwhile = steps.filter(|step| step.is_meanwhile()).count();
    if meanwhile > 0 {
        doubts.push(format!(
            "what {meanwhile} dispatches may have written the host may have changed meanwhile: the program writes none of it"
        ));
    }
    let mut refused = Vec::new();
    subject.kernels.iter().try_for_each(|kernel| of_kernel(kernel, &mut refused))?;
    for (number, dispatch) in subject.launches() {
        if let Some(kernel) = subject.kernels.get(number) {
            launch(kernel, dispatch, &mut refused, &mut doubts);
            if is_packet(kernel, dispatch) {
                of_packet(subject, reach, number, dispatch, &mut refused, &mut doubts);
            }
        }
    }
    for allocation in reach.allocations.iter().flat_map(|reached| &reached.allocations) {
        refused.extend(memory(captured, allocation));
    }
    subject.steps.iter().for_each(|step| moves(step, reach, &mut refused));
    let changing = reach.allocations.iter().filter(|reached| reached.allocations.len() > 1);
    for reached in changing.filter(|reached| reached.allocations.iter().any(|of| Kind::of(of) != Ok(reached.kind()))) {
        let (size, at) = (reached.range.end - reached.range.start, reached.range.start);
        doubts.push(format!(
            "{size} bytes at {at:#x} are memory of several kinds, one after the other: all of it is the GPU's"
        ));
    }
    code(subject, reach, &mut refused, &mut doubts)?;
    for allocation in &reach.uncaptured {
        let Allocation { base, size, .. } = allocation;
        doubts.push(format!(
            "{size} bytes at {base:#x} were not captured, and something points there: it is left as it is"
        ));
    }
    for (range, bytes) in &reach.elsewhere {
        let size = range.end - range.start;
        doubts.push(format!(
            "{bytes} bytes changed in {size} bytes at {:#x}, to which nothing leads: they are not compared",
            range.start
        ));
    }
    let mut unique = Vec::new();
    doubts.retain(|doubt| {
        !unique.contains(doubt) && {
            unique.push(doubt.clone());
            true
        }
    });
    unique.clear();
    refused.retain(|reason| {
        !unique.contains(reason) && {
            unique.push(reason.clone());
            true
        }
    });
    if refused.is_empty() { Ok(doubts) } else { Err(CapturedError::Unsupported(refused.join("; "))) }
}

/// Refuses what lacks memory, code or arguments.
fn incomplete(subject: &Subject<'_>) -> Result<()> {
    let captured = subject.captured;
    let mut missing = match subject.part {
        None => lacks(captured.reader, captured.dispatch),
        Some(_) => {
            let arguments = captured.has_arguments().err().map(|error| error.to_string());
            let memory = (!captured.before.is_complete()).then(|| "all of the memory before the first step".to_owned());
            arguments.into_iter().chain(memory).collect()
        }
    };
    if captured.after.is_none() {
        missing.push(match subject.part {
            None => "the memory after the kernel".to_owned(),
            Some(part) => format!("the memory after step {}, the last one", part.part.last),
        });
    }
    if missing.is_empty() {
        return Ok(());
    }
    let what = missing.join("; ");
    Err(match subject.part {
        None => CapturedError::Incomplete { dispatch: captured.dispatch.id, what },
        Some(part) => CapturedError::IncompleteRegion { region: part.region.record.id, what },
    })
}

/// What of a kernel HIP does not launch.
fn of_kernel(captured: &CapturedDispatch<'_>, refused: &mut Vec<String>) -> Result<()> {
    let kernel = &captured.original.kernel;
    if captured.ran_instead.is_some() {
        refused.push(format!("another kernel ran in the place of {}: capture a run without --cache", kernel.name));
    }
    if captured.is_cooperative() {
        refused.push("a cooperative launch".to_owned());
    }
    if captured.stacks().is_some() {
        refused.push("stacks of threads in memory, as of GCC's OpenMP".to_owned());
    }
    for argument in kernel.explicit() {
        match argument.kind {
            ValueKind::ByValue | ValueKind::GlobalBuffer => {}
            _ => refused.push(format!("an argument of the kind {}", argument.kind)),
        }
    }
    if let Some(arch) = captured.agent.and_then(|agent| processor(&agent.isa).parse().ok())
        && let Some(instruction) = amdgpu_listing::by_descriptor(&captured.original.bytes, arch, &kernel.name)?
    {
        let why = "finds memory by a descriptor, as of a texture, and addresses in descriptors are not rewritten";
        refused.push(format!("{instruction} {why}"));
    }
    Ok(())
}

/// The packet and the arguments of a launch.
fn launch(captured: &CapturedDispatch<'_>, dispatch: &Dispatch, refused: &mut Vec<String>, doubts: &mut Vec<String>) {
    let (packet, kernel) = (packet(dispatch), &captured.original.kernel);
    if packet.packet_type() != PacketType::KernelDispatch {
        refused.push(format!("a packet that is no dispatch: {:?}", packet.packet_type()));
    }
    let fixed = captured.original.interface.group_size;
    if packet.group_segment_size() < fixed {
        refused.push(format!(
            "{} bytes of LDS in the packet, of which the kernel has {fixed}",
            packet.group_segment_size()
        ));
    }
    let sizes = packet.grid_size().into_iter().zip(packet.workgroup_size().map(u32::from));
    if kernel.uniform_workgroup_size && sizes.into_iter().any(|(grid, group)| !grid.is_multiple_of(group.max(1))) {
        let why = "the kernel was compiled for complete ones, and HIP 6.4 and later refuse this launch";
        doubts.push(format!("the last workgroups are not complete: {why}"));
    }
    let scratch = captured.original.interface.private_size;
    if packet.private_segment_size() != scratch {
        let asked = packet.private_segment_size();
        doubts
            .push(format!("scratch of {asked} bytes in the packet, {scratch} in the code object: HIP chooses its own"));
    }
    for argument in kernel.hidden() {
        let start = argument.offset as usize;
        let end = start.saturating_add(argument.size as usize);
        let bytes = dispatch.kernarg.get(start..end).unwrap_or_default();
        let value = bytes.iter().rev().take(8).fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        match hidden(&argument.kind, value) {
            Hidden::Same => {}
            Hidden::Own(what) => doubts.push(format!("{}: HIP gives {what}", argument.kind)),
            Hidden::Refused => refused.push(format!("{} {value:#x}", argument.kind)),
        }
    }
}

/// A launch that HIP refuses: its packet is given to the GPU, with another copy of the code and with the captured hidden arguments.
fn of_packet(
    subject: &Subject<'_>,
    reach: &Reach<'_>,
    number: usize,
    dispatch: &Dispatch,
    refused: &mut Vec<String>,
    doubts: &mut Vec<String>,
) {
    let Some(captured) = subject.kernels.get(number) else { return };
    let (name, most) = (&captured.original.kernel.name, captured.original.kernel.max_flat_workgroup_size);
    let what =
        format!("{name}: a workgroup of {} work-items, of which it declares {most} at most", work_items(dispatch));
    let module = subject.module_of.get(number).copied();
    let exported = reach.variables.iter().map(|variable| (variable.module, variable.global));
    let variables = exported.chain(reach.managed.iter().map(|managed| (managed.module, managed.pointer)));
    let of_module = variables.filter(|(of, _)| Some(*of) == module).map(|(_, global)| global.symbol.as_str());
    let variables = of_module.collect::<Vec<_>>().join(", ");
    let hidden = captured.original.kernel.hidden().find(|argument| {
        let start = argument.offset as usize;
        let end = start.saturating_add(argument.size as usize);
        let is_set = dispatch.kernarg.get(start..end).unwrap_or_default().iter().any(|byte| *byte != 0);
        is_set && !is_of_geometry(&argument.kind)
    });
    match hidden {
        _ if !variables.is_empty() => {
            refused.push(format!("{what}, and variables, which are HIP's ({variables}): HIP refuses the launch"));
        }
        Some(argument) => {
            refused.push(format!("{what}, and {}, which is HIP's: HIP refuses the launch", argument.kind));
        }
        None => doubts.push(format!("{what}: HIP refuses it, so that the program gives the packet to the GPU")),
    }
}

/// True for a hidden argument that follows from the packet alone.
fn is_of_geometry(kind: &ValueKind) -> bool {
    use ValueKind as K;
    matches!(
        kind,
        K::HiddenBlockCountX
            | K::HiddenBlockCountY
            | K::HiddenBlockCountZ
            | K::HiddenGroupSizeX
            | K::HiddenGroupSizeY
            | K::HiddenGroupSizeZ
            | K::HiddenRemainderX
            | K::HiddenRemainderY
            | K::HiddenRemainderZ
            | K::HiddenGridDims
            | K::HiddenDynamicLdsSize
            | K::HiddenNone
    )
}

/// Copies and fills that HIP has no memory or no function for.
fn moves(step: &Step<'_>, reach: &Reach<'_>, refused: &mut Vec<String>) {
    let number = step.number;
    let is_there = |at: u64, bytes: u64| bytes == 0 || reach.at(at, bytes).is_some();
    let mut refuse = |what: &str, at: u64, bytes: u64, why: &str| {
        refused.push(format!("step {number}: {what} {bytes} bytes at {at:#x}, {why}"));
    };
    let apart = "which are in several allocations, or in no memory that HIP finds";
    match step.work {
        Work::Copy { to, from, bytes } => {
            let places = [("a copy to", to), ("a copy from", from)];
            let missing = places.into_iter().filter(|(_, at)| !is_there(*at, bytes));
            missing.for_each(|(what, at)| refuse(what, at, bytes, apart));
            if to.abs_diff(from) < bytes {
                refuse("a copy to", to, bytes, "which are read, too: HIP does not say what such a copy does");
            }
        }
        Work::Fill { to, bytes, .. } if !is_there(to, bytes) => refuse("a fill of", to, bytes, apart),
        Work::Fill { to, bytes, .. } if !to.is_multiple_of(4) || !bytes.is_multiple_of(4) => {
            refuse("a fill of", to, bytes, "which are no whole words of 4 bytes, as HIP fills");
        }
        Work::Dispatch { .. } | Work::Fill { .. } | Work::Barrier => {}
    }
}

/// Why an allocation cannot be recreated.
fn memory(captured: &CapturedDispatch<'_>, allocation: &Allocation) -> Option<String> {
    let Allocation { base, size, .. } = allocation;
    let what = match Kind::of(allocation) {
        Err(what) => what.to_owned(),
        Ok(kind)
            if kind.is_of_gpu() && captured.agent.is_some_and(|agent| ![0, agent.id].contains(&allocation.owner)) =>
        {
            format!("of another GPU, agent {}", allocation.owner)
        }
        Ok(_) if allocation.kind == AllocationKind::Virtual && is_elsewhere_too(captured, allocation) => {
            "that is mapped at several addresses".to_owned()
        }
        Ok(_) => return None,
    };
    Some(format!("memory {what}: {size} bytes at {base:#x}"))
}

fn is_elsewhere_too(captured: &CapturedDispatch<'_>, of: &Allocation) -> bool {
    let requests = captured.wanted();
    requests
        .iter()
        .any(|wanted| wanted.shared.is_some() && wanted.range.start < of.base + of.size && of.base < wanted.range.end)
}

/// What of code a HIP program does not find: other code objects, and variables without exported names.
fn code(subject: &Subject<'_>, reach: &Reach<'_>, refused: &mut Vec<String>, doubts: &mut Vec<String>) -> Result<()> {
    let captured = subject.captured;
    for called in captured.look_for_called()?.iter().filter(|called| !subject.has_module_of(&called.loaded)) {
        refused.push(format!("another code object that the dispatch leads to: {}", name(&called.loaded)));
    }
    for (loaded, why) in captured.unavailable() {
        doubts.push(format!("code object {}: {why}", name(loaded)));
    }
    for managed in reach.managed.iter().filter(|managed| managed.at.is_none()) {
        let symbol = &managed.pointer.symbol;
        doubts.push(format!("managed variable {symbol}: its memory was not captured, and is as in the code object"));
    }
    for (number, module) in subject.modules.iter().enumerate() {
        let is_it = |fixup: &&super::fixups::Fixup| fixup.aim == Aim::Code(number);
        let leads_to_code = reach.before.iter().chain(&reach.after).filter(is_it).count();
        if leads_to_code > 0 && !reach.variables.iter().any(|variable| variable.module == number) {
            refused.push(format!(
                "{leads_to_code} addresses in the code object: HIP says where it is only by a variable, and it has none"
            ));
        }
        of_module(subject, reach, number, module, refused, doubts)?;
    }
    Ok(())
}

/// Memory of a module that is not as in the code object and that HIP does not find.
fn of_module(
    subject: &Subject<'_>,
    reach: &Reach<'_>,
    number: usize,
    module: &Module<'_>,
    refused: &mut Vec<String>,
    doubts: &mut Vec<String>,
) -> Result<()> {
    let captured = subject.captured;
    let Some(place) = module.captured.loaded else { return Ok(()) };
    let whole = extent(place);
    let Ok(loaded) = load::load(&module.code().bytes, place.base, |_| None) else {
        doubts.push("variables without exported names were not compared with the code object".to_owned());
        return Ok(());
    };
    for memory in [Some(&captured.before), captured.after.as_ref()].into_iter().flatten() {
        for range in memory.ranges() {
            let inside = range.start.max(whole.start)..range.end.min(whole.end);
            if inside.start >= inside.end {
                continue;
            }
            let managed = reach.managed.iter().filter(|managed| managed.module == number).map(|m| m.pointer);
            let named = reach.variables.iter().filter(|variable| variable.module == number).map(|v| v.global);
            let named = named.chain(managed).map(|g| g.address..g.address.saturating_add(g.size));
            let left = named.fold(vec![inside], |left, named| {
                left.into_iter().flat_map(|range| without(range, &named)).filter(|r| r.start < r.end).collect()
            });
            for part in left.into_iter().filter(|part| part.start < part.end) {
                if let Some(at) = differs(memory, &part, place.base, &loaded.bytes)? {
                    let mut globals = module.captured.globals.iter();
                    let of = globals.find(|g| (g.address..g.address.saturating_add(g.size)).contains(&at));
                    let of = of.map_or_else(|| format!("what is at {at:#x}"), |global| global.symbol.clone());
                    let why = "HIP finds variables by exported names only, and it is not as in the code object";
                    refused.push(format!("variable {of}: {why}"));
                }
            }
        }
    }
    Ok(())
}

/// The first address of a range whose byte is not that of a code object as it was loaded at `base`.
fn differs(memory: &Memory<'_>, range: &Range<u64>, base: u64, loaded: &[u8]) -> Result<Option<u64>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    memory.read(range.start, &mut bytes)?;
    let start = (range.start - base) as usize;
    let expected = loaded.get(start..).unwrap_or_default();
    let padded = expected.iter().copied().chain(std::iter::repeat(0));
    let at = bytes.iter().zip(padded).position(|(found, expected)| *found != expected);
    Ok(at.map(|at| range.start + at as u64))
}
