//! What is written between the steps of a region: by the host, or by copies that are no steps.

use std::ops::Range;

use logdur_capture::Memory;

use super::fixups::Place;
use super::reach::{Piece, Reached};
use super::subject::Subject;
use crate::dispatch::without;
use crate::error::{CapturedError, Result};

/// Where the bytes of a write are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In the file of what is written.
    Own,
    /// In the file of a piece before the first step, by its number: memory that no step before has reached.
    Piece(usize),
}

/// Bytes that are written before a step.
#[derive(Clone, Debug)]
pub(super) struct Write<'c> {
    /// The place of the step among all, from 0.
    pub(super) step: usize,
    /// What it is in.
    pub(super) place: Place,
    /// The address of the first byte of that, as the application had it.
    pub(super) base: u64,
    pub(super) range: Range<u64>,
    /// The bytes.
    pub(super) memory: &'c Memory<'c>,
    pub(super) source: Source,
    /// Where in that file its bytes begin.
    pub(super) source_offset: u64,
}

/// All writes, by their steps.
#[derive(Debug, Default)]
pub(super) struct Writes<'c> {
    pub(super) all: Vec<Write<'c>>,
    /// How many bytes no other file has.
    pub(super) bytes: u64,
}

impl<'c> Writes<'c> {
    /// Those with bytes that no other file has.
    pub(super) fn own(&self) -> impl Iterator<Item = &Write<'c>> {
        self.all.iter().filter(|write| write.source == Source::Own)
    }
}

/// What is left of ranges without another one.
fn cut(all: Vec<Range<u64>>, other: &Range<u64>) -> Vec<Range<u64>> {
    all.into_iter().flat_map(|range| without(range, other)).filter(|r| r.start < r.end).collect()
}

/// Takes what is written before each step apart by the pieces of memory that it is in.
///
/// # Errors
/// When the capture is damaged, or what is written is in no piece.
pub(super) fn writes<'c>(subject: &Subject<'c>, pieces: &[Piece], allocations: &[Reached<'_>]) -> Result<Writes<'c>> {
    let Some(part) = subject.part else { return Ok(Writes::default()) };
    let mut by_address: Vec<(usize, &Piece)> = pieces.iter().enumerate().collect();
    by_address.sort_by_key(|(_, piece)| piece.range.start);
    // What of each piece no step has reached yet.
    let mut fresh: Vec<Vec<Range<u64>>> = pieces.iter().map(|piece| vec![piece.range.clone()]).collect();
    let at_first = part.part.start.map(|start| part.region.reader.snapshot(start)).transpose()?;
    let at_first = [at_first, part.steps.first().and_then(|step| step.delta.clone())];
    for range in at_first.iter().flatten().flat_map(Memory::ranges) {
        for (number, _) in within(&by_address, &range) {
            let left = fresh.get_mut(number);
            left.into_iter().for_each(|left| *left = cut(std::mem::take(left), &range));
        }
    }
    let mut writes = Writes::default();
    for (step, delta) in subject.steps.iter().enumerate().filter_map(|(at, step)| Some((at, step.delta?))) {
        for range in delta.ranges() {
            let mut rest = vec![range.clone()];
            for (number, piece) in within(&by_address, &range) {
                let inside = range.start.max(piece.range.start)..range.end.min(piece.range.end);
                rest = cut(rest, &inside);
                let Some(left) = fresh.get_mut(number) else { continue };
                let first: Vec<Range<u64>> = left
                    .iter()
                    .map(|left| left.start.max(inside.start)..left.end.min(inside.end))
                    .filter(|range| range.start < range.end)
                    .collect();
                *left = cut(std::mem::take(left), &inside);
                let again = first.iter().fold(vec![inside], cut);
                let write = |range: Range<u64>, source, source_offset| Write {
                    step,
                    place: piece.place,
                    base: piece.base,
                    range,
                    memory: delta,
                    source,
                    source_offset,
                };
                for range in first {
                    let offset = range.start - piece.range.start;
                    writes.all.push(write(range, Source::Piece(number), offset));
                }
                for range in again {
                    let bytes = range.end - range.start;
                    writes.all.push(write(range, Source::Own, writes.bytes));
                    writes.bytes += bytes;
                }
            }
            // Of a managed variable, HIP has its own bytes alone; constants of code are loaded with it.
            let is_in_allocation = |at: u64| allocations.iter().any(|reached| reached.range.contains(&at));
            for part in rest {
                if !is_in_allocation(part.start) && differs([&subject.captured.before, delta], &part)? {
                    let number = subject.steps.get(step).map_or(0, |step| step.number);
                    return Err(CapturedError::Unsupported(format!(
                        "step {number}: {} bytes at {:#x} are written before it, in a code object and in no variable that HIP finds by its name",
                        part.end - part.start,
                        part.start
                    )));
                }
            }
        }
    }
    Ok(writes)
}

/// The pieces that a range has some of, with their numbers.
fn within<'p>(by_address: &[(usize, &'p Piece)], range: &Range<u64>) -> Vec<(usize, &'p Piece)> {
    let until = by_address.partition_point(|(_, piece)| piece.range.start < range.end);
    let before = by_address.get(..until).unwrap_or_default().iter().rev();
    before.take_while(|(_, piece)| piece.range.end > range.start).copied().collect()
}

/// True if two memories have other bytes in a range that both have.
fn differs(both: [&Memory<'_>; 2], range: &Range<u64>) -> Result<bool> {
    let mut bytes = [Vec::new(), Vec::new()];
    for (memory, bytes) in both.into_iter().zip(&mut bytes) {
        bytes.resize((range.end - range.start) as usize, 0);
        memory.read(range.start, bytes)?;
    }
    let [one, other] = bytes;
    Ok(one != other)
}
