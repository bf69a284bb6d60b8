//! Blocks of records that nobody uses at the moment, and references to records.
//!
//! # Threads
//! A publisher takes a block every [`BLOCK_RECORDS`] dispatches: the one that the reaper has put aside for its queue, else
//! one of the pool, if nobody else is just there. The reaper has the pool grow before it is empty; the log thread gives
//! blocks back.

use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use logdur_journal::{BLOCK_BYTES, BLOCK_RECORDS, Block, Fate, Record, Records, State, Times};

use crate::cache_line::prefetch_for_write;
use crate::progress::{AppSignal, Progress};
use crate::session::lock;

/// Blocks that are made at once.
const BATCH: usize = 4;
/// Blocks that are kept ready at most.
const READY: usize = 64;

/// Whose cache line is asked for together.
const PROGRESS_OF_A_LINE: usize = 64 / size_of::<Progress>();

/// The free blocks. A block is never given back to the system: references to its records stay readable.
pub(crate) struct Blocks {
    records: &'static Records,
    pool: Mutex<Vec<BlockRef>>,
    /// Blocks that publishers took since the pool was last looked after.
    demand: AtomicUsize,
    /// Blocks that there are, in the pool or in use.
    made: AtomicUsize,
    /// More than these are in use only until the log thread has given up rows that cannot be written.
    limit: usize,
    /// Where cursors stand that have no more to do. No dispatch is recorded there.
    parked: BlockRef,
}

/// A block of records, and what the process acts upon of their dispatches. Zeros are a value, but for its use.
struct OwnBlock {
    records: *const Block,
    /// The block that follows, null while this one is being filled.
    next: AtomicPtr<OwnBlock>,
    progress: [Progress; BLOCK_RECORDS],
    /// Memory that few applications touch.
    app_signals: [AppSignal; BLOCK_RECORDS],
}

/// The next block for a queue, put aside.
#[derive(Default)]
pub(crate) struct Spare(AtomicPtr<OwnBlock>);

/// A block that lives as long as the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef(NonNull<OwnBlock>);

// SAFETY: a block consists of atomics and a pointer to atomics, and neither is ever freed.
unsafe impl Send for BlockRef {}
// SAFETY: as above.
unsafe impl Sync for BlockRef {}

/// A record of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordRef {
    pub(crate) block: BlockRef,
    pub(crate) slot: usize,
}

impl Blocks {
    /// Blocks for records of about `limit` bytes in all.
    pub(crate) fn new(records: &'static Records, limit: u64) -> Blocks {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX) / BLOCK_BYTES;
        let parked = BlockRef::of(NonNull::from(Box::leak(Block::new())));
        Blocks {
            records,
            pool: Mutex::default(),
            demand: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            limit,
            parked,
        }
    }

    /// An empty block, for a thread that may wait.
    pub(crate) fn take(&self) -> BlockRef {
        let mut pool = lock(&self.pool);
        if pool.is_empty() {
            pool.extend(self.make(BATCH));
        }
        pool.pop().unwrap_or(self.parked)
    }

    /// An empty block for the publisher of a queue.
    pub(crate) fn next(&self, spare: &Spare, queue: u64, agent: usize) -> BlockRef {
        self.demand.fetch_add(1, Ordering::Relaxed);
        let pooled = || self.pool.try_lock().ok()?.pop();
        let block = spare.take().or_else(pooled).unwrap_or_else(|| self.take_new());
        block.get().assign(queue, agent);
        block
    }

    /// The last resort: the queue takes blocks faster than the reaper makes them.
    fn take_new(&self) -> BlockRef {
        let mut new = self.make(BATCH);
        let block = new.next().unwrap_or(self.parked);
        lock(&self.pool).extend(new);
        block
    }

    fn make(&self, count: usize) -> impl Iterator<Item = BlockRef> + use<> {
        self.made.fetch_add(count, Ordering::Relaxed);
        self.records.blocks(count).into_iter().map(BlockRef::of)
    }

    /// True when the blocks in use take more memory than they may.
    pub(crate) fn are_too_many(&self) -> bool {
        self.made.load(Ordering::Relaxed).saturating_sub(lock(&self.pool).len()) > self.limit
    }

    /// Sees to it that there are as many blocks ready as are going to be wanted until this is called again.
    pub(crate) fn prepare(&self) {
        let wanted = (self.demand.swap(0, Ordering::Relaxed) * 2).clamp(BATCH, READY);
        let missing = wanted.saturating_sub(lock(&self.pool).len());
        if missing > 0 {
            let new = self.make(missing.max(BATCH));
            lock(&self.pool).extend(new);
        }
    }

    /// Puts a block aside for a queue, if it has none. The thread that takes back what was put aside, and knows that the queue is
    /// gone, tells the caller: it sees afterwards that the queue is gone.
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
    pub(crate) fn take_back(&self, spare: &Spare) {
        lock(&self.pool).extend(spare.take());
    }

    /// Gives a block back that nobody uses any more, and whose records are counted.
    pub(crate) fn give_back(&self, block: BlockRef) {
        block.clear();
        lock(&self.pool).push(block);
    }

    /// Where a cursor stands that has no more to do.
    pub(crate) fn nowhere(&self) -> Cursor {
        Cursor::start(self.parked)
    }
}

impl Spare {
    fn take(&self) -> Option<BlockRef> {
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::AcqRel)).map(BlockRef)
    }
}

impl BlockRef {
    /// A block with records that live as long as the process: see `Records::blocks`.
    fn of(records: NonNull<Block>) -> BlockRef {
        let block = Box::<OwnBlock>::new_zeroed();
        // SAFETY: null pointers and atomic integers that are 0.
        let mut block = unsafe { block.assume_init() };
        block.records = records.as_ptr();
        // The next user of the block does not wait for its pages.
        block.progress.iter().for_each(|progress| progress.set_state(State::Free));
        BlockRef(NonNull::from(Box::leak(block)))
    }

    fn own(self) -> &'static OwnBlock {
        // SAFETY: the pointer comes from a leaked box, in `of`.
        unsafe { self.0.as_ref() }
    }

    /// The records, as readers of the file see them. Another process may write them.
    pub(crate) fn get(self) -> &'static Block {
        // SAFETY: the pointer comes from a leaked box or a mapping that is never unmapped: see `Records::blocks`.
        unsafe { &*self.own().records }
    }

    /// What the process acts upon of a dispatch; `None` past the last one.
    #[inline]
    pub(crate) fn progress(self, slot: usize) -> Option<&'static Progress> {
        self.own().progress.get(slot)
    }

    /// The records that are not free.
    pub(crate) fn used(self) -> impl Iterator<Item = RecordRef> {
        (0..BLOCK_RECORDS).map(move |slot| RecordRef { block: self, slot }).filter(|r| r.state() != State::Free)
    }

    /// The block that its publisher went on with, if it is full.
    pub(crate) fn next(self) -> Option<BlockRef> {
        NonNull::new(self.own().next.load(Ordering::Acquire)).map(BlockRef)
    }

    /// Says which block its publisher goes on with.
    pub(crate) fn set_next(self, next: BlockRef) {
        self.own().next.store(next.0.as_ptr(), Ordering::Release);
    }

    /// Makes every record free again. No other thread may hold the block.
    fn clear(self) {
        self.get().clear();
        self.own().next.store(ptr::null_mut(), Ordering::Relaxed);
        self.own().progress.iter().for_each(|progress| progress.set_state(State::Free));
    }
}

impl RecordRef {
    /// What a row is made of. Another process may write it.
    pub(crate) fn record(self) -> &'static Record {
        &self.block.get().records[self.slot]
    }

    /// The times of the row. Another process may write them.
    pub(crate) fn times(self) -> &'static Times {
        &self.block.get().times[self.slot]
    }

    /// What the process acts upon.
    #[inline]
    pub(crate) fn progress(self) -> &'static Progress {
        &self.block.own().progress[self.slot]
    }

    /// Asks for the cache lines of a record that comes so many later: another thread has left them elsewhere.
    #[inline]
    pub(crate) fn ask_ahead(self, later: usize) {
        let slot = self.slot + later;
        let Some(record) = self.block.get().records.get(slot) else { return };
        prefetch_for_write(record);
        if slot.is_multiple_of(PROGRESS_OF_A_LINE) {
            prefetch_for_write(&self.block.own().progress[slot]);
        }
    }

    /// What is remembered of the application's signal.
    pub(crate) fn app_signal(self) -> &'static AppSignal {
        &self.block.own().app_signals[self.slot]
    }

    /// How far the dispatch has come.
    #[inline]
    pub(crate) fn state(self) -> State {
        self.progress().state()
    }

    /// Moves on to a state; a thread that sees the state sees what was written before.
    #[inline]
    pub(crate) fn set_state(self, state: State) {
        self.record().set_state(state);
        self.progress().set_state(state);
    }

    /// Says how far the row of a dispatch that is done has come, and moves it to [`State::Logged`] unless it is still to
    /// be written.
    pub(crate) fn set_fate(self, fate: Fate) {
        self.record().set_fate(fate);
        if !matches!(fate, Fate::Pending | Fate::Writing) {
            self.progress().set_state(State::Logged);
        }
    }

    /// Bits of `logdur_journal::flag`.
    #[inline]
    pub(crate) fn flags(self) -> u8 {
        self.progress().flags()
    }

    /// Replaces the flags; only before the record is published.
    #[inline]
    pub(crate) fn set_flags(self, flags: u8) {
        self.record().set_flags(flags);
        self.progress().set_flags(flags);
    }

    /// Adds flags.
    #[inline]
    pub(crate) fn add_flags(self, flags: u8) {
        self.record().add_flags(flags);
        self.progress().add_flags(flags);
    }
}

/// A place in a queue's chain of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) block: BlockRef,
    pub(crate) slot: usize,
}

impl Cursor {
    pub(crate) fn start(block: BlockRef) -> Cursor {
        Cursor { block, slot: 0 }
    }

    /// The record here; `None` at the end of the last block.
    pub(crate) fn record(&mut self) -> Option<RecordRef> {
        if self.slot == BLOCK_RECORDS {
            *self = Cursor::start(self.block.next()?);
        }
        Some(RecordRef { block: self.block, slot: self.slot })
    }

    pub(crate) fn advance(&mut self) {
        self.slot += 1;
    }
}
