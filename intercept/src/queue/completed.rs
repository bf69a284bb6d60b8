//! Records of work without a packet, such as copies and markers. They are made when the work is complete.
//!
//! # Threads
//! Any, one at a time; they wait for each other.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use logdur_journal::{Shape, State};

use crate::interceptor::Interceptor;
use crate::lock::lock;
use crate::queue::Queue;

/// Where the work of each agent is recorded, by its position.
#[derive(Default)]
pub(crate) struct Completed(Mutex<BTreeMap<usize, &'static Queue>>);

/// Work that is complete, or never will be.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Position of the agent.
    pub agent: usize,
    /// The number of what is done.
    pub kernel: u32,
    /// In place of the address of a kernel descriptor.
    pub amount: u64,
    /// When it was asked for, in ticks of the host's counter.
    pub asked: u64,
    /// Start and end.
    pub times: (u64, u64),
    /// Bits of `logdur_journal::flag`.
    pub flags: u8,
}

impl Interceptor {
    /// Records work.
    pub fn record_completed(&self, work: Work) {
        let mut queues = lock(&self.completed.0);
        let enter = || self.queues.enter_without_packets(&self.blocks, work.agent);
        let queue: &'static Queue = queues.entry(work.agent).or_insert_with(enter);
        // No other thread publishes here: the lock is free.
        queue.publisher.work(|publisher| {
            let to = publisher.free_record(self, queue);
            let record = to.record();
            record.dispatch.store(work.asked, Ordering::Relaxed);
            record.kernel_object.store(work.amount, Ordering::Relaxed);
            let id = self.records.header().next_id().fetch_add(1, Ordering::Relaxed);
            record.id.store(id, Ordering::Relaxed);
            record.set_shape(Shape { kernel: work.kernel, ..Shape::default() });
            to.times().start.store(work.times.0, Ordering::Relaxed);
            to.times().end.store(work.times.1, Ordering::Relaxed);
            to.set_flags(work.flags);
            to.set_state(State::Done);
        });
        drop(queues);
        self.ports.records_changed();
    }

    /// Forgets where work was recorded: the runtime goes, and with it all queues.
    pub(crate) fn forget_completed(&self) {
        lock(&self.completed.0).clear();
    }
}
