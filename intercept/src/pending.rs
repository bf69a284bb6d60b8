//! The application's own signals that a dispatch in flight will complete on.
//!
//! Such a signal is left in its packet, and the times are read from it before anything can overwrite them. The thread that takes
//! an entry out of this table is the one who reads the times; so a record is harvested exactly once.
//!
//! # Threads
//! Any. A bucket is locked for a few loads and stores; no thread waits for it longer than [`SPINS`]: a publisher that
//! cannot have it takes the way that needs no entry.
//!
//! # Ordering
//! The lock of a bucket orders everything in it.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;

#[cfg(loom)]
use loom::{hint::spin_loop, sync::atomic::AtomicBool};
#[cfg(not(loom))]
use std::{hint::spin_loop, sync::atomic::AtomicBool};

use hsa_sys::abi::signal::Signal;
#[cfg(not(loom))]
use logdur_journal::pages;
use logdur_journal::{State, flag};

use crate::address_map::AddressMap;
use crate::blocks::{BlockRef, RecordRef};

/// Of a power of two; in a model every signal is in the same.
const BUCKETS: usize = if cfg!(loom) { 1 } else { 4096 };
const ENTRIES: usize = 5;
const SPINS: usize = 100;

/// The table: signal handle to record.
pub(crate) struct Pending {
    buckets: &'static [Bucket],
    /// Signals of other processes.
    shared: AddressMap,
}

#[repr(align(128))]
struct Bucket {
    locked: AtomicBool,
    entries: UnsafeCell<Entries>,
}

// SAFETY: the entries are only accessed by the thread that has set `locked`.
unsafe impl Sync for Bucket {}

#[derive(Clone, Copy)]
struct Entry {
    signal: u64,
    record: RecordRef,
}

/// The entries of a bucket, of fields whose zeros mean that a place is free: a bucket that was never used is memory that
/// was never touched.
struct Entries([Place; ENTRIES]);

#[derive(Clone, Copy)]
struct Place {
    signal: u64,
    /// `None` where the place is free.
    block: Option<BlockRef>,
    slot: usize,
}

impl Entries {
    /// Where the entry of a signal is, and the entry.
    fn of(&self, signal: u64) -> Option<(usize, Entry)> {
        self.0.iter().enumerate().find_map(|(at, place)| {
            let block = place.block.filter(|_| place.signal == signal)?;
            Some((at, Entry { signal, record: RecordRef { block, slot: place.slot } }))
        })
    }

    fn free_place(&mut self) -> Option<&mut Place> {
        self.0.iter_mut().find(|place| place.block.is_none())
    }

    fn free(&mut self, at: usize) {
        self.0[at].block = None;
    }
}

/// What became of an attempt to leave a signal in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalStays {
    /// The signal is in the table.
    Yes,
    /// An earlier dispatch is still to complete on the same signal, or there is no room.
    No,
}

/// The buckets of a table, for as long as the process lives; `None` if the system has no memory left. They are pages of the system's: a heap
/// would write their zeros, and half a megabyte would be resident.
#[cfg(not(loom))]
fn free_buckets() -> Option<&'static [Bucket]> {
    let buckets = pages::zeroed::<[Bucket; BUCKETS]>()?;
    // SAFETY: the memory is never freed. Zeros are a bucket: an `AtomicBool` that is false, numbers, and `Option`s of a transparent
    // `NonNull` that are `None`.
    Some(unsafe { buckets.as_ref() })
}

#[cfg(loom)]
fn free_buckets() -> Option<&'static [Bucket]> {
    let free = || Entries([Place { signal: 0, block: None, slot: 0 }; ENTRIES]);
    let free = (0..BUCKETS).map(|_| Bucket { locked: AtomicBool::new(false), entries: UnsafeCell::new(free()) });
    Some(Vec::leak(free.collect()))
}

impl Pending {
    /// An empty table; `None` if the system has no memory left.
    pub(crate) fn new() -> Option<Pending> {
        Some(Pending { buckets: free_buckets()?, shared: AddressMap::new() })
    }

    /// Runs `body` on the bucket of a signal; `None` if another thread holds it for too long.
    fn with<T>(&self, signal: u64, spins: usize, body: impl FnOnce(&mut Entries) -> T) -> Option<T> {
        // Signals are at least 64 bytes apart.
        let hash = (signal >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        let bucket = &self.buckets[hash as usize % BUCKETS];
        let mut left = spins;
        while bucket.locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            left = left.checked_sub(1)?;
            spin_loop();
        }
        // SAFETY: this thread has just set `locked`, and clears it only after `body`.
        let result = body(unsafe { &mut *bucket.entries.get() });
        bucket.locked.store(false, Ordering::Release);
        Some(result)
    }

    /// Enters a signal that stays in the packet of `record`, harvesting an earlier dispatch on it if that is complete.
    /// The record remembers the time that the signal carries now, and is in flight before another thread can harvest it.
    pub(crate) fn enter(&self, signal: u64, record: RecordRef) -> SignalStays {
        self.with(signal, SPINS, |entries| {
            if let Some((at, earlier)) = entries.of(signal) {
                if !is_complete(&earlier) {
                    return SignalStays::No;
                }
                harvest(earlier);
                entries.free(at);
            }
            let Some(place) = entries.free_place() else { return SignalStays::No };
            // SAFETY: the signal is in a packet that is being published.
            let memory = unsafe { memory(signal) };
            let (_, end) = memory.ticks();
            let app = record.app_signal();
            app.end_before.store(end, Ordering::Relaxed);
            let value = memory.value.load(Ordering::Relaxed);
            app.value_before().store(value.cast_unsigned(), Ordering::Relaxed);
            record.set_state(State::InFlight);
            *place = Place { signal, block: Some(record.block), slot: record.slot };
            SignalStays::Yes
        })
        .unwrap_or(SignalStays::No)
    }

    /// The reaper's question: harvests the dispatch if it is complete. True when it seems to be complete, but its times are
    /// not there, or not both.
    pub(crate) fn harvest_if_complete(&self, signal: u64, record: RecordRef) -> bool {
        let lacks_times = self.with(signal, SPINS, |entries| {
            let (at, entry) = entries.of(signal).filter(|(_, entry)| entry.record == record)?;
            if !is_complete(&entry) {
                return Some(has_ended(&entry));
            }
            harvest(entry);
            entries.free(at);
            None
        });
        lacks_times.flatten().unwrap_or(false)
    }

    /// The times of a dispatch that seems to be complete did not come: its record is done, with what there is of them.
    pub(crate) fn harvest_without_times(&self, signal: u64, record: RecordRef) {
        self.with(signal, SPINS, |entries| {
            if let Some((at, entry)) = entries.of(signal)
                && entry.record == record
                && has_ended(&entry)
            {
                if !is_complete(&entry) {
                    record.add_flags(flag::NO_TIMES);
                }
                take_times(entry);
                entries.free(at);
            }
        });
    }

    /// Something other than a dispatch is about to use the signal: harvests what is complete, and marks what is not,
    /// since the times that appear may then be the other's.
    pub(crate) fn before_reuse(&self, signal: u64) {
        self.with(signal, usize::MAX, |entries| {
            let Some((at, entry)) = entries.of(signal) else { return };
            if is_complete(&entry) {
                harvest(entry);
                entries.free(at);
            } else {
                entry.record.add_flags(flag::SHARED_SIGNAL);
                expect_decrement(&entry, 1);
            }
        });
    }

    /// So many dispatches are complete on signals of ours that stand in for `signal`, which the caller decrements afterwards.
    /// Gives it the times, unless a dispatch that was left on it is still to complete, whose times are the last ones then.
    pub(crate) fn stamp(&self, signal: u64, start: u64, end: u64, count: u32) {
        self.with(signal, usize::MAX, |entries| {
            if let Some((at, entry)) = entries.of(signal) {
                if !is_complete(&entry) {
                    expect_decrement(&entry, count);
                    return;
                }
                harvest(entry);
                entries.free(at);
            }
            // SAFETY: the caller is going to decrement the signal, for which the application waits.
            let memory = unsafe { memory(signal) };
            if end > memory.end_ts.load(Ordering::Relaxed) {
                memory.start_ts.store(start, Ordering::Relaxed);
                memory.end_ts.store(end, Ordering::Relaxed);
            }
        });
    }

    /// A signal that other processes use, too: they may put it into packets that are not seen here.
    pub(crate) fn shared_with_others(&self, signal: u64) {
        self.shared.set(signal, 1);
    }

    /// True when a signal is used by other processes.
    pub(crate) fn is_shared_with_others(&self, signal: u64) -> bool {
        self.shared.get(signal) != 0
    }

    /// The signal is about to be destroyed: harvests its dispatch.
    pub(crate) fn before_destroy(&self, signal: u64) {
        self.shared.set(signal, 0);
        self.with(signal, usize::MAX, |entries| {
            if let Some((at, entry)) = entries.of(signal) {
                entries.free(at);
                harvest(entry);
            }
        });
    }

    /// Gives up on a dispatch: its record is done, with times if it is complete after all.
    pub(crate) fn give_up(&self, signal: u64, record: RecordRef) {
        self.with(signal, usize::MAX, |entries| {
            if let Some((at, entry)) = entries.of(signal)
                && entry.record == record
            {
                harvest(entry);
                entries.free(at);
            }
        });
    }
}

/// The memory of an application's signal.
///
/// # Safety
/// The signal must be in the table, or in a packet that is not complete: the application has not destroyed it then, since the hook
/// of `hsa_signal_destroy` takes it out of the table first.
unsafe fn memory<'a>(signal: u64) -> &'a Signal {
    // SAFETY: the caller's promise; ROCr keeps signals mapped.
    unsafe { Signal::from_handle(signal) }
}

/// A dispatch is complete when the signal carries another end time: ticks never repeat, and the value, which the
/// application changes, says nothing about the times. A start from before the last end is that of an earlier dispatch: the
/// new one is not there yet.
fn is_complete(entry: &Entry) -> bool {
    let before = entry.record.app_signal().end_before.load(Ordering::Relaxed);
    // Acquire, for the start time that was written before it.
    // SAFETY: the signal is in the table, whose bucket is locked.
    let memory = unsafe { memory(entry.signal) };
    let end = memory.end_ts.load(Ordering::Acquire);
    let start = memory.start_ts.load(Ordering::Relaxed);
    end != before && start != 0 && start >= before
}

/// True when something has changed at the signal that a completed dispatch changes.
fn has_ended(entry: &Entry) -> bool {
    let app = entry.record.app_signal();
    // SAFETY: the signal is in the table, whose bucket is locked.
    let signal = unsafe { memory(entry.signal) };
    signal.value.load(Ordering::Acquire) < app.value_before().load(Ordering::Relaxed).cast_signed()
        || signal.end_ts.load(Ordering::Relaxed) != app.end_before.load(Ordering::Relaxed)
}

/// Others are going to decrement the signal so often: that does not say that the dispatch of the entry has ended.
fn expect_decrement(entry: &Entry, count: u32) {
    entry.record.app_signal().value_before().fetch_sub(count.into(), Ordering::Relaxed);
}

fn harvest(entry: Entry) {
    if !is_complete(&entry) {
        entry.record.add_flags(flag::INCOMPLETE);
    }
    take_times(entry);
}

/// Reads the times, unless the record says that there are none; it is done then.
fn take_times(entry: Entry) {
    let record = entry.record;
    if record.flags() & (flag::INCOMPLETE | flag::NO_TIMES) == 0 {
        // SAFETY: the signal is in the table, whose bucket is locked.
        let (start, end) = unsafe { memory(entry.signal) }.ticks();
        record.times().start.store(start, Ordering::Relaxed);
        record.times().end.store(end, Ordering::Relaxed);
    }
    record.set_state(State::Done);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Blocks;

    /// A signal as the runtime lays it out: of the kind USER, with value 1.
    pub(crate) fn signal() -> u64 {
        #[repr(align(64))]
        struct Aligned([std::sync::atomic::AtomicU64; 8]);
        let words = [1, 1, 0, 0, 0, 0, 0, 0].map(std::sync::atomic::AtomicU64::new);
        std::ptr::from_ref(Box::leak(Box::new(Aligned(words))).0.as_slice()).expose_provenance() as u64
    }

    /// The memory of a signal that [`signal`] made.
    fn memory<'a>(handle: u64) -> &'a Signal {
        // SAFETY: the signals of the tests are never freed.
        unsafe { super::memory(handle) }
    }

    pub(crate) fn complete(handle: u64, start: u64, end: u64) {
        memory(handle).start_ts.store(start, Ordering::Relaxed);
        memory(handle).end_ts.store(end, Ordering::Release);
    }

    fn blocks() -> Blocks {
        Blocks::new(Box::leak(Box::new(logdur_journal::Records::private())), u64::MAX).unwrap()
    }

    fn record(blocks: &Blocks, slot: usize) -> RecordRef {
        RecordRef { block: blocks.take().unwrap(), slot }
    }

    #[test]
    fn a_signal_is_harvested_by_the_next_packet_that_carries_it() {
        let (blocks, pending, s) = (blocks(), Pending::new().unwrap(), signal());
        let (first, second) = (record(&blocks, 0), record(&blocks, 1));
        assert_eq!(pending.enter(s, first), SignalStays::Yes);
        complete(s, 10, 20);
        assert_eq!(pending.enter(s, second), SignalStays::Yes);
        assert_eq!((first.state(), first.times().end.load(Ordering::Relaxed)), (State::Done, 20));
        assert_eq!(second.state(), State::InFlight);
        complete(s, 30, 40);
        pending.harvest_if_complete(s, second);
        assert_eq!(
            (second.times().start.load(Ordering::Relaxed), second.times().end.load(Ordering::Relaxed)),
            (30, 40)
        );
    }

    #[test]
    fn a_signal_that_is_still_awaited_is_not_left_in_a_second_packet() {
        let (blocks, pending, s) = (blocks(), Pending::new().unwrap(), signal());
        let (first, second) = (record(&blocks, 0), record(&blocks, 1));
        assert_eq!((pending.enter(s, first), pending.enter(s, second)), (SignalStays::Yes, SignalStays::No));
        assert_eq!((first.state(), second.state()), (State::InFlight, State::Free));
    }

    #[test]
    fn a_stand_in_gives_its_times_only_if_no_later_ones_are_to_come() {
        let (blocks, pending, s) = (blocks(), Pending::new().unwrap(), signal());
        let left = record(&blocks, 0);
        pending.enter(s, left);
        pending.stamp(s, 30, 40, 1);
        assert_eq!((memory(s).ticks(), left.state()), ((0, 0), State::InFlight));
        complete(s, 50, 60);
        pending.stamp(s, 45, 55, 1);
        assert_eq!((memory(s).ticks(), left.times().end.load(Ordering::Relaxed)), ((50, 60), 60));
        pending.stamp(s, 70, 80, 1);
        assert_eq!(memory(s).ticks(), (70, 80));
    }

    #[test]
    fn a_dispatch_has_not_ended_because_others_have_decremented_its_signal() {
        let (blocks, pending, s) = (blocks(), Pending::new().unwrap(), signal());
        let left = record(&blocks, 0);
        pending.enter(s, left);
        let decrement = |by| memory(s).value.fetch_sub(by, Ordering::Release);
        // Three stand-ins, and a barrier packet of another queue.
        pending.stamp(s, 30, 40, 3);
        decrement(3);
        pending.before_reuse(s);
        decrement(1);
        assert!(!pending.harvest_if_complete(s, left), "its times were not waited for");
        // Its own.
        decrement(1);
        assert!(pending.harvest_if_complete(s, left));
        complete(s, 50, 60);
        pending.harvest_if_complete(s, left);
        assert_eq!((left.state(), left.times().end.load(Ordering::Relaxed)), (State::Done, 60));
    }

    #[test]
    fn a_signal_that_is_destroyed_in_flight_leaves_a_row_without_times() {
        let (blocks, pending, s) = (blocks(), Pending::new().unwrap(), signal());
        let first = record(&blocks, 0);
        pending.enter(s, first);
        pending.before_destroy(s);
        assert_eq!((first.state(), first.flags()), (State::Done, flag::INCOMPLETE));
    }

    #[test]
    fn when_a_bucket_is_full_the_signal_is_not_left() {
        let (blocks, pending) = (blocks(), Pending::new().unwrap());
        let block = blocks.take().unwrap();
        let signals = BUCKETS * ENTRIES * 2;
        let left =
            (0..signals).filter(|_| pending.enter(signal(), RecordRef { block, slot: 0 }) == SignalStays::Yes).count();
        assert!(left > BUCKETS * ENTRIES / 2 && left < signals, "{left} of {signals} signals left");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::blocks::{Blocks, Cursor};
    use loom::sync::Arc;
    use loom::thread;

    struct Harness {
        pending: Pending,
        signal: u64,
        records: [RecordRef; 2],
    }

    fn harness() -> Arc<Harness> {
        let blocks = Blocks::new(Box::leak(Box::new(logdur_journal::Records::private())), u64::MAX).unwrap();
        let block = Cursor::start(blocks.take().unwrap()).block;
        let records = [0, 1].map(|slot| RecordRef { block, slot });
        Arc::new(Harness { pending: Pending::new().unwrap(), signal: super::tests::signal(), records })
    }

    impl Harness {
        /// What the GPU does; other threads may come between.
        fn complete(&self, end: u64) {
            super::tests::complete(self.signal, end - 10, end);
            thread::yield_now();
        }

        fn ends(&self) -> [(State, u64); 2] {
            self.records.map(|r| (r.state(), r.times().end.load(Ordering::Relaxed)))
        }
    }

    #[test]
    fn only_the_thread_that_takes_a_signal_from_the_table_reads_its_times() {
        loom::model(|| {
            let harness = harness();
            assert_eq!(harness.pending.enter(harness.signal, harness.records[0]), SignalStays::Yes);
            let other = Arc::clone(&harness);
            let reaper = thread::spawn(move || other.pending.harvest_if_complete(other.signal, other.records[0]));
            harness.complete(20);
            // The application has waited, and gives the signal to another packet.
            let left = harness.pending.enter(harness.signal, harness.records[1]);
            if left == SignalStays::Yes {
                harness.complete(40);
            }
            reaper.join().unwrap();
            // `No` while the reaper has the bucket for too long; a stand-in is used then.
            harness.pending.harvest_if_complete(harness.signal, harness.records[0]);
            harness.pending.harvest_if_complete(harness.signal, harness.records[1]);
            let expected = if left == SignalStays::Yes { (State::Done, 40) } else { (State::Free, 0) };
            assert_eq!(harness.ends(), [(State::Done, 20), expected]);
        });
    }

    #[test]
    fn a_signal_that_is_destroyed_while_the_reaper_looks_leaves_one_harvest() {
        loom::model(|| {
            let harness = harness();
            assert_eq!(harness.pending.enter(harness.signal, harness.records[0]), SignalStays::Yes);
            harness.complete(20);
            let other = Arc::clone(&harness);
            let reaper = thread::spawn(move || other.pending.harvest_if_complete(other.signal, other.records[0]));
            harness.pending.before_destroy(harness.signal);
            // The memory is another signal's now.
            harness.complete(70);
            reaper.join().unwrap();
            assert_eq!(harness.ends()[0], (State::Done, 20));
        });
    }
}
