//! Compares memory after replays with memory after the application's dispatch, buffer by buffer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use logdur_captured::regions::PAGE;
use logdur_captured::verify::{
    Buffer, BufferReport, ComparedBytes, Comparison, Judged, Score, Stored, Unwritten, leave_out_stacks,
};

use super::LoadedDispatch;
use super::stores::Stores;
use crate::contents::Contents;
use crate::error::Result;
use crate::memory;
use crate::placed::Pages;
use crate::reach;

/// A part of a buffer that is in one page.
struct PageSlice<'a> {
    /// The buffer's number.
    number: usize,
    address: u64,
    /// The page's address, and where in it.
    page: u64,
    at: Range<usize>,
    before: &'a [u8],
    expected: &'a [u8],
    /// Which bytes the application's own kernel stores.
    stored: Stored<'a>,
}

impl PageSlice<'_> {
    /// What a run left there.
    fn of<'r>(&'r self, run: &'r Pages) -> &'r [u8] {
        run.get(&self.page).and_then(|bytes| bytes.get(self.at.clone())).unwrap_or(self.before)
    }

    /// What runs left there. What is the same as the first one's is there once.
    fn of_all<'r>(&'r self, runs: &'r [Pages]) -> Vec<&'r [u8]> {
        let Some((first, rest)) = runs.split_first() else { return Vec::new() };
        let first = self.of(first);
        let others =
            rest.iter().map(|run| self.of(run)).filter(|bytes| !std::ptr::eq(*bytes, first) && *bytes != first);
        std::iter::once(first).chain(others).collect()
    }
}

/// The buffers that are compared, and those of which the capture does not have what was in them after the kernel.
struct Compared<'a> {
    buffers: Vec<&'a Buffer>,
    without: Vec<&'a Buffer>,
    /// Pages that the application's kernel changed.
    written: BTreeSet<u64>,
}

impl LoadedDispatch<'_> {
    /// `judged` is the kernel that is compared with what was captured: data of a replacement's own is no other kernel's.
    fn compared(&self, judged: Judged) -> Result<Compared<'_>> {
        let own = self.captured.own_data.iter().flat_map(|own| &own.ranges);
        let own: Vec<&Range<u64>> = own.filter(|_| judged == Judged::Other).collect();
        let is_own = |b: &&Buffer| own.iter().any(|range| range.contains(&b.start));
        let restored = |b: &&Buffer| self.areas.iter().any(|a| b.start < a.captured.end && a.captured.start < b.end);
        let buffers = self.buffers.iter().filter(restored).filter(|b| !is_own(b));
        let Some(after) = self.captured.after.as_ref().filter(|_| !self.by_replay) else {
            let (mut buffers, without) =
                if self.by_replay { (buffers.collect(), Vec::new()) } else { (Vec::new(), buffers.collect()) };
            if self.by_replay {
                buffers.extend(&self.around_buffers);
            }
            return Ok(Compared { buffers, without, written: BTreeSet::new() });
        };
        let (written, gone) = memory::written(&self.captured.before, after, &self.areas)?;
        let is_gone = |b: &&Buffer| gone.iter().any(|gone| b.start < gone.end && gone.start < b.end);
        let (without, mut buffers): (Vec<_>, Vec<_>) = buffers.partition(is_gone);
        buffers.extend(&self.around_buffers);
        Ok(Compared { buffers, without, written })
    }

    /// Goes through what of buffers is in some pages.
    fn visit(
        &self,
        compared: &Compared<'_>,
        pages: &BTreeSet<u64>,
        own: &Pages,
        mut each: impl FnMut(&PageSlice<'_>),
    ) -> Result<()> {
        let after = self.captured.after.as_ref().filter(|_| !self.by_replay);
        let after = after.map(|memory| Contents { memory, around: &self.around, filled: None });
        let by_replay = self.filled.is_some() || after.is_none();
        let (mut before, mut expected) = (Vec::new(), Vec::new());
        for (number, buffer) in compared.buffers.iter().enumerate() {
            for page in pages.range(buffer.start / PAGE * PAGE..buffer.end) {
                let (start, end) = ((*page).max(buffer.start), memory::page_end(&self.areas, *page)?.min(buffer.end));
                if start >= end {
                    continue;
                }
                let length = (end - start) as usize;
                before.resize(length, 0);
                expected.resize(length, 0);
                self.before().read(start, &mut before)?;
                let at = (start - page) as usize;
                let at = at..at + length;
                let left = own.get(page).and_then(|bytes| bytes.get(at.clone()));
                match (left, &after) {
                    // What the application's kernel wrote there in the application, no capture has.
                    (Some(left), _) if by_replay || self.around.contains(start) => expected.copy_from_slice(left),
                    (_, Some(after)) if !by_replay => after.read(start, &mut expected)?,
                    _ => expected.copy_from_slice(&before),
                }
                let (before, expected) = (before.as_slice(), expected.as_slice());
                let placed = self.relocations.placed(start);
                let seen = match &self.stores {
                    Stores::Seen(accesses) => accesses.stored(placed..placed.plus(length as u64)),
                    Stores::Unknown | Stores::Words(_) => Vec::new(),
                };
                let stored = match &self.stores {
                    Stores::Unknown => Stored::Words(1),
                    Stores::Words(bytes) => Stored::Words(*bytes),
                    Stores::Seen(_) => Stored::Bytes(&seen),
                };
                each(&PageSlice { number, address: start, page: *page, at, before, expected, stored });
            }
        }
        Ok(())
    }

    /// Compares what runs of the application's own kernel changed, and of another one if that is judged, with what the
    /// application's dispatch changed. Of what is around the captured memory, only changes are reported.
    ///
    /// # Errors
    /// When the capture is damaged.
    pub(crate) fn compare(&self, own: &[Pages], other: &[Pages], judged: Judged) -> Result<Vec<BufferReport>> {
        let compared = self.compared(judged)?;
        let mut pages = compared.written.clone();
        pages.extend(own.iter().chain(other).flat_map(|run| run.keys()));
        let mut comparisons: Vec<Comparison> =
            compared.buffers.iter().map(|buffer| Comparison::new((*buffer).clone())).collect();
        let first = own.first().cloned().unwrap_or_default();
        self.visit(&compared, &pages, &first, |part| {
            let (own, other) = (part.of_all(own), part.of_all(other));
            let PageSlice { address, before, expected, stored, .. } = *part;
            if let Some(comparison) = comparisons.get_mut(part.number) {
                comparison.take(&ComparedBytes { address, before, expected, own: &own, other: &other, stored });
            }
        })?;
        let known = compared.buffers.len() - self.around_buffers.len().min(compared.buffers.len());
        let reports =
            comparisons.into_iter().enumerate().map(|(number, comparison)| (number, comparison.finish(judged)));
        let told = reports.filter(|(number, report)| *number < known || report.replayed + report.own_replayed > 0);
        let mut reports: Vec<BufferReport> = told.map(|(_, report)| report).collect();
        reports.extend(compared.without.into_iter().map(|b| Comparison::without_reference(b.clone())));
        reach::mark_host_writes(self.captured, &mut reports)?;
        if let Some(stacks) = &self.stacks {
            leave_out_stacks(&mut reports, |report| stacks.contains(&report.buffer.start));
        }
        Ok(reports)
    }

    /// How far runs are from what others computed.
    ///
    /// # Errors
    /// When the capture is damaged.
    pub(crate) fn scores(&self, reference: &[Pages], runs: &[Pages]) -> Result<Vec<Score>> {
        let compared = self.compared(Judged::Other)?;
        let pages = reference.iter().chain(runs).flat_map(|run| run.keys().copied()).collect();
        let mut scores = vec![Score::default(); runs.len()];
        let mut unwritten = vec![BTreeMap::<usize, Unwritten>::new(); runs.len()];
        let first = reference.first().cloned().unwrap_or_default();
        self.visit(&compared, &pages, &first, |part| {
            let own = part.of_all(reference);
            let PageSlice { address, before, expected, stored, .. } = *part;
            let Some(buffer) = compared.buffers.get(part.number) else { return };
            let piece = ComparedBytes { address, before, expected, own: &own, other: &[], stored };
            for ((score, unwritten), run) in scores.iter_mut().zip(&mut unwritten).zip(runs) {
                score.take(buffer, &piece, part.of(run));
                unwritten.entry(part.number).or_default().take(before, &own, &[part.of(run)]);
            }
        })?;
        for (score, unwritten) in scores.iter_mut().zip(unwritten) {
            score.count += unwritten.values().map(|of| of.bytes()).sum::<u64>();
        }
        Ok(scores)
    }

    /// What the application's own kernel writes where nothing is, one line each.
    pub(crate) fn strayed(&self, reports: &[BufferReport]) -> Vec<String> {
        let is_around = |report: &&BufferReport| self.around.contains(report.buffer.start);
        let written = reports.iter().filter(is_around).filter(|report| report.own_replayed > 0);
        let line = |report: &BufferReport| {
            let name = &report.buffer.name;
            format!(
                "the application's own kernel writes {} bytes of the {name}; the capture has nothing of that",
                report.own_replayed
            )
        };
        written.map(line).collect()
    }
}
