//! How long a dispatch may be held, and how much memory may be read meanwhile.
//!
//! # Threads
//! The capture thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use logdur_intercept::queue::Queue;
use logdur_intercept::{Interceptor, lifetime};
use logdur_journal::pages;
use logdur_settings as settings;

use super::copies::Copies;

/// How long a capture waits for what takes no longer if nothing is wrong: a lock, a copy of its own.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Memory that must be left before more is read, in bytes: a capture takes some for what is hashed, compressed and written, and an
/// allocation that fails would end the process.
const ROOM: usize = 24 << 20;
/// That it is not.
pub(super) const NO_ROOM: &str =
    "the system has not 24 MiB of memory left for the capture itself (see `ulimit -d` and `ulimit -v`)";
/// How long a process that ends waits for what makes no progress: without a capture it would end at once.
const AT_EXIT: Duration = Duration::from_secs(1);
/// After so long without progress what is held may be what the rest waits for.
const BEHIND: Duration = Duration::from_millis(10);
/// Between two looks for progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After so many failures in a row nothing more is captured: each one has held the application's queues.
pub(super) const FAILURES: u32 = 8;
/// Bytes read in a second that are assumed before the first measured reading.
const UNMEASURED: u64 = 1 << 30;
/// Readings of less memory say little about the speed.
const MEASURABLE: u64 = 16 << 20;

/// Waiting that goes on while something progresses, or while nothing that is held can be waited for, up to the longest time for
/// which a dispatch is held.
pub(super) struct Patience {
    end: Instant,
    stall: Duration,
    looked: Instant,
    moved: Instant,
    /// As `moved`, but that nothing can wait for what is held is no progress.
    progressed: Instant,
    seen: Vec<(u64, usize)>,
}

impl Patience {
    /// From now on, at most until a moment, and without progress no longer than `stall` if something may wait for what is held.
    pub(super) fn until(end: Instant, stall: Duration) -> Patience {
        let now = Instant::now();
        Patience { end, stall, looked: now, moved: now, progressed: now, seen: Vec::new() }
    }

    /// True when nothing has progressed for too long, or the end has come. A read index that moves, a record that completes and a
    /// copy that completes are progress.
    pub(super) fn is_over(&mut self, interceptor: &Interceptor, copies: &Copies) -> bool {
        let now = Instant::now();
        if now >= self.end {
            return true;
        }
        if now - self.looked >= LOOK_EVERY {
            self.looked = now;
            if self.look(&interceptor.queues.all(), copies) {
                (self.moved, self.progressed) = (now, now);
            }
        }
        if lifetime::is_ending() && self.has_stood_still() {
            return true;
        }
        if now - self.moved < self.stall {
            return false;
        }
        match may_wait(&interceptor.queues.all(), copies) {
            Some(true) => true,
            Some(false) => {
                // A long kernel: it ends although work is held.
                self.moved = now;
                false
            }
            // A queue whose lock is taken is looked at the next time.
            None => false,
        }
    }

    /// True when nothing has progressed for so long that a process that ends does not wait any more.
    pub(super) fn has_stood_still(&self) -> bool {
        self.progressed.elapsed() >= AT_EXIT
    }

    /// True when nothing has progressed for a moment, and something may wait for what is held.
    pub(super) fn is_behind(&self, interceptor: &Interceptor, copies: &Copies) -> bool {
        self.moved.elapsed() >= BEHIND && may_wait(&interceptor.queues.all(), copies) == Some(true)
    }

    /// True when something has progressed since the last look.
    fn look(&mut self, queues: &[&Queue], copies: &Copies) -> bool {
        let mut progressed = false;
        self.seen.resize(queues.len() + 1, (0, 0));
        let now = queues.iter().map(|queue| queue.progress());
        let now = now.chain([Some((0, copies.under_way()))]);
        for (seen, now) in self.seen.iter_mut().zip(now) {
            // A queue whose lock is taken is looked at the next time.
            if let Some(now) = now.filter(|now| now != seen) {
                progressed = true;
                *seen = now;
            }
        }
        progressed
    }
}

/// True when something that is under way may wait for what is held: for packets of another queue or of no order, or for a
/// thread of the application that waits to copy. `None` if that cannot be known now.
fn may_wait(queues: &[&Queue], copies: &Copies) -> Option<bool> {
    if copies.has_waiting_threads() {
        return Some(true);
    }
    let mut known = Some(false);
    for pair in queues.iter().flat_map(|waits| queues.iter().map(|held| waits.may_wait_for(held))) {
        match pair {
            Some(true) => return Some(true),
            Some(false) => {}
            None => known = None,
        }
    }
    known
}

/// True if there is memory left for the capture itself.
pub(super) fn has_room() -> bool {
    pages::are_there(ROOM)
}

/// Why memory is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMuch {
    /// For the file.
    #[error("{bytes} bytes of memory, and {name} leaves {left} bytes", name = settings::Interceptor::capture_max_bytes)]
    Bytes {
        /// How much memory there is.
        bytes: u64,
        /// How much the file may grow.
        left: u64,
    },
    /// For the process.
    #[error("{NO_ROOM}")]
    Room,
    /// To be read in time.
    #[error("{bytes} bytes of memory, at {rate} bytes in a second longer than {name}={seconds}", name = settings::Interceptor::capture_max_hold)]
    Time {
        /// How much memory there is.
        bytes: u64,
        /// How much of it is read in a second.
        rate: u64,
        /// For how many seconds a dispatch may be held.
        seconds: u64,
    },
}

/// The limits of a capture.
pub(super) struct Limits {
    /// For how long a dispatch may be held.
    pub(super) hold: Duration,
    /// For how long nothing may progress while what is held may be waited for.
    pub(super) stall: Duration,
    /// Bytes that were read in a second; [`UNMEASURED`] before the first reading.
    rate: AtomicU64,
    /// How much a byte of memory has made the file grow at the last reading, in millionths.
    growth: AtomicU64,
}

impl Limits {
    pub(super) fn new(hold_seconds: u32, stall_seconds: u32) -> Limits {
        let [hold, stall] = [hold_seconds, stall_seconds].map(|seconds| Duration::from_secs(seconds.into()));
        Limits { hold, stall, rate: AtomicU64::new(UNMEASURED), growth: AtomicU64::new(1_000_000) }
    }

    /// Memory was read, and has made the file grow.
    pub(super) fn measured(&self, bytes: u64, took: Duration, grown: u64) {
        if bytes >= MEASURABLE {
            let rate = u128::from(bytes) * 1_000_000 / took.as_micros().max(1);
            self.rate.store(rate.clamp(1, u64::MAX.into()) as u64, Ordering::Relaxed);
        }
        if bytes == 0 {
            return;
        }
        // The next reading finds more of it unchanged than has changed.
        let growth = u128::from(grown) * 1_000_000 / u128::from(bytes);
        self.growth.store(growth.min(1_000_000) as u64, Ordering::Relaxed);
    }

    /// Whether so much memory can be read `times` times while a dispatch is held, into a file that may grow by `left`.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn allow(&self, bytes: u64, times: u64, left: u64) -> Result<(), TooMuch> {
        let grows = u128::from(bytes) * u128::from(self.growth.load(Ordering::Relaxed)) / 1_000_000;
        if grows > left.into() {
            return Err(TooMuch::Bytes { bytes, left });
        }
        let (rate, seconds) = (self.rate.load(Ordering::Relaxed), self.hold.as_secs());
        if u128::from(bytes) * u128::from(times) > u128::from(rate) * u128::from(seconds) {
            return Err(TooMuch::Time { bytes, rate, seconds });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_decides_how_much_memory_is_allowed() {
        let limits = Limits::new(10, 5);
        let giga = 1 << 30;
        assert_eq!(limits.allow(5 * giga, 2, 8 * giga), Ok(()));
        assert_eq!(limits.allow(6 * giga, 2, 8 * giga).unwrap_err(), {
            TooMuch::Time { bytes: 6 * giga, rate: giga, seconds: 10 }
        });
        assert_eq!(limits.allow(5 * giga, 1, giga), Err(TooMuch::Bytes { bytes: 5 * giga, left: giga }));
        limits.measured(giga, Duration::from_millis(100), giga / 10);
        assert_eq!(limits.allow(9 * giga, 2, giga), Ok(()), "ten times as fast, and compressed to a tenth");
        limits.measured(1000, Duration::from_secs(1), 0);
        assert_eq!(limits.allow(9 * giga, 2, 0), Ok(()), "little memory says nothing of the speed");
    }
}
