//! The reaper's side that others see: how its thread is started and woken, and which times it waits for.
//!
//! # Threads
//! Any.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use logdur_system::lock;

use super::Interceptor;
use crate::blocks::RecordRef;
use crate::signals::GRACE;
use crate::wake::Sleeper;

/// The thread's side that others see.
pub struct Reaper {
    run: fn(&'static Interceptor),
    started: Mutex<bool>,
    /// Asleep until the next dispatch.
    pub(crate) idle: Sleeper,
    /// Asleep for a nap, which dispatches do not interrupt.
    pub(crate) nap: Sleeper,
    pub(crate) look: AtomicBool,
    /// Dispatches in flight whose applications' signals wait for us.
    pub forwarding: AtomicU32,
    /// Dispatches that are complete but for their times, and since when.
    without_times: Mutex<Vec<(RecordRef, Instant)>>,
    /// The times of the last dispatch on a signal of ours did not come, however long they were waited for.
    times_never_come: AtomicBool,
}

impl Reaper {
    /// A reaper without its thread, which is going to run this.
    pub(crate) fn new(run: fn(&'static Interceptor)) -> Reaper {
        Reaper {
            run,
            started: Mutex::new(false),
            idle: Sleeper::new(),
            nap: Sleeper::new(),
            look: AtomicBool::new(false),
            forwarding: AtomicU32::new(0),
            without_times: Mutex::default(),
            times_never_come: AtomicBool::new(false),
        }
    }

    /// True when the times of a dispatch, which is complete, have been waited for as long as they are.
    pub(crate) fn has_waited_for(&self, record: RecordRef) -> bool {
        let now = Instant::now();
        let mut waiting = lock(&self.without_times);
        // Of others, some had their times meanwhile.
        waiting.retain(|(other, since)| *other == record || now.duration_since(*since) < 2 * GRACE);
        match waiting.iter().position(|(other, _)| *other == record) {
            None => {
                waiting.push((record, now));
                false
            }
            Some(at) if now.duration_since(waiting[at].1) >= GRACE => {
                waiting.swap_remove(at);
                true
            }
            Some(_) => false,
        }
    }

    /// True when the times of a dispatch on a signal of ours are not waited for any longer. Once they have not come at all, the
    /// next ones are not waited for either.
    pub(crate) fn has_waited_in_vain(&self, record: RecordRef) -> bool {
        if self.times_never_come.load(Ordering::Relaxed) {
            return true;
        }
        let waited = self.has_waited_for(record);
        if waited {
            self.times_never_come.store(true, Ordering::Relaxed);
        }
        waited
    }

    /// A dispatch on a signal of ours has its times.
    pub(crate) fn times_come(&self, has_times: bool) {
        if has_times && self.times_never_come.load(Ordering::Relaxed) {
            self.times_never_come.store(false, Ordering::Relaxed);
        }
    }

    /// Has the thread started, with its body, if it does not run yet; false if that is impossible. Only the reaper completes the
    /// signals that pool signals stand in for.
    pub(crate) fn start(&self, spawn: impl FnOnce(fn(&'static Interceptor)) -> bool) -> bool {
        let mut started = lock(&self.started);
        if !*started {
            *started = spawn(self.run);
        }
        *started
    }

    /// A publisher has published.
    #[inline]
    pub fn wake(&self) {
        self.idle.wake();
        if self.forwarding.load(Ordering::Relaxed) > 0 {
            self.nap.wake();
        }
    }

    /// Something other than a dispatch asks for a look.
    pub fn look_now(&self) {
        self.look.store(true, Ordering::Release);
        self.idle.wake();
        self.nap.wake();
    }
}
