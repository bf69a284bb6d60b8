//! Memory in whole pages, which the system can have back without its addresses.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Zeroed memory for a `T`, for as long as the process lives; `None` if the system has none left.
pub fn zeroed<T>() -> Option<NonNull<T>> {
    const { assert!(align_of::<T>() <= PAGE) };
    let bytes = size_of::<T>().next_multiple_of(PAGE);
    map(bytes).or_else(|| allocated(bytes)).map(NonNull::cast)
}

/// True if the system would give so much memory now: a limit of the process's data or addresses leaves room for it.
pub fn are_there(bytes: usize) -> bool {
    let Some(memory) = map(bytes) else { return false };
    // SAFETY: the mapping was just made, and nothing refers to it.
    unsafe { libc::munmap(memory.as_ptr().cast(), bytes) };
    true
}

/// Where the system makes no mapping, the heap may have room.
fn allocated(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, PAGE).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout has a size.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    NonNull::new(memory.cast()).filter(|_| memory != libc::MAP_FAILED)
}

/// Has the system make the pages of a `T` now that it would make when they are first written. A system that cannot makes them then.
///
/// # Safety
/// `memory` must be of [`zeroed`], or a mapping with the pages that a `T` needs.
pub unsafe fn make_ready<T>(memory: NonNull<T>) {
    let bytes = size_of::<T>().next_multiple_of(PAGE);
    // SAFETY: the pages are mapped, by the caller's promise; what is in them does not change. An older kernel knows no such advice.
    unsafe { libc::madvise(memory.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
}

/// Gives the pages of a `T` behind the first `kept` ones back to the system: they are zeros from now on. Those of a file are given back
/// there, too; its length stays.
///
/// # Safety
/// `memory` must be of [`zeroed`], or a mapping with the pages that a `T` needs. Zeros must be a valid `T`: other threads may read them.
pub unsafe fn give_back<T>(memory: NonNull<T>, kept: usize) {
    let kept = kept * PAGE;
    let bytes = size_of::<T>().next_multiple_of(PAGE).saturating_sub(kept);
    // SAFETY: there are `bytes` behind these.
    let rest = unsafe { memory.cast::<u8>().add(kept) };
    // SAFETY: the pages are whole ones of this memory, by the caller's promise.
    let removed = unsafe { libc::madvise(rest.as_ptr().cast(), bytes, libc::MADV_REMOVE) };
    if removed != 0 {
        // It is no file's, or the file system cannot do that: then the file has them still. What fails costs memory only.
        // SAFETY: as above.
        unsafe { libc::madvise(rest.as_ptr().cast(), bytes, libc::MADV_DONTNEED) };
    }
}
