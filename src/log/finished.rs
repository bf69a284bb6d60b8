//! Blocks whose records have come to their end.

use std::sync::atomic::Ordering;

use logdur_intercept::Interceptor;
use logdur_intercept::queue::Queue;
use logdur_intercept::reaper;
use logdur_journal::State;
use logdur_journal::account::Tally;
use logdur_system::lock;

/// Gives the blocks at the beginning of a queue back whose records have all come to their end.
pub(super) fn empty_blocks(interceptor: &Interceptor, queue: &'static Queue) {
    let mut first = lock(&queue.logged);
    let mut at = *first;
    while let Some(record) = at.record() {
        if at.block != first.block {
            let old = first.block;
            *first = at;
            // The reaper may be a moment behind: every record of the block is done, but it has not looked.
            reaper::skip_done(queue);
            interceptor.records.header().count_emptied(old.get());
            interceptor.blocks.give_back(old);
        }
        if record.state() != State::Logged {
            break;
        }
        at.advance();
    }
    *first = at;
}

/// Gives back what a queue does not need any more.
pub(super) fn tidy(interceptor: &Interceptor, queue: &'static Queue) {
    // Once the queue is gone its publisher adds nothing: what is written is all.
    let gone = queue.gone.load(Ordering::Acquire);
    empty_blocks(interceptor, queue);
    if !gone {
        return;
    }
    let mut first = lock(&queue.logged);
    let mut at = *first;
    if at.record().is_some_and(|r| r.state() != State::Free) {
        return;
    }
    interceptor.queues.remove(queue);
    interceptor.blocks.take_back(&queue.spare);
    let last = std::mem::replace(&mut *first, interceptor.blocks.nowhere()).block;
    *lock(&queue.reaped) = interceptor.blocks.nowhere();
    interceptor.records.header().count_emptied(last.get());
    interceptor.blocks.give_back(last);
}

/// Counts what has become of the records in a queue's blocks.
pub(super) fn count(queue: &Queue, tally: &mut Tally) {
    let mut block = Some(lock(&queue.logged).block);
    while let Some(present) = block {
        tally.block(present.get());
        block = present.next();
    }
}
