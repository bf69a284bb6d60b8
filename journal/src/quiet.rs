//! Blocks SIGPIPE and SIGXFSZ during writes of the library: they would kill the process.

use std::mem::MaybeUninit;

/// What a write can raise: a reader that has gone, a file that grows past the process's limit.
const RAISED: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// While this lives, the calling thread's writes raise no signal: it is blocked, and one that came is taken.
#[derive(Debug)]
pub struct Quiet {
    set: libc::sigset_t,
    old: libc::sigset_t,
    was_pending: bool,
}

impl Quiet {
    /// Begins.
    #[allow(clippy::new_without_default, reason = "what it begins is an effect")]
    pub fn new() -> Quiet {
        // SAFETY: signal sets are plain integers, for which zero is a value.
        let (mut set, mut old, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
            unsafe { MaybeUninit::zeroed().assume_init() };
        for signal in RAISED {
            // SAFETY: the set is ours.
            unsafe { libc::sigaddset(&mut set, signal) };
        }
        // SAFETY: the set is ours.
        unsafe { libc::sigpending(&mut pending) };
        // SAFETY: both sets are ours.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut old) };
        // SAFETY: the set is ours.
        let was_pending = RAISED.into_iter().any(|signal| unsafe { libc::sigismember(&pending, signal) } == 1);
        Quiet { set, old, was_pending }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if !self.was_pending {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the set and the time are ours; no information about the signal is asked for.
            while unsafe { libc::sigtimedwait(&self.set, std::ptr::null_mut(), &now) } > 0 {}
        }
        // SAFETY: the mask is the one that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.old, std::ptr::null_mut()) };
    }
}
