//! Opening, testing and resolving files; `ioctl`.
//!
//! `open`, `openat` and `ioctl` are variadic in C. On the supported ABIs a definition with the greatest number of
//! arguments is compatible: unused ones are not looked at.

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};

use super::next::next;
use super::{guard, set_errno};
use crate::ioctl;
use crate::paths::{Target, target, target_at};
use crate::readings;
use crate::state::{self, State};

/// Opens a device.
fn open_device(flags: c_int, render: Option<usize>) -> c_int {
    let opened = guard(Err(libc::EIO), || {
        let state = State::open().map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
        let file = match render {
            None => &state.kfd,
            Some(index) => &state.devices.get(index).ok_or(libc::ENODEV)?.memory,
        };
        file.open(flags).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
    });
    opened.unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

/// Opens a path that may be ours; `otherwise` opens the path that it is given.
fn open_path(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    otherwise: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    match guard(Target::Other, || target_at(folder, path)) {
        Target::Kfd => open_device(flags, None),
        Target::Render(index) => open_device(flags, Some(index)),
        Target::Tree(inside) => match guard(None, || readings::open(path, flags)) {
            Some(fd) => fd,
            None => otherwise(inside.as_ptr()),
        },
        Target::Other => otherwise(path),
    }
}

/// A path to hand on: that inside of the tree if it is one of ours.
fn redirected(path: *const c_char) -> Option<CString> {
    match guard(Target::Other, || target(path)) {
        Target::Tree(inside) => Some(inside),
        _ => None,
    }
}

macro_rules! open_functions {
    ($($name:ident $c_name:literal;)*) => {$(
        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
            open_path(libc::AT_FDCWD, path, flags, |path| next!($c_name as fn(*const c_char, c_int, libc::mode_t) -> c_int, -1; path, flags, mode))
        }
    )*};
}

open_functions! {
    open c"open";
    open64 c"open64";
}

macro_rules! checked_open_functions {
    ($($name:ident $c_name:literal;)*) => {$(
        /// As in C, when fortified.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int) -> c_int {
            open_path(libc::AT_FDCWD, path, flags, |path| next!($c_name as fn(*const c_char, c_int) -> c_int, -1; path, flags))
        }
    )*};
}

checked_open_functions! {
    __open_2 c"__open_2";
    __open64_2 c"__open64_2";
}

macro_rules! openat_functions {
    ($($name:ident $c_name:literal;)*) => {$(
        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
            open_path(folder, path, flags, |path| next!($c_name as fn(c_int, *const c_char, c_int, libc::mode_t) -> c_int, -1; folder, path, flags, mode))
        }
    )*};
}

openat_functions! {
    openat c"openat";
    openat64 c"openat64";
}

macro_rules! checked_openat_functions {
    ($($name:ident $c_name:literal;)*) => {$(
        /// As in C, when fortified.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
            open_path(folder, path, flags, |path| next!($c_name as fn(c_int, *const c_char, c_int) -> c_int, -1; folder, path, flags))
        }
    )*};
}

checked_openat_functions! {
    __openat_2 c"__openat_2";
    __openat64_2 c"__openat64_2";
}

macro_rules! fopen_functions {
    ($($name:ident $c_name:literal;)*) => {$(
        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
            let inside = redirected(path);
            // Kept open until the file is opened by its path.
            let reading = inside.as_ref().and_then(|_| guard(None, || readings::file(path)));
            let inside = reading.as_ref().and_then(readings::path).or(inside);
            let path = inside.as_ref().map_or(path, |p| p.as_ptr());
            next!($c_name as fn(*const c_char, *const c_char) -> *mut libc::FILE, std::ptr::null_mut(); path, mode)
        }
    )*};
}

fopen_functions! {
    fopen c"fopen";
    fopen64 c"fopen64";
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut libc::DIR {
    let inside = redirected(path);
    let path = inside.as_ref().map_or(path, |p| p.as_ptr());
    next!(c"opendir" as fn(*const c_char) -> *mut libc::DIR, std::ptr::null_mut(); path)
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    match guard(Target::Other, || target(path)) {
        Target::Kfd | Target::Render(_) => 0,
        Target::Tree(inside) => next!(c"access" as fn(*const c_char, c_int) -> c_int, -1; inside.as_ptr(), mode),
        Target::Other => next!(c"access" as fn(*const c_char, c_int) -> c_int, -1; path, mode),
    }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    match guard(Target::Other, || target_at(folder, path)) {
        Target::Kfd | Target::Render(_) => 0,
        Target::Tree(inside) => {
            next!(c"faccessat" as fn(c_int, *const c_char, c_int, c_int) -> c_int, -1; folder, inside.as_ptr(), mode, flags)
        }
        Target::Other => {
            next!(c"faccessat" as fn(c_int, *const c_char, c_int, c_int) -> c_int, -1; folder, path, mode, flags)
        }
    }
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, buffer: *mut c_char, size: usize) -> isize {
    let inside = redirected(path);
    let path = inside.as_ref().map_or(path, |p| p.as_ptr());
    next!(c"readlink" as fn(*const c_char, *mut c_char, usize) -> isize, -1; path, buffer, size)
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(folder: c_int, path: *const c_char, buffer: *mut c_char, size: usize) -> isize {
    let inside = match guard(Target::Other, || target_at(folder, path)) {
        Target::Tree(inside) => Some(inside),
        _ => None,
    };
    let path = inside.as_ref().map_or(path, |p| p.as_ptr());
    next!(c"readlinkat" as fn(c_int, *const c_char, *mut c_char, usize) -> isize, -1; folder, path, buffer, size)
}

/// As in C. The devices resolve to themselves, other paths of ours to files of the tree.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    let found = guard(Target::Other, || target(path));
    if matches!(found, Target::Kfd | Target::Render(_)) {
        if resolved.is_null() {
            // SAFETY: a C string.
            return unsafe { libc::strdup(path) };
        }
        // SAFETY: our own paths have less than PATH_MAX bytes, which is the room that callers must give.
        return unsafe { libc::strcpy(resolved, path) };
    }
    let inside = if let Target::Tree(inside) = found { Some(inside) } else { None };
    let path = inside.as_ref().map_or(path, |p| p.as_ptr());
    next!(c"realpath" as fn(*const c_char, *mut c_char) -> *mut c_char, std::ptr::null_mut(); path, resolved)
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if ioctl::may_be_ours(request)
        && let Some(node) = guard(None, || state::node_of(fd))
    {
        return match guard(Err(libc::EIO), || ioctl::answer(node, request, argument.cast())) {
            Ok(()) => 0,
            Err(error) => {
                set_errno(error);
                -1
            }
        };
    }
    next!(c"ioctl" as fn(c_int, c_ulong, *mut c_void) -> c_int, -1; fd, request, argument)
}
