//! What a file of records looks like: a header, then chunks, in the byte order of the machine that wrote it.
//!
//! ```text
//! 0      Header, HEADER_BYTES                      mapped: counters and clocks, which change
//! 8192   chunk: kind, bytes, body                  Block: mapped; the others are written once
//!        chunk …
//!        zeros: reserved, or the end of the file
//! ```
//! A chunk counts once its magic number is there, which is written last.
//!
//! # Threads
//! A [`Pair`] has one writer at a time and any number of readers.
//!
//! # Ordering
//! A writer that is killed leaves the stores before that moment: values that change together are written beside the old
//! value, and then made valid by one store.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::names::{Kernel, Operation, Registers, UNKNOWN};
use crate::process;

/// Bytes before the first chunk, a multiple of the page.
pub const HEADER_BYTES: usize = 4 * 4096;
/// How a file of records begins.
pub const RECORDS_MAGIC: [u8; 8] = *b"LDRECORD";
/// The same, as it is stored.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(RECORDS_MAGIC);
/// Of the layout: a reader takes its own version only.
pub(crate) const VERSION: u32 = 13;
/// `CHNK`, as bytes in the file.
pub(crate) const CHUNK_MAGIC: u32 = u32::from_ne_bytes(*b"CHNK");
/// Where chunks may begin.
pub(crate) const CHUNK_ALIGN: u64 = 64;
/// GPUs whose clocks have room in the header: twice as many as eight boards that show as eight devices each.
pub(crate) const MAX_AGENTS: usize = 128;
/// Queues whose doorbells have room in the header.
pub const MAX_QUEUES: usize = 128;
/// Counters that a [`Tally`](crate::account::Tally) consists of, with room for those to come.
pub(crate) const TALLY: usize = 14;

/// Types of which any bytes are a value, so that they can be read from a file, and zeros are one.
///
/// # Safety
/// Only for types of atomic or plain integers.
pub unsafe trait Plain {}

/// A value of a type from the bytes of a file; `None` if there are not enough of them.
pub(crate) fn copied<T: Plain>(bytes: &[u8]) -> Option<Box<T>> {
    let bytes = bytes.get(..size_of::<T>())?;
    let mut value = Box::<T>::new_uninit();
    // SAFETY: both are as long as `T`, and the box is new.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), bytes.len()) };
    // SAFETY: it was just written whole; any bytes are a value of a `Plain` type.
    Some(unsafe { value.assume_init() })
}

/// What a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Nothing: the rest of a page, or a block that is not used again.
    Padding = 1,
    /// A [`Block`](crate::Block).
    Block = 2,
    /// Where rows go and how.
    Origin = 3,
    /// Kernels: how many, then number, [`Operation`], bytes of arguments, [`Registers`], symbol,
    /// [`Kernel::replaced`](crate::Kernel::replaced) and [`Kernel::code`](crate::Kernel::code) of each.
    Kernels = 4,
    /// A GPU: position, name, product.
    Agent = 5,
}

impl Kind {
    pub(crate) fn of(number: u32) -> Option<Kind> {
        [Kind::Padding, Kind::Block, Kind::Origin, Kind::Kernels, Kind::Agent].into_iter().find(|k| *k as u32 == number)
    }
}

/// The beginning of a chunk.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ChunkHead {
    pub(crate) magic: AtomicU32,
    pub(crate) kind: AtomicU32,
    /// Of the whole chunk, a multiple of [`CHUNK_ALIGN`].
    pub(crate) bytes: AtomicU64,
}

// SAFETY: atomic integers.
unsafe impl Plain for ChunkHead {}

impl ChunkHead {
    /// Bytes of a head.
    pub(crate) const BYTES: usize = size_of::<ChunkHead>();

    /// Makes the chunk count.
    pub(crate) fn complete(&self, kind: Kind, bytes: u64) {
        self.kind.store(kind as u32, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.magic.store(CHUNK_MAGIC, Ordering::Release);
    }

    /// The bytes of a head.
    pub(crate) fn bytes_of(kind: Kind, bytes: u64) -> [u8; Self::BYTES] {
        let mut head = [0; Self::BYTES];
        head[..4].copy_from_slice(&CHUNK_MAGIC.to_ne_bytes());
        head[4..8].copy_from_slice(&(kind as u32).to_ne_bytes());
        head[8..].copy_from_slice(&bytes.to_ne_bytes());
        head
    }
}

/// Numbers that change together: one of two copies is valid at any time.
#[derive(Debug)]
#[repr(C)]
pub struct Pair<const N: usize> {
    /// How often they have changed; the last bit tells which copy is valid, 0 that there is none yet.
    sequence: AtomicU64,
    copies: [[AtomicU64; N]; 2],
}

impl<const N: usize> Pair<N> {
    /// Replaces the numbers. One thread at a time.
    pub fn set(&self, numbers: [u64; N]) {
        let next = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        for (to, from) in self.copies[(next & 1) as usize].iter().zip(numbers) {
            to.store(from, Ordering::Relaxed);
        }
        self.sequence.store(next, Ordering::Release);
    }

    /// How often they were replaced.
    pub(crate) fn changes(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// The numbers; `None` if they were never set.
    pub fn get(&self) -> Option<[u64; N]> {
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence == 0 {
                return None;
            }
            let numbers = self.copies[(sequence & 1) as usize].each_ref().map(|n| n.load(Ordering::Acquire));
            // While it is the same or the next, this copy was not written.
            if self.sequence.load(Ordering::Relaxed) == sequence {
                return Some(numbers);
            }
        }
    }
}

/// A number in a cache line of its own.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Alone(pub AtomicU64);

/// How far the packets of a queue have come, by their index in the queue.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Doorbell {
    /// The end of those that a doorbell was rung for while another thread was at work on the queue, or that had to wait.
    rung: AtomicU64,
    /// The end of those that have records.
    recorded: AtomicU64,
}

impl Doorbell {
    /// A doorbell was rung for the packets before `end`, which are left to another thread.
    pub fn rang(&self, end: u64) {
        self.rung.fetch_max(end, Ordering::Relaxed);
    }

    /// The end of the packets that a doorbell was rung for, as far as it was said.
    pub fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }

    /// The packets before `end` have records, or get them now. One thread at a time.
    #[inline]
    pub fn recorded(&self, end: u64) {
        self.recorded.store(end, Ordering::Relaxed);
    }

    /// It is another queue's from now on.
    pub fn clear(&self) {
        self.rung.store(0, Ordering::Relaxed);
        self.recorded.store(0, Ordering::Relaxed);
    }

    /// How many packets were rung for and have no record.
    fn unsubmitted(&self) -> u64 {
        self.rung().saturating_sub(self.recorded.load(Ordering::Relaxed))
    }
}

/// The beginning of a file.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) header_bytes: AtomicU32,
    pub(crate) block_bytes: AtomicU32,
    /// The process, and when it was started, in clock ticks since boot (`/proc/PID/stat`).
    pub(crate) pid: AtomicU32,
    pub(crate) start_time: AtomicU64,
    /// The number of dispatches that the log's last account gives, and 1 more.
    pub(crate) accounted: AtomicU64,
    /// Blocks that had to be made in private memory.
    pub(crate) private_blocks: AtomicU64,
    /// Bytes of the log before the rows that are being written.
    pub(crate) log_bytes: AtomicU64,
    /// What tells the rows of this program in this process from others in a log of chunks.
    pub(crate) stream: AtomicU64,
    /// What is counted beside dispatches.
    pub(crate) events: [AtomicU64; 8],
    /// Number of the next dispatch.
    pub(crate) next_id: Alone,
    /// What became of the records of blocks that were emptied; the last two: which block that was, in which life.
    pub(crate) emptied: Pair<{ TALLY + 2 }>,
    /// How the ticks of the host's counter become nanoseconds.
    pub(crate) host_clock: Pair<3>,
    /// How each agent's ticks become nanoseconds.
    pub(crate) clocks: [Pair<3>; MAX_AGENTS],
    /// Of queues that there are.
    doorbells: [Doorbell; MAX_QUEUES],
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

// SAFETY: atomic integers.
unsafe impl Plain for Header {}

impl Header {
    /// Number of the next dispatch: how many there have been.
    pub fn next_id(&self) -> &AtomicU64 {
        &self.next_id.0
    }

    /// How the ticks of the counter that is read when a doorbell is rung become nanoseconds.
    pub fn host_clock(&self) -> &Pair<3> {
        &self.host_clock
    }

    /// How the ticks of the agent at a position become nanoseconds (see [`Line`](crate::clock::Line)).
    pub fn clock(&self, position: usize) -> Option<&Pair<3>> {
        self.clocks.get(position)
    }

    /// One of the doorbells.
    pub fn doorbell(&self, position: usize) -> Option<&Doorbell> {
        self.doorbells.get(position)
    }

    /// How many packets were rung for that the GPU was not told of. They have no records and no numbers.
    pub fn unsubmitted(&self) -> u64 {
        self.doorbells.iter().fold(0, |sum, doorbell| sum.saturating_add(doorbell.unsubmitted()))
    }

    /// What tells the rows of this program in this process from those of others, in a log of [chunks](crate::packed).
    pub fn stream(&self) -> u64 {
        self.stream.load(Ordering::Relaxed)
    }

    /// How long the log is before the rows that are about to be written.
    pub fn set_log_bytes(&self, bytes: u64) {
        self.log_bytes.store(bytes, Ordering::Release);
    }

    /// The log has an account of so many dispatches.
    pub fn set_accounted(&self, seen: u64) {
        self.accounted.store(seen.wrapping_add(1), Ordering::Release);
    }

    /// The log has lost its account.
    pub fn forget_account(&self) {
        self.accounted.store(0, Ordering::Release);
    }

    /// True when the log has an account of so many dispatches. 0 is no account, whatever number a neighbour has written.
    pub fn is_accounted(&self, seen: u64) -> bool {
        seen.checked_add(1) == Some(self.accounted.load(Ordering::Acquire))
    }

    /// True when records had to be made in private memory.
    pub fn has_private_blocks(&self) -> bool {
        self.private_blocks.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn fill(&self, pid: u32, start_time: u64) {
        self.version.store(VERSION, Ordering::Relaxed);
        self.header_bytes.store(HEADER_BYTES as u32, Ordering::Relaxed);
        self.block_bytes.store(crate::BLOCK_BYTES as u32, Ordering::Relaxed);
        self.pid.store(pid, Ordering::Relaxed);
        self.start_time.store(start_time, Ordering::Relaxed);
        self.stream.store(process::unique(), Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }
}

/// Writes the body of a chunk, in little-endian order.
#[derive(Debug, Default)]
pub(crate) struct Body(Vec<u8>);

impl Body {
    pub(crate) fn number(mut self, number: u32) -> Body {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A number below [`UNKNOWN`], which stands for none.
    pub(crate) fn known(self, number: Option<u32>) -> Body {
        self.number(number.unwrap_or(UNKNOWN))
    }

    pub(crate) fn text(mut self, text: &[u8]) -> Body {
        self = self.number(text.len() as u32);
        self.0.extend_from_slice(text);
        self
    }

    /// What [`Fields::kernel`] reads.
    pub(crate) fn kernel(self, number: u32, kernel: &Kernel) -> Body {
        let Registers { vgprs, agprs, sgprs } = kernel.registers;
        let body = [kernel.kernarg_size, vgprs, agprs, sgprs]
            .into_iter()
            .fold(self.number(number).number(kernel.operation as u32), Body::known);
        let texts = [&kernel.symbol, &kernel.replaced, &kernel.code];
        texts.into_iter().fold(body, |body, text| body.text(text.as_bytes()))
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the body of a chunk; `None` where it ends too early.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    /// What [`Body::known`] wrote.
    pub(crate) fn known(&mut self) -> Option<Option<u32>> {
        Some(Some(self.number()?).filter(|number| *number != UNKNOWN))
    }

    /// A kernel and its number.
    pub(crate) fn kernel(&mut self) -> Option<(u32, Kernel)> {
        let (number, operation) = (self.number()?, Operation::of(self.number()?)?);
        let kernarg_size = self.known()?;
        let registers = Registers { vgprs: self.known()?, agprs: self.known()?, sgprs: self.known()? };
        let [symbol, replaced, code] =
            [self.text()?, self.text()?, self.text()?].map(|text| String::from_utf8_lossy(text).into_owned());
        Some((number, Kernel { operation, symbol, kernarg_size, registers, replaced, code }))
    }

    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_change_together_are_the_old_ones_until_the_last_store() {
        let pair = copied::<Wrapped>(&[0; size_of::<Wrapped>()]).unwrap();
        assert_eq!(pair.0.get(), None);
        pair.0.set([1, 2, 3]);
        assert_eq!(pair.0.get(), Some([1, 2, 3]));
        // A writer that dies before its last store.
        pair.0.copies[0][1].store(9, Ordering::Relaxed);
        assert_eq!(pair.0.get(), Some([1, 2, 3]));
        pair.0.set([4, 5, 6]);
        assert_eq!(pair.0.get(), Some([4, 5, 6]));
    }

    #[test]
    fn a_value_is_read_from_bytes_at_any_address_and_from_no_fewer_than_it_has() {
        let bytes: Vec<u8> = (0..=255).cycle().take(size_of::<Wrapped>() + 8).collect();
        for start in 0..8 {
            let value = copied::<Wrapped>(&bytes[start..]).unwrap();
            let first = value.0.copies[0][0].load(Ordering::Relaxed);
            let found = bytes.windows(8).any(|window| *window == first.to_le_bytes());
            assert!(found, "{start}: {first:#x}");
        }
        assert!(copied::<Wrapped>(&bytes[..size_of::<Wrapped>() - 1]).is_none());
        assert!(copied::<Wrapped>(&[]).is_none());
    }

    struct Wrapped(Pair<3>);
    // SAFETY: atomic integers.
    unsafe impl Plain for Wrapped {}
}
