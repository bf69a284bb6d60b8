//! The end of the process: rows are written and the account is given, whether or not the runtime was shut down.
//!
//! A normal exit calls two functions. The first is registered when the library is loaded, so it runs before the runtime's destructors
//! and may still call the runtime. The second is in `.fini_array` and runs after the destructors of all libraries loaded earlier: it
//! only reads memory, and writes the last line.
//!
//! # Threads
//! The exiting thread. Our own threads still run, and the application's may.

use std::sync::atomic::{AtomicU32, Ordering};

use logdur_intercept::lifetime::Access;
use logdur_intercept::reaper;
use logdur_intercept::{guard, lifetime};

use crate::markers;
use crate::session::{self, Session};

/// The process that the session is of.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Registers the first call, and what happens in a fork's child.
pub(crate) fn register() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    // SAFETY: the function takes nothing, returns nothing, never unwinds, and the library is never unloaded.
    unsafe { libc::atexit(before_destructors) };
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(None, None, Some(child_of_fork)) };
}

unsafe extern "C" fn child_of_fork() {
    session::forked();
}

extern "C" fn before_destructors() {
    guard((), || {
        let Some(session) = of_this_process() else { return };
        if lifetime::is_runtime_up() {
            session.interceptor.drain(Access::Full);
            session.leave_instrument();
            session.interceptor.unseen.count(&session.interceptor);
        }
        session.log.write_all(session, Access::Full);
        lifetime::exiting();
    });
}

/// The session, unless this is a child that was made without the C library's knowledge: the records are not there.
fn of_this_process() -> Option<&'static Session> {
    session::current().filter(|_| PROCESS.load(Ordering::Relaxed) == std::process::id())
}

#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = after_destructors;

extern "C" fn after_destructors() {
    guard((), || {
        let Some(session) = of_this_process() else { return };
        lifetime::ended();
        markers::end(&session.interceptor);
        if lifetime::is_runtime_up() {
            // The runtime was not shut down: its memory is there, its functions may not be called.
            session.copies.iter().for_each(|copies| copies.give_up(session.recorder()));
            session.interceptor.drain(Access::Memory);
            for queue in session.interceptor.queues.all().iter() {
                reaper::give_up(&session.interceptor, queue);
            }
        }
        session.capture.iter().for_each(|capture| capture.finish(session));
        session.interceptor.unseen.tell(&session.interceptor);
        session.log.write_all(session, Access::Memory);
        let complete = session.log.write_account(session);
        session.log.tell_end(session);
        session.log.tell_losses(session);
        // What the log lacks can be written from the records later.
        if complete {
            session.interceptor.records.remove();
        }
    });
}
