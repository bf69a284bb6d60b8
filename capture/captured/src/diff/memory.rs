//! Memory of two dispatches: what arguments point to, and variables, before and after the kernel.
//!
//! Memory before the kernel is compared where both captures have it. If it is equal, memory after the kernel is compared only where one
//! of the kernels wrote. Contents with the same hash in one file are not read. No tolerance is for what the first kernel leaves alone and
//! the second changes.

use std::collections::HashSet;
use std::ops::Range;

use logdur_capture::{Difference, Memory};

use super::{Diff, Fact, Side};
use crate::buffers::buffers;
use crate::dispatch::CapturedDispatch;
use crate::error::Result;
use crate::verify::{Buffer, BufferReport, ComparedBytes, Comparison, Judged, Rule, Stored, Tolerance, Type};

/// Bytes that are read at once of each of the two; whole elements of every type.
const STEP: u64 = 1 << 20;

/// A buffer of two dispatches.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferDiff {
    /// Its name: of an argument, or of a variable.
    pub name: String,
    /// What its elements are.
    pub element_type: Type,
    /// What is near enough.
    pub tolerance: Tolerance,
    /// Its addresses.
    pub starts: [u64; 2],
    /// How many bytes each has. What only one has is not compared.
    pub sizes: [u64; 2],
    /// Before the kernels.
    pub before: Compared,
    /// After them; `None` when a capture does not have it.
    pub after: Option<Compared>,
}

/// What was found of a buffer at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    /// Elements that differ.
    pub differing: u64,
    /// Elements that are not equal but near enough, or not a number in both.
    pub near: u64,
    /// The largest difference, of elements that are near or not.
    pub max_abs: Option<f64>,
    /// The largest difference by the first's magnitude.
    pub max_rel: Option<f64>,
    /// The most numbers between.
    pub max_ulp: Option<u64>,
    /// The first element that differs.
    pub first: Option<First>,
    /// Bytes that were read of each to know it.
    pub read: u64,
}

/// An element that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// Its number in the buffer.
    pub index: u64,
    /// In the first.
    pub a: String,
    /// In the second.
    pub b: String,
}

impl BufferDiff {
    /// True when sizes or elements differ.
    pub fn differs(&self) -> bool {
        let [a, b] = self.sizes;
        a != b || self.before.differing > 0 || self.after.as_ref().is_some_and(|after| after.differing > 0)
    }
}

impl Compared {
    fn is_equal(&self) -> bool {
        self.differing + self.near == 0
    }
}

/// Compares the buffers of two dispatches.
///
/// # Errors
/// When a capture is damaged, or a rule is about no buffer of the first.
pub(super) fn compare(sides: &[Side<'_>; 2], rules: &[Rule], diff: &mut Diff) -> Result<()> {
    let [a, b] = sides;
    let (of_a, of_b) = (buffers(&a.captured, rules)?, buffers(&b.captured, &[])?);
    let changes = Changes::of(sides)?;
    for (which, side) in ["first", "second"].iter().zip(sides) {
        diff.missing.extend(absent(side).into_iter().map(|what| format!("the {which}: {what}")));
    }
    let at = |all: &[Buffer], address: u64| all.iter().find(|buffer| buffer.start == address).cloned();
    let (names_a, names_b) = (names(&a.captured), names(&b.captured));
    let mut seen = HashSet::new();
    for Named { name, number, address } in &names_a {
        let Some(buffer) = at(&of_a, *address).map(|buffer| Buffer { name: name.clone(), ..buffer }) else { continue };
        let partner = names_b.iter().find(|other| other.name == *name).or_else(|| {
            // Of another kernel, arguments may have other names.
            names_b.iter().find(|other| number.is_some() && other.number == *number)
        });
        let Some(partner) = partner else {
            diff.alone.push(alone(name, [Some(&buffer), None]));
            continue;
        };
        // Two arguments that point to the same in both are one buffer.
        if let Some(other) = at(&of_b, partner.address).filter(|other| seen.insert((buffer.start, other.start))) {
            diff.buffers.push(one(sides, buffer, &other, &changes, &mut diff.missing)?);
        }
    }
    for Named { name, number, address } in &names_b {
        let is = |other: &Named| other.name == *name || number.is_some() && other.number == *number;
        if !names_a.iter().any(is) {
            diff.alone.extend(at(&of_b, *address).map(|buffer| alone(name, [None, Some(&buffer)])));
        }
    }
    Ok(())
}

/// A buffer that only one of the two has.
fn alone(name: &str, buffers: [Option<&Buffer>; 2]) -> Fact {
    let size = |b: Option<&Buffer>| b.map_or_else(|| "none".to_owned(), |b| format!("{} bytes", b.end - b.start));
    let [a, b] = buffers.map(size);
    Fact { name: name.to_owned(), a, b }
}

/// What has a name, and where it is.
struct Named {
    name: String,
    /// Of an argument: `arg0` is the first.
    number: Option<String>,
    address: u64,
}

/// The pointers among the arguments, and the variables.
fn names(captured: &CapturedDispatch<'_>) -> Vec<Named> {
    let pointers = captured.pointers().into_iter();
    let pointers = pointers.map(|p| Named { name: p.name, number: Some(p.number), address: p.address });
    let variables = captured.globals.iter().map(|g| Named { name: g.symbol.clone(), number: None, address: g.address });
    pointers.chain(variables).collect()
}

/// What the capture lacks of what would be compared.
fn absent(side: &Side<'_>) -> Vec<String> {
    let captured = &side.captured;
    let ranges = captured.before.ranges();
    let is_there = |address: u64| ranges.iter().any(|range| range.contains(&address));
    // Constant data was loaded with the code.
    let written = &captured.original.interface.variables;
    let gone = |n: &&Named| !is_there(n.address) && (n.number.is_some() || written.contains(&n.name));
    let names = names(captured);
    let mut all: Vec<String> =
        names.iter().filter(gone).map(|n| format!("{}: {:#x} was not captured", n.name, n.address)).collect();
    if !captured.before.is_complete() {
        all.push("the memory before the kernel is incomplete".to_owned());
    }
    match &captured.after {
        None => all.push("no memory after the kernel".to_owned()),
        Some(after) if !after.is_complete() => all.push("the memory after the kernel is incomplete".to_owned()),
        Some(_) => {}
    }
    all
}

/// Where memory is known to be another. Everywhere else contents are the same.
struct Changes {
    /// What each of the kernels changed.
    written: [Vec<Range<u64>>; 2],
    /// What differs between the two before and after, when they are of one file.
    between: Option<[Vec<Range<u64>>; 2]>,
}

impl Changes {
    fn of(sides: &[Side<'_>; 2]) -> Result<Changes> {
        let [a, b] = sides;
        let since = |now: Option<&Memory<'_>>, then: Option<&Memory<'_>>| -> Result<Vec<Range<u64>>> {
            let (Some(now), Some(then)) = (now, then) else { return Ok(Vec::new()) };
            let changes = now.changed_since(then)?;
            let changed = changes.iter().filter(|c| c.what == Difference::Changed);
            Ok(changed.map(|c| c.address..c.address + c.length).collect())
        };
        let written = [since(a.after(), Some(&a.captured.before))?, since(b.after(), Some(&b.captured.before))?];
        let between = match std::ptr::eq(a.reader, b.reader) {
            true => Some([since(Some(&b.captured.before), Some(&a.captured.before))?, since(b.after(), a.after())?]),
            false => None,
        };
        Ok(Changes { written, between })
    }
}

/// The parts of ranges of addresses that are in a buffer's first bytes, as bytes from its beginning on.
fn within(ranges: &[Range<u64>], start: u64, length: u64) -> Vec<Range<u64>> {
    let cut = |r: &Range<u64>| r.start.saturating_sub(start)..r.end.saturating_sub(start).min(length);
    ranges.iter().map(cut).filter(|r| r.start < r.end).collect()
}

/// Ranges that are sorted, do not overlap, and begin and end with whole elements.
fn whole(mut ranges: Vec<Range<u64>>, size: u64, length: u64) -> Vec<Range<u64>> {
    ranges.sort_by_key(|r| r.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for r in ranges {
        let (start, end) = (r.start / size * size, r.end.next_multiple_of(size).min(length));
        match all.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => all.push(start..end),
        }
    }
    all
}

/// What both have of their first bytes, as bytes from the beginning on.
fn held(memories: [&Memory<'_>; 2], starts: [u64; 2], length: u64) -> Vec<Range<u64>> {
    let [a, b] = [(memories[0], starts[0]), (memories[1], starts[1])]
        .map(|(memory, start)| within(&memory.ranges(), start, length));
    let both = a.iter().flat_map(|a| b.iter().map(|b| a.start.max(b.start)..a.end.min(b.end)));
    both.filter(|r| r.start < r.end).collect()
}

fn one(
    sides: &[Side<'_>; 2],
    buffer: Buffer,
    other: &Buffer,
    changes: &Changes,
    missing: &mut Vec<String>,
) -> Result<BufferDiff> {
    let starts = [buffer.start, other.start];
    let sizes = [buffer.end - buffer.start, other.end - other.start];
    let (length, element_type, tolerance) = (sizes[0].min(sizes[1]), buffer.element_type, buffer.tolerance);
    let size = element_type.size() as u64;
    // Of one file, and at one address.
    let between = changes.between.as_ref().filter(|_| starts[0] == starts[1]);
    let everything = || std::iter::once(0..length).collect::<Vec<_>>();
    let parts = between.map_or_else(everything, |[before, _]| whole(within(before, starts[0], length), size, length));
    let memories = [&sides[0].captured.before, &sides[1].captured.before];
    let before = elements(memories, None, &buffer, starts, &parts)?;
    let after = match (sides[0].after(), sides[1].after()) {
        (Some(a), Some(b)) => {
            let parts = match between {
                Some([_, after]) => within(after, starts[0], length),
                None if before.is_equal() => {
                    let [of_a, of_b] = &changes.written;
                    [within(of_a, starts[0], length), within(of_b, starts[1], length)].concat()
                }
                None => everything(),
            };
            let there = whole(held([a, b], starts, length), 1, length);
            let absent = length - there.iter().map(|r| r.end - r.start).sum::<u64>();
            if absent > 0 {
                missing.push(format!("{}: {absent} bytes were not captured after both kernels", buffer.name));
            }
            let parts = whole(parts, size, length);
            let parts = parts.iter().flat_map(|p| there.iter().map(|t| p.start.max(t.start)..p.end.min(t.end)));
            let parts: Vec<Range<u64>> = parts.filter(|p| p.start < p.end).collect();
            Some(elements([a, b], Some(memories), &buffer, starts, &parts)?)
        }
        _ => None,
    };
    Ok(BufferDiff { name: buffer.name, element_type, tolerance, starts, sizes, before, after })
}

/// Compares the elements in some parts of a buffer; `before` is what they were before the kernels, where that is over.
fn elements(
    memories: [&Memory<'_>; 2],
    before: Option<[&Memory<'_>; 2]>,
    buffer: &Buffer,
    starts: [u64; 2],
    parts: &[Range<u64>],
) -> Result<Compared> {
    let mut found = TwoRules::of(buffer);
    // Without a tolerance, bits are compared anyway.
    let before = before.filter(|_| !buffer.tolerance.is_exact());
    let length = parts.iter().map(|part| part.end).max().unwrap_or(0);
    let known = before.map_or_else(Vec::new, |before| held(before, starts, length));
    let (mut after, mut old) = (<[Vec<u8>; 2]>::default(), <[Vec<u8>; 2]>::default());
    for part in parts {
        let mut at = part.start;
        while at < part.end {
            let bytes = (part.end - at).min(STEP);
            let read = |memories: [&Memory<'_>; 2], to: &mut [Vec<u8>; 2]| -> Result<()> {
                for ((memory, start), to) in memories.into_iter().zip(starts).zip(to) {
                    to.resize(bytes as usize, 0);
                    memory.read(start + at, to)?;
                }
                Ok(())
            };
            read(memories, &mut after)?;
            if after[0] != after[1] {
                let old = match before.filter(|_| known.iter().any(|r| r.start <= at && at + bytes <= r.end)) {
                    Some(before) => {
                        read(before, &mut old)?;
                        Some(&old)
                    }
                    None => None,
                };
                found.take(starts[0] + at, &after, old);
            }
            at += bytes;
            found.read += bytes;
        }
    }
    Ok(found.finish())
}

/// Elements of two memories, compared within a tolerance, or bit by bit where the first kernel leaves alone what the second changes.
struct TwoRules {
    near: Comparison,
    exact: Comparison,
    size: usize,
    read: u64,
}

impl TwoRules {
    fn of(buffer: &Buffer) -> TwoRules {
        let exact = Buffer { tolerance: Tolerance::default(), ..buffer.clone() };
        let [near, exact] = [buffer.clone(), exact].map(Comparison::new);
        TwoRules { near, exact, size: buffer.element_type.size(), read: 0 }
    }

    /// Takes bytes of both, from the first's address on, and what they were before, where that is known.
    fn take(&mut self, address: u64, [a, b]: &[Vec<u8>; 2], before: Option<&[Vec<u8>; 2]>) {
        // Where the other rule holds, the two are the same.
        let (mut near, mut exact) = (a.clone(), b.clone());
        if let Some([before_a, before_b]) = before {
            for at in (0..a.len()).step_by(self.size) {
                let element = at..(at + self.size).min(a.len());
                let is_same = |x: &[u8], y: &[u8]| x.get(element.clone()) == y.get(element.clone());
                if is_same(a, before_a) && !is_same(b, before_b) {
                    near[element.clone()].copy_from_slice(&b[element.clone()]);
                    exact[element.clone()].copy_from_slice(&a[element]);
                }
            }
        }
        for (comparison, expected) in [(&mut self.near, &near), (&mut self.exact, &exact)] {
            // Seen from the second, every element that differs was changed by the first.
            let (own, stored) = (&[b.as_slice()], Stored::Words(1));
            comparison.take(&ComparedBytes { address, before: b, expected, own, other: &[], stored });
        }
    }

    fn finish(self) -> Compared {
        let [near, exact] = [self.near, self.exact].map(|comparison| comparison.finish(Judged::Own));
        let differing = |report: &BufferReport| report.mismatches + report.outside;
        let larger = |of: fn(&BufferReport) -> Option<f64>| match (of(&near), of(&exact)) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        let firsts = [&near, &exact].into_iter().filter_map(|report| report.first.as_ref());
        let first = firsts.min_by_key(|first| first.index);
        Compared {
            differing: differing(&near) + differing(&exact),
            near: near.near + near.nans,
            max_abs: larger(|report| report.max_abs),
            max_rel: larger(|report| report.max_rel),
            max_ulp: near.max_ulp.max(exact.max_ulp),
            first: first.map(|first| First { index: first.index, a: first.expected.clone(), b: first.found.clone() }),
            read: self.read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tolerance_is_for_what_the_first_kernel_leaves_alone_and_the_second_changes() {
        let bytes = |values: [f32; 4]| values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
        let tolerance = Tolerance { abs: Some(0.5), ..Tolerance::default() };
        let buffer = Buffer { name: "out".to_owned(), start: 0x1000, end: 0x1010, element_type: Type::F32, tolerance };
        // Both write it; the first leaves it alone; both leave alone what was another before; the second leaves it alone.
        let before = [bytes([0.0, 2.0, 3.0, 4.0]), bytes([0.0, 2.0, 3.1, 4.0])];
        let after = [bytes([1.0, 2.0, 3.0, 4.1]), bytes([1.1, 2.1, 3.1, 4.0])];
        let found = |before| {
            let mut rules = TwoRules::of(&buffer);
            rules.take(0x1000, &after, before);
            rules.finish()
        };
        let (strict, lenient) = (found(Some(&before)), found(None));
        assert_eq!((strict.differing, strict.near), (1, 3));
        assert_eq!(strict.first.map(|first| (first.index, first.b)), Some((1, "2.1".to_owned())));
        assert_eq!((lenient.differing, lenient.near), (0, 4));
    }

    #[test]
    fn changed_pages_become_whole_elements_of_a_buffer() {
        let ranges = [0x1000..0x2000, 0x3000..0x4000];
        assert_eq!(within(&ranges, 0x1804, 0x2000), [0..0x7fc, 0x17fc..0x2000]);
        assert_eq!(within(&ranges, 0x4000, 0x2000), []);
        let all = whole(vec![0x17fc..0x1fff, 3..9, 8..10], 8, 0x1ffd);
        assert_eq!(all, [0..16, 0x17f8..0x1ffd]);
    }
}
