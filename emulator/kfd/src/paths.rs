//! Which paths belong to the emulated devices.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use crate::plan;
use crate::product::FIRST_RENDER_MINOR;
use crate::sysfs::{self, Reading};
use crate::tree;

/// What a path names.
pub(crate) enum Target {
    /// `/dev/kfd`
    Kfd,
    /// `/dev/dri/renderD*` of a GPU.
    Render(usize),
    /// A file or folder of the device tree.
    Tree(CString),
    /// Not ours.
    Other,
}

/// What `path` names. Costs a few comparisons for paths that are not ours.
pub(crate) fn target(path: *const libc::c_char) -> Target {
    if path.is_null() {
        return Target::Other;
    }
    // SAFETY: callers of the C library's functions give a C string or null.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if !path.starts_with(b"/") {
        return Target::Other;
    }
    if path == b"/dev/kfd" {
        return Target::Kfd;
    }
    if !tree::may_hold(path) {
        return Target::Other;
    }
    if let Some(index) = render_index(path)
        && index < plan::gpu_count()
    {
        return Target::Render(index);
    }
    let Some(root) = tree::root() else { return Target::Other };
    let Ok(text) = std::str::from_utf8(path) else { return Target::Other };
    let inside = tree::inside(root, text);
    let Ok(inside) = CString::new(inside.as_os_str().as_bytes()) else { return Target::Other };
    // The topology is all ours, so that a real GPU's never shows through; of other folders only what is in the tree.
    let ours = path.starts_with(b"/sys/devices/virtual/kfd") || path.starts_with(b"/sys/class/kfd") || exists(&inside);
    if ours { Target::Tree(inside) } else { Target::Other }
}

/// What `path` names for a function that takes it relative to an open folder.
///
/// Libraries that can look at another root than the machine's own (hwloc) open the root, and everything below it.
pub(crate) fn target_at(folder: RawFd, path: *const libc::c_char) -> Target {
    if folder < 0 || path.is_null() {
        return target(path);
    }
    // SAFETY: as in `target`.
    let relative = unsafe { CStr::from_ptr(path) }.to_bytes();
    let may_be_ours = [&b"sys/"[..], b"dev/", b"proc/modules"].iter().any(|prefix| relative.starts_with(prefix));
    if !may_be_ours || !is_root(folder) {
        return target(path);
    }
    match CString::new([b"/", relative].concat()) {
        Ok(whole) => target(whole.as_ptr()),
        Err(_) => Target::Other,
    }
}

/// True when a descriptor is open on the root of the file system.
fn is_root(folder: RawFd) -> bool {
    let path = format!("/proc/self/fd/{folder}\0");
    let mut found = [0u8; 2];
    // The system call itself: the library's function is one that we replace.
    // SAFETY: the path ends with a zero byte, and the buffer has the size that is given.
    let length =
        unsafe { libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), found.as_mut_ptr(), found.len()) };
    length == 1 && found[0] == b'/'
}

/// Which value of which GPU `path` names, if it is a file of the device tree whose text changes.
pub(crate) fn reading(path: *const libc::c_char) -> Option<(usize, Reading)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as in `target`.
    let path = unsafe { CStr::from_ptr(path) };
    sysfs::reading(path.to_str().ok()?)
}

fn render_index(path: &[u8]) -> Option<usize> {
    let minor: u32 = std::str::from_utf8(path.strip_prefix(b"/dev/dri/renderD")?).ok()?.parse().ok()?;
    minor.checked_sub(FIRST_RENDER_MINOR).map(|index| index as usize)
}

fn exists(path: &CStr) -> bool {
    // The system call itself: the library's function is one that we replace.
    // SAFETY: a C string.
    unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path.as_ptr(), libc::F_OK) == 0 }
}
