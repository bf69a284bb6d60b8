//! Comparing a buffer, piece by piece.

use super::seen::Seen;
use super::stored::Element;
use super::{Buffer, BufferReport, Difference, Distance, Judged, Stored, Type, Verdict};

/// Bytes of the same addresses at different times; all slices have the same length.
#[derive(Clone, Copy, Debug)]
pub struct ComparedBytes<'a> {
    /// The first byte's address.
    pub address: u64,
    /// Before the kernel.
    pub before: &'a [u8],
    /// After the application's.
    pub expected: &'a [u8],
    /// After replays of the application's own kernel, each content once; not none.
    pub own: &'a [&'a [u8]],
    /// After replays of the kernel that is judged in its place, each content once; none when that is the application's own.
    pub other: &'a [&'a [u8]],
    /// Which of them the application's own kernel stores.
    pub stored: Stored<'a>,
}

impl ComparedBytes<'_> {
    /// Where its elements begin and end. What at the end is no whole element is single bytes.
    fn elements(&self, size: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let length = self.before.len();
        let whole = length / size * size;
        let elements = (0..whole).step_by(size).map(move |at| (at, at + size));
        elements.chain((whole..length).map(|at| (at, at + 1)))
    }
}

/// Bytes of an element.
fn of(bytes: &[u8], (at, end): (usize, usize)) -> &[u8] {
    bytes.get(at..end).unwrap_or_default()
}

/// The same element of several contents.
fn of_all<'a, 'b>(contents: &[&'a [u8]], at: (usize, usize), to: &'b mut Vec<&'a [u8]>) -> &'b [&'a [u8]] {
    to.clear();
    to.extend(contents.iter().map(|bytes| of(bytes, at)));
    to
}

/// The comparison of one buffer. Pieces come in the order of their addresses and hold whole elements.
#[derive(Debug)]
pub struct Comparison {
    report: BufferReport,
    unwritten: Unwritten,
}

/// What tells a kernel that writes nothing into a buffer, where what was there before is within the tolerance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Bytes that all replays of the application's own kernel change, to the same value.
    owed: u64,
    /// A replay of the kernel that is judged changes something.
    wrote: bool,
}

impl Unwritten {
    /// Takes some bytes: as they were before, and as replays left them.
    pub fn take(&mut self, before: &[u8], own: &[&[u8]], other: &[&[u8]]) {
        if let Some((first, rest)) = own.split_first()
            && rest.iter().all(|value| value == first)
        {
            self.owed += differing(before, first);
        }
        self.wrote |= other.iter().any(|value| *value != before);
    }

    /// Bytes that the application's own kernel writes, if the other one writes nothing at all.
    pub fn bytes(self) -> u64 {
        if self.wrote { 0 } else { self.owed }
    }
}

impl Comparison {
    /// Of a buffer whose bytes are to come.
    pub fn new(buffer: Buffer) -> Comparison {
        let report = BufferReport {
            buffer,
            verdict: Verdict::Untouched,
            written: 0,
            replayed: 0,
            own_replayed: 0,
            changed: 0,
            mismatches: 0,
            outside: 0,
            strange: 0,
            unreproduced: 0,
            near: 0,
            nans: 0,
            masked: 0,
            max_abs: None,
            max_rel: None,
            max_ulp: None,
            first: None,
        };
        Comparison { report, unwritten: Unwritten::default() }
    }

    /// Of a buffer that the capture does not have after the kernel.
    pub fn without_reference(buffer: Buffer) -> BufferReport {
        BufferReport { verdict: Verdict::NoReference, ..Comparison::new(buffer).report }
    }

    /// Takes some of the buffer's bytes. Those at the end that are no whole element are compared byte by byte.
    pub fn take(&mut self, piece: &ComparedBytes<'_>) {
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for at in piece.elements(self.report.buffer.element_type.size()) {
            let (before, expected) = (of(piece.before, at), of(piece.expected, at));
            let is_changed = |bytes: &&[u8]| of(bytes, at) != before;
            if expected == before && !piece.own.iter().any(is_changed) && !piece.other.iter().any(is_changed) {
                continue;
            }
            let own = of_all(piece.own, at, &mut own);
            let other = of_all(piece.other, at, &mut other);
            let element = Element { before, expected, own, stored: piece.stored.of(at) };
            self.element(piece.address + at.0 as u64, &element, other);
        }
    }

    /// An element that the recording, a replay or both changed.
    fn element(&mut self, address: u64, element: &Element<'_>, other: &[&[u8]]) {
        let Element { before, expected, own, .. } = *element;
        self.unwritten.take(before, own, other);
        let judged = if other.is_empty() { own } else { other };
        let Some(found) = judged.first() else { return };
        let report = &mut self.report;
        let seen = Seen::new(report.buffer.element_type, report.buffer.tolerance, expected, own);
        report.written += differing(before, expected);
        report.replayed += differing(before, found);
        report.own_replayed += own.iter().map(|own| differing(before, own)).max().unwrap_or(0);
        if expected != before || own.iter().any(|own| *own != before) {
            report.changed += before.len() as u64;
        }
        let reproduced = match seen.agreed() {
            Some(agreed) => seen.is_expected(agreed),
            None => {
                if seen.is_masked() {
                    report.masked += before.len() as u64;
                }
                true
            }
        };
        if other.is_empty() {
            if !reproduced {
                let counter = if expected == before { &mut report.outside } else { &mut report.mismatches };
                *counter += 1;
                self.wrong(expected == before, address, before, expected, found);
            } else if !seen.is_masked() {
                self.near(&seen, own);
            }
            return;
        }
        if !reproduced {
            report.unreproduced += 1;
        }
        let Some(wrong) = other.iter().find(|value| element.excess(&seen, value).is_some()) else {
            if reproduced && !seen.is_masked() {
                self.near(&seen, other);
            }
            if let (false, Some(own)) = (reproduced, own.first()) {
                self.wrong(false, address, before, expected, own);
            }
            return;
        };
        let elsewhere = element.is_touched_outside(report.buffer.element_type, wrong);
        let counter = match () {
            () if elsewhere => &mut report.outside,
            () if seen.is_masked() => &mut report.strange,
            () => &mut report.mismatches,
        };
        *counter += 1;
        self.wrong(elsewhere, address, before, expected, wrong);
    }

    /// Values that are near enough.
    fn near(&mut self, seen: &Seen<'_>, values: &[&[u8]]) {
        let distances = || values.iter().filter(|value| !seen.is_equal(value)).map(|value| seen.distance(value));
        if distances().next().is_none() {
            return;
        }
        distances().for_each(|distance| self.widen(&distance));
        let nan = distances().any(|distance| distance.nan);
        *if nan { &mut self.report.nans } else { &mut self.report.near } += 1;
    }

    /// A value that is not as it should be.
    fn wrong(&mut self, outside: bool, address: u64, before: &[u8], expected: &[u8], found: &[u8]) {
        let element_type = self.report.buffer.element_type;
        let element_type = if before.len() == element_type.size() { element_type } else { Type::Bits(1) };
        self.widen(&element_type.distance(expected, found));
        let report = &mut self.report;
        // What the kernel got wrong says more than what it should have left alone.
        let is_first_wrong = !outside && report.mismatches + report.strange + report.unreproduced == 1;
        if report.first.is_none() || is_first_wrong {
            report.first = Some(Difference {
                index: (address - report.buffer.start) / report.buffer.element_type.size() as u64,
                address,
                before: element_type.show(before),
                expected: element_type.show(expected),
                found: element_type.show(found),
            });
        }
    }

    fn widen(&mut self, distance: &Distance) {
        let larger = |max: &mut Option<f64>, found: Option<f64>| {
            *max = match (*max, found) {
                (Some(max), Some(found)) => Some(max.max(found)),
                (max, found) => max.or(found),
            };
        };
        larger(&mut self.report.max_abs, distance.abs);
        larger(&mut self.report.max_rel, distance.rel);
        self.report.max_ulp = self.report.max_ulp.max(distance.ulp);
    }

    /// The result. `judged` says whose values were looked at.
    pub fn finish(mut self, judged: Judged) -> BufferReport {
        self.report.verdict = match judged {
            Judged::Other if self.report.unreproduced > 0 => Verdict::NotReproduced,
            judged => match self.report.found(judged) {
                found if judged == Judged::Other && !found.is_failure() && self.unwritten.bytes() > 0 => {
                    Verdict::NothingWritten
                }
                found => found,
            },
        };
        self.report
    }
}

impl BufferReport {
    /// The verdict, elements left out in which only the application's own kernel does not do again what it did.
    fn found(&self, judged: Judged) -> Verdict {
        let wrong = self.mismatches + self.strange > 0;
        match judged {
            _ if wrong && self.replayed == 0 => Verdict::NothingWritten,
            Judged::Own if wrong => Verdict::NotReproduced,
            Judged::Other if wrong => Verdict::Mismatch,
            _ if self.outside > 0 => Verdict::TouchedOutside,
            _ if self.masked > 0 => Verdict::MatchMasked,
            _ if self.near + self.nans > 0 => Verdict::WithinTol,
            _ if self.changed > 0 => Verdict::Match,
            _ => Verdict::Untouched,
        }
    }

    /// The report on a kernel that was told from the application's own, which is not deterministic: what the application's own
    /// kernel did not repeat says nothing, the values of the other kernel do.
    pub fn of_another(mut self) -> BufferReport {
        if self.verdict == Verdict::NotReproduced {
            self.verdict = match self.found(Judged::Other) {
                failed if failed.is_failure() => failed,
                _ => Verdict::Undecided,
            };
        }
        self
    }
}

/// How many bytes differ.
fn differing(a: &[u8], b: &[u8]) -> u64 {
    a.iter().zip(b).filter(|(a, b)| a != b).count() as u64
}

/// How far a run is from what other runs computed. Of two runs of the same kernel neither has the larger one but by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Elements whose values are outside of what the others computed.
    pub count: u64,
    /// The furthest that one of them is outside, in units of how far the others' values are apart.
    pub excess: f64,
}

impl Score {
    /// Adds the elements of some bytes. `value` is what the run left there, `own` of the piece what it is compared with.
    pub fn take(&mut self, buffer: &Buffer, piece: &ComparedBytes<'_>, value: &[u8]) {
        if let [one] = piece.own
            && *one == value
        {
            return;
        }
        let mut own = Vec::new();
        for at in piece.elements(buffer.element_type.size()) {
            let (value, before, expected) = (of(value, at), of(piece.before, at), of(piece.expected, at));
            let own = of_all(piece.own, at, &mut own);
            if own.contains(&value) {
                continue;
            }
            let seen = Seen::new(buffer.element_type, buffer.tolerance, expected, own);
            let element = Element { before, expected, own, stored: piece.stored.of(at) };
            if let Some(excess) = element.excess(&seen, value) {
                self.count += 1;
                self.excess = self.excess.max(excess);
            }
        }
    }
}

#[cfg(test)]
mod tests;
