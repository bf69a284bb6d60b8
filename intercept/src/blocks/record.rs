//! References to records, and places in a queue's chain of blocks.

use logdur_journal::{Fate, Record, State, Times};

use super::{BLOCK_RECORDS, BlockRef, Spare};
use crate::cache_line::prefetch_for_write;
use crate::progress::{AppSignal, Progress};

/// Times whose cache line is asked for together.
const TIMES_OF_A_LINE: usize = 64 / size_of::<Times>();

/// A record of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef {
    /// Its block.
    pub block: BlockRef,
    /// Its position there.
    pub slot: usize,
}

impl RecordRef {
    /// What a row is made of. Another process may write it.
    pub fn record(self) -> &'static Record {
        &self.block.get().records[self.slot]
    }

    /// The times of the row. Another process may write them.
    pub fn times(self) -> &'static Times {
        &self.block.get().times[self.slot]
    }

    /// The private progress of the dispatch.
    #[inline]
    pub fn progress(self) -> &'static Progress {
        &self.block.own().progress[self.slot]
    }

    /// Asks for the cache lines of a record that comes so many later: another thread has left them elsewhere.
    #[inline]
    pub fn ask_ahead(self, later: usize) {
        let slot = self.slot + later;
        self.block.ask_for(slot);
        if slot.is_multiple_of(TIMES_OF_A_LINE)
            && let Some(times) = self.block.get().times.get(slot)
        {
            prefetch_for_write(times);
        }
    }

    /// The same for a publisher, which writes no times, and which goes on in the spare block behind this one.
    #[inline]
    pub(crate) fn ask_ahead_to_fill(self, later: usize, spare: &Spare) {
        let slot = self.slot + later;
        match slot.checked_sub(BLOCK_RECORDS) {
            None => self.block.ask_for(slot),
            Some(slot) => spare.ask_for(slot),
        }
    }

    /// What is remembered of the application's signal.
    pub(crate) fn app_signal(self) -> &'static AppSignal {
        &self.block.own().app_signals[self.slot]
    }

    /// How far the dispatch has come.
    #[inline]
    pub fn state(self) -> State {
        self.progress().state()
    }

    /// Moves on to a state; a thread that sees the state sees what was written before.
    #[inline]
    pub fn set_state(self, state: State) {
        self.record().set_state(state);
        self.progress().set_state(state);
    }

    /// Says how far the row of a dispatch that is done has come, and moves it to [`State::Logged`] unless it is still to
    /// be written.
    #[inline]
    pub fn set_fate(self, fate: Fate) {
        self.record().set_fate(fate);
        if !matches!(fate, Fate::Pending | Fate::Writing) {
            self.progress().set_state(State::Logged);
        }
    }

    /// Bits of `logdur_journal::flag`.
    #[inline]
    pub fn flags(self) -> u8 {
        self.progress().flags()
    }

    /// Replaces the flags; only before the record is published.
    #[inline]
    pub fn set_flags(self, flags: u8) {
        self.record().set_flags(flags);
        self.progress().set_flags(flags);
    }

    /// Adds flags.
    #[inline]
    pub fn add_flags(self, flags: u8) {
        self.record().add_flags(flags);
        self.progress().add_flags(flags);
    }
}

/// A place in a queue's chain of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// A block of the chain.
    pub block: BlockRef,
    /// The position there; the number of records in a block stands for the first one of the next block.
    pub slot: usize,
}

impl Cursor {
    /// At the first record of a block.
    pub fn start(block: BlockRef) -> Cursor {
        Cursor { block, slot: 0 }
    }

    /// The record here; `None` at the end of the last block.
    #[inline]
    pub fn record(&mut self) -> Option<RecordRef> {
        if self.slot == BLOCK_RECORDS {
            *self = Cursor::start(self.block.next()?);
        }
        Some(RecordRef { block: self.block, slot: self.slot })
    }

    /// Moves on by one record.
    #[inline]
    pub fn advance(&mut self) {
        self.slot += 1;
    }
}

impl From<RecordRef> for Cursor {
    fn from(RecordRef { block, slot }: RecordRef) -> Cursor {
        Cursor { block, slot }
    }
}
