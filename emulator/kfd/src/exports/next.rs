//! The next definition of a function that is replaced here.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function by name, looked up at its first use. Its address, null before that, comes first: assembly reads it.
#[repr(C)]
pub(super) struct Next {
    found: AtomicPtr<libc::c_void>,
    name: &'static CStr,
}

impl Next {
    pub(super) const fn new(name: &'static CStr) -> Next {
        Next { found: AtomicPtr::new(std::ptr::null_mut()), name }
    }

    /// Its address, or null if it was not looked up yet.
    pub(super) fn known(&self) -> *mut libc::c_void {
        self.found.load(Ordering::Relaxed)
    }

    /// Its address, or null if there is no such function.
    pub(super) fn address(&self) -> *mut libc::c_void {
        let known = self.known();
        if !known.is_null() {
            return known;
        }
        // SAFETY: a C string; RTLD_NEXT is valid in a shared library.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the next definition of a C function of the given type; without one, fails with ENOSYS.
macro_rules! next {
    ($name:literal as fn($($type:ty),*) -> $result:ty, $failure:expr; $($argument:expr),*) => {{
        static NEXT: $crate::exports::next::Next = $crate::exports::next::Next::new($name);
        let address = NEXT.address();
        if address.is_null() {
            $crate::exports::set_errno(libc::ENOSYS);
            $failure
        } else {
            // SAFETY: the C library's function of this name has this type.
            let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(address) };
            // SAFETY: the arguments are passed on as they came.
            unsafe { function($($argument),*) }
        }
    }};
}
pub(super) use next;
