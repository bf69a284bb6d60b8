//! The memory that launches change, and its bytes before: only this memory is restored between launches.

use std::collections::BTreeSet;

use logdur_captured::regions::PAGE;

use crate::contents::Contents;
use crate::device::Device;
use crate::error::{ReplayError, Result};
use crate::memory;
use crate::placed::{Pages, PlacedRange};
use crate::relocations::Relocations;

/// A gap of at most this many bytes between two pages is copied along: a separate copy takes longer.
const GAP: u64 = 4 * PAGE;
/// The most bytes kept in memory. Beyond it, bytes are read from the capture each time.
const KEPT: u64 = 1 << 30;

/// What launches change, and how it was before.
pub(crate) struct Dirty {
    pages: BTreeSet<u64>,
    runs: Vec<PlacedRange>,
    /// The bytes of all runs, one behind the other, for where things are now.
    before: Option<Vec<u8>>,
}

/// Joins pages into runs that are copied at once.
fn runs(areas: &[PlacedRange], pages: &BTreeSet<u64>) -> Vec<PlacedRange> {
    let mut runs = Vec::new();
    for area in areas {
        let mut last: Option<PlacedRange> = None;
        for page in pages.range(area.captured.start / PAGE * PAGE..area.captured.end) {
            let start = area.captured.start.max(*page);
            let end = area.captured.end.min(page / PAGE * PAGE + PAGE);
            match &mut last {
                _ if start >= end => {}
                Some(run) if start <= run.captured.end + GAP => run.captured.end = end.max(run.captured.end),
                _ => {
                    runs.extend(last.replace(PlacedRange { captured: start..end, placed: area.now(start) }));
                }
            }
        }
        runs.extend(last);
    }
    runs
}

fn length(run: &PlacedRange) -> usize {
    (run.captured.end - run.captured.start) as usize
}

impl Dirty {
    /// Of pages that were changed.
    ///
    /// # Errors
    /// When the capture cannot be read.
    pub(crate) fn of(
        before: Contents<'_>,
        areas: &[PlacedRange],
        relocations: &Relocations,
        pages: BTreeSet<u64>,
    ) -> Result<Dirty> {
        let runs = runs(areas, &pages);
        let total: u64 = runs.iter().map(|run| length(run) as u64).sum();
        let kept = (total <= KEPT).then(|| {
            let mut bytes = vec![0; total as usize];
            let mut rest = bytes.as_mut_slice();
            for run in &runs {
                let (now, behind) = std::mem::take(&mut rest).split_at_mut(length(run));
                before.read(run.captured.start, now)?;
                relocations.forward(run.captured.start, now);
                rest = behind;
            }
            Ok::<_, ReplayError>(bytes)
        });
        Ok(Dirty { pages, runs, before: kept.transpose()? })
    }

    /// The pages that were changed.
    pub(crate) fn pages(&self) -> &BTreeSet<u64> {
        &self.pages
    }

    /// Where they are, those that are near each other in one piece.
    pub(crate) fn runs(&self) -> &[PlacedRange] {
        &self.runs
    }

    /// How many bytes a restore writes.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| length(run) as u64).sum()
    }

    /// Restores the pages.
    ///
    /// # Errors
    /// When the capture cannot be read, or the device not be written to.
    pub(crate) fn restore(&self, device: &dyn Device, before: Contents<'_>, relocations: &Relocations) -> Result<()> {
        let Some(bytes) = &self.before else {
            return memory::restore(device, before, &self.runs, relocations).map(drop);
        };
        let mut rest = bytes.as_slice();
        let mut pieces = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let (now, behind) = rest.split_at_checked(length(run)).unwrap_or((rest, &[]));
            pieces.push((run.placed, now));
            rest = behind;
        }
        // SAFETY: runs are parts of areas, which lie in memory of the device; no kernel runs.
        unsafe { device.write(&pieces) }
    }

    /// Reads the pages, and keeps those that have changed.
    ///
    /// # Errors
    /// When the capture or the device cannot be read.
    pub(crate) fn changed(
        &self,
        device: &dyn Device,
        before: Contents<'_>,
        relocations: &Relocations,
    ) -> Result<Pages> {
        let Some(old) = &self.before else {
            return memory::changed(device, before, &self.runs, relocations);
        };
        let mut new = vec![0; old.len()];
        let mut rest = new.as_mut_slice();
        let mut pieces = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let (now, behind) = std::mem::take(&mut rest).split_at_mut_checked(length(run)).unwrap_or_default();
            pieces.push((run.placed, now));
            rest = behind;
        }
        // SAFETY: as above.
        unsafe { device.read(&mut pieces) }?;
        let (mut old, mut new, mut pages) = (old.as_slice(), new.as_slice(), Pages::new());
        for run in &self.runs {
            let (was, old_rest) = old.split_at_checked(length(run)).unwrap_or((old, &[]));
            let (is, new_rest) = new.split_at_checked(length(run)).unwrap_or((new, &[]));
            memory::differing(run.captured.start, was, is, relocations, &mut pages);
            (old, new) = (old_rest, new_rest);
        }
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placed::Placed;

    #[test]
    fn near_pages_of_an_area_are_one_copy_and_those_of_others_are_not() {
        let areas = [
            PlacedRange { captured: 0x1800..0x9000, placed: Placed(0x1800) },
            PlacedRange { captured: 0x9000..0x20_0000, placed: Placed(0x5_9000) },
        ];
        let pages = BTreeSet::from([0x1800, 0x3000, 0x8000, 0x9000, 0xf000, 0x1f_f000]);
        let run = |start, end, placed| PlacedRange { captured: start..end, placed: Placed(placed) };
        let expected = [
            run(0x1800, 0x9000, 0x1800),
            run(0x9000, 0xa000, 0x5_9000),
            run(0xf000, 0x1_0000, 0x5_f000),
            run(0x1f_f000, 0x20_0000, 0x24_f000),
        ];
        assert_eq!(runs(&areas, &pages), expected);
    }
}
