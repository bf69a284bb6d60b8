//! Examining files: the devices are character devices, though memory files stand behind them.

use std::ffi::{c_char, c_int};

use super::guard;
use super::next::next;
use crate::paths::{Target, target_at};
use crate::product::{DRM_MAJOR, FIRST_RENDER_MINOR};
use crate::state::{self, Node};

/// The number that the kernel gives to the character device `/dev/kfd` varies; this is a usual one.
const KFD_MAJOR: u32 = 511;

/// Makes a file's description that of a device.
///
/// # Safety
/// The buffer must be one that `stat` has filled, or all zeroes.
unsafe fn describe(buffer: *mut libc::stat, node: Node) {
    let (major, minor) = match node {
        Node::Kfd => (KFD_MAJOR, 0),
        Node::Render(index) => (DRM_MAJOR, FIRST_RENDER_MINOR + index as u32),
    };
    // SAFETY: the caller's promise.
    let stat = unsafe { &mut *buffer };
    stat.st_mode = libc::S_IFCHR | 0o666;
    stat.st_rdev = libc::makedev(major, minor);
    stat.st_size = 0;
    stat.st_blocks = 0;
}

/// The description of a device that may not be open.
///
/// # Safety
/// The buffer must be one that could be given to `stat`.
unsafe fn describe_path(buffer: *mut libc::stat, node: Node) -> c_int {
    // SAFETY: the caller's promise; all zeroes is a value of the type.
    unsafe { buffer.write_bytes(0, 1) };
    // SAFETY: it was just zeroed.
    unsafe { describe(buffer, node) };
    0
}

/// After a successful `fstat`: a descriptor of ours becomes a device.
///
/// # Safety
/// The buffer must be the one that `fstat` was given, which had this result.
unsafe fn describe_descriptor(fd: c_int, buffer: *mut libc::stat, result: c_int) -> c_int {
    if result == 0
        && let Some(node) = guard(None, || state::node_of(fd))
    {
        // SAFETY: `fstat` has filled the buffer.
        unsafe { describe(buffer, node) };
    }
    result
}

/// A stat function by path; `otherwise` examines the path that it is given.
///
/// # Safety
/// The buffer must be one that could be given to `stat`.
unsafe fn by_path(
    folder: c_int,
    path: *const c_char,
    buffer: *mut libc::stat,
    otherwise: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    match guard(Target::Other, || target_at(folder, path)) {
        // SAFETY: the caller's promise.
        Target::Kfd => unsafe { describe_path(buffer, Node::Kfd) },
        // SAFETY: the caller's promise.
        Target::Render(index) => unsafe { describe_path(buffer, Node::Render(index)) },
        Target::Tree(inside) => otherwise(inside.as_ptr()),
        Target::Other => otherwise(path),
    }
}

/// The version of `struct stat` that callers of `__xstat` and its like name. Source: glibc's `_STAT_VER_LINUX` on x86-64.
const STAT_VERSION: c_int = 1;

/// For each function: its names in C, and after `else` what it was compiled to before glibc 2.33, whose library does not have it.
macro_rules! stat_functions {
    ($(
        $stat:ident $lstat:ident $fstat:ident $fstatat:ident $c_stat:literal $c_lstat:literal $c_fstat:literal $c_fstatat:literal
        else $v_stat:ident $v_lstat:ident $v_fstat:ident $v_fstatat:ident $cv_stat:literal $cv_lstat:literal $cv_fstat:literal $cv_fstatat:literal;
    )*) => {$(
        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $stat(path: *const c_char, buffer: *mut libc::stat) -> c_int {
            let old = |path| next!($cv_stat as fn(c_int, *const c_char, *mut libc::stat) -> c_int, -1; STAT_VERSION, path, buffer);
            let otherwise = |path| next!($c_stat as fn(*const c_char, *mut libc::stat) -> c_int, old(path); path, buffer);
            // SAFETY: the caller's promise.
            unsafe { by_path(libc::AT_FDCWD, path, buffer, otherwise) }
        }

        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $lstat(path: *const c_char, buffer: *mut libc::stat) -> c_int {
            let old = |path| next!($cv_lstat as fn(c_int, *const c_char, *mut libc::stat) -> c_int, -1; STAT_VERSION, path, buffer);
            let otherwise = |path| next!($c_lstat as fn(*const c_char, *mut libc::stat) -> c_int, old(path); path, buffer);
            // SAFETY: the caller's promise.
            unsafe { by_path(libc::AT_FDCWD, path, buffer, otherwise) }
        }

        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fstat(fd: c_int, buffer: *mut libc::stat) -> c_int {
            let old = || next!($cv_fstat as fn(c_int, c_int, *mut libc::stat) -> c_int, -1; STAT_VERSION, fd, buffer);
            let result = next!($c_fstat as fn(c_int, *mut libc::stat) -> c_int, old(); fd, buffer);
            // SAFETY: the caller's promise.
            unsafe { describe_descriptor(fd, buffer, result) }
        }

        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fstatat(folder: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int {
            let old = |path| next!($cv_fstatat as fn(c_int, c_int, *const c_char, *mut libc::stat, c_int) -> c_int, -1; STAT_VERSION, folder, path, buffer, flags);
            let otherwise = |path| next!($c_fstatat as fn(c_int, *const c_char, *mut libc::stat, c_int) -> c_int, old(path); folder, path, buffer, flags);
            // SAFETY: the caller's promise.
            unsafe { by_path(folder, path, buffer, otherwise) }
        }

        /// What `stat` was compiled to before glibc 2.33.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $v_stat(version: c_int, path: *const c_char, buffer: *mut libc::stat) -> c_int {
            let otherwise = |path| next!($cv_stat as fn(c_int, *const c_char, *mut libc::stat) -> c_int, -1; version, path, buffer);
            // SAFETY: the caller's promise.
            unsafe { by_path(libc::AT_FDCWD, path, buffer, otherwise) }
        }

        /// What `lstat` was compiled to before glibc 2.33.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $v_lstat(version: c_int, path: *const c_char, buffer: *mut libc::stat) -> c_int {
            let otherwise = |path| next!($cv_lstat as fn(c_int, *const c_char, *mut libc::stat) -> c_int, -1; version, path, buffer);
            // SAFETY: the caller's promise.
            unsafe { by_path(libc::AT_FDCWD, path, buffer, otherwise) }
        }

        /// What `fstat` was compiled to before glibc 2.33.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $v_fstat(version: c_int, fd: c_int, buffer: *mut libc::stat) -> c_int {
            let result = next!($cv_fstat as fn(c_int, c_int, *mut libc::stat) -> c_int, -1; version, fd, buffer);
            // SAFETY: the caller's promise.
            unsafe { describe_descriptor(fd, buffer, result) }
        }

        /// What `fstatat` was compiled to before glibc 2.33.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $v_fstatat(version: c_int, folder: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int {
            let otherwise = |path| next!($cv_fstatat as fn(c_int, c_int, *const c_char, *mut libc::stat, c_int) -> c_int, -1; version, folder, path, buffer, flags);
            // SAFETY: the caller's promise.
            unsafe { by_path(folder, path, buffer, otherwise) }
        }
    )*};
}

// On 64-bit machines the structures with and without 64 are the same.
stat_functions! {
    stat lstat fstat fstatat c"stat" c"lstat" c"fstat" c"fstatat"
    else __xstat __lxstat __fxstat __fxstatat c"__xstat" c"__lxstat" c"__fxstat" c"__fxstatat";
    stat64 lstat64 fstat64 fstatat64 c"stat64" c"lstat64" c"fstat64" c"fstatat64"
    else __xstat64 __lxstat64 __fxstat64 __fxstatat64 c"__xstat64" c"__lxstat64" c"__fxstat64" c"__fxstatat64";
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: libc::c_uint,
    buffer: *mut libc::statx,
) -> c_int {
    let otherwise = |path| next!(c"statx" as fn(c_int, *const c_char, c_int, libc::c_uint, *mut libc::statx) -> c_int, -1; folder, path, flags, mask, buffer);
    let node = match guard(Target::Other, || target_at(folder, path)) {
        Target::Kfd => Node::Kfd,
        Target::Render(index) => Node::Render(index),
        Target::Tree(inside) => return otherwise(inside.as_ptr()),
        Target::Other => {
            let result = otherwise(path);
            // SAFETY: callers give a C string or null.
            let by_descriptor = flags & libc::AT_EMPTY_PATH != 0 && (path.is_null() || unsafe { *path } == 0);
            if result == 0
                && by_descriptor
                && let Some(node) = guard(None, || state::node_of(folder))
            {
                // SAFETY: `statx` has filled the buffer.
                unsafe { describe_extended(buffer, node) };
            }
            return result;
        }
    };
    // SAFETY: the caller gives room for the structure, of which all zeroes is a value.
    unsafe { buffer.write_bytes(0, 1) };
    // SAFETY: it was just zeroed.
    unsafe { describe_extended(buffer, node) };
    0
}

/// As [`describe`], for the newer structure.
///
/// # Safety
/// The buffer must be one that `statx` has filled, or all zeroes.
unsafe fn describe_extended(buffer: *mut libc::statx, node: Node) {
    let mut plain = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: zeroed above.
    unsafe { describe(plain.as_mut_ptr(), node) };
    // SAFETY: plain integers, zeroed.
    let plain = unsafe { plain.assume_init() };
    // SAFETY: the caller's promise.
    let extended = unsafe { &mut *buffer };
    extended.stx_mask |= libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_SIZE | libc::STATX_BLOCKS;
    extended.stx_mode = plain.st_mode as u16;
    extended.stx_rdev_major = libc::major(plain.st_rdev);
    extended.stx_rdev_minor = libc::minor(plain.st_rdev);
    extended.stx_size = 0;
    extended.stx_blocks = 0;
}
