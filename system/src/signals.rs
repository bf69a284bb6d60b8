//! Sets of signals, and threads that block them.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A set of signals.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries((1..=libc::SIGRTMAX()).filter(|signal| self.contains(*signal))).finish()
    }
}

impl FromIterator<i32> for SignalSet {
    fn from_iter<I: IntoIterator<Item = i32>>(signals: I) -> SignalSet {
        // SAFETY: signal sets are plain integers, for which zero is a value: no signal.
        let mut set: libc::sigset_t = unsafe { MaybeUninit::zeroed().assume_init() };
        for signal in signals {
            // SAFETY: the set is ours.
            unsafe { libc::sigaddset(&mut set, signal) };
        }
        SignalSet(set)
    }
}

impl SignalSet {
    /// No signal.
    fn none() -> SignalSet {
        SignalSet::from_iter([])
    }

    /// All signals.
    fn all() -> SignalSet {
        let mut all = SignalSet::none();
        // SAFETY: the set is ours.
        unsafe { libc::sigfillset(&mut all.0) };
        all
    }

    /// The signals that have come to this thread or process and are blocked.
    pub fn pending() -> SignalSet {
        let mut pending = SignalSet::none();
        // SAFETY: the set is ours.
        unsafe { libc::sigpending(&mut pending.0) };
        pending
    }

    /// True for a signal that is in the set.
    pub fn contains(&self, signal: i32) -> bool {
        // SAFETY: the set is ours.
        unsafe { libc::sigismember(&self.0, signal) == 1 }
    }

    /// Waits so long for a blocked signal of the set, and takes it; `None` if none has come.
    pub fn wait_for(&self, time: std::time::Duration) -> Option<i32> {
        let seconds = time.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        let time = libc::timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: the set and the time are read during the call; nothing is written.
        let signal = unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &time) };
        (signal > 0).then_some(signal)
    }

    /// Takes the signals of the set that have come and are blocked.
    pub fn take_pending(&self) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set and the time are ours; no information about the signals is asked for.
        while unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &now) } > 0 {}
    }

    /// Waits for a signal of the set, which is blocked, and takes it: its number, and true if the kernel sent it, as it does for a
    /// terminal. A number below zero says that another signal came.
    pub fn wait(&self) -> (i32, bool) {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set is ours; the kernel writes the information.
        let signal = unsafe { libc::sigwaitinfo(&self.0, info.as_mut_ptr()) };
        // SAFETY: all zeroes is a value of the struct, should the call have failed.
        let info = unsafe { info.assume_init() };
        (signal, info.si_code == libc::SI_KERNEL)
    }
}

/// While this lives, some signals are blocked for the calling thread, and for those that it starts.
#[derive(Debug)]
pub struct Blocked {
    before: SignalSet,
}

impl Blocked {
    /// Blocks all signals.
    pub fn all() -> Blocked {
        Blocked::these(&SignalSet::all())
    }

    /// Blocks the signals of a set.
    pub fn these(set: &SignalSet) -> Blocked {
        let mut before = SignalSet::none();
        // SAFETY: both sets are ours.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set.0, &mut before.0) };
        Blocked { before }
    }

    /// A program starts with the signals that were blocked before.
    pub fn unblock_in(&self, command: &mut Command) {
        let before = self.before;
        let restore = move || {
            set_mask(&before);
            Ok(())
        };
        // SAFETY: the closure allocates nothing and only makes a call that is safe after a fork.
        unsafe { command.pre_exec(restore) };
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set_mask(&self.before);
    }
}

/// Sets the mask of the calling thread.
fn set_mask(mask: &SignalSet) {
    // SAFETY: the set is ours, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask.0, std::ptr::null_mut()) };
}

/// What a write can raise: a reader that has gone, a file that grows past the process's limit. By default, they kill the process.
const RAISED: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// While this lives, the calling thread's writes raise no signal: it is blocked, and one that came is taken.
#[derive(Debug)]
pub struct Quiet {
    /// Those of the signals that are not the application's: none was pending before.
    ours: SignalSet,
    _blocked: Blocked,
}

impl Quiet {
    /// Begins.
    #[allow(clippy::new_without_default, reason = "what it begins is an effect")]
    pub fn new() -> Quiet {
        let blocked = Blocked::these(&RAISED.into_iter().collect());
        let pending = SignalSet::pending();
        Quiet { ours: RAISED.into_iter().filter(|signal| !pending.contains(*signal)).collect(), _blocked: blocked }
    }
}

impl Drop for Quiet {
    /// The mask is restored behind it, when `_blocked` is dropped.
    fn drop(&mut self) {
        self.ours.take_pending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a signal to this thread.
    fn raise(signal: i32) {
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    #[test]
    fn of_two_signals_the_one_that_the_application_holds_stays_and_the_other_is_taken() {
        extern "C" fn nothing(_: i32) {}
        let handler: extern "C" fn(i32) = nothing;
        // Tests ignore SIGPIPE, and what is ignored is never pending. Other tests write to pipes: the default action would end them.
        // SAFETY: the handler takes the signal's number and does nothing.
        unsafe { libc::signal(libc::SIGPIPE, handler as libc::sighandler_t) };
        for [held, other] in [RAISED, [libc::SIGXFSZ, libc::SIGPIPE]] {
            let thread = std::thread::spawn(move || {
                let _held = Blocked::these(&SignalSet::from_iter([held]));
                raise(held);
                let quiet = Quiet::new();
                RAISED.into_iter().for_each(raise);
                drop(quiet);
                let pending = SignalSet::pending();
                assert!(pending.contains(held) && !pending.contains(other));
                SignalSet::from_iter([held]).take_pending();
            });
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_thread_has_its_mask_again_when_signals_are_no_longer_blocked() {
        let mask = || {
            let mut mask = SignalSet::none();
            // SAFETY: no mask is set, and the set is ours.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask.0) };
            mask
        };
        let before = format!("{:?}", mask());
        let blocked = Blocked::all();
        assert!(mask().contains(libc::SIGTERM) && mask().contains(libc::SIGUSR1));
        drop(blocked);
        assert_eq!(format!("{:?}", mask()), before);
    }
}
