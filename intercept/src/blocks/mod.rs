//! Blocks of records: those that are not in use, and references to them.
//!
//! # Threads
//! A publisher takes a block every `BLOCK_RECORDS` dispatches: the spare block that the reaper keeps for its queue, else one of the
//! pool, if the pool's lock is free. The reaper refills the pool before it is empty. The log thread returns blocks.

mod record;

use std::ptr::{self, NonNull};

#[cfg(not(loom))]
use logdur_journal::pages;
use logdur_journal::{BLOCK_BYTES, Block, Records, State};

use crate::cache_line::prefetch_for_write;
use crate::progress::{AppSignal, Progress};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

pub use record::{Cursor, RecordRef};

/// Blocks that are made at once.
const BATCH: usize = if cfg!(loom) { 1 } else { 4 };
/// Blocks that are kept ready at most. The memory of others that are free goes back to the system.
const READY: usize = 64;
/// So many blocks that were taken are worth a look of the log thread before its time.
const MANY: usize = 32;

/// Blocks beyond the limit that queues may take.
const SPARE: usize = 8;

/// In a model a block is full after two dispatches.
const BLOCK_RECORDS: usize = if cfg!(loom) { 2 } else { logdur_journal::BLOCK_RECORDS };

/// Whose cache line is asked for together.
const PROGRESS_OF_A_LINE: usize = 64 / size_of::<Progress>();

/// The free blocks. References to records stay readable: of a block that is not needed, all but the addresses and two pages goes back
/// to the system.
pub struct Blocks {
    records: &'static Records,
    pool: Mutex<Vec<BlockRef>>,
    /// Blocks without memory.
    resting: Mutex<Vec<BlockRef>>,
    /// Blocks that were ever taken.
    taken: AtomicUsize,
    /// The system has refused memory.
    refused: AtomicBool,
    /// Blocks that publishers took since the pool was last looked after.
    demand: AtomicUsize,
    /// Blocks that there are, in the pool or in use.
    #[cfg(loom)]
    made: AtomicUsize,
    /// Blocks that queues have taken and the log thread has not given back.
    used: AtomicUsize,
    /// More than these are in use only until the log thread has given up rows that cannot be written.
    limit: usize,
    /// Where cursors stand that have no more to do. No dispatch is recorded there.
    parked: BlockRef,
}

/// A block of records, with the private progress of their dispatches. Zeros are a valid value before `records` is set. What is not in its
/// first page is zeros while the block is at rest.
#[repr(C)]
struct OwnBlock {
    records: *const Block,
    /// The block that follows, null while this one is being filled.
    next: AtomicPtr<OwnBlock>,
    progress: [Progress; BLOCK_RECORDS],
    /// Memory that few applications touch.
    app_signals: [AppSignal; BLOCK_RECORDS],
    /// Loom reports a thread that uses a block before it sees the block made or cleared.
    #[cfg(loom)]
    watched: loom::cell::UnsafeCell<()>,
}

#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(OwnBlock, progress) <= pages::PAGE);

/// The next block for a queue, put aside.
#[derive(Default)]
pub struct Spare(AtomicPtr<OwnBlock>);

/// A block that lives as long as the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct BlockRef(NonNull<OwnBlock>);

// SAFETY: a block consists of atomics and a pointer to atomics, and neither is ever freed.
unsafe impl Send for BlockRef {}
// SAFETY: as above.
unsafe impl Sync for BlockRef {}

impl Blocks {
    /// Blocks for records of about `limit` bytes in all; `None` if the system has no memory left.
    pub fn new(records: &'static Records, limit: u64) -> Option<Blocks> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX) / BLOCK_BYTES;
        Some(Blocks {
            records,
            pool: Mutex::new(Vec::new()),
            resting: Mutex::new(Vec::new()),
            taken: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            demand: AtomicUsize::new(0),
            #[cfg(loom)]
            made: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            limit,
            parked: Block::new().and_then(BlockRef::of)?,
        })
    }

    /// An empty block, for a thread that may wait; `None` if the system has no memory left.
    pub fn take(&self) -> Option<BlockRef> {
        let mut pool = lock(&self.pool);
        if pool.is_empty() {
            pool.extend(self.make(BATCH));
        }
        let block = pool.pop()?;
        self.count_taken();
        Some(block)
    }

    /// An empty block for the publisher of a queue; `None` if the system has no memory left.
    pub fn next(&self, spare: &Spare, queue: u64, agent: usize) -> Option<BlockRef> {
        self.demand.fetch_add(1, Ordering::Relaxed);
        let pooled = || self.pool.try_lock().ok()?.pop();
        let block = spare.take().or_else(pooled).or_else(|| self.take_new())?;
        self.count_taken();
        block.get().assign(queue, agent);
        Some(block)
    }

    fn count_taken(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// The last resort: the queue takes blocks faster than the reaper makes them.
    fn take_new(&self) -> Option<BlockRef> {
        let mut new = self.make(BATCH);
        let block = new.pop();
        lock(&self.pool).extend(new);
        block
    }

    /// Blocks with memory: those that are at rest, and new ones.
    fn make(&self, count: usize) -> Vec<BlockRef> {
        let mut resting = lock(&self.resting);
        let first = resting.len().saturating_sub(count);
        let (mut blocks, refused): (Vec<_>, Vec<_>) =
            resting.drain(first..).partition(|block| self.records.reserve_again(block.get()));
        // Their file has no room for them any more. Others are tried first from now on.
        resting.splice(0..0, refused);
        drop(resting);
        blocks.iter().for_each(|block| block.touch());
        let wanted = count - blocks.len();
        let new: Vec<_> = self.records.blocks(wanted).into_iter().filter_map(BlockRef::of).collect();
        #[cfg(loom)]
        self.made.fetch_add(new.len(), Ordering::Relaxed);
        if new.len() < wanted {
            self.refused.store(true, Ordering::Relaxed);
        }
        blocks.extend(new);
        blocks
    }

    /// True once the system has refused memory for records.
    pub fn were_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// The number of blocks that were ever taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// True when so many blocks were taken since there were `taken` that their rows should not wait.
    pub fn are_many_since(&self, taken: usize) -> bool {
        self.taken().wrapping_sub(taken) >= MANY
    }

    /// Gives the memory of free blocks that are not needed back to the system.
    pub fn rest(&self) {
        let mut pool = lock(&self.pool);
        let kept = pool.len().min(READY);
        let surplus = pool.split_off(kept);
        drop(pool);
        surplus.iter().for_each(|block| block.rest(self.records));
        lock(&self.resting).extend(surplus);
    }

    /// True when the blocks in use take more memory than they may.
    pub fn are_too_many(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }

    /// True when no more dispatches are to be recorded: a log that cannot be written has given up its oldest rows before that.
    pub(crate) fn are_exhausted(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit.saturating_add(SPARE)
    }

    /// Sees to it that there are as many blocks ready as are going to be wanted until this is called again.
    pub fn prepare(&self) {
        let wanted = (self.demand.swap(0, Ordering::Relaxed) * 2).clamp(BATCH, READY);
        let missing = wanted.saturating_sub(lock(&self.pool).len());
        if missing > 0 {
            let new = self.make(missing.max(BATCH));
            lock(&self.pool).extend(new);
        }
    }

    /// Gives a queue a spare block, if it has none. If a thread has taken the spare back because the queue is gone, the caller sees
    /// afterwards that it is gone.
    pub(crate) fn put_aside(&self, spare: &Spare) {
        if !spare.0.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut pool = lock(&self.pool);
        let Some(block) = pool.last() else { return };
        if spare.0.compare_exchange(ptr::null_mut(), block.0.as_ptr(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            pool.pop();
        }
    }

    /// Takes back what was put aside.
    pub fn take_back(&self, spare: &Spare) {
        lock(&self.pool).extend(spare.take());
    }

    /// Gives a block back that is not used any more, and whose records are counted.
    pub fn give_back(&self, block: BlockRef) {
        block.clear();
        lock(&self.pool).push(block);
        self.used.fetch_sub(1, Ordering::Relaxed);
    }

    /// Where a cursor stands that has no more to do.
    pub fn nowhere(&self) -> Cursor {
        Cursor::start(self.parked)
    }
}

impl Spare {
    /// Asks for the cache lines of a record, if there is a block.
    #[cold]
    fn ask_for(&self, slot: usize) {
        if let Some(block) = NonNull::new(self.0.load(Ordering::Acquire)) {
            BlockRef(block).ask_for(slot);
        }
    }

    fn take(&self) -> Option<BlockRef> {
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::AcqRel)).map(BlockRef)
    }
}

impl OwnBlock {
    #[cfg(not(loom))]
    fn empty() -> Option<NonNull<OwnBlock>> {
        // Zeros are a value: null pointers and atomic integers that are 0.
        pages::zeroed()
    }

    #[cfg(loom)]
    fn empty() -> Option<NonNull<OwnBlock>> {
        let block = OwnBlock {
            records: ptr::null(),
            next: AtomicPtr::default(),
            progress: Default::default(),
            app_signals: Default::default(),
            watched: Default::default(),
        };
        Some(NonNull::from(Box::leak(Box::new(block))))
    }
}

impl BlockRef {
    /// A block with records that live as long as the process: see `Records::blocks`. `None` if the system has no memory left.
    fn of(records: NonNull<Block>) -> Option<BlockRef> {
        let mut block = OwnBlock::empty()?;
        // SAFETY: the memory was just made, and no other thread knows of it.
        let own = unsafe { block.as_mut() };
        own.records = records.as_ptr();
        let block = BlockRef(block);
        block.touch();
        Some(block)
    }

    /// The next user of an empty block does not wait for the pages of its progress.
    fn touch(self) {
        self.own().progress.iter().for_each(|progress| progress.set_state(State::Free));
    }

    fn own(self) -> &'static OwnBlock {
        // SAFETY: the pointer comes from a leaked box, in `of`.
        let own = unsafe { self.0.as_ref() };
        #[cfg(loom)]
        own.watched.with(|_| ());
        own
    }

    /// The records, as readers of the file see them. Another process may write them.
    pub fn get(self) -> &'static Block {
        // SAFETY: the pointer comes from a leaked box or a mapping that is never unmapped: see `Records::blocks`.
        unsafe { &*self.own().records }
    }

    /// Asks for the cache lines of a record and its progress; of none past the last one.
    #[inline]
    fn ask_for(self, slot: usize) {
        let Some(record) = self.get().records.get(slot) else { return };
        prefetch_for_write(record);
        if slot == 0 {
            prefetch_for_write(self.get());
        }
        if slot.is_multiple_of(PROGRESS_OF_A_LINE) {
            prefetch_for_write(&self.own().progress[slot]);
        }
    }

    /// The private progress of a dispatch; `None` past the last one.
    #[inline]
    pub fn progress(self, slot: usize) -> Option<&'static Progress> {
        self.own().progress.get(slot)
    }

    /// The records that are not free.
    pub fn used(self) -> impl Iterator<Item = RecordRef> {
        (0..BLOCK_RECORDS).map(move |slot| RecordRef { block: self, slot }).filter(|r| r.state() != State::Free)
    }

    /// The block that its publisher went on with, if it is full.
    pub fn next(self) -> Option<BlockRef> {
        NonNull::new(self.own().next.load(Ordering::Acquire)).map(BlockRef)
    }

    /// Says which block its publisher goes on with.
    pub(crate) fn set_next(self, next: BlockRef) {
        self.own().next.store(next.0.as_ptr(), Ordering::Release);
    }

    /// Gives the memory of a block back to the system that is empty, and that no queue has.
    fn rest(self, records: &Records) {
        #[cfg(not(loom))]
        // SAFETY: the memory is a mapping, made by `OwnBlock::empty`, and threads read and write its atomics only. In the first page is
        // what is not zero in an empty block.
        unsafe {
            pages::give_back(self.0, 1);
        }
        if let Some(block) = NonNull::new(self.own().records.cast_mut()) {
            // SAFETY: the block is the records' own, and empty; `Blocks::make` has room reserved for it before it is used.
            unsafe { records.rest(block) };
        }
    }

    /// Makes every record free again. No other thread may hold the block.
    fn clear(self) {
        #[cfg(loom)]
        self.own().watched.with_mut(|_| ());
        self.get().clear();
        self.own().next.store(ptr::null_mut(), Ordering::Relaxed);
        self.own().progress.iter().for_each(|progress| progress.set_state(State::Free));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::atomic::AtomicBool;
    use crate::sync::explore;
    use loom::sync::Arc;
    use loom::thread;

    /// A queue's blocks as its publisher, the reaper and the log thread see them.
    struct Harness {
        blocks: Blocks,
        spare: Spare,
        gone: AtomicBool,
    }

    impl Harness {
        fn new() -> Arc<Harness> {
            let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX).unwrap();
            Arc::new(Harness { blocks, spare: Spare::default(), gone: AtomicBool::new(false) })
        }

        /// A dispatch: the publisher goes on in another block if this one is full.
        fn publish(&self, free: &mut Cursor, dispatch: u64) {
            let record = match free.record() {
                Some(record) => record,
                None => {
                    let next = self.blocks.next(&self.spare, 1, 0).unwrap();
                    free.block.set_next(next);
                    *free = Cursor::start(next);
                    RecordRef { block: next, slot: 0 }
                }
            };
            assert_eq!(record.state(), State::Free, "the record is in use");
            record.progress().signal.store(dispatch, Ordering::Relaxed);
            record.set_state(State::InFlight);
            free.advance();
        }

        /// The log thread: writes the rows that there are, gives blocks back. Returns the dispatches of the rows.
        fn log(&self, first: &mut Cursor) -> Vec<u64> {
            let (mut at, mut rows) = (*first, Vec::new());
            while let Some(record) = at.record() {
                if at.block != first.block {
                    let old = first.block;
                    *first = at;
                    self.blocks.give_back(old);
                }
                if record.state() != State::InFlight {
                    break;
                }
                rows.push(record.progress().signal.load(Ordering::Relaxed));
                record.set_state(State::Logged);
                at.advance();
            }
            *first = at;
            rows
        }

        /// The reaper's round.
        fn put_aside(&self) {
            self.blocks.put_aside(&self.spare);
            if self.gone.load(Ordering::Acquire) {
                self.blocks.take_back(&self.spare);
            }
        }
    }

    #[test]
    fn blocks_that_are_used_again_lose_no_dispatch_and_show_none_twice() {
        const DISPATCHES: u64 = 5;
        explore(3, || {
            let harness = Harness::new();
            let start = Cursor::start(harness.blocks.take().unwrap());
            let other = Arc::clone(&harness);
            let publisher = thread::spawn(move || {
                let mut free = start;
                for dispatch in 0..DISPATCHES {
                    other.publish(&mut free, dispatch);
                    if dispatch % 2 == 0 {
                        thread::yield_now();
                    }
                }
            });
            let mut first = start;
            let mut rows = Vec::new();
            for _ in 0..3 {
                // Loom lets the publisher go on here, however far.
                thread::yield_now();
                rows.extend(harness.log(&mut first));
                harness.put_aside();
            }
            publisher.join().unwrap();
            rows.extend(harness.log(&mut first));
            assert_eq!(rows, (0..DISPATCHES).collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_block_that_is_put_aside_is_the_publishers_or_comes_back_when_the_queue_is_gone() {
        explore(3, || {
            let harness = Harness::new();
            harness.blocks.prepare();
            let threads = [
                // The application uses the queue and destroys it; the log thread sees that it is gone.
                |harness: &Harness| {
                    let block = harness.blocks.next(&harness.spare, 1, 0).unwrap();
                    harness.gone.store(true, Ordering::Release);
                    harness.blocks.take_back(&harness.spare);
                    harness.blocks.give_back(block);
                },
                |harness: &Harness| (0..2).for_each(|_| harness.put_aside()),
            ];
            let threads = threads.map(|body| {
                let harness = Arc::clone(&harness);
                thread::spawn(move || body(&harness))
            });
            threads.into_iter().for_each(|t| t.join().unwrap());
            let mut pool: Vec<_> = lock(&harness.blocks.pool).iter().map(|b| b.0).collect();
            let used = harness.blocks.used.load(Ordering::Relaxed);
            let made = harness.blocks.made.load(Ordering::Relaxed);
            assert_eq!((harness.spare.take(), used, pool.len()), (None, 0, made), "a block is lost, or there twice");
            pool.sort();
            pool.dedup();
            assert_eq!(pool.len(), made, "a block is there twice");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
