//! What the elements are that a dispatch writes, as its own kernel declares them.
//!
//! Allocators give memory of one type after the other to a buffer, so that its name and type, which are those of its first use, say little
//! of a later dispatch.

use logdur_captured::Argument;
use logdur_captured::region::{CapturedPart, PartStep, Work};
use logdur_captured::verify::{Buffer, Tolerance, Type};

/// The memory behind each pointer that a dispatch is given, up to its next one or to the end of what was captured there, if the kernel
/// declares what it points to and may write that.
pub(super) fn written(part: &CapturedPart<'_>, step: &PartStep<'_>) -> Vec<Buffer> {
    let Work::Dispatch { kernel, dispatch } = step.work else { return Vec::new() };
    let Some(code) = part.kernels.get(kernel).map(|kernel| &kernel.original) else { return Vec::new() };
    let arguments = code.arguments(&dispatch.kernarg);
    let mut pointers: Vec<_> = arguments
        .iter()
        .filter_map(|argument| Some((argument.address().filter(|at| *at != 0)?, argument, written_as(argument))))
        .collect();
    // Of two that lead to one address, the one that may be written through.
    pointers.sort_by_key(|(at, _, of)| (*at, of.is_none()));
    let starts: Vec<u64> = pointers.iter().map(|(at, ..)| *at).collect();
    pointers.dedup_by_key(|(at, ..)| *at);
    let end = |start: u64| {
        let allocations = part.captured.allocations.iter().map(|a| a.base..a.base.saturating_add(a.size));
        let of_allocation = allocations.filter(|a| a.contains(&start)).map(|a| a.end).min();
        let behind = starts.iter().copied().find(|other| *other > start);
        of_allocation.map(|end| behind.map_or(end, |behind| behind.min(end)))
    };
    let typed = pointers.iter().filter_map(|&(start, argument, of)| {
        let (name, tolerance) = (argument.name.clone(), Tolerance::default());
        Some(Buffer { name, start, end: end(start)?, element_type: of?, tolerance })
    });
    typed.collect()
}

/// False for a dispatch whose kernel does not say what it may write: of one of its pointers at least, no numbers are known.
pub(super) fn is_declared(part: &CapturedPart<'_>, step: &PartStep<'_>) -> bool {
    let Work::Dispatch { kernel, dispatch } = step.work else { return true };
    let Some(code) = part.kernels.get(kernel).map(|kernel| &kernel.original) else { return false };
    let arguments = code.arguments(&dispatch.kernarg);
    let mut pointers = arguments.iter().filter(|argument| argument.address().is_some_and(|at| at != 0)).peekable();
    pointers.peek().is_some() && pointers.all(|pointer| is_const(pointer) || written_as(pointer).is_some())
}

/// True for a pointer through which the kernel's source does not write.
fn is_const(argument: &Argument<'_>) -> bool {
    let declares = |source: &str| source.split(&[' ', '*']).any(|word| word == "const");
    argument.declared.is_const || argument.source_type.is_some_and(declares)
}

/// What a kernel may write through an argument, as its source declares it.
fn written_as(argument: &Argument<'_>) -> Option<Type> {
    argument.source_type.and_then(Type::of_pointer).filter(|_| !is_const(argument))
}

/// The buffer that has an address, and the first byte of the element there.
pub(super) fn element_at(buffers: &[Buffer], address: u64) -> Option<(&Buffer, u64, Type)> {
    let buffer = buffers.iter().find(|buffer| (buffer.start..buffer.end).contains(&address))?;
    let size = buffer.element_type.size() as u64;
    let start = buffer.start + (address - buffer.start) / size * size;
    (start + size <= buffer.end).then_some((buffer, start, buffer.element_type))
}
