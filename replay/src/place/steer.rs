//! Addresses that are kept for the runtime, and given to it.
//!
//! # Threads
//! One. What other threads map meanwhile finds no gap as large as the wanted one; it is tried again then.

use std::io;
use std::ops::Range;
use std::ptr;

use crate::error::{ReplayError, Result};
use crate::place::{Maps, PAGE, alignment};

/// Left free behind the heap, so that it can grow while everything else is filled.
const HEAP_ROOM: u64 = 64 << 20;
/// How often memory is allocated until it is where it should be.
const TRIES: u32 = 4;

/// Addresses without memory that nobody else is given.
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
        // SAFETY: it was mapped above, and nobody else knows it.
        unsafe { libc::munmap(mapped, length) };
        return Err(io::ErrorKind::AddrInUse.into());
    }
    Ok(())
}

fn unmap(range: &Range<u64>) {
    if range.start < range.end {
        // SAFETY: only ranges that `map` has mapped come here, and nobody has pointers into them.
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

impl Plugs {
    /// Fills every gap in which `room` would find place, but that itself.
    fn around(room: &Range<u64>, spare_heap: bool) -> Result<Plugs> {
        let length = room.end - room.start;
        let mut plugs = Plugs(Vec::new());
        for (gap, before) in Maps::now()?.gaps() {
            let heap = if spare_heap && before == "[heap]" && gap.start < room.start { HEAP_ROOM } else { 0 };
            let start = gap.start.saturating_add(heap).min(gap.end);
            let parts = if start <= room.start && room.end <= gap.end {
                [start..room.start, room.end..gap.end]
            } else {
                [start..gap.end, 0..0]
            };
            let holds_room = start <= room.start && room.end <= gap.end;
            let large = |part: &Range<u64>| part.start < part.end && (holds_room || part.end - part.start >= length);
            for part in parts.into_iter().filter(large) {
                // Somebody else was faster: the gap is smaller now, which is what is wanted.
                if map(&part).is_ok() {
                    plugs.0.push(part);
                }
            }
        }
        Ok(plugs)
    }
}

impl Reserved {
    /// Keeps ranges of whole pages, by address, and what the runtime needs beside them to align memory, as far as it is
    /// free.
    ///
    /// # Errors
    /// When one of the addresses is taken: by what.
    pub fn keep(ranges: &[Range<u64>]) -> Result<Reserved> {
        let mut kept = Reserved::default();
        for range in ranges {
            kept.take(range)?;
        }
        let beside = |range: &Range<u64>| {
            let slack = alignment(range.end - range.start) - PAGE;
            [range.end..range.end + slack, range.start.saturating_sub(slack)..range.start]
        };
        for slack in ranges.iter().flat_map(beside) {
            let free = slack.start < slack.end && kept.0.iter().all(|k| k.end <= slack.start || slack.end <= k.start);
            if free && map(&slack).is_ok() {
                kept.0.push(slack);
            }
        }
        Ok(kept)
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
    fn open(&mut self, range: &Range<u64>) {
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
        let length = range.end - range.start;
        let slack = alignment(length) - PAGE;
        let behind = range.start..range.end + slack;
        let before = range.start.saturating_sub(slack)..range.end;
        let mut found = Vec::new();
        for attempt in 0..TRIES {
            let room = if attempt % 2 == 0 || slack == 0 { &behind } else { &before };
            self.open(room);
            if let Some(there) = Maps::now()?.first_in(room) {
                found.push(format!("{:#x} is taken by {:?}", there.range.start, there.name));
                self.close(room);
                continue;
            }
            let plugs = Plugs::around(room, attempt < TRIES / 2)?;
            let allocated = allocate();
            drop(plugs);
            match allocated {
                Ok((address, memory)) if address == range.start => {
                    self.close(room);
                    return Ok(memory);
                }
                Ok((address, memory)) => {
                    found.push(format!("the runtime gave {address:#x}"));
                    free(memory);
                }
                Err(error) => found.push(text(&error)),
            }
            self.close(room);
        }
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
    fn an_address_that_is_taken_is_named_with_what_is_there() {
        let here = (unmap as fn(&Range<u64>) as usize as u64) / PAGE * PAGE;
        let page = here..here + PAGE;
        let error = Reserved::keep(&[page]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("4096 bytes at {here:#x}: /")), "{error}");
    }
}
