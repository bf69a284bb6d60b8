//! The record of one dispatch, and blocks of them.
//!
//! # Threads
//! * The publisher (one at a time for each queue) fills a record and moves it from [`State::Free`] to
//!   [`State::InFlight`].
//! * The thread that harvests it (see `logdur`'s reaper) writes its times and moves it to [`State::Done`].
//! * The log thread writes its row and moves it to [`State::Logged`], and empties a block once all of its records are.
//!
//! # Ordering
//! The state is stored with release and loaded with acquire: a thread that sees a state sees everything that was written
//! before it. That holds for a reader of the file too: the stores of a thread that was killed are there up to some point.
//!
//! # Trust
//! Blocks are in a mapping of a file, so another process of the same user can overwrite them at any time. They hold only
//! what a row is made of. The process that writes them keeps what it acts upon in private memory: states, flags,
//! signals, and which block follows which.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::layout::{ChunkHead, Kind, Plain};
use crate::pages;

/// Records of a block: as many as fit into ten pages.
pub const BLOCK_RECORDS: usize = 511;

/// Bytes that a block takes in the file, a multiple of the page.
pub const BLOCK_BYTES: usize = 10 * 4096;

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

impl State {
    /// The state that a byte says in its two low bits.
    #[inline]
    pub fn of(byte: u8) -> State {
        match byte & 3 {
            0 => State::Free,
            1 => State::InFlight,
            2 => State::Done,
            _ => State::Logged,
        }
    }
}

/// How far the row of a dispatch that is [`State::Done`] or [`State::Logged`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not yet written.
    Pending,
    /// It may be in the log or not: the process was writing it.
    Writing,
    /// In the log.
    Written,
    /// The log does not want it.
    Filtered,
    /// The log could not be written.
    Unwritten,
}

// The state's byte: the state in the two low bits, above them what is to be told apart of its fate.
const WRITING: u8 = 1 << 2 | State::Done as u8;
const FILTERED: u8 = 1 << 2 | State::Logged as u8;
const UNWRITTEN: u8 = 2 << 2 | State::Logged as u8;

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
    /// Its kernel has an instrumented clone, which has not run.
    pub const NOT_INSTRUMENTED: u8 = 1 << 7;
}

/// One dispatch.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Record {
    /// When the doorbell was rung, in ticks of the host's counter (see [`Header::host_clock`](crate::layout::Header)).
    pub dispatch: AtomicU64,
    /// By the kind of work: see the accessors.
    subject: AtomicU64,
    /// Number of the dispatch in its process, from 0.
    pub id: AtomicU64,
    /// The number of the thread that asked for it; 0 if it is not known.
    pub thread: AtomicU32,
    /// The number of the place that it was launched from; 0 if it is not known.
    pub site: AtomicU32,
    // As in the packet where that is possible: words of eight bytes go from there to here.
    kernel_and_grid_x: AtomicU64,
    grid_y_and_z: AtomicU64,
    scratch_and_lds: AtomicU64,
    workgroup_x_and_y: AtomicU32,
    workgroup_z: AtomicU16,
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

/// Records of consecutive dispatches of one queue; a chunk of the file.
#[repr(C, align(64))]
pub struct Block {
    /// What makes it a chunk.
    pub(crate) head: ChunkHead,
    /// How often it has been emptied.
    generation: AtomicU64,
    queue: AtomicU64,
    /// Where it is in the file; 0 when it is in private memory.
    offset: AtomicU64,
    agent: AtomicU32,
    /// The records.
    pub records: [Record; BLOCK_RECORDS],
    /// Their times.
    pub times: [Times; BLOCK_RECORDS],
}

const _: () = assert!(size_of::<Block>() <= BLOCK_BYTES && BLOCK_BYTES - size_of::<Block>() < size_of::<[u8; 96]>());

// SAFETY: a block consists of atomic integers, which any bytes are values of.
unsafe impl Plain for Block {}

/// What a dispatch runs, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Number of the kernel in its process; 0 when it is not known.
    pub kernel: u32,
    /// Work-items in x, y and z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y and z.
    pub workgroup: [u16; 3],
    /// Bytes of scratch of a work-item.
    pub scratch_bytes: u32,
    /// Bytes of LDS of a workgroup.
    pub lds_bytes: u32,
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn halves(pair: u64) -> [u32; 2] {
    [pair as u32, (pair >> 32) as u32]
}

impl Record {
    /// Of a dispatch: the address of its kernel descriptor.
    #[inline]
    pub fn kernel_object(&self) -> &AtomicU64 {
        &self.subject
    }

    /// What tells work of one kernel and shape apart, of any kind.
    pub(crate) fn subject(&self) -> u64 {
        self.subject.load(Ordering::Relaxed)
    }

    /// What neighbouring records mostly have in common, as words: the subject, number of the kernel and grid in x, grid in y and z,
    /// scratch and LDS, the workgroup.
    #[inline]
    pub(crate) fn common_words(&self) -> [u64; 5] {
        let [x_and_y, z] =
            [self.workgroup_x_and_y.load(Ordering::Relaxed), self.workgroup_z.load(Ordering::Relaxed).into()];
        [
            self.subject.load(Ordering::Relaxed),
            self.kernel_and_grid_x.load(Ordering::Relaxed),
            self.grid_y_and_z.load(Ordering::Relaxed),
            self.scratch_and_lds.load(Ordering::Relaxed),
            pair(x_and_y, z),
        ]
    }

    /// Of a copy: its bytes.
    pub fn copied_bytes(&self) -> &AtomicU64 {
        &self.subject
    }

    /// Sets what is dispatched; only before the record is published.
    #[inline]
    pub fn set_shape(&self, shape: Shape) {
        let ([grid_x, grid_y, grid_z], [x, y, z]) = (shape.grid, shape.workgroup);
        self.kernel_and_grid_x.store(pair(shape.kernel, grid_x), Ordering::Relaxed);
        self.grid_y_and_z.store(pair(grid_y, grid_z), Ordering::Relaxed);
        self.scratch_and_lds.store(pair(shape.scratch_bytes, shape.lds_bytes), Ordering::Relaxed);
        self.workgroup_x_and_y.store(x as u32 | (y as u32) << 16, Ordering::Relaxed);
        self.workgroup_z.store(z, Ordering::Relaxed);
    }

    /// Number of the kernel in its process; 0 when it is not known.
    #[inline]
    pub fn kernel(&self) -> u32 {
        self.kernel_and_grid_x.load(Ordering::Relaxed) as u32
    }

    /// What is dispatched.
    pub fn shape(&self) -> Shape {
        let [kernel, grid_x] = halves(self.kernel_and_grid_x.load(Ordering::Relaxed));
        let [grid_y, grid_z] = halves(self.grid_y_and_z.load(Ordering::Relaxed));
        let [scratch_bytes, lds_bytes] = halves(self.scratch_and_lds.load(Ordering::Relaxed));
        let (x_and_y, z) = (self.workgroup_x_and_y.load(Ordering::Relaxed), self.workgroup_z.load(Ordering::Relaxed));
        let workgroup = [x_and_y as u16, (x_and_y >> 16) as u16, z];
        Shape { kernel, grid: [grid_x, grid_y, grid_z], workgroup, scratch_bytes, lds_bytes }
    }

    /// How far the dispatch has come.
    #[inline]
    pub fn state(&self) -> State {
        State::of(self.state.load(Ordering::Acquire))
    }

    /// Moves on to a state; a thread that sees the state sees what was written before.
    #[inline]
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// True for a state that a record has which was given to a dispatch.
    pub(crate) fn is_known(&self) -> bool {
        let known = [State::InFlight as u8, State::Done as u8, State::Logged as u8, WRITING, FILTERED, UNWRITTEN];
        known.contains(&self.state.load(Ordering::Acquire))
    }

    /// How far its row has come.
    pub fn fate(&self) -> Fate {
        match self.state.load(Ordering::Acquire) {
            WRITING => Fate::Writing,
            FILTERED => Fate::Filtered,
            UNWRITTEN => Fate::Unwritten,
            byte if byte & 3 == State::Logged as u8 => Fate::Written,
            _ => Fate::Pending,
        }
    }

    /// Says how far the row of a dispatch that is done has come, and moves it to [`State::Logged`] unless it is still to
    /// be written.
    #[inline]
    pub fn set_fate(&self, fate: Fate) {
        let byte = match fate {
            Fate::Pending => State::Done as u8,
            Fate::Writing => WRITING,
            Fate::Written => State::Logged as u8,
            Fate::Filtered => FILTERED,
            Fate::Unwritten => UNWRITTEN,
        };
        self.state.store(byte, Ordering::Release);
    }

    /// Bits of [`flag`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Replaces the flags; only before the record is published.
    #[inline]
    pub fn set_flags(&self, flags: u8) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Adds flags.
    #[inline]
    pub fn add_flags(&self, flags: u8) {
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }
}

impl Block {
    /// An empty block in private memory, for as long as the process lives; `None` if the system has no memory left.
    pub fn new() -> Option<NonNull<Block>> {
        let block = pages::zeroed::<Block>()?;
        // SAFETY: the memory was just made. `Plain`: zeros are a value.
        unsafe { block.as_ref() }.become_chunk(0);
        Some(block)
    }

    /// Makes zeroed memory at an offset of the file a chunk.
    pub(crate) fn become_chunk(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
        self.head.complete(Kind::Block, BLOCK_BYTES as u64);
    }

    /// Says whose dispatches its records are going to be. Before the first of them.
    #[inline]
    pub fn assign(&self, queue: u64, agent: usize) {
        self.queue.store(queue, Ordering::Relaxed);
        self.agent.store(agent as u32, Ordering::Relaxed);
    }

    /// The runtime's number of the queue.
    pub fn queue(&self) -> u64 {
        self.queue.load(Ordering::Relaxed)
    }

    /// Position of the queue's agent among the GPUs.
    pub fn agent(&self) -> usize {
        self.agent.load(Ordering::Relaxed) as usize
    }

    /// False for one in private memory.
    pub fn is_in_file(&self) -> bool {
        self.offset().is_some()
    }

    /// Where it is in the file.
    pub(crate) fn offset(&self) -> Option<u64> {
        Some(self.offset.load(Ordering::Relaxed)).filter(|&offset| offset != 0)
    }

    /// Which block it is, in which of its lives.
    pub(crate) fn life(&self) -> (u64, u64) {
        (self.offset.load(Ordering::Relaxed), self.generation.load(Ordering::Acquire))
    }

    /// Makes every record free again. No other thread may hold the block.
    pub fn clear(&self) {
        for (record, times) in self.records.iter().zip(&self.times) {
            times.start.store(0, Ordering::Relaxed);
            times.end.store(0, Ordering::Relaxed);
            record.set_state(State::Free);
        }
        // Last: until then a reader of the file takes the block for what it was before.
        self.generation.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_goes_through_its_states_and_is_free_again_when_its_block_is_cleared() {
        // SAFETY: blocks live as long as the process.
        let block = unsafe { Block::new().expect("there is memory").as_ref() };
        let record = &block.records[7];
        assert_eq!((record.state(), record.fate()), (State::Free, Fate::Pending));
        record.set_flags(flag::BARRIER);
        record.set_state(State::InFlight);
        block.times[7].end.store(5, Ordering::Relaxed);
        record.add_flags(flag::NO_TIMES);
        record.set_state(State::Done);
        assert_eq!((record.state(), record.flags()), (State::Done, flag::BARRIER | flag::NO_TIMES));
        block.clear();
        assert_eq!((record.state(), block.times[7].end.load(Ordering::Relaxed)), (State::Free, 0));
    }

    #[test]
    fn a_record_has_the_shape_that_it_was_given() {
        let record = Record::default();
        let shape = Shape {
            kernel: 0x8000_0001,
            grid: [0xffff_fff0, 0x1_0001, 7],
            workgroup: [1024, 0xfffe, 3],
            scratch_bytes: 0xfedc_ba98,
            lds_bytes: 65536,
        };
        record.set_shape(shape);
        record.set_state(State::InFlight);
        assert_eq!((record.shape(), record.state()), (shape, State::InFlight));
    }

    #[test]
    fn what_becomes_of_a_row_says_how_far_its_dispatch_has_come() {
        let record = Record::default();
        for (fate, state) in [
            (Fate::Pending, State::Done),
            (Fate::Writing, State::Done),
            (Fate::Written, State::Logged),
            (Fate::Filtered, State::Logged),
            (Fate::Unwritten, State::Logged),
        ] {
            record.set_fate(fate);
            assert_eq!((record.fate(), record.state()), (fate, state));
        }
    }
}
