//! The end of handlers: before the first object of theirs is destroyed, and not while one of them is being called.
//!
//! # Threads
//! The drain thread registers it. The thread that ends the process calls it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use logdur_intercept::lifetime::Access;
use logdur_intercept::{Interceptor as Core, guard_large, interceptor, lifetime};

use super::Instrument;
use crate::process::of_watched;

unsafe extern "C" {
    fn __cxa_atexit(function: extern "C" fn(*mut c_void), with: *mut c_void, of: *mut c_void) -> c_int;
    fn __cxa_finalize(of: *mut c_void);
}

/// Objects of which the registrations below are: one holds while the other is removed.
static TURNS: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

impl Instrument {
    /// Registers the end of handlers behind all that is registered so far, static objects of handlers too: the process ends in the
    /// opposite order. On the drain thread, after each call of a handler, which may have made such an object. Source: Itanium C++ ABI,
    /// "DSO Object Destruction API".
    pub(super) fn ends_first(&'static self) {
        let is_second = TURNS[0].load(Ordering::Relaxed);
        let [new, old] = if is_second { [&TURNS[1], &TURNS[0]] } else { [&TURNS[0], &TURNS[1]] };
        let of = |turn: &'static AtomicBool| ptr::from_ref(turn).cast_mut().cast::<c_void>();
        let with = ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the function never unwinds, and the library is never unloaded. It gets what it expects, which is never freed. The
        // object's address is only compared.
        if unsafe { __cxa_atexit(end_handlers, with, of(new)) } != 0 {
            return;
        }
        new.store(true, Ordering::Relaxed);
        if old.swap(false, Ordering::Relaxed) {
            // SAFETY: as above. It calls and forgets the function, which does nothing on this thread.
            unsafe { __cxa_finalize(of(old)) };
        }
    }

    /// The runtime or the process is about to end: handlers get the messages of dispatches that have ended, and are closed.
    pub(crate) fn leave(&self, interceptor: &'static Core) {
        interceptor.drain(Access::Full);
        if let Err(text) = self.close_handlers() {
            interceptor.tell(&text);
            interceptor.notice(text);
        }
    }

    /// The process is about to end: as before, and handlers stay closed.
    pub(crate) fn end(&self, interceptor: &'static Core) {
        self.never_again();
        if lifetime::is_runtime_up() {
            self.leave(interceptor);
        }
    }

    /// The calling thread starts instrumented kernels: if it ends the process while a handler is being called, the call ends first.
    pub(super) fn is_awaited(&'static self) {
        let _ = CALLED.try_with(|called| called.0.set(Some(self)));
    }
}

thread_local! {
    /// Its destructor runs when a thread ends the process, before all that is registered above; and when the thread itself ends.
    static CALLED: AwaitsHandler = const { AwaitsHandler(Cell::new(None)) };
}

struct AwaitsHandler(Cell<Option<&'static Instrument>>);

impl Drop for AwaitsHandler {
    /// An object that a handler makes in a call is registered behind our function, until the call returns.
    fn drop(&mut self) {
        if let Some(instrument) = self.0.get().filter(|_| of_watched(interceptor::current()).is_some()) {
            instrument.await_call();
        }
    }
}

/// Ends the handlers of an `Instrument`.
extern "C" fn end_handlers(instrument: *mut c_void) {
    let Some(interceptor) = of_watched(interceptor::current()) else { return };
    // SAFETY: it is what `ends_first` has registered, which is never freed.
    let instrument = unsafe { &*instrument.cast::<Instrument>() };
    if !instrument.is_drained_here() {
        guard_large((), || instrument.end(interceptor));
    }
}
