//! Addresses that are kept for the runtime, and given to it.
//!
//! # Threads
//! One. What other threads map meanwhile may take the wanted gap; it is tried again then.

use std::io;
use std::ops::Range;
use std::ptr;

use logdur_captured::regions::PAGE;

use crate::error::{ReplayError, Result};
use crate::place::Maps;
use crate::process::address_limit;

/// What is left to other threads and to the runtime's own needs, while everything else is filled. The kernel takes the
/// highest gap below where it begins to look, and only when there is none the lowest above that: so what it takes later is
/// below the wanted one, or above it.
const RELIEF: u64 = 1 << 30;
/// Less would not do: glibc's allocator maps twice 64 MiB for a thread.
const ENOUGH: u64 = 256 << 20;
/// What the heap has in stock while gaps are filled, in pieces that glibc's allocator takes from the heap.
const STOCK: [usize; 32] = [64 << 10; 32];
/// So much is kept free on each side of captured memory: more than the runtime leaves between small allocations.
const SURROUNDINGS: u64 = 64 << 20;
/// How often gaps are looked for.
const TRIES: u32 = 4;

/// Reserved addresses without memory.
#[derive(Debug, Default)]
pub struct Reserved(Vec<Range<u64>>);

fn map(range: &Range<u64>) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let length = (range.end - range.start) as usize;
    let at = ptr::without_provenance_mut(range.start as usize);
    // SAFETY: new memory, which replaces nothing.
    let mapped = unsafe { libc::mmap(at, length, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if mapped != at {
        // A kernel that does not know MAP_FIXED_NOREPLACE takes the address as a hint.
        // SAFETY: it was mapped above, and no other code knows it.
        unsafe { libc::munmap(mapped, length) };
        return Err(io::ErrorKind::AddrInUse.into());
    }
    Ok(())
}

fn unmap(range: &Range<u64>) {
    if range.start < range.end {
        // SAFETY: only ranges that `map` has mapped come here, and no pointer into them is left.
        unsafe { libc::munmap(ptr::without_provenance_mut(range.start as usize), (range.end - range.start) as usize) };
    }
}

/// Mappings that go when this does.
struct Plugs(Vec<Range<u64>>);

impl Drop for Plugs {
    fn drop(&mut self) {
        self.0.iter().for_each(unmap);
    }
}

/// Cuts a part out of ranges.
fn cut(ranges: Vec<Range<u64>>, part: &Range<u64>) -> Vec<Range<u64>> {
    let pieces = |range: Range<u64>| {
        let before = range.start..range.end.min(part.start);
        let behind = range.start.max(part.end)..range.end;
        [before, behind].into_iter().filter(|piece| piece.start < piece.end)
    };
    ranges.into_iter().flat_map(pieces).collect()
}

/// A part of the gaps on one side of a range, the nearest that has at least and at most so many bytes, not touching it.
fn nearest(gaps: &[Range<u64>], room: &Range<u64>, below: bool, bytes: Range<u64>) -> Range<u64> {
    let apart = |gap: &Range<u64>| match below {
        true => gap.start..gap.end.min(room.start.saturating_sub(PAGE)),
        false => gap.start.max(room.end + PAGE)..gap.end,
    };
    let mut parts: Vec<Range<u64>> = gaps.iter().map(apart).filter(|p| p.start + bytes.start <= p.end).collect();
    if below {
        parts.reverse();
    }
    let Some(part) = parts.first() else { return 0..0 };
    let length = bytes.end.min(part.end - part.start);
    if below { part.end - length..part.end } else { part.start..part.start + length }
}

/// What is left to everybody else: for what fits there, a gap that the kernel takes before the wanted one, and is too small
/// for what is wanted; for what is larger, one that it takes after that.
fn spare(gaps: &[Range<u64>], room: &Range<u64>, below: bool) -> [Range<u64>; 2] {
    let length = room.end - room.start;
    [nearest(gaps, room, !below, PAGE..(length - PAGE).min(RELIEF)), nearest(gaps, room, below, ENOUGH..RELIEF)]
}

/// What is left to the program's heap of the gap behind it, by the same rules. An allocator whose heap cannot grow maps
/// memory.
fn growth(gap: &Range<u64>, room: &Range<u64>, below: bool) -> Range<u64> {
    let small = room.end - room.start - PAGE;
    let (length, limit) = match gap.contains(&room.start) {
        true => (RELIEF, gap.start.max(room.start - PAGE)),
        false => (if below && gap.end <= room.start { RELIEF } else { small }, gap.end),
    };
    gap.start..gap.start.saturating_add(length).min(limit)
}

/// Has the heap grow as long as it can: while gaps are filled it may be able to no more, and threads of the runtime allocate. False
/// where the heap cannot: without a stock, this process would be at its end as soon as gaps are filled.
fn stock_up() -> bool {
    // SAFETY: the call sets a number of the allocator: what is given back stays with it.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX) };
    let stock = STOCK.map(|bytes| {
        let mut piece = Vec::<u8>::new();
        let reserved = piece.try_reserve_exact(bytes);
        std::hint::black_box(reserved.is_ok().then_some(piece))
    });
    stock.iter().all(Option::is_some)
}

/// Bytes that may still be mapped under the process's limit of its address space; `None` without one.
fn left() -> Option<u64> {
    let limit = address_limit()?;
    // The first number is that of pages that are mapped (proc(5)).
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let used = pages.and_then(|pages| pages.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0).saturating_mul(PAGE);
    Some(limit.saturating_sub(used))
}

impl Plugs {
    /// Fills every gap in which `room` would find place, but that itself and what is left to others.
    fn around(room: &Range<u64>, below: bool) -> Result<Plugs> {
        let length = room.end - room.start;
        let mut plugs = Plugs(Vec::new());
        let mut spared = None;
        // Other threads, and the stack, may take a part of a gap before it is filled: then the rest of it is.
        for _ in 0..TRIES {
            let maps = Maps::now()?;
            let (gaps, names): (Vec<Range<u64>>, Vec<&str>) = maps.gaps().into_iter().unzip();
            let heap =
                gaps.iter().zip(names).find(|(_, name)| *name == "[heap]").map(|(gap, _)| growth(gap, room, below));
            let spared = spared.get_or_insert_with(|| spare(&gaps, room, below));
            let around_room = |gap: &Range<u64>| gap.start < room.end && room.start < gap.end;
            let fits = |gap: &Range<u64>| around_room(gap) || gap.end - gap.start >= length;
            let large = gaps.into_iter().filter(fits).collect();
            let parts = spared.iter().chain(&heap).fold(cut(large, room), cut);
            if parts.is_empty() {
                break;
            }
            // What is filled counts as the process's memory.
            let bytes: u64 = parts.iter().map(|part| part.end - part.start).sum();
            if let Some(left) = left().filter(|left| bytes.saturating_add(RELIEF) > *left) {
                let why = format!(
                    "gaps of {bytes} bytes would have to be filled, and the limit of memory (ulimit -v) leaves {left}"
                );
                return Err(ReplayError::Placement { address: room.start, length, why });
            }
            plugs.0.extend(parts.into_iter().filter(|part| map(part).is_ok()));
        }
        Ok(plugs)
    }
}

impl Reserved {
    /// Keeps ranges of whole pages.
    ///
    /// # Errors
    /// When one of the addresses is taken: by what.
    pub fn keep(ranges: &[Range<u64>]) -> Result<Reserved> {
        let mut kept = Reserved::default();
        for range in ranges {
            kept.take(range)?;
        }
        Ok(kept)
    }

    /// Keeps what is free of ranges of whole pages.
    pub(crate) fn keep_free(ranges: &[Range<u64>]) -> Reserved {
        let mut kept = Reserved::default();
        ranges.iter().for_each(|range| kept.close(range));
        kept
    }

    /// Keeps what is free around ranges. Memory of the application that was not captured was there: a kernel that reaches it
    /// faults, and does not write to what this process would have there. Under a limit of memory (`ulimit -v`) nothing is kept.
    pub(crate) fn keep_surroundings(ranges: &[Range<u64>]) -> Reserved {
        let mut kept = Reserved::default();
        if address_limit().is_some() {
            return kept;
        }
        let gaps = Maps::now().map_or_else(|_| Vec::new(), |maps| maps.gaps_without_growth(RELIEF));
        for range in ranges {
            let near = range.start.saturating_sub(SURROUNDINGS)..range.end.saturating_add(SURROUNDINGS);
            let free = gaps.iter().map(|gap| gap.start.max(near.start)..gap.end.min(near.end));
            let free = free.filter(|part| part.start < part.end).collect();
            let parts = kept.0.iter().fold(free, cut);
            kept.0.extend(parts.into_iter().filter(|part| map(part).is_ok()));
        }
        kept
    }

    fn take(&mut self, range: &Range<u64>) -> Result<()> {
        let Err(error) = map(range) else {
            self.0.push(range.clone());
            return Ok(());
        };
        let why = match Maps::now()?.first_in(range) {
            Some(there) if there.name.is_empty() => format!("memory of this process is at {:#x}", there.range.start),
            Some(there) => format!("{} is at {:#x}", there.name, there.range.start),
            None => error.to_string(),
        };
        Err(ReplayError::Placement { address: range.start, length: range.end - range.start, why })
    }

    /// Gives addresses of a range back to everybody.
    pub(crate) fn open(&mut self, range: &Range<u64>) {
        let mut rest = Vec::new();
        for kept in std::mem::take(&mut self.0) {
            let (start, end) = (kept.start.max(range.start), kept.end.min(range.end));
            if start >= end {
                rest.push(kept);
                continue;
            }
            unmap(&(start..end));
            rest.extend([kept.start..start, end..kept.end].into_iter().filter(|r| r.start < r.end));
        }
        self.0 = rest;
    }

    /// Keeps what is free of a range.
    fn close(&mut self, range: &Range<u64>) {
        let Ok(maps) = Maps::now() else { return };
        for (gap, _) in maps.gaps() {
            let part = gap.start.max(range.start)..gap.end.min(range.end);
            if part.start < part.end && map(&part).is_ok() {
                self.0.push(part);
            }
        }
    }

    /// Has something allocated at a range of addresses of whole pages: `allocate` is called while the kernel has no other
    /// gap for it, and says where it got it. What it got elsewhere is given to `free`.
    ///
    /// # Errors
    /// When the memory is elsewhere nevertheless, or `allocate` fails.
    pub fn steer<T>(
        &mut self,
        range: &Range<u64>,
        mut allocate: impl FnMut() -> Result<(u64, T)>,
        mut free: impl FnMut(T),
    ) -> Result<T> {
        let mut found = Vec::new();
        for below in [true, false, true, false] {
            self.open(range);
            if let Some(there) = Maps::now()?.first_in(range) {
                found.push(format!("{:#x} is taken by {:?}", there.range.start, there.name));
                self.close(range);
                break;
            }
            if !stock_up() {
                found.push("the heap cannot grow while other memory is kept from the runtime".to_owned());
                self.close(range);
                break;
            }
            let plugs = match Plugs::around(range, below) {
                Ok(plugs) => plugs,
                Err(error) => {
                    found.push(text(&error));
                    self.close(range);
                    break;
                }
            };
            let allocated = allocate();
            drop(plugs);
            match allocated {
                Ok((address, memory)) if address == range.start => {
                    self.close(range);
                    return Ok(memory);
                }
                Ok((address, memory)) => {
                    found.push(format!("the runtime gave {address:#x}"));
                    free(memory);
                }
                Err(error) => found.push(text(&error)),
            }
            self.close(range);
        }
        let length = range.end - range.start;
        Err(ReplayError::Placement { address: range.start, length, why: found.join("; ") })
    }
}

/// An error with its causes.
fn text(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", text(source)),
        None => error.to_string(),
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.iter().for_each(unmap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_others_does_not_touch_what_is_wanted() {
        let gaps = [0x1000..0x4000_0000, 0x7f00_0000_0000..0x7f01_0000_0000];
        let room = 0x7f00_4000_0000..0x7f00_4000_1000;
        let large = PAGE..1 << 30;
        assert_eq!(nearest(&gaps, &room, true, large.clone()), 0x7f00_0000_0000..0x7f00_3fff_f000);
        assert_eq!(nearest(&gaps, &room, false, large.clone()), 0x7f00_4000_2000..0x7f00_8000_2000);
        assert_eq!(nearest(&gaps[..1], &room, false, large), 0..0);
        let [first, last] = spare(&gaps, &(room.start..room.end + 0x3000), true);
        assert_eq!((first, last), (0x7f00_4000_5000..0x7f00_4000_8000, 0x7f00_0000_0000..0x7f00_3fff_f000));
        assert_eq!(growth(&gaps[0], &room, true), 0x1000..0x4000_0000);
        assert_eq!(growth(&gaps[0], &(0x2_0000..0x4_0000), true), 0x1000..0x1_f000);
        assert_eq!(growth(&gaps[1], &(0x2_0000..0x4_0000), true), 0x7f00_0000_0000..0x7f00_0001_f000);
        assert_eq!(growth(&gaps[1], &(0x2_0000..0x4_0000), false), 0x7f00_0000_0000..0x7f00_0001_f000);
        let parts = cut(gaps.to_vec(), &room);
        assert_eq!(parts[1..], [0x7f00_0000_0000..0x7f00_4000_0000, 0x7f00_4000_1000..0x7f01_0000_0000]);
    }

    #[test]
    fn an_address_that_is_taken_is_named_with_what_is_there() {
        let here = (unmap as fn(&Range<u64>) as usize as u64) / PAGE * PAGE;
        let page = here..here + PAGE;
        let error = Reserved::keep(&[page]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("4096 bytes at {here:#x}: /")), "{error}");
    }
}
