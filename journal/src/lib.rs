//! Dispatch records: what is kept of a dispatch from the moment its packet is given to the GPU until its row is written.
//!
//! Records come in [`Block`]s, each filled by one queue's publisher, completed by the reaper and written by the log
//! thread. A record is one cache line, so that publishing a dispatch touches one; its times are in an array of their
//! own, since another thread writes them.
//!
//! # Threads
//! * The publisher (one at a time for each queue) fills a record and moves it from [`State::Free`] to
//!   [`State::InFlight`].
//! * Whoever harvests it (see `logdur`'s reaper) writes its times and moves it to [`State::Done`].
//! * The log thread writes its row and moves it to [`State::Logged`], and empties a block once all of its records are.
//!
//! # Ordering
//! The state is stored with release and loaded with acquire: whoever sees a state sees everything that was written
//! before it.

use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Records of a block.
pub const BLOCK_RECORDS: usize = 256;

/// How far a dispatch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No dispatch.
    Free = 0,
    /// Its packet was given to the GPU.
    InFlight = 1,
    /// It is complete, or never will be; its times are as good as they get.
    Done = 2,
    /// Its row is written or counted.
    Logged = 3,
}

/// Bits of [`Record::flags`].
pub mod flag {
    /// The packet has the barrier bit: it starts when all earlier packets of its queue are complete.
    pub const BARRIER: u8 = 1;
    /// The application's own signal, left in the packet, is where the times appear.
    pub const APP_SIGNAL: u8 = 1 << 1;
    /// Our signal stands in for the application's, which is decremented at completion.
    pub const FORWARDED: u8 = 1 << 2;
    /// Complete, but the GPU wrote no times.
    pub const NO_TIMES: u8 = 1 << 3;
    /// Not complete when the runtime or the process ended.
    pub const INCOMPLETE: u8 = 1 << 4;
    /// Another operation used the same signal meanwhile: the times may be that one's.
    pub const SHARED_SIGNAL: u8 = 1 << 5;
    /// No dispatch but a packet whose signal has to wait for those of dispatches before it: it has no row.
    pub const NO_DISPATCH: u8 = 1 << 6;
}

/// One dispatch.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Record {
    /// When the doorbell was rung, in nanoseconds of the system clock (`CLOCK_BOOTTIME`).
    pub dispatch_ns: AtomicU64,
    /// Address of the kernel descriptor.
    pub kernel_object: AtomicU64,
    /// Handle of the signal on which the times appear.
    pub signal: AtomicU64,
    /// Number of the dispatch in its process, from 0.
    pub id: AtomicU64,
    /// Number of the kernel in its process; 0 when it is not known.
    pub kernel: AtomicU32,
    /// Work-items in x, y and z.
    pub grid: [AtomicU32; 3],
    /// Bytes of LDS of a workgroup.
    pub lds_bytes: AtomicU32,
    /// Bytes of scratch of a work-item.
    pub scratch_bytes: AtomicU32,
    /// Work-items of a workgroup in x, y and z.
    pub workgroup: [AtomicU16; 3],
    state: AtomicU8,
    flags: AtomicU8,
}

const _: () = assert!(size_of::<Record>() == 64);

/// When a dispatch ran, in ticks of its agent's clock.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Times {
    /// The first wave started.
    pub start: AtomicU64,
    /// The last wave ended.
    pub end: AtomicU64,
}

/// What is remembered of an application's signal.
#[derive(Debug, Default)]
#[repr(C)]
pub struct AppSignal {
    /// [`flag::FORWARDED`]: the signal to decrement.
    pub forward_to: AtomicU64,
    /// [`flag::APP_SIGNAL`]: the end time that it carried before, so that a new one can be told.
    pub end_before: AtomicU64,
}

/// Records of consecutive dispatches of one queue.
#[repr(C)]
pub struct Block {
    /// The block that follows, null while this one is being filled.
    pub next: AtomicPtr<Block>,
    /// The records.
    pub records: [Record; BLOCK_RECORDS],
    /// Their times.
    pub times: [Times; BLOCK_RECORDS],
    /// What is remembered of their applications' signals.
    pub app_signals: [AppSignal; BLOCK_RECORDS],
}

impl Record {
    /// How far the dispatch has come.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::InFlight,
            2 => State::Done,
            _ => State::Logged,
        }
    }

    /// Moves on to a state; what was written before is visible to whoever sees it.
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Bits of [`flag`].
    pub fn flags(&self) -> u8 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Replaces the flags; only before the record is published.
    pub fn set_flags(&self, flags: u8) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Adds flags.
    pub fn add_flags(&self, flags: u8) {
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }
}

impl Block {
    /// An empty block.
    pub fn new() -> Box<Block> {
        let block = Box::<Block>::new_zeroed();
        // SAFETY: a block is a pointer that may be null and atomic integers, for all of which zero is a value.
        unsafe { block.assume_init() }
    }

    /// Makes every record free again. Nobody else may hold the block.
    pub fn clear(&self) {
        self.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        for (record, times) in self.records.iter().zip(&self.times) {
            times.start.store(0, Ordering::Relaxed);
            times.end.store(0, Ordering::Relaxed);
            record.set_state(State::Free);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_goes_through_its_states_and_is_free_again_when_its_block_is_cleared() {
        let block = Block::new();
        let record = &block.records[7];
        assert_eq!(record.state(), State::Free);
        record.set_flags(flag::BARRIER);
        record.set_state(State::InFlight);
        block.times[7].end.store(5, Ordering::Relaxed);
        record.add_flags(flag::NO_TIMES);
        record.set_state(State::Done);
        assert_eq!((record.state(), record.flags()), (State::Done, flag::BARRIER | flag::NO_TIMES));
        block.clear();
        assert_eq!((record.state(), block.times[7].end.load(Ordering::Relaxed)), (State::Free, 0));
    }
}
