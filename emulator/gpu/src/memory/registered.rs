//! Memory that the application registered for the GPU, and may have unmapped since.
//!
//! On hardware, Linux tells the driver when pages of the host are unmapped. The driver removes them from the GPU's page tables, and an
//! access is a memory fault. An emulator in user space is not told, so it checks before a kernel or a copy first uses such memory.
//! Unmapping memory under a running kernel is not detected.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::view::Recent;
use super::{AddressSpace, Backing, Mapping, View, carve};
use crate::lock;

impl Backing {
    /// Memory of `len` bytes at `base` that an application registered.
    ///
    /// # Safety
    /// `base..base + len` must be whole pages which hold nothing but what is meant for the GPU: if they are readable and
    /// writable when a kernel or copy begins that uses them, they must stay so until it ends.
    pub unsafe fn registered(base: *mut u8, len: u64) -> Backing {
        Backing { base, len, registered: true, pageable: false, _owner: Arc::new(()) }
    }

    /// True when all of it is mapped in the host.
    fn is_there(&self) -> bool {
        // SAFETY: reads no memory: asks the kernel to write changed pages of files back some time, which it does anyway.
        // Fails when a page of the range is not mapped.
        unsafe { libc::msync(self.base.cast(), self.len as usize, libc::MS_ASYNC) == 0 }
    }
}

/// How files of emulated devices are called where the kernel lists them: memory of a GPU or of another process, which a
/// fault does not bring.
const DEVICE_FILES: &str = "/memfd:kfdemu";

/// The parts of host memory `from..to` that are mapped and readable, and whether they are writable.
fn mapped_parts(from: u64, to: u64) -> Vec<(u64, u64, bool)> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let parts = maps.lines().filter(|line| !line.contains(DEVICE_FILES)).filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (address(start)?.max(from), address(end)?.min(to));
        (start < end && rest.starts_with('r')).then(|| (start, end, rest[1..].starts_with('w')))
    });
    parts.collect()
}

impl AddressSpace {
    /// Checks which pages of the registered memory around a GPU address the host still has, and maps exactly these. False if no registered
    /// memory is there.
    fn look_again(&self, at: u64) -> bool {
        let Some(whole) = self.registered_around(at) else { return self.page_in(at) };
        let host = whole.backing.base.expose_provenance() as u64;
        let parts = mapped_parts(host, host + whole.len);
        self.change(|regions| {
            carve(regions, whole.start, whole.len);
            for (from, to, writable) in parts {
                let skipped = from - host;
                let base = whole.backing.base.wrapping_add(skipped as usize);
                let backing = Backing { base, len: to - from, ..whole.backing.clone() };
                let (start, len) = (whole.start + skipped, to - from);
                regions.push(Mapping { start, len, backing, writable: whole.writable && writable, written: None });
            }
        });
        true
    }

    /// From now on faults are retried, so that GPUs can use all memory of the process at its own addresses, or not.
    pub fn set_pageable(&self, pageable: bool) {
        self.pageable.store(pageable, Ordering::Release);
    }

    /// Retries a fault: maps the host's memory around an address at the address itself. False when there is none, or
    /// faults are not retried.
    fn page_in(&self, at: u64) -> bool {
        if !self.pageable.load(Ordering::Acquire) {
            return false;
        }
        let page = at & !0xfff;
        let Some((mut from, mut to, writable)) =
            mapped_parts(0, u64::MAX).into_iter().find(|p| (p.0..p.1).contains(&at))
        else {
            // What was there is gone.
            self.change(|regions| carve(regions, page, 0x1000));
            return true;
        };
        self.change(|regions| {
            // Older pages may have gone or moved; what else is mapped stays.
            regions.retain(|r| !r.backing.pageable || r.start >= to || r.start + r.len <= from);
            for r in regions.iter() {
                if r.start + r.len <= at {
                    from = from.max(r.start + r.len);
                } else if r.start > at {
                    to = to.min(r.start);
                }
            }
            let base = std::ptr::with_exposed_provenance_mut(from as usize);
            let backing = Backing { base, len: to - from, registered: true, pageable: true, _owner: Arc::new(()) };
            regions.push(Mapping { start: from, len: to - from, backing, writable, written: None });
        });
        true
    }

    /// True when an address is in registered memory, mapped in the host or not.
    pub(super) fn is_registered(&self, at: u64) -> bool {
        self.registered_around(at).is_some()
    }

    fn registered_around(&self, at: u64) -> Option<Mapping> {
        if self.registered_regions.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.registered).iter().find(|r| r.holds(at, 1)).cloned()
    }
}

impl View {
    /// A kernel or a copy begins: registered memory is checked again before its next use.
    pub(crate) fn distrust(&mut self) {
        self.trusted.clear();
        for recent in self.recent.iter_mut().filter(|recent| recent.registered) {
            *recent = Recent::NONE;
        }
    }

    /// Updates the mappings around an address from the host's. Called before a region is used.
    pub(super) fn verify(&mut self, at: u64, bytes: u64) {
        match self.map.find(at, bytes) {
            Some(region) if !region.backing.registered || self.trusted.contains(&region.start) => {}
            Some(region) if region.backing.is_there() => self.trusted.push(region.start),
            // Gone, or perhaps back again.
            _ if self.space.look_again(at) => self.refresh(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::super::{Refusal, Refused};
    use super::*;

    const PAGE: usize = 4096;
    const GPU: u64 = 0x7000_0000;
    /// Far below where the kernel places mappings: no other thread's mapping comes to a page that the test has unmapped.
    const HOST: *mut u8 = ptr::without_provenance_mut(0x10_0000_0000);

    fn map_host(at: *mut u8, pages: usize) {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which replaces none.
        let base = unsafe { libc::mmap(at.cast(), pages * PAGE, protection, flags | libc::MAP_FIXED_NOREPLACE, -1, 0) };
        assert_eq!(base, at.cast());
    }

    fn unmap_host(at: *mut u8, pages: usize) {
        // SAFETY: only the test uses these pages, and no more.
        assert_eq!(unsafe { libc::munmap(at.cast(), pages * PAGE) }, 0);
    }

    #[test]
    fn registered_pages_that_the_host_has_unmapped_are_refused_and_come_back_with_it() {
        let base = HOST;
        map_host(base, 4);
        let space = Arc::new(AddressSpace::default());
        // SAFETY: the view is only used with pages that are there, or after `distrust`.
        space.map(GPU, unsafe { Backing::registered(base, 4 * PAGE as u64) }, true);
        let mut view = View::new(space.clone());
        view.write(GPU + 2 * PAGE as u64, &[7]).expect("there");
        let middle = base.wrapping_add(PAGE);
        unmap_host(middle, 1);

        view.distrust();
        let second = GPU + PAGE as u64;
        let gone = Refused { at: second, write: true, why: Refusal::NotMapped };
        assert_eq!(view.write(second, &[1]), Err(gone));
        assert!(space.describe(second).contains("registered memory that the application has unmapped"));
        view.write(GPU, &[1]).expect("the page before is there");
        let mut byte = [0];
        view.read(second + PAGE as u64, &mut byte).expect("and the one after it");
        assert_eq!(byte, [7]);
        assert_eq!(view.copy(GPU, GPU + 3 * PAGE as u64, 2 * PAGE as u64).map_err(|r| r.at), Err(second));

        map_host(middle, 1);
        view.distrust();
        view.write(second, &[2]).expect("there again");
        unmap_host(base, 4);
        view.distrust();
        assert!(view.read(GPU, &mut byte).is_err());
        space.unmap(GPU, 4 * PAGE as u64);
        assert!(!space.is_registered(GPU));
    }
}
