//! A kernel dispatch: how far it has come.
//!
//! # Threads
//! Workers take workgroups from a dispatch and put preempted ones back. The worker that finishes the last workgroup
//! completes the dispatch.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::driver::QueueError;
use crate::fill::Fill;
use crate::launch::Launch;
use crate::lock;
use crate::observer::{Observe, Observer};
use crate::schedule::Order;
use crate::units::Units;
use crate::watch::Watchdog;
use crate::workgroup::Workgroup;

/// What a worker does next for a dispatch.
pub(crate) enum Work {
    /// Run this workgroup from its beginning.
    Start(u64),
    /// Run this workgroup on.
    Resume(Box<Workgroup>),
    /// Nothing for now: all workgroups are running or finished.
    Nothing,
}

/// A point in time of the process, in an order with all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than all that were made before.
    pub(crate) fn now() -> Moment {
        static LATEST: AtomicU64 = AtomicU64::new(0);
        Moment(LATEST.fetch_add(1, Ordering::AcqRel) + 1)
    }
}

/// How a dispatch draws what hardware leaves open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) seed: u32,
    /// Unwritten data is what it is in all dispatches that are held: see [`crate::Gpu::hold_contents`].
    pub(crate) held: bool,
}

/// A dispatch that has been launched.
pub struct Dispatch {
    /// What it runs.
    pub launch: Launch,
    /// GPU ticks at its start.
    pub start: u64,
    /// Different for every dispatch of the process.
    pub(crate) serial: u64,
    /// The compute units that its workgroups run on.
    pub(crate) units: Arc<Units>,
    /// What unwritten data is drawn by, instead of the serial number where it is held: see [`Draw`].
    pub(crate) contents: u64,
    /// A time after its packet was written: a worker's knowledge of the host's memory that is newer than this is valid for it.
    pub(crate) published: Moment,
    /// GPU ticks at its end, 0 before.
    end: AtomicU64,
    total: u64,
    order: Order,
    next: AtomicU64,
    finished: AtomicU64,
    resident: AtomicU64,
    /// Workers that are about to run a workgroup, or do.
    running: AtomicUsize,
    capacity: u64,
    suspended: Mutex<VecDeque<Box<Workgroup>>>,
    instructions: AtomicU64,
    /// Whether the dispatch makes progress.
    pub(crate) watchdog: Watchdog,
    failed: AtomicBool,
    error: Mutex<Option<QueueError>>,
    /// Observers that no worker uses at the moment.
    observers: Mutex<Vec<Box<dyn Observer>>>,
    /// The completion signal has been decremented, or the queue has been told of the error.
    complete: AtomicBool,
}

/// A worker that is at a dispatch.
pub(crate) struct Running<'a>(&'a Dispatch);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Dispatch {
    /// A dispatch of which at most `capacity` workgroups are resident at a time. With a seed, their order is drawn.
    pub(crate) fn new(
        launch: Launch,
        units: Arc<Units>,
        start: u64,
        capacity: u64,
        published: Moment,
        draw: Option<Draw>,
    ) -> Dispatch {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let (serial, total) = (SERIAL.fetch_add(1, Ordering::Relaxed), launch.total());
        let drawn = |draw: Draw| Order::drawn(&mut Fill::new(draw.seed, serial, total), total, capacity);
        Dispatch {
            serial,
            units,
            // No serial number is 0.
            contents: if draw.is_some_and(|draw| draw.held) { 0 } else { serial },
            published,
            total,
            order: draw.map_or(Order::by_number(total), drawn),
            launch,
            start,
            end: AtomicU64::new(0),
            next: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            capacity,
            suspended: Mutex::new(VecDeque::new()),
            instructions: AtomicU64::new(0),
            watchdog: Watchdog::new(),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            observers: Mutex::new(Vec::new()),
            complete: AtomicBool::new(false),
        }
    }

    /// True when some workgroup is neither running nor finished.
    pub(crate) fn has_work(&self) -> bool {
        let fresh =
            self.next.load(Ordering::Relaxed) < self.total && self.resident.load(Ordering::Relaxed) < self.capacity;
        !self.has_failed() && (fresh || !lock(&self.suspended).is_empty())
    }

    /// Workgroups that have not been started.
    pub(crate) fn fresh(&self) -> u64 {
        self.total.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Workgroups that have not finished.
    pub(crate) fn unfinished(&self) -> u64 {
        self.total - self.finished.load(Ordering::Relaxed)
    }

    /// Takes a workgroup. Fresh ones go first as long as there is room, so that workgroups that wait for each other are
    /// all resident.
    pub(crate) fn take(&self) -> Work {
        if self.has_failed() {
            return Work::Nothing;
        }
        if self.resident.fetch_add(1, Ordering::Relaxed) < self.capacity {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n < self.total {
                return Work::Start(self.order.nth(n));
            }
            self.next.store(self.total, Ordering::Relaxed);
        }
        self.resident.fetch_sub(1, Ordering::Relaxed);
        lock(&self.suspended).pop_front().map_or(Work::Nothing, Work::Resume)
    }

    /// Workgroups that have been started and not finished.
    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Puts back a workgroup that has used up its slice.
    pub(crate) fn suspend(&self, workgroup: Box<Workgroup>) {
        lock(&self.suspended).push_back(workgroup);
    }

    /// Counts a finished workgroup; true for the last one.
    pub(crate) fn finish(&self) -> bool {
        self.resident.fetch_sub(1, Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.total
    }

    /// Counts executed instructions.
    pub(crate) fn executed(&self, instructions: u64) {
        self.instructions.fetch_add(instructions, Ordering::Relaxed);
    }

    /// Wave instructions executed so far.
    pub fn instructions(&self) -> u64 {
        self.instructions.load(Ordering::Relaxed)
    }

    /// Takes an observer for a slice.
    pub(crate) fn observer(&self, observe: &dyn Observe) -> Box<dyn Observer> {
        let spare = lock(&self.observers).pop();
        spare.unwrap_or_else(|| observe.observer(&self.launch))
    }

    /// Takes an observer back after a slice.
    pub(crate) fn give_back(&self, observer: Option<Box<dyn Observer>>) {
        if let Some(observer) = observer {
            lock(&self.observers).push(observer);
        }
    }

    /// All observers that were given back: what they saw is complete once the last workgroup has finished.
    pub(crate) fn observers(&self) -> Vec<Box<dyn Observer>> {
        std::mem::take(&mut lock(&self.observers))
    }

    /// Records the first error; true for the worker that reports it.
    pub(crate) fn fail(&self, error: QueueError) -> bool {
        let first = !self.failed.swap(true, Ordering::AcqRel);
        if first {
            *lock(&self.error) = Some(error);
        }
        first
    }

    /// Gives the dispatch up: running workgroups stop after their wave's slice, and no signal is completed.
    pub(crate) fn cancel(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    /// Set when it was given up or failed.
    pub(crate) fn cancelled(&self) -> &AtomicBool {
        &self.failed
    }

    /// Says that a worker is at it, until what is returned is dropped.
    pub(crate) fn run(&self) -> Running<'_> {
        // Sequentially consistent with `cancel` and `is_running`: of a worker that begins and a thread that cancels, one
        // sees the other.
        self.running.fetch_add(1, Ordering::SeqCst);
        Running(self)
    }

    /// True while a worker runs a workgroup of it.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }

    /// True when an error ended it, or it was given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Records GPU ticks at its end.
    pub(crate) fn set_end(&self, ticks: u64) {
        self.end.store(ticks, Ordering::Release);
    }

    /// GPU ticks at its end, 0 before.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Marks it as done with.
    pub(crate) fn set_complete(&self) {
        self.complete.store(true, Ordering::Release);
    }

    /// True when the completion signal has been decremented.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }
}
