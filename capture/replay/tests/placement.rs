//! Memory at chosen addresses. In a process of its own: while the gaps are filled, no other test finds memory.

use std::io;
use std::ops::Range;
use std::ptr;

use logdur_captured::regions::{PAGE, blocks};
use logdur_replay::place::{Maps, Reserved};
use logdur_replay::{ReplayError, Result};

/// By how much glibc's allocator lets its heap grow at least: `M_TOP_PAD`, and a page.
const HEAP: isize = (128 << 10) + PAGE as isize;

fn unmap(range: &Range<u64>) {
    if range.start < range.end {
        // SAFETY: only what was mapped below comes here, and no pointers lead into it.
        unsafe { libc::munmap(ptr::without_provenance_mut(range.start as usize), (range.end - range.start) as usize) };
    }
}

/// What libhsakmt's `mmap_aperture_allocate_aligned` does with `HSA_MAX_VA_ALIGN=0`: for huge pages it maps enough to align
/// in, and unmaps the rest.
fn like_the_library(bytes: u64) -> Result<(u64, Range<u64>)> {
    let align = if bytes.is_multiple_of(2 << 20) { 2 << 20 } else { PAGE };
    let padded = bytes + align - PAGE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at an address that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), padded as usize, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(ReplayError::File { path: "mmap".to_owned(), source: io::Error::last_os_error() });
    }
    let at = at as u64;
    let start = at.next_multiple_of(align);
    unmap(&(at..start));
    unmap(&(start + bytes..at + padded));
    Ok((start, start..start + bytes))
}

#[test]
fn memory_comes_where_it_is_wanted_block_for_block_and_nothing_stays_filled() {
    // Above and below where the kernel begins to look, unaligned at both ends.
    for start in [0x2b12_345f_e000, 0x7ffa_345f_e000] {
        // Some pages, a huge page that is not aligned, and one that is.
        for range in [start..start + 0x21_5000, start..start + 0x20_0000, start + 0x2000..start + 0x20_2000] {
            placed(&range);
        }
    }
}

fn placed(range: &Range<u64>) {
    let mut reserved = Reserved::keep(std::slice::from_ref(range)).unwrap();
    let mut got = Vec::new();
    for block in blocks(range) {
        let bytes = block.end - block.start;
        let allocate = || {
            // What glibc's allocator does when its heap is used up; where it fails, it maps memory, maybe the wanted one.
            // SAFETY: the heap grows, and what it grows by is unused.
            let grown = unsafe { libc::sbrk(HEAP) };
            assert!(bytes <= PAGE + HEAP as u64 || grown.addr() != usize::MAX, "the heap cannot grow");
            like_the_library(bytes)
        };
        got.push(reserved.steer(&block, allocate, |other| unmap(&other)).unwrap());
    }
    assert_eq!((got[0].start, got[got.len() - 1].end), (range.start, range.end));
    drop(reserved);
    assert!(Maps::now().unwrap().gaps().iter().any(|(gap, _)| gap.start == range.end));
    got.iter().for_each(unmap);
}
