//! The end of the process: rows are written and the account is given, whether or not the runtime was shut down.
//!
//! Two calls come at a normal exit. The first is registered when the library is loaded, hence before the runtime's own
//! destructors run: it may still call the runtime. The second is in `.fini_array`, after the destructors of everything
//! that was loaded before us: it only reads memory, and writes the last line.
//!
//! # Threads
//! The exiting thread. Our own threads still run, and the application's may.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::entry::guard;
use crate::reaper::{self, Access};
use crate::session::{self, Session};

/// The runtime is between `OnLoad` and `OnUnload`.
static UP: AtomicBool = AtomicBool::new(false);
/// The first call has come.
static EXITING: AtomicBool = AtomicBool::new(false);
/// The second call has come.
static ENDED: AtomicBool = AtomicBool::new(false);
/// The process that the session is of.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The runtime has been started, or is about to go.
pub(crate) fn runtime_is_up(up: bool) {
    UP.store(up, Ordering::Release);
}

/// True between the runtime's start and its end.
pub(crate) fn is_runtime_up() -> bool {
    UP.load(Ordering::Acquire)
}

/// What of the runtime the library's threads may call now.
pub(crate) fn access() -> Access {
    if ENDED.load(Ordering::Acquire) {
        Access::Memory
    } else if EXITING.load(Ordering::Acquire) {
        Access::Signals
    } else {
        Access::Full
    }
}

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
        if UP.load(Ordering::Acquire) {
            session.drain(Access::Full);
        }
        session.log.write_all(session, Access::Full);
        EXITING.store(true, Ordering::Release);
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
        ENDED.store(true, Ordering::Release);
        if UP.load(Ordering::Acquire) {
            // Nobody shut the runtime down: its memory is there, its functions may not be called.
            session.drain(Access::Memory);
            for queue in session.queues.all() {
                reaper::give_up(session, queue);
            }
        }
        session.capture.iter().for_each(|capture| capture.finish(session));
        session.log.write_all(session, Access::Memory);
        let complete = session.log.write_account(session);
        session.log.tell_end(session);
        // What the log lacks can be written from the records later.
        if complete {
            session.records.remove();
        }
    });
}

/// All signals blocked for the calling thread — and for those that it starts — until this is dropped.
pub(crate) struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    pub(crate) fn all() -> BlockedSignals {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is written whole.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: `all` was just filled, and the old mask is written whole.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr()) };
        // SAFETY: the call above cannot fail with these arguments.
        BlockedSignals(unsafe { old.assume_init() })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the mask is one that the kernel gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
