//! The memory of the machine that this runs on.

/// Bytes of the host's memory.
pub(crate) fn memory() -> u64 {
    pages(1 << 18)
}

/// Bytes of system memory that the driver lets GPUs use. Source: `amdgpu_ttm_init`, which takes half of the memory.
pub(crate) fn memory_for_gpus() -> u64 {
    pages(2) / 2
}

/// All pages, and at least as many, in bytes.
fn pages(least: i64) -> u64 {
    // SAFETY: sysconf only reads.
    let number = |name| unsafe { libc::sysconf(name) };
    number(libc::_SC_PHYS_PAGES).max(least) as u64 * number(libc::_SC_PAGESIZE).max(4096) as u64
}
