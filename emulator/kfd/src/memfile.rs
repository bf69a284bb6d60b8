//! Memory files: the file of a device, and the memory of a GPU.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::lock;

/// The smallest unit of memory.
pub(crate) const PAGE: u64 = 4096;

/// Identity of an open file: device and inode.
pub(crate) type Identity = (u64, u64);

/// The free ranges of a file.
struct Free(Mutex<Vec<(u64, u64)>>);

impl Free {
    fn new(from: u64, to: u64) -> Free {
        Free(Mutex::new(vec![(from, to)]))
    }

    /// Takes `len` bytes (whole pages), aligned to `align`.
    fn allocate(&self, len: u64, align: u64) -> Option<u64> {
        let mut free = lock(&self.0);
        let (n, start) = free.iter().enumerate().find_map(|(n, &(from, to))| {
            let start = from.next_multiple_of(align);
            (start.checked_add(len)? <= to).then_some((n, start))
        })?;
        let (from, to) = free.swap_remove(n);
        if from < start {
            free.push((from, start));
        }
        if start + len < to {
            free.push((start + len, to));
        }
        free.sort_unstable();
        Some(start)
    }

    fn release(&self, start: u64, len: u64) {
        let mut free = lock(&self.0);
        free.push((start, start + len));
        free.sort_unstable();
        free.dedup_by(|next, last| {
            let joined = last.1 == next.0;
            if joined {
                last.1 = next.1;
            }
            joined
        });
    }
}

/// Addresses that are kept for mappings of the emulator's own, far from where the kernel places those of the application:
/// a real driver takes no addresses of the process, and programs that ask for a certain one count on it. Empty where the
/// kernel refuses.
fn room() -> &'static Free {
    const START: usize = 0x1800_0000_0000;
    const SIZE: usize = 1 << 42;
    static ROOM: OnceLock<Free> = OnceLock::new();
    ROOM.get_or_init(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let wanted = std::ptr::without_provenance_mut(START);
        // SAFETY: a new mapping, which replaces nothing.
        let base = unsafe { libc::mmap(wanted, SIZE, libc::PROT_NONE, flags, -1, 0) };
        let size = if base == wanted { SIZE } else { 0 };
        if size == 0 && base != libc::MAP_FAILED {
            // A kernel that does not know MAP_FIXED_NOREPLACE takes the address as a hint.
            // SAFETY: it was mapped above, and no other code knows it.
            unsafe { libc::munmap(base, SIZE) };
        }
        Free::new(START as u64, (START + size) as u64)
    })
}

/// A sparse file in memory, with a list of its free ranges.
pub(crate) struct MemFile {
    fd: OwnedFd,
    identity: Identity,
    free: Free,
}

/// Identity of the file behind a descriptor.
pub(crate) fn identity(fd: RawFd) -> Option<Identity> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // The system call itself, because the driver replaces the library's function.
    // SAFETY: `stat` has room for what the kernel writes on this architecture.
    let result = unsafe { libc::syscall(libc::SYS_fstat, fd, stat.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: zeroed, and filled by the kernel.
    let stat = unsafe { stat.assume_init() };
    Some((stat.st_dev, stat.st_ino))
}

/// A new sparse file of `size` bytes.
///
/// # Errors
/// When the kernel refuses (a limit on file sizes or descriptors).
pub(crate) fn create(name: &CStr, size: u64) -> io::Result<OwnedFd> {
    // SAFETY: `name` is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and belongs to no other code.
    let fd = kept(unsafe { OwnedFd::from_raw_fd(fd) });
    // SAFETY: a valid descriptor of a file that may be resized.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), size as libc::off_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// A descriptor for the driver to keep: programs that close low ones, or expect them to be free, are not disturbed.
fn kept(fd: OwnedFd) -> OwnedFd {
    // SAFETY: duplicates a valid descriptor.
    let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 512) };
    // SAFETY: a descriptor that was just made.
    if high >= 0 { unsafe { OwnedFd::from_raw_fd(high) } } else { fd }
}

impl MemFile {
    /// A sparse file of `size` bytes, of which `from..size` (whole pages) can be allocated.
    ///
    /// # Errors
    /// When the kernel refuses (a limit on file sizes or descriptors).
    pub(crate) fn new(name: &CStr, size: u64, from: u64) -> io::Result<MemFile> {
        let fd = create(name, size)?;
        let identity = identity(fd.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        Ok(MemFile { fd, identity, free: Free::new(from, size) })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// A new, independent descriptor of the file.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn open(&self, flags: i32) -> io::Result<RawFd> {
        reopen(&format!("/proc/self/fd/{}", self.fd.as_raw_fd()), (flags & libc::O_CLOEXEC) | libc::O_RDWR)
    }

    /// This process's descriptor of the file, by which another process maps it: [`map_of_other`].
    pub(crate) fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes `len` bytes (whole pages), aligned to `align`.
    pub(crate) fn allocate(&self, len: u64, align: u64) -> Option<u64> {
        self.free.allocate(len, align)
    }

    /// Gives bytes back to the file and their memory to the system.
    pub(crate) fn release(&self, start: u64, len: u64) {
        let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a valid descriptor; a failure only keeps the memory.
        unsafe { libc::fallocate(self.fd.as_raw_fd(), flags, start as libc::off_t, len as libc::off_t) };
        self.free.release(start, len);
    }

    /// Maps `len` bytes from `start` for the emulator itself.
    ///
    /// # Errors
    /// When the address space is used up.
    pub(crate) fn map(&self, start: u64, len: u64) -> io::Result<Arc<Mapping>> {
        map(&self.fd, start, len)
    }
}

/// The name of the files that are memory of a GPU.
pub(crate) const MEMORY: &CStr = c"kfdemu-memory";

/// Maps `len` bytes from `start` of a file of a GPU's memory that is another process's, or this one's, by its descriptor
/// there.
///
/// # Errors
/// When the process, or its descriptor of such a file, is not there.
pub(crate) fn map_of_other(process: u32, number: u32, start: u64, len: u64) -> io::Result<Arc<Mapping>> {
    map(&open_of_other(process, number)?, start, len)
}

/// Opens a file of a GPU's memory that is another process's, or this one's, by its descriptor there.
///
/// # Errors
/// As for [`map_of_other`].
pub(crate) fn open_of_other(process: u32, number: u32) -> io::Result<OwnedFd> {
    open_named(&format!("/proc/{process}/fd/{number}"), MEMORY, libc::O_RDWR)
}

/// Opens a path below `/proc` for the driver, if it is a memory file with this name. To open another file may have
/// effects.
///
/// # Errors
/// When there is no such path, or another file.
pub(crate) fn open_named(path: &str, name: &CStr, flags: i32) -> io::Result<OwnedFd> {
    let expected = format!("/memfd:{} (deleted)", name.to_string_lossy());
    if std::fs::read_link(path)?.as_os_str().as_bytes() != expected.as_bytes() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let fd = reopen(path, flags | libc::O_CLOEXEC)?;
    // SAFETY: a descriptor that was just made and belongs to no other code.
    Ok(kept(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Opens a path below `/proc` by the system call itself, because the driver replaces the library's function.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn reopen(path: &str, flags: i32) -> io::Result<RawFd> {
    let path = format!("{path}\0");
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd as RawFd) }
}

/// Maps `len` bytes of a file from `start` for the emulator itself.
fn map(fd: &OwnedFd, start: u64, len: u64) -> io::Result<Arc<Mapping>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let len = len.next_multiple_of(PAGE);
    let at = room().allocate(len, PAGE);
    let wanted = std::ptr::without_provenance_mut(at.unwrap_or(0) as usize);
    let flags = libc::MAP_SHARED | if at.is_some() { libc::MAP_FIXED } else { 0 };
    // SAFETY: a new mapping, in a reserved range that no other mapping uses, or where the kernel places it.
    let base = unsafe { libc::mmap(wanted, len as usize, protection, flags, fd.as_raw_fd(), start as libc::off_t) };
    if base == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        at.iter().for_each(|&at| room().release(at, len));
        return Err(error);
    }
    // A forked child has no GPU, and must not keep the memory of its parent's.
    // SAFETY: advice on the mapping just made.
    unsafe { libc::madvise(base, len as usize, libc::MADV_DONTFORK) };
    Ok(Arc::new(Mapping { base: base.cast(), len, in_room: at.is_some() }))
}

/// A mapping that ends with its last user.
pub(crate) struct Mapping {
    base: *mut u8,
    len: u64,
    in_room: bool,
}

// SAFETY: the mapping is only accessed through atomics, wherever the pointer goes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (base, len) = (self.base.cast(), self.len as usize);
        if !self.in_room {
            // SAFETY: made by mmap with this length; the last user is gone.
            unsafe { libc::munmap(base, len) };
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: as above; the addresses stay kept.
        let kept = unsafe { libc::mmap(base, len, libc::PROT_NONE, flags, -1, 0) };
        if kept != libc::MAP_FAILED {
            room().release(self.base.expose_provenance() as u64, self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_given_back_and_joined() {
        let file = MemFile::new(c"test", 64 * PAGE, 0).expect("memfd");
        let a = file.allocate(2 * PAGE, PAGE).expect("room");
        let b = file.allocate(PAGE, 16 * PAGE).expect("room");
        assert_eq!((a, b), (0, 16 * PAGE));
        assert_eq!(file.allocate(100 * PAGE, PAGE), None);
        file.release(a, 2 * PAGE);
        file.release(b, PAGE);
        assert_eq!(file.allocate(64 * PAGE, PAGE), Some(0), "all pieces are one again");
    }

    #[test]
    fn mappings_take_no_addresses_of_the_application() {
        let file = MemFile::new(c"test", 4 * PAGE, 0).expect("memfd");
        let (one, other) = (file.map(0, PAGE).expect("mapped"), file.map(0, PAGE).expect("mapped"));
        assert!(one.in_room && other.in_room && one.base() != other.base());
    }

    #[test]
    fn released_memory_comes_back_zeroed() {
        let file = MemFile::new(c"test", 4 * PAGE, 0).expect("memfd");
        let at = file.allocate(PAGE, PAGE).expect("room");
        let mapping = file.map(at, PAGE).expect("mapped");
        // SAFETY: one mapped byte that no other code uses.
        unsafe { mapping.base().write(7) };
        file.release(at, PAGE);
        // SAFETY: as above; the page is still mapped, its memory is new.
        assert_eq!(unsafe { mapping.base().read() }, 0);
    }

    #[test]
    fn every_descriptor_of_a_file_has_its_identity() {
        let file = MemFile::new(c"test", PAGE, 0).expect("memfd");
        let fd = file.open(libc::O_CLOEXEC).expect("open");
        assert_eq!(identity(fd), Some(file.identity()));
        // SAFETY: closes the descriptor opened above.
        unsafe { libc::close(fd) };
    }
}
