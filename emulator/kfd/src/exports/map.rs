//! Mapping memory of another process: it is in a file of that process, which no file of a device can show.
//!
//! Only offsets that `ioctl::share` has given for such memory are looked at. All else goes to the next definition, as that of a
//! sanitizer, which must know what is mapped; before the library is initialised, to the kernel: allocators map memory when nothing can
//! be looked up.

use std::ffi::{c_int, c_long, c_void};

use super::next::Next;
use super::{guard, set_errno};
use crate::ioctl::share;
use crate::state;

type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, libc::off_t) -> *mut c_void;

macro_rules! map_functions {
    ($($name:ident $next:ident $c_name:literal;)*) => {
        /// Looks the next definitions up.
        pub(super) fn prepare() {
            $($next.address();)*
        }

        $(
        static $next: Next = Next::new($c_name);

        /// As in C.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            address: *mut c_void,
            length: usize,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: libc::off_t,
        ) -> *mut c_void {
            let map = |fd: c_int, offset: libc::off_t| {
                let next = $next.known();
                if !next.is_null() {
                    // SAFETY: the C library's function of this name has this type.
                    let next: Map = unsafe { std::mem::transmute(next) };
                    // SAFETY: the caller's request, with its promises.
                    return unsafe { next(address, length, protection, flags, fd, offset) };
                }
                // SAFETY: the caller's request, with its promises.
                let result: c_long = unsafe { libc::syscall(libc::SYS_mmap, address, length, protection, flags, fd, offset) };
                std::ptr::with_exposed_provenance_mut(result as usize)
            };
            if !share::is_of_another(offset) || guard(None, || state::node_of(fd)).is_none() {
                return map(fd, offset);
            }
            match guard(Err(libc::EIO), || share::of_another(offset, length)) {
                Ok((file, from)) => map(std::os::fd::AsRawFd::as_raw_fd(&file), from),
                Err(error) => {
                    set_errno(error);
                    libc::MAP_FAILED
                }
            }
        }
        )*
    };
}

map_functions! {
    mmap MMAP c"mmap";
    mmap64 MMAP64 c"mmap64";
}
