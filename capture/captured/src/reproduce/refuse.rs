//! What a HIP program cannot recreate, by name, and what it can only recreate in part.

use std::ops::Range;

use amdgpu_code_object::{ValueKind, load};
use hsa_sys::abi::aql::PacketType;
use logdur_capture::{Allocation, AllocationKind, Memory, Scope};

use super::fixups::Aim;
use super::kind::Kind;
use super::reach::Reach;
use crate::dispatch::{CapturedDispatch, extent, lacks, name, processor, without};
use crate::error::{CapturedError, Result};

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

/// Refuses a dispatch whose memory, packet, code or arguments cannot be recreated; else what is recreated in part only, a line each.
///
/// # Errors
/// Every reason, by name.
pub(super) fn check(captured: &CapturedDispatch<'_>, reach: &Reach<'_>) -> Result<Vec<String>> {
    let dispatch = captured.dispatch.id;
    let mut missing = lacks(captured.reader, captured.dispatch);
    if captured.after.is_none() {
        missing.push("the memory after the kernel".to_owned());
    }
    if !missing.is_empty() {
        return Err(CapturedError::Incomplete { dispatch, what: missing.join("; ") });
    }
    let mut doubts = captured.qualified();
    let mut refused = Vec::new();
    launch(captured, &mut refused, &mut doubts)?;
    for reached in &reach.allocations {
        if let Some(allocation) = reached.allocation {
            refused.extend(memory(captured, allocation));
        }
    }
    code(captured, reach, &mut refused, &mut doubts)?;
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
    if refused.is_empty() { Ok(doubts) } else { Err(CapturedError::Unsupported(refused.join("; "))) }
}

/// The packet and the arguments.
fn launch(captured: &CapturedDispatch<'_>, refused: &mut Vec<String>, doubts: &mut Vec<String>) -> Result<()> {
    let (packet, kernel) = (captured.packet(), &captured.original.kernel);
    if packet.packet_type() != PacketType::KernelDispatch {
        refused.push(format!("a packet that is no dispatch: {:?}", packet.packet_type()));
    }
    if captured.ran_instead.is_some() {
        refused.push(format!("another kernel ran in the place of {}: capture a run without --cache", kernel.name));
    }
    if captured.is_cooperative() {
        refused.push("a cooperative launch".to_owned());
    }
    if captured.stacks().is_some() {
        refused.push("stacks of threads in memory, as of GCC's OpenMP".to_owned());
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
    for argument in kernel.explicit() {
        match argument.kind {
            ValueKind::ByValue | ValueKind::GlobalBuffer => {}
            _ => refused.push(format!("an argument of the kind {}", argument.kind)),
        }
    }
    for argument in kernel.hidden() {
        let (start, end) = (argument.offset as usize, (argument.offset + argument.size) as usize);
        let bytes = captured.dispatch.kernarg.get(start..end).unwrap_or_default();
        let value = bytes.iter().rev().take(8).fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        match hidden(&argument.kind, value) {
            Hidden::Same => {}
            Hidden::Own(what) => doubts.push(format!("{}: HIP gives {what}", argument.kind)),
            Hidden::Refused => refused.push(format!("{} {value:#x}", argument.kind)),
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
fn code(
    captured: &CapturedDispatch<'_>,
    reach: &Reach<'_>,
    refused: &mut Vec<String>,
    doubts: &mut Vec<String>,
) -> Result<()> {
    for called in captured.look_for_called()? {
        refused.push(format!("another code object that the dispatch leads to: {}", name(&called.loaded)));
    }
    for (loaded, why) in captured.unavailable() {
        doubts.push(format!("code object {}: {why}", name(loaded)));
    }
    let leads_to_code = reach.before.iter().chain(&reach.after).filter(|fixup| fixup.aim == Aim::Code).count();
    if leads_to_code > 0 && reach.variables.is_empty() {
        refused.push(format!(
            "{leads_to_code} addresses in the code object: HIP says where it is only by a variable, and it has none"
        ));
    }
    for managed in reach.managed.iter().filter(|managed| managed.at.is_none()) {
        let symbol = &managed.pointer.symbol;
        doubts.push(format!("managed variable {symbol}: its memory was not captured, and is as in the code object"));
    }
    let Some(place) = captured.loaded else { return Ok(()) };
    let whole = extent(place);
    let Ok(loaded) = load::load(&captured.original.bytes, place.base, |_| None) else {
        doubts.push("variables without exported names were not compared with the code object".to_owned());
        return Ok(());
    };
    for memory in [Some(&captured.before), captured.after.as_ref()].into_iter().flatten() {
        for range in memory.ranges() {
            let inside = range.start.max(whole.start)..range.end.min(whole.end);
            let managed = reach.managed.iter().map(|managed| managed.pointer);
            let named = reach.variables.iter().copied().chain(managed);
            let named = named.map(|g| g.address..g.address.saturating_add(g.size));
            let left = named.fold(vec![inside], |left, named| {
                left.into_iter().flat_map(|range| without(range, &named)).filter(|r| r.start < r.end).collect()
            });
            for part in left.into_iter().filter(|part| part.start < part.end) {
                if let Some(at) = differs(memory, &part, place.base, &loaded.bytes)? {
                    let of =
                        captured.globals.iter().find(|g| (g.address..g.address.saturating_add(g.size)).contains(&at));
                    let of = of.map_or_else(|| format!("what is at {at:#x}"), |global| global.symbol.clone());
                    let why = "HIP finds variables by exported names only, and it is not as in the code object";
                    refused.push(format!("variable {of}: {why}"));
                }
            }
        }
    }
    refused.dedup();
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
