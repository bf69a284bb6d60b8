//! One user's view of an address space: where addresses are in host memory, and accesses that check this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{AddressSpace, Map, Mapping, Refusal, Refused, Written, host};

/// A snapshot of the mappings and the regions used last.
pub struct View {
    pub(super) space: Arc<AddressSpace>,
    /// Keeps the memory of `recent` mapped in the host.
    pub(super) map: Arc<Map>,
    generation: u64,
    pub(super) recent: [Recent; RECENT],
    turn: usize,
    /// Starts of registered memory that was checked since [`View::distrust`].
    pub(super) trusted: Vec<u64>,
}

/// Kernels seldom use more buffers at a time.
const RECENT: usize = 8;

/// What an access needs of a region.
#[derive(Clone, Copy)]
pub(super) struct Recent {
    start: u64,
    len: u64,
    base: *mut u8,
    writable: bool,
    pub(super) registered: bool,
    /// Null while it is not watched which pages are written.
    written: *const Written,
}

/// The widest access of several lanes whose pages all count as written; of wider ones, each lane's pages do.
const WIDEST_MARK: u64 = 64 << 10;

// SAFETY: addresses of memory that is only accessed through atomics, and that the view's map keeps.
unsafe impl Send for Recent {}

impl Recent {
    /// Holds no access.
    pub(super) const NONE: Recent = Recent {
        start: u64::MAX,
        len: 0,
        base: std::ptr::null_mut(),
        writable: false,
        registered: false,
        written: std::ptr::null(),
    };

    fn new(region: &Mapping) -> Recent {
        let Mapping { start, len, backing, writable, written } = region;
        Recent {
            start: *start,
            len: *len,
            base: backing.base,
            writable: *writable,
            registered: backing.registered,
            written: written.as_ref().map_or(std::ptr::null(), Arc::as_ptr),
        }
    }

    /// Notes that bytes are written, if that is watched.
    #[inline(always)]
    fn mark(&self, at: u64, bytes: u64) {
        // SAFETY: null, or of a mapping of the view's map, which outlives what the view remembers of it.
        if let Some(written) = unsafe { self.written.as_ref() } {
            written.mark(at, bytes);
        }
    }

    /// The same for an access of several lanes; false for one of which each lane has to do it.
    #[inline(always)]
    fn mark_together(&self, at: u64, bytes: u64) -> bool {
        let is_marked = self.written.is_null() || bytes <= WIDEST_MARK;
        if is_marked {
            self.mark(at, bytes);
        }
        is_marked
    }

    #[inline(always)]
    fn allows(&self, at: u64, bytes: u64, write: bool) -> bool {
        let skipped = at.wrapping_sub(self.start);
        skipped < self.len && bytes <= self.len - skipped && (self.writable || !write)
    }

    /// The host address of `at`, which must be inside.
    #[inline(always)]
    fn host(&self, at: u64) -> *mut u8 {
        self.base.wrapping_add((at - self.start) as usize)
    }
}

impl View {
    /// A view of the mappings as they are now.
    pub fn new(space: Arc<AddressSpace>) -> View {
        let generation = space.generation.load(Ordering::Acquire);
        let map = space.snapshot();
        View { space, map, generation, recent: [Recent::NONE; RECENT], turn: 0, trusted: Vec::new() }
    }

    /// Applies mappings and unmappings since the last call.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        let generation = self.space.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.take_up(generation);
        }
    }

    #[cold]
    fn take_up(&mut self, generation: u64) {
        self.generation = generation;
        // Before the map that keeps their memory.
        self.recent = [Recent::NONE; RECENT];
        self.map = self.space.snapshot();
        self.trusted.clear();
    }

    /// The mappings that the view uses.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Where `at..at + bytes` is in host memory, if one region has all of it and allows the access.
    #[inline]
    pub(crate) fn translate(&mut self, at: u64, bytes: u64, write: bool) -> Option<*mut u8> {
        let region = self.region(at, bytes, write)?;
        if write {
            region.mark(at, bytes);
        }
        Some(region.host(at))
    }

    /// As [`View::translate`], for bytes that need not be in one region: nothing is looked at twice when they are not.
    #[inline]
    pub(crate) fn together(&mut self, at: u64, bytes: u64, write: bool) -> Option<*mut u8> {
        let region = match self.recent.iter().find(|r| r.allows(at, bytes, write)) {
            Some(recent) => *recent,
            None => {
                self.map.find(at, bytes)?;
                self.look_up(at, bytes, write)?
            }
        };
        (!write || region.mark_together(at, bytes)).then(|| region.host(at))
    }

    #[inline]
    fn region(&mut self, at: u64, bytes: u64, write: bool) -> Option<Recent> {
        match self.recent.iter().find(|r| r.allows(at, bytes, write)) {
            Some(recent) => Some(*recent),
            None => self.look_up(at, bytes, write),
        }
    }

    #[cold]
    fn look_up(&mut self, at: u64, bytes: u64, write: bool) -> Option<Recent> {
        if self.map.find(at, bytes).is_none() {
            self.refresh();
        }
        self.verify(at, bytes);
        let found = Recent::new(self.map.find(at, bytes).filter(|r| r.writable || !write)?);
        self.recent[self.turn] = found;
        self.turn = (self.turn + 1) % RECENT;
        Some(found)
    }

    /// The first byte that is refused, and why. Regions are looked at, not bytes: there may be many.
    fn first_refused(&self, at: u64, bytes: u64, write: bool) -> Option<(u64, Refusal)> {
        let end = at.saturating_add(bytes);
        let mut next = at;
        while next < end {
            match self.map.find(next, 1) {
                None => return Some((next, Refusal::NotMapped)),
                Some(region) if write && !region.writable => return Some((next, Refusal::ReadOnly)),
                Some(region) => next = region.start + region.len,
            }
        }
        None
    }

    /// Why [`View::translate`] gave nothing; `NotMapped` at the beginning when every byte is there, but not all together.
    #[cold]
    fn refused(&self, at: u64, bytes: u64, write: bool) -> Refused {
        let (at, why) = self.first_refused(at, bytes, write).unwrap_or((at, Refusal::NotMapped));
        Refused { at, write, why }
    }

    /// Why an access by a wave was refused: the reason at its first bad byte, or that it was not aligned.
    pub fn explain(&mut self, at: u64, bytes: u64, write: bool) -> Refused {
        self.refresh();
        let (at, why) = self.first_refused(at, bytes, write).unwrap_or((at, Refusal::Misaligned));
        Refused { at, write, why }
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
            let (from, n) = self.run(at.wrapping_add(done as u64), out.len() - done, false)?;
            // SAFETY: `run` found that `n` bytes from `from` are mapped, and the view keeps their owner alive.
            unsafe { host::read(from, &mut out[done..done + n]) };
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
            let (to, n) = self.run(at.wrapping_add(done as u64), data.len() - done, true)?;
            // SAFETY: `run` found that `n` bytes from `to` are mapped and writable, and the view keeps their owner alive.
            unsafe { host::write(to, &data[done..done + n]) };
            done += n;
        }
        Ok(())
    }

    /// How many of `bytes` from `at` are in one region, and where they are.
    fn run(&mut self, at: u64, bytes: usize, write: bool) -> Result<(*mut u8, usize), Refused> {
        let region = self.region(at, 1, write).ok_or_else(|| self.refused(at, 1, write))?;
        let left = region.len - (at - region.start);
        let bytes = bytes.min(usize::try_from(left).unwrap_or(usize::MAX));
        if write {
            region.mark(at, bytes as u64);
        }
        Ok((region.host(at), bytes))
    }

    /// Copies within GPU memory, as a copy engine does: in the widest pieces to which both sides are aligned, ascending.
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
            unsafe { host::copy(source, target, m) };
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
    #[inline]
    pub fn word32(&mut self, at: u64, write: bool) -> Result<&AtomicU32, Refused> {
        if !at.is_multiple_of(4) {
            return Err(Refused { at, write, why: Refusal::Misaligned });
        }
        let host = self.translate(at, 4, write).ok_or_else(|| self.refused(at, 4, write))?;
        // SAFETY: four mapped bytes; host pages and GPU pages have the same alignment, so the host address is aligned.
        Ok(unsafe { AtomicU32::from_ptr(host.cast()) })
    }

    /// An aligned 64-bit word to use atomically.
    ///
    /// # Errors
    /// When it is not mapped, not aligned or not writable.
    #[inline]
    pub fn word64(&mut self, at: u64, write: bool) -> Result<&AtomicU64, Refused> {
        if !at.is_multiple_of(8) {
            return Err(Refused { at, write, why: Refusal::Misaligned });
        }
        let host = self.translate(at, 8, write).ok_or_else(|| self.refused(at, 8, write))?;
        // SAFETY: eight mapped bytes, aligned as above.
        Ok(unsafe { AtomicU64::from_ptr(host.cast()) })
    }
}
