//! GPU virtual memory: which addresses are mapped, to which host memory, and accesses that check this.
//!
//! # Threads
//! Mapping and unmapping publish a new [`Map`]; workers keep the one they have until they look for a newer one, so
//! memory that a wave is using is not unmapped under it. Host threads and other waves use the memory itself at the same
//! time.
//!
//! # Ordering
//! Accesses are relaxed (`host` says which are single-copy atomic); instructions that order them call
//! [`std::sync::atomic::fence`].

pub(crate) mod host;
mod registered;
mod view;
mod written;

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock;

pub use view::View;
use written::Written;

/// Host memory behind GPU addresses.
#[derive(Clone)]
pub struct Backing {
    base: *mut u8,
    len: u64,
    /// The application's own memory, which may be unmapped.
    registered: bool,
    /// A retried fault has mapped it; it was not registered.
    pageable: bool,
    /// Keeps the memory mapped in the host while it may be used.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is only accessed through atomics, and the owner is Send and Sync.
unsafe impl Send for Backing {}
// SAFETY: as above.
unsafe impl Sync for Backing {}

impl Backing {
    /// Memory of `len` bytes at `base`, which stays mapped for as long as `owner` lives.
    ///
    /// # Safety
    /// `base..base + len` must be readable and writable host memory for the life of `owner`.
    pub unsafe fn new(base: *mut u8, len: u64, owner: Arc<dyn Any + Send + Sync>) -> Backing {
        Backing { base, len, registered: false, pageable: false, _owner: owner }
    }

    /// Bytes of memory.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when there is no memory.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A mapped range of GPU addresses.
#[derive(Clone)]
pub struct Mapping {
    start: u64,
    len: u64,
    backing: Backing,
    writable: bool,
    /// Which pages of it are written, while that is watched.
    written: Option<Arc<Written>>,
}

impl Mapping {
    /// First address.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes mapped.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn holds(&self, at: u64, bytes: u64) -> bool {
        at >= self.start && bytes <= self.len && at - self.start <= self.len - bytes
    }
}

/// All mappings of one GPU at one time, sorted by address.
#[derive(Default)]
pub struct Map {
    regions: Vec<Mapping>,
}

impl Map {
    /// The region that holds all of `at..at + bytes`.
    pub fn find(&self, at: u64, bytes: u64) -> Option<&Mapping> {
        let after = self.regions.partition_point(|r| r.start <= at);
        self.regions[..after].last().filter(|r| r.holds(at, bytes))
    }

    /// The mapped region that is nearest to an address, for diagnostics.
    pub fn nearest(&self, at: u64) -> Option<&Mapping> {
        self.regions.iter().min_by_key(|r| if at < r.start { r.start - at } else { at.saturating_sub(r.start + r.len) })
    }

    /// Every mapped region, by address.
    pub fn regions(&self) -> &[Mapping] {
        &self.regions
    }
}

/// Refused ranges that are remembered for diagnostics.
const REMEMBERED: usize = 256;

/// The virtual memory of one GPU.
#[derive(Default)]
pub struct AddressSpace {
    current: Mutex<Arc<Map>>,
    generation: AtomicU64,
    /// Registered memory as it was mapped, including parts that the host has unmapped since.
    registered: Mutex<Vec<Mapping>>,
    /// How much of it there is.
    registered_regions: AtomicUsize,
    /// Faults are retried: all memory of the process can be used, once the host's page tables were looked at.
    pageable: AtomicBool,
    /// What was unmapped last, start and length, newest at the end.
    gone: Mutex<VecDeque<(u64, u64)>>,
    /// Which pages were written, of all memory that was mapped since that is watched; `None` while it is not.
    watched: Mutex<Option<Vec<Arc<Written>>>>,
}

impl AddressSpace {
    /// Maps `backing` at `start`, replacing what was mapped there.
    pub fn map(&self, start: u64, backing: Backing, writable: bool) {
        let len = backing.len();
        let region = Mapping { start, len, backing, writable, written: None };
        self.register(start, len, region.backing.registered.then(|| region.clone()));
        self.change(|regions| {
            carve(regions, start, len);
            regions.push(region);
        });
    }

    /// Records that registered memory exists now, or none.
    fn register(&self, start: u64, len: u64, region: Option<Mapping>) {
        let mut registered = lock(&self.registered);
        carve(&mut registered, start, len);
        registered.extend(region);
        self.registered_regions.store(registered.len(), Ordering::Release);
    }

    /// Removes what is mapped in `start..start + len`.
    pub fn unmap(&self, start: u64, len: u64) {
        self.register(start, len, None);
        self.change(|regions| carve(regions, start, len));
        let mut gone = lock(&self.gone);
        if gone.len() == REMEMBERED {
            gone.pop_front();
        }
        gone.push_back((start, len));
    }

    /// Describes a refused address for people: what is mapped there, what was, and what is nearest.
    pub fn describe(&self, at: u64) -> String {
        let map = self.snapshot();
        let range = |start: u64, len: u64| format!("{start:#x}..{:#x}", start + len);
        if let Some(r) = map.find(at, 1) {
            return format!(
                "it is in the {} mapping {}",
                if r.writable { "writable" } else { "read-only" },
                range(r.start, r.len)
            );
        }
        let mut text = String::new();
        if self.is_registered(at) {
            text += "it is in registered memory that the application has unmapped; ";
        }
        let was = lock(&self.gone).iter().rev().find(|(start, len)| (*start..start + len).contains(&at)).copied();
        if let Some((start, len)) = was {
            text += &format!("it was in {}, which has been unmapped; ", range(start, len));
        }
        match map.nearest(at) {
            None => text += "nothing is mapped",
            Some(r) if at < r.start => {
                text += &format!("the nearest mapping {} begins {} bytes after it", range(r.start, r.len), r.start - at)
            }
            Some(r) => {
                text += &format!(
                    "the nearest mapping {} ends {} bytes before it",
                    range(r.start, r.len),
                    at - (r.start + r.len)
                )
            }
        }
        text
    }

    fn change(&self, f: impl FnOnce(&mut Vec<Mapping>)) {
        let mut current = lock(&self.current);
        let mut regions = current.regions.clone();
        f(&mut regions);
        regions.sort_unstable_by_key(|r| r.start);
        if let Some(watched) = &mut *lock(&self.watched) {
            for region in regions.iter_mut().filter(|region| region.written.is_none()) {
                let written = Arc::new(Written::of(region.start, region.len));
                watched.push(written.clone());
                region.written = Some(written);
            }
        }
        *current = Arc::new(Map { regions });
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Watches from now on which pages are written by waves and by the queues' engines: nothing else tells [`AddressSpace::mark`].
    pub fn watch_writes(&self) {
        *lock(&self.watched) = Some(Vec::new());
        self.change(|regions| regions.iter_mut().for_each(|region| region.written = None));
    }

    /// Adds bytes that the host writes to what is written; they are in one region.
    pub fn mark(&self, at: u64, bytes: u64) {
        if let Some(written) = self.snapshot().find(at, bytes).and_then(|region| region.written.as_ref()) {
            written.mark(at, bytes);
        }
    }

    /// The pages that were written since the last call, by address, joined where they meet; nothing while that is not watched. No wave runs.
    pub fn take_written(&self) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> =
            lock(&self.watched).iter().flatten().flat_map(|written| written.take()).collect();
        all.sort_by_key(|range| range.start);
        all.dedup_by(|next, last| {
            let meets = next.start <= last.end;
            last.end = if meets { last.end.max(next.end) } else { last.end };
            meets
        });
        all
    }

    /// The mappings as they are now.
    pub fn snapshot(&self) -> Arc<Map> {
        lock(&self.current).clone()
    }
}

/// Takes `start..start + len` out of the regions, cutting those that reach beyond it.
fn carve(regions: &mut Vec<Mapping>, start: u64, len: u64) {
    let end = start + len;
    let mut kept = Vec::with_capacity(regions.len() + 1);
    for r in regions.drain(..) {
        let r_end = r.start + r.len;
        if r_end <= start || r.start >= end {
            kept.push(r);
            continue;
        }
        if r.start < start {
            kept.push(Mapping { len: start - r.start, ..r.clone() });
        }
        if r_end > end {
            let skipped = end - r.start;
            let backing = Backing {
                base: r.backing.base.wrapping_add(skipped as usize),
                len: r.backing.len - skipped,
                ..r.backing.clone()
            };
            kept.push(Mapping { start: end, len: r_end - end, backing, ..r });
        }
    }
    *regions = kept;
}

/// Why an access is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing is mapped there for this GPU.
    NotMapped,
    /// What is mapped there may not be written.
    ReadOnly,
    /// The address is not a multiple of the size, as an atomic access needs it.
    Misaligned,
}

/// An access that is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The first address that was refused.
    pub at: u64,
    /// True for writes and atomics.
    pub write: bool,
    /// The reason.
    pub why: Refusal,
}

#[cfg(test)]
pub(crate) mod tests {
    use std::alloc::{self, Layout};

    use super::*;

    /// Zeroed pages.
    struct Pages(*mut u8, Layout);

    // SAFETY: only the address is shared; the memory is accessed through atomics.
    unsafe impl Send for Pages {}
    // SAFETY: as above.
    unsafe impl Sync for Pages {}

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: allocated by `memory` with this layout.
            unsafe { alloc::dealloc(self.0, self.1) };
        }
    }

    /// Zeroed memory that lives as long as its backing.
    pub(crate) fn memory(len: usize) -> Backing {
        let layout = Layout::from_size_align(len, 4096).expect("a small size");
        // SAFETY: the layout is not empty in any test.
        let base = unsafe { alloc::alloc_zeroed(layout) };
        assert!(!base.is_null());
        // SAFETY: the pages are the owner.
        unsafe { Backing::new(base, len as u64, Arc::new(Pages(base, layout))) }
    }

    fn view(space: &Arc<AddressSpace>) -> View {
        View::new(space.clone())
    }

    #[test]
    fn accesses_reach_across_neighbouring_regions_but_not_into_holes() {
        let space = Arc::new(AddressSpace::default());
        space.map(0x1000, memory(0x1000), true);
        space.map(0x2000, memory(0x1000), true);
        let mut v = view(&space);
        v.write(0x1ffe, &[1, 2, 3, 4]).expect("both are mapped");
        let mut back = [0; 4];
        v.read(0x1ffe, &mut back).expect("both are mapped");
        assert_eq!(back, [1, 2, 3, 4]);
        assert_eq!(v.write(0x2ffe, &[0; 4]), Err(Refused { at: 0x3000, write: true, why: Refusal::NotMapped }));
        assert_eq!(v.read(0xfff, &mut back), Err(Refused { at: 0xfff, write: false, why: Refusal::NotMapped }));
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let space = Arc::new(AddressSpace::default());
        space.map(0x1000, memory(0x3000), true);
        let mut v = view(&space);
        v.write(0x3008, &[7]).expect("mapped");
        space.unmap(0x2000, 0x1000);
        v.refresh();
        let mut byte = [0];
        assert!(v.read(0x1fff, &mut byte).is_ok());
        assert_eq!(v.read(0x2000, &mut byte), Err(Refused { at: 0x2000, write: false, why: Refusal::NotMapped }));
        v.read(0x3008, &mut byte).expect("still mapped");
        assert_eq!(byte, [7], "the upper end keeps its contents");
    }

    #[test]
    fn read_only_regions_refuse_writes() {
        let space = Arc::new(AddressSpace::default());
        space.map(0x1000, memory(0x1000), false);
        let mut v = view(&space);
        assert!(v.read(0x1000, &mut [0]).is_ok());
        assert_eq!(v.write(0x1000, &[0]), Err(Refused { at: 0x1000, write: true, why: Refusal::ReadOnly }));
        assert!(v.word32(0x1000, true).is_err());
    }

    #[test]
    fn copies_of_odd_lengths_and_alignments_are_exact() {
        let space = Arc::new(AddressSpace::default());
        space.map(0x1000, memory(0x1000), true);
        let mut v = view(&space);
        let data: Vec<u8> = (0..100).collect();
        v.write(0x1003, &data).expect("mapped");
        v.copy(0x1003, 0x1801, 99).expect("mapped");
        let mut back = vec![0; 100];
        v.read(0x1801, &mut back).expect("mapped");
        assert_eq!((&back[..99], back[99]), (&data[..99], 0));
    }

    #[test]
    fn pages_that_are_written_are_known_once_and_those_that_are_read_are_not() {
        let space = Arc::new(AddressSpace::default());
        space.map(0x1000, memory(0x4000), true);
        let mut v = view(&space);
        v.write(0x1000, &[1]).expect("mapped");
        assert_eq!(space.take_written(), [], "nobody watches");
        space.watch_writes();
        v.refresh();
        space.map(0x9000, memory(0x2000), true);
        v.read(0x3000, &mut [0; 8]).expect("mapped");
        assert_eq!(space.take_written(), []);
        v.write(0x1ffe, &[1, 2, 3]).expect("mapped");
        v.word64(0x9008, true).expect("mapped");
        v.word32(0xa000, false).expect("mapped");
        v.copy(0x1000, 0x4ff0, 16).expect("mapped");
        assert_eq!(space.take_written(), [0x1000..0x3000, 0x4000..0x5000, 0x9000..0xa000]);
        assert_eq!(space.take_written(), []);
        // Whole accesses of waves; what is wide apart is left to its lanes.
        assert!(v.together(0x2fff, 2, true).is_some() && v.together(0x1000, 64, false).is_some());
        let pages = 0x2000..0x4000;
        assert_eq!(space.take_written(), std::slice::from_ref(&pages));
        space.map(0x10_0000, memory(0x4_0000), true);
        v.refresh();
        assert!(v.together(0x10_0000, 0x3_0000, true).is_none() && v.together(0x10_0000, 0x3_0000, false).is_some());
        // Of what is unmapped it is still known.
        v.write(0x2000, &[1]).expect("mapped");
        space.unmap(0x1000, 0x4000);
        space.mark(0xa0ff, 1);
        assert_eq!(space.take_written(), [0x2000..0x3000, 0xa000..0xb000]);
    }

    #[test]
    fn the_nearest_region_is_found_on_either_side() {
        let space = AddressSpace::default();
        space.map(0x1000, memory(0x1000), true);
        space.map(0x9000, memory(0x1000), true);
        let map = space.snapshot();
        assert_eq!(map.nearest(0x2100).map(Mapping::start), Some(0x1000));
        assert_eq!(map.nearest(0x8f00).map(Mapping::start), Some(0x9000));
    }
}
