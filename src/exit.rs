//! The end of the process: rows are written and the account is given, whether or not the runtime was shut down.
//!
//! A normal exit calls two functions. The first is registered when the library is loaded, so it runs before the runtime's destructors
//! and may still call the runtime. The second is in `.fini_array` and runs after the destructors of all libraries loaded earlier: it
//! only reads memory, and writes the last line.
//!
//! Neither allocates from the application's heap, which the application may have damaged by then. The library's own is in [`heap`](crate::heap).
//!
//! In instrumented mode another function comes before both, so that handlers end before the first object of theirs is destroyed
//! ([`Instrument`](crate::instrument::Instrument)).
//!
//! # Threads
//! The exiting thread. Our own threads still run, and the application's may.

use logdur_intercept::lifetime::Access;
use logdur_intercept::reaper;
use logdur_intercept::{guard_large, lifetime};
use logdur_journal::account::Event;

use crate::process::{self, of_watched};
use crate::{markers, session};

/// Registers the first call, and what happens in a fork's child.
pub(crate) fn register() {
    process::watch();
    // SAFETY: the function takes nothing, returns nothing, never unwinds, and the library is never unloaded.
    unsafe { libc::atexit(before_destructors) };
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(None, None, Some(child_of_fork)) };
}

unsafe extern "C" fn child_of_fork() {
    session::forked();
}

extern "C" fn before_destructors() {
    guard_large((), || {
        let Some(session) = of_watched(session::current()) else { return };
        let interceptor = &session.interceptor;
        lifetime::ending();
        if lifetime::is_runtime_up() {
            session.capture.iter().for_each(|capture| capture.ends_with_process());
            interceptor.drain(Access::Full);
            session.instrument.iter().for_each(|instrument| instrument.end(interceptor));
            interceptor.count_unseen();
        }
        session.log.write_all(interceptor, Access::Full);
        lifetime::exiting();
    });
}

#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = after_destructors;

extern "C" fn after_destructors() {
    guard_large((), || {
        let Some(session) = of_watched(session::current()) else { return };
        let interceptor = &session.interceptor;
        lifetime::ended();
        markers::end(interceptor);
        if lifetime::is_runtime_up() {
            // The runtime was not shut down: its memory is there, its functions may not be called.
            session.copies.iter().for_each(|copies| copies.give_up(interceptor));
            interceptor.drain(Access::Memory);
            for queue in interceptor.queues.all().iter() {
                reaper::give_up(interceptor, queue);
            }
        }
        session.capture.iter().for_each(|capture| capture.finish(interceptor));
        interceptor.unseen.tell(interceptor);
        if let Some(conditions) = session.conditions {
            let outside = interceptor.records.header().events()[Event::DispatchOutside as usize];
            let unmet = conditions.unmet(interceptor.numbered(), outside, markers::are_there());
            unmet.into_iter().for_each(|line| session.log.off(line));
        }
        if let Some(control) = session.control {
            control.end(interceptor);
        }
        session.log.write_all(interceptor, Access::Memory);
        let complete = session.log.write_account(interceptor);
        session.log.tell_end();
        session.log.tell_losses(interceptor);
        // What the log lacks can be written from the records later.
        if complete {
            interceptor.records.remove();
        }
    });
}
