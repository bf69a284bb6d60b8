//! Comparing a buffer, piece by piece.

use super::{Buffer, BufferReport, Difference, Distance, Verdict};

/// Bytes of the same addresses at different times; all slices have the same length.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The first byte's address.
    pub address: u64,
    /// Before the kernel.
    pub before: &'a [u8],
    /// After the application's.
    pub expected: &'a [u8],
    /// After each replay; not none.
    pub found: &'a [&'a [u8]],
}

/// The comparison of one buffer. Pieces come in the order of their addresses and hold whole elements.
#[derive(Debug)]
pub struct Comparison {
    report: BufferReport,
}

impl Comparison {
    /// Of a buffer whose bytes are to come.
    pub fn new(buffer: Buffer) -> Comparison {
        let report = BufferReport {
            buffer,
            verdict: Verdict::Untouched,
            written: 0,
            replayed: 0,
            mismatches: 0,
            outside: 0,
            near: 0,
            nans: 0,
            masked: 0,
            max_abs: None,
            max_rel: None,
            max_ulp: None,
            first: None,
        };
        Comparison { report }
    }

    /// Of a buffer that the capture does not have after the kernel.
    pub fn without_reference(buffer: Buffer) -> BufferReport {
        BufferReport { verdict: Verdict::NoReference, ..Comparison::new(buffer).report }
    }

    /// Takes some of the buffer's bytes. Those at the end that are no whole element are compared byte by byte.
    pub fn take(&mut self, piece: &Piece<'_>) {
        let Some((first, rest)) = piece.found.split_first() else { return };
        let size = self.report.buffer.of.size();
        let mut at = 0;
        while at < piece.before.len() {
            let end = if at + size <= piece.before.len() { at + size } else { at + 1 };
            let of = |bytes: &'_ [u8]| -> Vec<u8> { bytes.get(at..end).unwrap_or_default().to_vec() };
            let changed = |bytes: &[u8]| bytes.get(at..end) != piece.before.get(at..end);
            let other = |bytes: &&[u8]| bytes.get(at..end) != first.get(at..end);
            if changed(piece.expected) || piece.found.iter().any(|found| changed(found)) {
                let runs: Vec<Vec<u8>> = if rest.iter().any(other) {
                    piece.found.iter().map(|found| of(found)).collect()
                } else {
                    vec![of(first)]
                };
                self.element(piece.address + at as u64, &of(piece.before), &of(piece.expected), &runs);
            }
            at = end;
        }
    }

    /// An element that somebody changed; `runs` has one entry when all replays agree.
    fn element(&mut self, address: u64, before: &[u8], expected: &[u8], runs: &[Vec<u8>]) {
        let Some(found) = runs.first() else { return };
        let differing = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count() as u64;
        self.report.written += differing(before, expected);
        self.report.replayed += differing(before, found);
        if runs.iter().all(|run| run == expected) {
            return;
        }
        let of = self.report.buffer.of;
        // The bytes at the end that are no whole element have no number.
        let distance = |run: &[u8]| match run.len() == of.size() {
            true => of.distance(expected, run),
            false => Distance { abs: None, rel: None, ulp: None, nan: false },
        };
        let tolerance = self.report.buffer.tolerance;
        let near = |run: &Vec<u8>| run == expected || !tolerance.is_exact() && tolerance.takes(&distance(run));
        if runs.iter().all(near) {
            for run in runs {
                self.widen(&distance(run));
            }
            let nan = runs.iter().any(|run| distance(run).nan);
            *if nan { &mut self.report.nans } else { &mut self.report.near } += 1;
            return;
        }
        if runs.len() > 1 {
            self.report.masked += before.len() as u64;
            return;
        }
        self.widen(&distance(found));
        let outside = expected == before;
        *if outside { &mut self.report.outside } else { &mut self.report.mismatches } += 1;
        // What the kernel got wrong says more than what it should have left alone.
        let better = self.report.first.is_none() || !outside && self.report.mismatches == 1;
        if better {
            let show = |bytes: &[u8]| match bytes.len() == of.size() {
                true => of.show(bytes),
                false => super::Type::Bits(1).show(bytes),
            };
            self.report.first = Some(Difference {
                index: (address - self.report.buffer.start) / of.size() as u64,
                address,
                before: show(before),
                expected: show(expected),
                found: show(found),
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

    /// The result.
    pub fn finish(mut self) -> BufferReport {
        let r = &mut self.report;
        r.verdict = match () {
            () if r.mismatches > 0 && r.replayed == 0 => Verdict::NothingWritten,
            () if r.mismatches > 0 => Verdict::Mismatch,
            () if r.outside > 0 => Verdict::TouchedOutside,
            () if r.masked > 0 => Verdict::MatchMasked,
            () if r.near + r.nans > 0 => Verdict::WithinTol,
            () if r.written > 0 => Verdict::Match,
            () => Verdict::Untouched,
        };
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Overall, Tolerance, Type};
    use super::*;

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn compared(tolerance: Tolerance, before: &[f32], expected: &[f32], runs: &[&[f32]]) -> BufferReport {
        let end = 0x1000 + 4 * before.len() as u64;
        let buffer = Buffer { name: "out".to_owned(), start: 0x1000, end, of: Type::F32, tolerance };
        let mut comparison = Comparison::new(buffer);
        let runs: Vec<Vec<u8>> = runs.iter().map(|run| floats(run)).collect();
        let found: Vec<&[u8]> = runs.iter().map(Vec::as_slice).collect();
        let (before, expected) = (floats(before), floats(expected));
        comparison.take(&Piece { address: 0x1000, before: &before, expected: &expected, found: &found });
        comparison.finish()
    }

    const EXACT: Tolerance = Tolerance { abs: None, rel: None, ulp: None };

    #[test]
    fn a_buffer_that_is_as_the_application_got_it_matches() {
        let report = compared(EXACT, &[0.0, 7.0], &[1.0, 7.0], &[&[1.0, 7.0]]);
        assert_eq!((report.verdict, report.first), (Verdict::Match, None));
        let same = compared(EXACT, &[7.0], &[7.0], &[&[7.0]]);
        assert_eq!((same.verdict, same.written, same.replayed), (Verdict::Untouched, 0, 0));
        assert_eq!(Overall::of(std::slice::from_ref(&same)), Overall::NothingWritten);
        assert_eq!(Overall::of(&[compared(EXACT, &[0.0], &[1.0], &[&[1.0]]), same]), Overall::Pass);
        assert_eq!(Overall::of(&[]), Overall::NoReference);
    }

    #[test]
    fn a_mismatch_names_the_first_element_with_its_values() {
        let report = compared(EXACT, &[0.0; 4], &[1.0, 2.0, 3.0, 0.0], &[&[1.0, 2.5, 4.0, 9.0]]);
        assert_eq!((report.verdict, report.mismatches, report.outside), (Verdict::Mismatch, 2, 1));
        let first = report.first.clone().unwrap();
        assert_eq!((first.index, first.address), (1, 0x1004));
        assert_eq!((&*first.before, &*first.expected, &*first.found), ("0.0", "2.0", "2.5"));
        assert_eq!((report.max_abs, report.max_rel), (Some(9.0), Some(f64::INFINITY)));
        assert_eq!(Overall::of(&[report]), Overall::Fail);
    }

    #[test]
    fn what_is_written_elsewhere_is_told_apart_from_what_is_wrong() {
        let outside = compared(EXACT, &[0.0, 5.0], &[1.0, 5.0], &[&[1.0, 6.0]]);
        assert_eq!((outside.verdict, outside.outside), (Verdict::TouchedOutside, 1));
        assert_eq!(outside.first.unwrap().index, 1);
        let both = compared(EXACT, &[5.0, 0.0], &[5.0, 1.0], &[&[6.0, 2.0]]);
        assert_eq!((both.verdict, both.first.unwrap().index), (Verdict::Mismatch, 1));
        let nothing = compared(EXACT, &[0.0], &[1.0], &[&[0.0]]);
        assert_eq!(nothing.verdict, Verdict::NothingWritten);
        assert_eq!(Overall::of(&[nothing]), Overall::Fail);
    }

    #[test]
    fn tolerances_make_near_elements_pass_and_tell_how_far_they_are() {
        let near = Tolerance { rel: Some(0.1), ..EXACT };
        let report = compared(near, &[0.0; 3], &[10.0, 2.0, f32::NAN], &[&[10.5, 2.0, -f32::NAN]]);
        assert_eq!((report.verdict, report.near, report.nans), (Verdict::WithinTol, 1, 1));
        assert_eq!((report.max_abs, report.max_rel), (Some(0.5), Some(0.05)));
        let far = compared(near, &[0.0; 2], &[10.0, 1.0], &[&[12.0, f32::NAN]]);
        assert_eq!((far.verdict, far.mismatches), (Verdict::Mismatch, 2));
    }

    #[test]
    fn what_replays_differ_in_is_masked_and_counted_and_the_rest_is_not() {
        let runs: [&[f32]; 3] = [&[1.0, 5.0], &[1.0, 6.0], &[1.0, 5.0]];
        let report = compared(EXACT, &[0.0; 2], &[1.0, 4.0], &runs);
        assert_eq!((report.verdict, report.masked), (Verdict::MatchMasked, 4));
        let wrong = compared(EXACT, &[0.0; 2], &[2.0, 4.0], &runs);
        assert_eq!((wrong.verdict, wrong.mismatches, wrong.masked), (Verdict::Mismatch, 1, 4));
    }

    #[test]
    fn bytes_after_the_last_whole_element_are_compared_too() {
        let buffer = Buffer { name: "tail".to_owned(), start: 0, end: 6, of: Type::F32, tolerance: EXACT };
        let mut comparison = Comparison::new(buffer);
        let piece = Piece { address: 0, before: &[0; 6], expected: &[0, 0, 0, 0, 1, 2], found: &[&[0, 0, 0, 0, 1, 3]] };
        comparison.take(&piece);
        let report = comparison.finish();
        let first = report.first.unwrap();
        assert_eq!((report.verdict, first.address, &*first.found), (Verdict::Mismatch, 5, "0x03"));
    }
}
