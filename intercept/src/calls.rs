//! The runtime's functions, for hooks to go on to. Apart from the interceptor: they are there even in a fork's child.

use std::sync::atomic::{AtomicPtr, Ordering};

use hsa::Api;

static API: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());

/// Remembers the functions; before the first hook is installed.
pub fn set(api: &'static Api) {
    API.store(std::ptr::from_ref(api).cast_mut(), Ordering::Release);
}

/// The functions as they were before any hook of ours.
#[inline]
pub fn get() -> Option<&'static Api> {
    // SAFETY: the pointer is null or that of an `Api` that lives as long as the process.
    unsafe { API.load(Ordering::Acquire).as_ref() }
}
