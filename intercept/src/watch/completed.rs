//! Records of work without a packet, such as copies and markers. They are made when the work is complete.
//!
//! # Threads
//! Any, one at a time; they wait for each other.

use std::sync::atomic::Ordering;

use logdur_journal::account::Event;
use logdur_journal::{Shape, State};
use logdur_system::lock;

use crate::interceptor::Interceptor;

/// Work that is complete, or never will be.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Position of the agent.
    pub agent: usize,
    /// The number of what is done.
    pub kernel: u32,
    /// Of a copy: how much.
    pub bytes: u64,
    /// The number of the thread that asked for it.
    pub thread: u32,
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
        let mut queues = lock(&self.completed);
        let queue = match queues.get(&work.agent) {
            Some(queue) => *queue,
            None => {
                let Some(queue) = self.queues.enter_without_packets(&self.blocks, work.agent) else {
                    return self.records.header().count(Event::UnrecordedDispatch, 1);
                };
                queues.insert(work.agent, queue);
                queue
            }
        };
        // No other thread publishes here: the lock is free.
        queue.publisher.work(|publisher| {
            let Some(to) = publisher.free_record(self, queue) else {
                return self.records.header().count(Event::UnrecordedDispatch, 1);
            };
            let record = to.record();
            record.dispatch.store(work.asked, Ordering::Relaxed);
            record.copied_bytes().store(work.bytes, Ordering::Relaxed);
            record.thread.store(work.thread, Ordering::Relaxed);
            record.site.store(0, Ordering::Relaxed);
            let id = self.records.header().next_id().fetch_add(1, Ordering::Relaxed);
            record.id.store(id, Ordering::Relaxed);
            record.set_shape(Shape { kernel: work.kernel, ..Shape::default() });
            to.times().start.store(work.times.0, Ordering::Relaxed);
            to.times().end.store(work.times.1, Ordering::Relaxed);
            to.set_flags(work.flags);
            to.set_state(State::Done);
        });
        drop(queues);
        self.records_changed();
    }

    /// Forgets where work was recorded: the runtime goes, and with it all queues.
    pub(crate) fn forget_completed(&self) {
        lock(&self.completed).clear();
    }
}
