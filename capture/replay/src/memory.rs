//! Writes captured memory to the device, restores it, and reads it.

use std::collections::BTreeSet;
use std::ops::Range;

use logdur_capture::{Difference, Memory};
use logdur_captured::regions::PAGE;
use logdur_captured::{CapturedDispatch, extent, without};

use crate::contents::Contents;
use crate::device::Device;
use crate::error::{ReplayError, Result};
use crate::placed::{Pages, Placed, PlacedRange};
use crate::relocations::Relocations;

/// Bytes that are read of the capture at once.
const STEP: usize = 4 << 20;

/// What of a range is in no area.
pub(crate) fn outside(range: Range<u64>, areas: &[PlacedRange]) -> Vec<Range<u64>> {
    let mut left = vec![range];
    for area in areas {
        left = left.into_iter().flat_map(|range| without(range, &area.captured)).filter(|r| r.start < r.end).collect();
    }
    left
}

/// Ranges with the gaps that they begin or end at; both are sorted.
fn with_gaps(ranges: Vec<Range<u64>>, gaps: &[Range<u64>]) -> Vec<Range<u64>> {
    let ends: BTreeSet<u64> = ranges.iter().map(|range| range.end).collect();
    let of = |range: Range<u64>| {
        // A gap between two belongs to the first.
        let by = |found: std::result::Result<usize, usize>| found.ok().and_then(|at| gaps.get(at));
        let front = by(gaps.binary_search_by_key(&range.start, |gap| gap.end));
        let front = front.filter(|gap| !ends.contains(&gap.start));
        let behind = by(gaps.binary_search_by_key(&range.end, |gap| gap.start));
        front.map_or(range.start, |gap| gap.start)..behind.map_or(range.end, |gap| gap.end)
    };
    ranges.into_iter().map(of).collect()
}

/// The captured memory with the gaps around it, and where it is.
pub(crate) fn areas(
    captured: &CapturedDispatch<'_>,
    gaps: &[Range<u64>],
    relocations: &Relocations,
) -> Vec<PlacedRange> {
    let data = with_gaps(captured.data(), gaps);
    let mut areas: Vec<PlacedRange> = data.into_iter().flat_map(|range| relocations.areas(range)).collect();
    let code = captured.loaded.map_or(0..0, extent);
    for global in captured.globals.iter().filter(|g| code.contains(&g.address)) {
        for range in captured.before.ranges() {
            let own_part = global.address.max(range.start)..global.address.saturating_add(global.size).min(range.end);
            if own_part.start < own_part.end {
                areas.push(PlacedRange { placed: relocations.placed(own_part.start), captured: own_part });
            }
        }
    }
    let called = captured.called().iter().flat_map(|called| &called.ranges);
    let own = captured.own_data.iter().flat_map(|own| &own.ranges).chain(called);
    areas.extend(own.map(|range| PlacedRange { captured: range.clone(), placed: relocations.placed(range.start) }));
    areas.sort_by_key(|area| area.captured.start);
    areas
}

/// The pieces of an area that are copied at once. They end at multiples of an address's size: none is cut.
fn steps(area: &PlacedRange) -> impl Iterator<Item = (u64, Placed, usize)> {
    let (start, end) = (area.captured.start, area.captured.end);
    let first = start / STEP as u64;
    (first..end.div_ceil(STEP as u64)).map(move |step| {
        let (from, to) = (start.max(step * STEP as u64), end.min((step + 1) * STEP as u64));
        (from, area.now(from), (to - from) as usize)
    })
}

/// Writes the memory before the kernel to where it is now; how many addresses were rewritten.
///
/// # Errors
/// When the capture cannot be read, or the device not be written to.
pub(crate) fn restore(
    device: &dyn Device,
    before: Contents<'_>,
    areas: &[PlacedRange],
    relocations: &Relocations,
) -> Result<usize> {
    let (mut bytes, mut rewritten) = (Vec::new(), 0);
    for (captured, placed, length) in areas.iter().flat_map(steps) {
        bytes.resize(length, 0);
        before.read(captured, &mut bytes)?;
        rewritten += relocations.forward(captured, &mut bytes);
        // SAFETY: areas lie in memory of the device, or in variables of loaded code; no kernel runs.
        unsafe { device.write(&[(placed, &bytes)]) }?;
    }
    Ok(rewritten)
}

/// Reads the memory and keeps the pages that are not as before.
///
/// # Errors
/// When the capture or the device cannot be read.
pub(crate) fn changed(
    device: &dyn Device,
    before: Contents<'_>,
    areas: &[PlacedRange],
    relocations: &Relocations,
) -> Result<Pages> {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut pages = Pages::new();
    for (captured, placed, length) in areas.iter().flat_map(steps) {
        old.resize(length, 0);
        new.resize(length, 0);
        before.read(captured, &mut old)?;
        relocations.forward(captured, &mut old);
        // SAFETY: as above.
        unsafe { device.read(&mut [(placed, &mut new)]) }?;
        differing(captured, &old, &new, relocations, &mut pages);
    }
    Ok(pages)
}

/// Keeps the pages of new bytes that are not like the old ones, as they would have been captured; both begin at an address.
pub(crate) fn differing(at: u64, old: &[u8], new: &[u8], relocations: &Relocations, pages: &mut Pages) {
    if old == new {
        return;
    }
    let (mut at, mut old, mut new) = (at, old, new);
    while !new.is_empty() {
        let page = (PAGE - at % PAGE) as usize;
        let (was, old_rest) = old.split_at_checked(page).unwrap_or((old, &[]));
        let (is, new_rest) = new.split_at_checked(page).unwrap_or((new, &[]));
        if was != is {
            let mut changed = is.to_vec();
            relocations.backward(at, &mut changed);
            pages.insert(at, changed.into());
        }
        (at, old, new) = (at + is.len() as u64, old_rest, new_rest);
    }
}

/// The pages that the application's kernel changed, cut by the areas like [`changed`]'s, and what is not there after it.
///
/// # Errors
/// When the capture is damaged.
pub(crate) fn written(
    before: &Memory<'_>,
    after: &Memory<'_>,
    areas: &[PlacedRange],
) -> Result<(BTreeSet<u64>, Vec<Range<u64>>)> {
    let (mut pages, mut gone) = (BTreeSet::new(), Vec::new());
    for change in after.changed_since(before)? {
        let range = change.address..change.address + change.length;
        if change.what == Difference::Removed {
            gone.push(range);
            continue;
        }
        for area in areas {
            let (mut at, end) = (range.start.max(area.captured.start), range.end.min(area.captured.end));
            while at < end {
                pages.insert(area.captured.start.max(at / PAGE * PAGE));
                at = at / PAGE * PAGE + PAGE;
            }
        }
    }
    Ok((pages, gone))
}

/// The end of the page of an area that begins at an address.
///
/// # Errors
/// When the address is in no area.
pub(crate) fn page_end(areas: &[PlacedRange], start: u64) -> Result<u64> {
    let area = areas.iter().find(|area| area.captured.contains(&start));
    let area =
        area.ok_or_else(|| ReplayError::Unsupported(format!("a change at {start:#x}, where nothing was restored")))?;
    Ok(area.captured.end.min(start / PAGE * PAGE + PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_looked_at_once() {
        let gaps = [0x1000..0x1100, 0x1200..0x1300, 0x1400..0x2000];
        assert_eq!(with_gaps(vec![0x1100..0x1200, 0x1300..0x1400], &gaps), [0x1000..0x1300, 0x1300..0x2000]);
    }

    #[test]
    fn code_is_taken_out_of_ranges_of_memory() {
        assert_eq!(without(10..20, &(12..15)), [10..12, 15..20]);
        assert_eq!(without(10..20, &(0..12)).map(|r| r.end.saturating_sub(r.start)), [0, 8]);
        assert_eq!(without(10..20, &(20..30))[0], 10..20);
        let left: u64 = without(10..20, &(5..30)).iter().map(|r| r.end.saturating_sub(r.start)).sum();
        assert_eq!(left, 0);
    }
}
