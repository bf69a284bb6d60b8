//! Asynchronous copies of the application's that may be under way.
//!
//! # Threads
//! Any that start copies or destroy signals; the capture thread waits for what is there.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa_sys::abi::signal::Signal;

use crate::session::lock;

/// How long to sleep between two looks.
const LOOK: Duration = Duration::from_micros(100);

/// DMA engines of a GPU: the runtime has one for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engines {
    /// That for copies to the GPU.
    pub(crate) to_gpu: bool,
    /// That for copies from the GPU; of small ones inside of it, too.
    pub(crate) to_host: bool,
}

/// Engines that do nothing for now.
pub(super) type Blocked = Engines;

/// A copy, by its signals.
struct Copy {
    /// Has a value above 0 until the copy is complete.
    completion: u64,
    /// It begins when all of these are 0.
    dependencies: Vec<u64>,
    /// The engines that may have been asked for it.
    engines: Engines,
}

/// The copies that were not complete when they were last looked at.
#[derive(Default)]
pub(crate) struct Copies(Mutex<Vec<Copy>>);

/// The value of a signal that the application has given to a copy or a barrier that is not complete.
pub(super) fn value(signal: u64) -> i64 {
    // SAFETY: the application may not destroy it before that.
    unsafe { Signal::from_handle(signal) }.value.load(Ordering::Acquire)
}

impl Copy {
    fn is_complete(&self) -> bool {
        value(self.completion) <= 0
    }

    /// True when something has to end before it begins. Nothing that could does so while queues are at rest.
    fn waits(&self) -> bool {
        self.dependencies.iter().any(|&signal| value(signal) != 0)
    }
}

impl Copies {
    /// A copy is about to be started.
    pub(crate) fn starts(&self, completion: u64, dependencies: Vec<u64>, engines: Engines) {
        let mut all = lock(&self.0);
        // Of those that are complete nobody wants to know.
        if all.len().is_power_of_two() {
            all.retain(|copy| !copy.is_complete());
        }
        all.push(Copy { completion, dependencies, engines });
    }

    /// A signal is about to be destroyed.
    pub(crate) fn destroyed(&self, signal: u64) {
        let mut all = lock(&self.0);
        all.retain(|copy| copy.completion != signal);
        all.iter_mut().for_each(|copy| copy.dependencies.retain(|&s| s != signal));
    }

    /// The engines that work in order and have come to a copy that waits, or will: what is asked of them now waits too.
    pub(super) fn blocked(&self) -> Blocked {
        let mut blocked = Blocked::default();
        for copy in lock(&self.0).iter().filter(|copy| !copy.is_complete() && copy.waits()) {
            blocked.to_gpu |= copy.engines.to_gpu;
            blocked.to_host |= copy.engines.to_host;
        }
        blocked
    }

    /// Waits until all have ended that have begun; false when the time is over.
    pub(super) fn drain(&self, deadline: Instant) -> bool {
        loop {
            let mut all = lock(&self.0);
            all.retain(|copy| !copy.is_complete());
            if all.iter().all(Copy::waits) {
                return true;
            }
            drop(all);
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }
}
