//! Bringing queues to rest, and letting them go on.
//!
//! A queue is held by a number: packets from there on are not published. The application goes on reserving and writing
//! packets, and waits for nothing but what it waits for anyway.
//!
//! # Threads
//! The capture thread.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use logdur_journal::{Record, State, Times};

use crate::blocks::RecordRef;
use crate::exit;
use crate::queue::{NO_HOLD, Queue, Ring, inplace};
use crate::reaper;
use crate::session::{Session, lock};

/// How long to sleep between two looks.
const LOOK: Duration = Duration::from_micros(50);

/// The time is over, or the queue is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired;

/// Queues at rest; they go on when this is dropped.
pub(super) struct Stalled {
    session: &'static Session,
    held: Vec<&'static Queue>,
    /// Those that others are held for, too.
    watched: Vec<&'static Queue>,
}

impl Stalled {
    /// The queue of a packet that is held, which has been told so already.
    pub(super) fn with(session: &'static Session, target: &'static Queue) -> Stalled {
        Stalled { session, held: vec![target], watched: vec![target] }
    }

    /// Holds other queues where they are.
    pub(super) fn hold(&mut self, others: impl Iterator<Item = &'static Queue>) {
        for queue in others {
            let Some(ring) = &queue.ring else { continue };
            // Whoever publishes just now sees it the next time; what it publishes is waited for.
            if ring.hold.compare_exchange(NO_HOLD, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                self.held.push(queue);
            }
            self.watched.push(queue);
        }
    }

    /// Waits until nothing of these queues is in flight.
    pub(super) fn drain(&self, deadline: Instant) -> Result<(), Expired> {
        loop {
            reaper::look(self.session, exit::access());
            if self.watched.iter().all(|queue| is_idle(queue)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Expired);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        for queue in &self.held {
            if let Some(ring) = &queue.ring {
                ring.hold.store(NO_HOLD, Ordering::Release);
            }
            inplace::go_on(self.session, queue);
        }
        self.session.reaper.wake();
    }
}

/// True when everything that was published is complete, as far as it can be seen.
fn is_idle(queue: &Queue) -> bool {
    if queue.gone.load(Ordering::Acquire) {
        return true;
    }
    let taken = queue.ring.as_ref().is_none_or(|ring| ring.read_index() >= ring.published.load(Ordering::Acquire));
    taken && lock(&queue.reaped).record().is_none_or(|record| record.record().state() == State::Free)
}

/// The next record that a queue's publisher is going to use.
pub(super) fn next_record(session: &Session, queue: &Queue, deadline: Instant) -> Result<RecordRef, Expired> {
    loop {
        let mut found = None;
        queue.publisher.work(|publisher| found = Some(publisher.next_record(session, queue)));
        match found {
            Some(record) => return Ok(record),
            None if Instant::now() >= deadline => return Err(Expired),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Publishes the packet that a queue is held at, and no more.
pub(super) fn publish_one(
    session: &'static Session,
    queue: &'static Queue,
    ring: &Ring,
    deadline: Instant,
) -> Result<(), Expired> {
    let index = ring.hold.load(Ordering::Acquire);
    ring.hold.store(index + 1, Ordering::Release);
    loop {
        inplace::go_on(session, queue);
        if ring.published.load(Ordering::Acquire) > index {
            return Ok(());
        }
        if Instant::now() >= deadline || queue.gone.load(Ordering::Acquire) {
            return Err(Expired);
        }
        std::thread::sleep(LOOK);
    }
}

/// When a dispatch ran, in ticks of its GPU, if its record still says so.
pub(super) fn times(record: &Record, times: &Times, id: u64) -> Option<(u64, u64)> {
    let both = (times.start.load(Ordering::Acquire), times.end.load(Ordering::Acquire));
    (record.id.load(Ordering::Acquire) == id && both.1 != 0).then_some(both)
}
