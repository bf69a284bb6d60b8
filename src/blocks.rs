//! Blocks of records that nobody uses at the moment, and references to records.
//!
//! # Threads
//! Any. A publisher takes a block every [`BLOCK_RECORDS`] dispatches; the log thread gives them back.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use logdur_journal::{AppSignal, BLOCK_RECORDS, Block, Record, Times};

use crate::session::lock;

/// The free blocks. A block is never given back to the allocator: references to its records stay readable.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Vec<BlockRef>>);

/// A block that lives as long as the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef(NonNull<Block>);

// SAFETY: a block consists of atomics and is never freed.
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
    /// An empty block.
    pub(crate) fn take(&self) -> BlockRef {
        let free = lock(&self.0).pop();
        free.unwrap_or_else(|| BlockRef(NonNull::from(Box::leak(Block::new()))))
    }

    /// Gives a block back that nobody uses any more.
    pub(crate) fn give_back(&self, block: BlockRef) {
        block.get().clear();
        lock(&self.0).push(block);
    }
}

impl BlockRef {
    pub(crate) fn get(self) -> &'static Block {
        // SAFETY: the pointer comes from a leaked box, in `Blocks::take`.
        unsafe { self.0.as_ref() }
    }

    /// The block that its publisher went on with, if it is full.
    pub(crate) fn next(self) -> Option<BlockRef> {
        NonNull::new(self.get().next.load(Ordering::Acquire)).map(BlockRef)
    }

    /// Says which block its publisher goes on with.
    pub(crate) fn set_next(self, next: BlockRef) {
        self.get().next.store(next.0.as_ptr(), Ordering::Release);
    }
}

impl RecordRef {
    pub(crate) fn record(self) -> &'static Record {
        &self.block.get().records[self.slot]
    }

    pub(crate) fn times(self) -> &'static Times {
        &self.block.get().times[self.slot]
    }

    pub(crate) fn app_signal(self) -> &'static AppSignal {
        &self.block.get().app_signals[self.slot]
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
