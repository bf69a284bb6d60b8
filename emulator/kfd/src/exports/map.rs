//! Mapping memory of another process: it is in a file of that process, which no file of a device can show.
//!
//! Only offsets that `ioctl::share` has given for such memory are looked at. All else is the kernel's at once,
//! without a look-up of the next definition: allocators map memory when nothing can be looked up.

use std::ffi::{c_int, c_long, c_void};

use super::{guard, set_errno};
use crate::device;
use crate::ioctl::share;

macro_rules! map_functions {
    ($($name:ident)*) => {$(
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
                // SAFETY: the caller's request, with its promises.
                let result: c_long = unsafe { libc::syscall(libc::SYS_mmap, address, length, protection, flags, fd, offset) };
                std::ptr::with_exposed_provenance_mut(result as usize)
            };
            if !share::is_of_another(offset) || guard(None, || device::node_of(fd)).is_none() {
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
    )*};
}

map_functions! { mmap mmap64 }
