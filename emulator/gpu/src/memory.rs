//! GPU virtual memory: which addresses are mapped, to which host memory, and accesses that check this.
//!
//! # Threads
//! Mapping and unmapping publish a new [`Map`]; workers keep the one they have until they look for a newer one, so
//! memory that a wave is using is not unmapped under it. Accesses to the memory itself are atomic per element: host
//! threads and other waves use it at the same time.
//!
//! # Ordering
//! Element accesses are relaxed; instructions that order them call [`std::sync::atomic::fence`].

mod registered;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock;

/// Host memory behind GPU addresses.
#[derive(Clone)]
pub struct Backing {
    base: *mut u8,
    len: u64,
    /// The application's own memory, which may be unmapped.
    registered: bool,
    /// It was not registered: a fault has brought it.
    pageable: bool,
    /// Keeps the memory mapped in the host for as long as someone may use it.
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
pub struct Region {
    start: u64,
    len: u64,
    backing: Backing,
    writable: bool,
}

impl Region {
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

    /// The host address of `at`, which must be inside.
    fn host(&self, at: u64) -> *mut u8 {
        self.backing.base.wrapping_add((at - self.start) as usize)
    }
}

/// All mappings of one GPU at one time, sorted by address.
#[derive(Default)]
pub struct Map {
    regions: Vec<Region>,
}

impl Map {
    /// The region that holds all of `at..at + bytes`.
    pub fn find(&self, at: u64, bytes: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|r| r.start <= at);
        self.regions[..after].last().filter(|r| r.holds(at, bytes))
    }

    /// The mapped region that is nearest to an address, for diagnostics.
    pub fn nearest(&self, at: u64) -> Option<&Region> {
        self.regions.iter().min_by_key(|r| if at < r.start { r.start - at } else { at.saturating_sub(r.start + r.len) })
    }

    /// Why an access to one byte is refused, if it is.
    fn check(&self, at: u64, write: bool) -> Option<Refusal> {
        match self.find(at, 1) {
            None => Some(Refusal::NotMapped),
            Some(region) if write && !region.writable => Some(Refusal::ReadOnly),
            Some(_) => None,
        }
    }

    /// Every mapped region, by address.
    pub fn regions(&self) -> &[Region] {
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
    /// Registered memory, as it was mapped; whatever the host has unmapped of it since.
    registered: Mutex<Vec<Region>>,
    /// How much of it there is.
    registered_regions: AtomicUsize,
    /// Faults are retried: all memory of the process can be used, once the host's page tables were looked at.
    pageable: AtomicBool,
    /// What was unmapped last, start and length, newest at the end.
    gone: Mutex<VecDeque<(u64, u64)>>,
}

impl AddressSpace {
    /// Maps `backing` at `start`, replacing what was mapped there.
    pub fn map(&self, start: u64, backing: Backing, writable: bool) {
        let len = backing.len();
        let region = Region { start, len, backing, writable };
        self.register(start, len, region.backing.registered.then(|| region.clone()));
        self.change(|regions| {
            carve(regions, start, len);
            regions.push(region);
        });
    }

    /// Registered memory is there now, or none.
    fn register(&self, start: u64, len: u64, region: Option<Region>) {
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

    /// What there is to know about a refused address, for people: what is there, what was, what is nearest.
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

    fn change(&self, f: impl FnOnce(&mut Vec<Region>)) {
        let mut current = lock(&self.current);
        let mut regions = current.regions.clone();
        f(&mut regions);
        regions.sort_unstable_by_key(|r| r.start);
        *current = Arc::new(Map { regions });
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The mappings as they are now.
    pub fn snapshot(&self) -> Arc<Map> {
        lock(&self.current).clone()
    }
}

/// Takes `start..start + len` out of the regions, cutting those that reach beyond it.
fn carve(regions: &mut Vec<Region>, start: u64, len: u64) {
    let end = start + len;
    let mut kept = Vec::with_capacity(regions.len() + 1);
    for r in regions.drain(..) {
        let r_end = r.start + r.len;
        if r_end <= start || r.start >= end {
            kept.push(r);
            continue;
        }
        if r.start < start {
            kept.push(Region { len: start - r.start, ..r.clone() });
        }
        if r_end > end {
            let skipped = end - r.start;
            let backing = Backing {
                base: r.backing.base.wrapping_add(skipped as usize),
                len: r.backing.len - skipped,
                ..r.backing.clone()
            };
            kept.push(Region { start: end, len: r_end - end, backing, writable: r.writable });
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

/// One user's view of an address space: a snapshot of the mappings and the regions used last.
pub struct View {
    space: Arc<AddressSpace>,
    map: Arc<Map>,
    generation: u64,
    recent: [Option<Region>; RECENT],
    turn: usize,
    /// Where registered memory begins that has been looked at since [`View::distrust`].
    trusted: Vec<u64>,
}

/// Kernels seldom work on more buffers at a time.
const RECENT: usize = 4;

impl View {
    /// A view of the mappings as they are now.
    pub fn new(space: Arc<AddressSpace>) -> View {
        let generation = space.generation.load(Ordering::Acquire);
        let map = space.snapshot();
        View { space, map, generation, recent: [const { None }; RECENT], turn: 0, trusted: Vec::new() }
    }

    /// Takes up mappings and unmappings since the last time.
    #[inline]
    pub fn refresh(&mut self) {
        let generation = self.space.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.take_up(generation);
        }
    }

    #[cold]
    fn take_up(&mut self, generation: u64) {
        self.generation = generation;
        self.map = self.space.snapshot();
        self.recent = [const { None }; RECENT];
        self.trusted.clear();
    }

    /// The mappings that the view uses.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Where `at..at + bytes` is in host memory.
    #[inline]
    pub(crate) fn translate(&mut self, at: u64, bytes: u64, write: bool) -> Result<*mut u8, Refused> {
        for region in self.recent.iter().flatten() {
            if region.holds(at, bytes) && (region.writable || !write) {
                return Ok(region.host(at));
            }
        }
        self.look_up(at, bytes, write)
    }

    #[cold]
    fn look_up(&mut self, at: u64, bytes: u64, write: bool) -> Result<*mut u8, Refused> {
        if self.map.find(at, bytes).is_none() {
            self.refresh();
        }
        self.verify(at, bytes);
        let region =
            self.map.find(at, bytes).filter(|r| r.writable || !write).ok_or_else(|| self.refused(at, bytes, write))?;
        let host = region.host(at);
        self.recent[self.turn] = Some(region.clone());
        self.turn = (self.turn + 1) % RECENT;
        Ok(host)
    }

    /// The first byte of an access that is refused, and why; `NotMapped` at its beginning when each byte alone is there
    /// but not all together.
    fn refused(&self, at: u64, bytes: u64, write: bool) -> Refused {
        let bad = (at..at.saturating_add(bytes)).find_map(|a| Some((a, self.map.check(a, write)?)));
        let (at, why) = bad.unwrap_or((at, Refusal::NotMapped));
        Refused { at, write, why }
    }

    /// Why an access by a wave was refused: the reason at its first bad byte, or that it was not aligned.
    pub fn explain(&mut self, at: u64, bytes: u64, write: bool) -> Refused {
        self.refresh();
        let bad = (at..at.saturating_add(bytes)).find_map(|a| Some((a, self.map.check(a, write)?)));
        bad.map_or(Refused { at, write, why: Refusal::Misaligned }, |(at, why)| Refused { at, write, why })
    }

    /// The address space that is looked at.
    pub fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }

    /// Reads bytes, which may lie in several regions.
    ///
    /// # Errors
    /// The first address that is not mapped.
    pub fn read(&mut self, at: u64, out: &mut [u8]) -> Result<(), Refused> {
        let mut done = 0;
        while done < out.len() {
            let (host, n) = self.run(at.wrapping_add(done as u64), out.len() - done, false)?;
            for (k, byte) in out[done..done + n].iter_mut().enumerate() {
                // SAFETY: `run` found that `n` bytes from `host` are mapped, and the view keeps their owner alive.
                *byte = unsafe { byte_at(host, k) }.load(Ordering::Relaxed);
            }
            done += n;
        }
        Ok(())
    }

    /// Writes bytes, which may lie in several regions.
    ///
    /// # Errors
    /// The first address that is not mapped or not writable; bytes before it are written.
    pub fn write(&mut self, at: u64, data: &[u8]) -> Result<(), Refused> {
        let mut done = 0;
        while done < data.len() {
            let (host, n) = self.run(at.wrapping_add(done as u64), data.len() - done, true)?;
            for (k, &byte) in data[done..done + n].iter().enumerate() {
                // SAFETY: `run` found that `n` bytes from `host` are mapped, and the view keeps their owner alive.
                unsafe { byte_at(host, k) }.store(byte, Ordering::Relaxed);
            }
            done += n;
        }
        Ok(())
    }

    /// How many of `bytes` from `at` are in one region, and where they are.
    fn run(&mut self, at: u64, bytes: usize, write: bool) -> Result<(*mut u8, usize), Refused> {
        let host = self.translate(at, 1, write)?;
        let region = self.map.find(at, 1).ok_or(Refused { at, write, why: Refusal::NotMapped })?;
        let left = region.start + region.len - at;
        Ok((host, bytes.min(usize::try_from(left).unwrap_or(usize::MAX))))
    }

    /// Copies within GPU memory, as a copy engine does: word by word where both sides are aligned, ascending.
    ///
    /// # Errors
    /// The first address that is not mapped; what was before it is copied.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), Refused> {
        let mut done = 0;
        while done < bytes {
            let left = usize::try_from(bytes - done).unwrap_or(usize::MAX);
            let (source, n) = self.run(from.wrapping_add(done), left, false)?;
            let (target, m) = self.run(to.wrapping_add(done), n, true)?;
            // SAFETY: `run` found `m` bytes mapped on both sides.
            unsafe { copy_bytes(source, target, m) };
            done += m as u64;
        }
        Ok(())
    }

    /// Fills GPU memory with a repeated dword.
    ///
    /// # Errors
    /// The first address that is not mapped or not writable.
    pub fn fill(&mut self, to: u64, value: u32, bytes: u64) -> Result<(), Refused> {
        let pattern = value.to_le_bytes().repeat(256);
        let mut done = 0;
        while done < bytes {
            let n = (bytes - done).min(pattern.len() as u64);
            self.write(to.wrapping_add(done), &pattern[..n as usize])?;
            done += n;
        }
        Ok(())
    }

    /// An aligned 32-bit word to use atomically.
    ///
    /// # Errors
    /// When it is not mapped, not aligned or not writable.
    pub fn word32(&mut self, at: u64, write: bool) -> Result<&AtomicU32, Refused> {
        if !at.is_multiple_of(4) {
            return Err(Refused { at, write, why: Refusal::Misaligned });
        }
        let host = self.translate(at, 4, write)?;
        // SAFETY: four mapped bytes; host pages and GPU pages have the same alignment, so the host address is aligned.
        Ok(unsafe { AtomicU32::from_ptr(host.cast()) })
    }

    /// An aligned 64-bit word to use atomically.
    ///
    /// # Errors
    /// When it is not mapped, not aligned or not writable.
    pub fn word64(&mut self, at: u64, write: bool) -> Result<&AtomicU64, Refused> {
        if !at.is_multiple_of(8) {
            return Err(Refused { at, write, why: Refusal::Misaligned });
        }
        let host = self.translate(at, 8, write)?;
        // SAFETY: eight mapped bytes, aligned as above.
        Ok(unsafe { AtomicU64::from_ptr(host.cast()) })
    }
}

/// The byte `k` after `host`.
///
/// # Safety
/// `host..=host + k` must be mapped for `'a`.
pub(crate) unsafe fn byte_at<'a>(host: *mut u8, k: usize) -> &'a AtomicU8 {
    let place = host.wrapping_add(k);
    // SAFETY: mapped by the caller's promise, and a byte has no alignment.
    unsafe { AtomicU8::from_ptr(place) }
}

/// Copies bytes upward, eight at a time where both addresses allow it.
///
/// # Safety
/// `n` bytes must be mapped on both sides.
unsafe fn copy_bytes(source: *mut u8, target: *mut u8, n: usize) {
    let mut k = 0;
    let aligned = source.addr().is_multiple_of(8) && target.addr().is_multiple_of(8);
    while aligned && k + 8 <= n {
        let (from, to) = (source.wrapping_add(k).cast(), target.wrapping_add(k).cast());
        // SAFETY: the caller's `n` bytes are mapped on both sides and `k + 8 <= n`; both addresses are aligned.
        let from = unsafe { AtomicU64::from_ptr(from) };
        // SAFETY: as above.
        let to = unsafe { AtomicU64::from_ptr(to) };
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        k += 8;
    }
    while k < n {
        // SAFETY: `k < n` mapped bytes.
        let byte = unsafe { byte_at(source, k) }.load(Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { byte_at(target, k) }.store(byte, Ordering::Relaxed);
        k += 1;
    }
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
    fn the_nearest_region_is_found_on_either_side() {
        let space = AddressSpace::default();
        space.map(0x1000, memory(0x1000), true);
        space.map(0x9000, memory(0x1000), true);
        let map = space.snapshot();
        assert_eq!(map.nearest(0x2100).map(Region::start), Some(0x1000));
        assert_eq!(map.nearest(0x8f00).map(Region::start), Some(0x9000));
    }
}
