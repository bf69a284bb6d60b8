//! Rows of many dispatches of one kernel, for logs in records: what is done for each of them is here, and nothing else.
//!
//! # Threads
//! The log thread.

use std::sync::atomic::Ordering;

use logdur_journal::packed::{Packer, Room};
use logdur_journal::{Fate, State, flag};

use crate::blocks::{Cursor, RecordRef};

/// How many records ahead a cache line is prefetched: the publisher and the reaper leave it in other caches.
pub const AHEAD: usize = 16;
/// A record with one of these has no row, or one without times.
const OTHERS: u8 = flag::NO_DISPATCH | flag::NO_TIMES | flag::INCOMPLETE;

/// Rows that follow each other on the way into a log.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    first: Cursor,
    /// How many.
    pub rows: usize,
}

impl Run {
    /// One row.
    pub fn of(record: RecordRef) -> Run {
        Run { first: record.into(), rows: 1 }
    }

    /// Says of each of its records how far its row has come.
    pub fn set_fate(self, fate: Fate) {
        let mut at = self.first;
        for _ in 0..self.rows {
            let Some(record) = at.record() else { return };
            record.set_fate(fate);
            at.advance();
        }
    }

    /// Adds rows of the records from a place on that are just behind the run: those that are done and have times, and the kernel of the
    /// last row. They are of its queue, and its clocks are known. Their records are being written. Says how many rows were added, and
    /// what became of the chunk.
    pub fn pack_more(&mut self, at: &mut Cursor, kernel: u32, packer: &mut Packer, to: &mut Vec<u8>) -> (usize, Room) {
        let (before, mut room) = (self.rows, Room::More);
        while room == Room::More
            && let Some(record) = at.record()
        {
            record.ask_ahead(AHEAD);
            if record.state() != State::Done || record.flags() & OTHERS != 0 {
                break;
            }
            let (of, times) = (record.record(), record.times());
            let is_other = of.kernel() != kernel || of.flags() & OTHERS != 0;
            if is_other || times.end.load(Ordering::Relaxed) == 0 {
                break;
            }
            room = packer.more(to, of, times);
            if room != Room::None {
                record.set_fate(Fate::Writing);
                self.rows += 1;
                at.advance();
            }
        }
        (self.rows - before, room)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use logdur_journal::clock::Line;
    use logdur_journal::packed::Source;
    use logdur_journal::{BLOCK_RECORDS, Records, Shape};

    use super::*;
    use crate::blocks::Blocks;

    #[test]
    fn rows_go_on_across_blocks_up_to_a_record_that_is_another_kernels_in_flight_or_without_times() {
        let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX).unwrap();
        let (first, second) = (blocks.take().unwrap(), blocks.take().unwrap());
        first.set_next(second);
        let all = || {
            let mut at = Cursor::start(first);
            std::iter::from_fn(move || at.record().inspect(|_| at.advance()))
        };
        let fill = |stop: usize, end: &dyn Fn(RecordRef)| {
            for (n, record) in all().enumerate() {
                record.record().set_shape(Shape { kernel: 7, grid: [64, 1, 1], ..Shape::default() });
                record.record().id.store(n as u64, Ordering::Relaxed);
                record.times().end.store(5, Ordering::Relaxed);
                record.set_flags(0);
                record.set_state(State::Done);
                record.record().set_fate(Fate::Pending);
                if n == stop {
                    end(record);
                }
            }
        };
        let other = |record: RecordRef| record.record().set_shape(Shape { kernel: 8, ..Shape::default() });
        let in_flight = |record: RecordRef| record.set_state(State::InFlight);
        let without_times = |record: RecordRef| record.add_flags(flag::NO_TIMES);
        let without_end = |record: RecordRef| record.times().end.store(0, Ordering::Relaxed);
        let no_dispatch = |record: RecordRef| record.set_flags(flag::NO_DISPATCH);
        for end in [&other as &dyn Fn(RecordRef), &in_flight, &without_times, &without_end, &no_dispatch] {
            for stop in [1, 2, BLOCK_RECORDS - 1, BLOCK_RECORDS, BLOCK_RECORDS + 3] {
                fill(stop, end);
                let (mut packer, mut to) = (Packer::new(1), Vec::new());
                let line = Some(Line { tick: 0, ns: 0, ns_per_tick: 1.0 });
                let record = all().next().unwrap();
                let source = Source {
                    record: record.record(),
                    times: record.times(),
                    queue: 0,
                    agent: 0,
                    host: line,
                    clock: line,
                    late: None,
                };
                assert_eq!(packer.row(&mut to, &source, None), Room::More);
                record.set_fate(Fate::Writing);
                let (mut run, mut at) = (Run::of(record), Cursor { block: first, slot: 1 });
                let packed = run.pack_more(&mut at, 7, &mut packer, &mut to);
                assert_eq!((packed, run.rows), ((stop - 1, Room::More), stop));
                run.set_fate(Fate::Written);
                let written = all().take_while(|record| record.record().fate() == Fate::Written).count();
                assert_eq!(written, stop);
                assert!(all().skip(stop).all(|record| record.state() != State::Logged));
            }
        }
    }

    #[test]
    fn rows_end_with_their_chunk() {
        let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX).unwrap();
        let block = blocks.take().unwrap();
        let record = RecordRef { block, slot: 0 };
        record.set_state(State::Done);
        record.times().end.store(5, Ordering::Relaxed);
        // No chunk is open.
        let packed = Run::of(record).pack_more(&mut record.into(), 0, &mut Packer::new(1), &mut Vec::new());
        assert_eq!(packed, (0, Room::None));
        assert_eq!((record.record().fate(), record.state()), (Fate::Pending, State::Done));
    }
}
