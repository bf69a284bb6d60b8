//! Memory of the emulated GPU: at any addresses, since its page tables are ours.

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use amdgpu_emu::memory::{AddressSpace, Backing};
use logdur_captured::regions::PAGE;

use crate::error::{ReplayError, Result};

/// The lowest address for memory whose address does not matter.
const LOWEST: u64 = 1 << 32;
/// Unmapped addresses between mappings: an access beyond the end of one is a fault.
const GUARD: u64 = 64 << 10;

/// Pages of the host.
struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pages belong to the owner of this value, in any thread.
unsafe impl Send for Pages {}
// SAFETY: nothing is done with a shared one; the GPU accesses the pages through atomics.
unsafe impl Sync for Pages {}

impl Pages {
    /// Zeroed bytes. Only touched pages take memory.
    fn new(bytes: u64) -> std::io::Result<Pages> {
        let bytes = bytes as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory at an address of the kernel's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let failed = base == libc::MAP_FAILED;
        let base = NonNull::new(base.cast::<u8>()).filter(|_| !failed);
        base.map(|base| Pages { base, bytes }).ok_or_else(std::io::Error::last_os_error)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages were mapped by `new`, and no other code has them any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Pages at an address.
struct Mapped {
    range: Range<u64>,
    pages: Arc<Pages>,
    /// Bytes of the pages before the range.
    offset: u64,
    /// The pages may have other addresses, too.
    is_shared: bool,
}

/// What is mapped, by address, and what is not to be used for anything else.
pub(super) struct Memory {
    space: Arc<AddressSpace>,
    mapped: Vec<Mapped>,
    kept: Vec<Range<u64>>,
}

impl Memory {
    /// Of a GPU. `kept` are addresses that are going to be asked for.
    pub(super) fn new(space: Arc<AddressSpace>, kept: &[Range<u64>]) -> Memory {
        Memory { space, mapped: Vec::new(), kept: kept.to_vec() }
    }

    /// Maps whole pages, all 0.
    ///
    /// # Errors
    /// When something is mapped there, as other code that was at the same address before; when the host has no such memory.
    pub(super) fn map(&mut self, range: &Range<u64>) -> Result<()> {
        let meets = |mapped: &&Mapped| mapped.range.start < range.end && range.start < mapped.range.end;
        if let Some(Mapped { range: there, .. }) = self.mapped.iter().find(meets) {
            return Err(ReplayError::Placement {
                address: range.start,
                length: range.end - range.start,
                why: format!("{:#x}..{:#x} is taken", there.start, there.end),
            });
        }
        self.map_shared(range.end - range.start, [(range, 0)])
    }

    /// Maps parts of memory of so many bytes, all 0, at addresses where nothing is mapped: whole pages from an offset on. Parts may
    /// overlap.
    ///
    /// # Errors
    /// As for [`Memory::map`].
    pub(super) fn map_shared<'a>(
        &mut self,
        bytes: u64,
        parts: impl IntoIterator<Item = (&'a Range<u64>, u64)>,
    ) -> Result<()> {
        let mut parts = parts.into_iter().peekable();
        let address = parts.peek().map_or(0, |(range, _)| range.start);
        let failed = |why: String| ReplayError::Placement { address, length: bytes, why };
        let pages = Arc::new(Pages::new(bytes).map_err(|error| failed(error.to_string()))?);
        let first = parts.next();
        let is_shared = parts.peek().is_some();
        for (range, offset) in first.into_iter().chain(parts) {
            let length = range.end - range.start;
            if offset.checked_add(length).is_none_or(|end| end > bytes) {
                return Err(failed(format!("{length} bytes at {offset} are no part of it")));
            }
            // SAFETY: inside of the pages: compared above.
            let first = unsafe { pages.base.add(offset as usize) };
            // SAFETY: the pages are readable and writable as long as they have an owner, and the backing owns them.
            let backing = unsafe { Backing::new(first.as_ptr(), length, pages.clone()) };
            self.space.map(range.start, backing, true);
            self.mapped.push(Mapped { range: range.clone(), pages: pages.clone(), offset, is_shared });
        }
        Ok(())
    }

    /// Maps what of whole pages is not mapped yet, all 0.
    ///
    /// # Errors
    /// As for [`Memory::map`].
    pub(super) fn map_rest(&mut self, range: &Range<u64>) -> Result<()> {
        let mut taken: Vec<Range<u64>> = self.mapped.iter().map(|mapped| mapped.range.clone()).collect();
        taken.sort_by_key(|range| range.start);
        let mut start = range.start;
        for taken in taken {
            let end = taken.start.min(range.end);
            if start < end {
                self.map(&(start..end))?;
            }
            start = start.max(taken.end);
        }
        if start < range.end { self.map(&(start..range.end)) } else { Ok(()) }
    }

    /// Maps so many bytes where no other memory is wanted.
    ///
    /// # Errors
    /// As for [`Memory::map`].
    pub(super) fn map_anywhere(&mut self, bytes: u64) -> Result<u64> {
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        let mut taken: Vec<&Range<u64>> =
            self.kept.iter().chain(self.mapped.iter().map(|mapped| &mapped.range)).collect();
        taken.sort_by_key(|range| range.start);
        let mut start = LOWEST;
        for range in taken {
            if start + bytes + GUARD <= range.start {
                break;
            }
            start = start.max((range.end + GUARD).next_multiple_of(PAGE));
        }
        self.map(&(start..start + bytes))?;
        Ok(start)
    }

    /// Watches from now on which pages are written.
    pub(super) fn watch_writes(&self) {
        self.space.watch_writes();
    }

    /// Notes that the host writes bytes.
    pub(super) fn mark(&self, at: u64, bytes: u64) {
        self.space.mark(at, bytes);
    }

    /// The pages that were written since the last call, also by other addresses that the same memory has.
    pub(super) fn take_written(&self) -> Vec<Range<u64>> {
        let mut all = self.space.take_written();
        let shared: Vec<&Mapped> = self.mapped.iter().filter(|mapped| mapped.is_shared).collect();
        let mut more = Vec::new();
        for mapped in &shared {
            for range in &all {
                let (start, end) = (range.start.max(mapped.range.start), range.end.min(mapped.range.end));
                let of_pages = |at: u64| mapped.offset + (at - mapped.range.start);
                if start >= end {
                    continue;
                }
                let (start, end) = (of_pages(start), of_pages(end));
                for other in shared.iter().filter(|other| Arc::ptr_eq(&other.pages, &mapped.pages)) {
                    let last = other.offset + (other.range.end - other.range.start);
                    let (start, end) = (start.max(other.offset), end.min(last));
                    if start < end {
                        let at = |of_pages: u64| other.range.start + (of_pages - other.offset);
                        more.push(at(start)..at(end));
                    }
                }
            }
        }
        all.extend(more);
        all
    }

    /// Where bytes are in the host, and how many of them are in one piece there.
    ///
    /// # Errors
    /// When the first is not mapped.
    pub(super) fn at(&self, address: u64, bytes: usize) -> Result<(NonNull<u8>, usize)> {
        let found = self.mapped.iter().find(|mapped| mapped.range.contains(&address));
        let Mapped { range, pages, offset, .. } = found.ok_or_else(|| ReplayError::Placement {
            address,
            length: bytes as u64,
            why: "not mapped for the emulated GPU".to_owned(),
        })?;
        // SAFETY: inside of the pages, which have the range from the offset on.
        let place = unsafe { pages.base.add((offset + (address - range.start)) as usize) };
        Ok((place, bytes.min(usize::try_from(range.end - address).unwrap_or(usize::MAX))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_anywhere_is_where_nothing_is_and_nothing_will_be() {
        let wanted = LOWEST + PAGE..LOWEST + 3 * PAGE;
        let mut memory = Memory::new(Arc::new(AddressSpace::default()), std::slice::from_ref(&wanted));
        let first = memory.map_anywhere(PAGE).unwrap();
        let second = memory.map_anywhere(5).unwrap();
        assert_eq!((first, second), (wanted.end + GUARD, wanted.end + GUARD + PAGE + GUARD));
        memory.map(&wanted).unwrap();
        let (place, length) = memory.at(wanted.start + 8, 16).unwrap();
        // SAFETY: mapped above, so many bytes.
        assert_eq!((unsafe { place.cast::<u64>().read() }, length), (0, 16));
        assert_eq!(memory.at(wanted.end - 8, 16).unwrap().1, 8);
        memory.at(wanted.end, 1).unwrap_err();
        let taken = memory.map(&(wanted.start + PAGE..wanted.end + PAGE)).unwrap_err();
        assert!(taken.to_string().contains(" is taken"), "{taken}");
    }

    #[test]
    fn memory_at_two_addresses_has_the_same_bytes() {
        let mut memory = Memory::new(Arc::new(AddressSpace::default()), &[]);
        let [first, second] = [PAGE..3 * PAGE, 8 * PAGE..9 * PAGE];
        memory.map_shared(2 * PAGE, [(&first, 0), (&second, PAGE)]).unwrap();
        let place = |address| memory.at(address, 1).unwrap().0;
        assert_eq!(place(2 * PAGE + 5), place(8 * PAGE + 5));
        memory.map_shared(PAGE, [(&first, 0)]).unwrap_err();
        // What is written at one address is written at the other.
        memory.map(&(20 * PAGE..22 * PAGE)).unwrap();
        memory.watch_writes();
        memory.mark(2 * PAGE + 5, 1);
        memory.mark(21 * PAGE, 1);
        let mut written = memory.take_written();
        written.sort_by_key(|range| range.start);
        written.dedup();
        assert_eq!(written, [2 * PAGE..3 * PAGE, 8 * PAGE..9 * PAGE, 21 * PAGE..22 * PAGE]);
        assert!(memory.take_written().is_empty());
    }

    #[test]
    fn what_is_mapped_stays_when_more_is_mapped_around_it() {
        let mut memory = Memory::new(Arc::new(AddressSpace::default()), &[]);
        memory.map(&(3 * PAGE..4 * PAGE)).unwrap();
        let (place, _) = memory.at(3 * PAGE, 1).unwrap();
        // SAFETY: mapped above.
        unsafe { place.write(7) };
        memory.map_rest(&(PAGE..6 * PAGE)).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { memory.at(3 * PAGE, 1).unwrap().0.read() }, 7);
        assert_eq!(memory.at(PAGE, 5 * PAGE as usize).unwrap().1, 2 * PAGE as usize);
        assert_eq!(memory.at(4 * PAGE, 5 * PAGE as usize).unwrap().1, 2 * PAGE as usize);
    }
}
