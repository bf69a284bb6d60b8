//! Rings of memory for kernel arguments that are laid out anew, one for each GPU and size of block.
//!
//! # Threads
//! Publishers take blocks; no thread waits. A block is taken again once the dispatch that had it is not in flight.
//!
//! # Ordering
//! A block's user is swapped with acquire and stored with release: the next user sees all that was done with it.
//! A record that is used again may be that of another block's dispatch: each remembers which taking it belongs to.

use std::ptr::{self, NonNull};

use hsa::{Api, Result};
use logdur_journal::{State, flag};

use crate::progress::Progress;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Blocks of a ring: more are hardly ever in flight at once.
const BLOCKS: usize = 4096;
/// Blocks that are tried before the ring counts as full.
const TRIES: usize = if cfg!(loom) { 2 } else { 64 };
/// The smallest block, and what every kernel's arguments are aligned to at most.
const SMALLEST: usize = 256;

/// A ring of blocks.
pub struct KernargRing {
    memory: NonNull<u8>,
    block_bytes: usize,
    blocks: Box<[Block]>,
    next: AtomicUsize,
}

// SAFETY: the memory is the ring's own until the runtime is gone; a block of it is written by who has taken it.
unsafe impl Send for KernargRing {}
// SAFETY: as above.
unsafe impl Sync for KernargRing {}

/// Who uses a block.
#[derive(Default)]
struct Block {
    /// Null before the first use, [`TAKEN`] while a thread prepares a dispatch.
    user: AtomicPtr<Progress>,
    /// Which taking of a block it was.
    taking: AtomicU32,
}

/// Stands for a user that is not known: no record is there.
const TAKEN: *mut Progress = ptr::without_provenance_mut(1);

/// A block that a dispatch is going to use. Dropped without one, it is never used again.
#[must_use]
pub struct Borrowed {
    ring: &'static KernargRing,
    index: usize,
    taking: u32,
}

/// Bytes of the blocks in which arguments of so many bytes have room.
pub fn block_bytes(bytes: usize) -> usize {
    bytes.next_power_of_two().max(SMALLEST)
}

impl KernargRing {
    /// A ring in memory that a GPU can read, for arguments of at most so many bytes.
    ///
    /// # Errors
    /// When the runtime has no such memory.
    pub fn new(api: &Api, gpu: u64, bytes: usize) -> Result<&'static KernargRing> {
        let block_bytes = block_bytes(bytes);
        let memory = api.kernarg_memory(&[gpu], BLOCKS * block_bytes)?;
        Ok(KernargRing::in_memory(memory, block_bytes, BLOCKS))
    }

    fn in_memory(memory: NonNull<u8>, block_bytes: usize, count: usize) -> &'static KernargRing {
        let blocks = (0..count).map(|_| Block::default()).collect();
        Box::leak(Box::new(KernargRing { memory, block_bytes, blocks, next: AtomicUsize::new(0) }))
    }

    /// A block that is not in use; `None` if the ring is full.
    pub fn take(&'static self) -> Option<Borrowed> {
        (0..TRIES).find_map(|_| {
            let taking = self.next.fetch_add(1, Ordering::Relaxed);
            let index = taking % self.blocks.len();
            let block = &self.blocks[index];
            let user = block.user.swap(TAKEN, Ordering::AcqRel);
            if user == TAKEN {
                return None;
            }
            if block.is_in_flight(user) {
                block.user.store(user, Ordering::Release);
                return None;
            }
            Some(Borrowed { ring: self, index, taking: taking as u32 })
        })
    }
}

impl Block {
    fn is_in_flight(&self, user: *mut Progress) -> bool {
        // SAFETY: a user is null, or of a block, which lives as long as the process.
        let Some(user) = (unsafe { user.as_ref() }) else { return false };
        user.state() == State::InFlight && user.kernargs.load(Ordering::Relaxed) == self.taking.load(Ordering::Relaxed)
    }
}

impl Borrowed {
    /// Where the block begins.
    pub fn memory(&self) -> NonNull<u8> {
        // SAFETY: the index is below the number of blocks, all of which are in the memory.
        unsafe { self.ring.memory.add(self.index * self.ring.block_bytes) }
    }

    /// No dispatch uses the block.
    pub fn give_back(self) {
        self.ring.blocks[self.index].user.store(ptr::null_mut(), Ordering::Release);
    }

    /// The dispatch with a record uses the block, until it is complete.
    pub(crate) fn until_complete(self, dispatch: &'static Progress) {
        if dispatch.flags() & flag::NO_TIMES != 0 {
            // No thread learns when it is complete.
            return;
        }
        let block = &self.ring.blocks[self.index];
        block.taking.store(self.taking, Ordering::Relaxed);
        dispatch.kernargs.store(self.taking, Ordering::Relaxed);
        block.user.store(ptr::from_ref(dispatch).cast_mut(), Ordering::Release);
    }
}

#[cfg(test)]
fn ring(count: usize) -> &'static KernargRing {
    let memory = NonNull::from(Box::leak(vec![0u8; count * SMALLEST].into_boxed_slice())).cast();
    KernargRing::in_memory(memory, SMALLEST, count)
}

#[cfg(test)]
fn dispatch() -> &'static Progress {
    let dispatch: &'static Progress = Box::leak(Box::default());
    dispatch.set_state(State::InFlight);
    dispatch
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::explore;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// The memory of a ring, as loom watches it: threads that use a block at once are an error.
    struct Harness {
        ring: &'static KernargRing,
        memory: Vec<UnsafeCell<u64>>,
    }

    impl Harness {
        fn new(blocks: usize) -> Arc<Harness> {
            Arc::new(Harness { ring: ring(blocks), memory: (0..blocks).map(|_| UnsafeCell::new(0)).collect() })
        }

        /// A publisher: writes the arguments into a block that is free. Returns the index of the block.
        fn publish(&self, record: &'static Progress, argument: u64) -> Option<usize> {
            let block = self.ring.take()?;
            let index = block.index;
            // SAFETY: the block is this thread's, which loom checks.
            self.memory[index].with_mut(|memory| unsafe { *memory = argument });
            record.set_state(State::InFlight);
            block.until_complete(record);
            Some(index)
        }

        /// The GPU, and the reaper after it: the kernel reads its arguments, the record is done.
        fn complete(&self, index: usize, record: &'static Progress, argument: u64) {
            // SAFETY: no thread writes the block before the record is done, which loom checks.
            self.memory[index].with(|memory| assert_eq!(unsafe { *memory }, argument));
            record.set_state(State::Done);
        }
    }

    #[test]
    fn arguments_are_written_only_when_no_dispatch_in_flight_reads_the_block() {
        explore(3, || {
            let harness = Harness::new(1);
            let other = Arc::clone(&harness);
            let producer = thread::spawn(move || {
                let record = dispatch();
                if let Some(index) = other.publish(record, 1) {
                    other.complete(index, record, 1);
                }
            });
            let record = dispatch();
            for argument in 2..4 {
                if let Some(index) = harness.publish(record, argument) {
                    harness.complete(index, record, argument);
                }
            }
            producer.join().unwrap();
        });
    }

    #[test]
    fn a_block_is_not_taken_while_its_dispatch_is_in_flight_though_the_record_had_another_block_before() {
        explore(3, || {
            let harness = Harness::new(2);
            let record = dispatch();
            let first = harness.publish(record, 1).unwrap();
            harness.complete(first, record, 1);
            let other = Arc::clone(&harness);
            let producer = thread::spawn(move || {
                for argument in 5..7 {
                    let record = dispatch();
                    if let Some(index) = other.publish(record, argument) {
                        other.complete(index, record, argument);
                    }
                }
            });
            if let Some(index) = harness.publish(record, 2) {
                thread::yield_now();
                harness.complete(index, record, 2);
            }
            producer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_once_its_dispatch_is_complete_or_its_record_is_anothers() {
        let ring = ring(2);
        let (first, second) = (dispatch(), dispatch());
        let places = [first, second].map(|record| {
            let block = ring.take().unwrap();
            let place = block.memory();
            block.until_complete(record);
            place
        });
        assert_eq!(places[1].addr().get() - places[0].addr().get(), SMALLEST);
        assert!(ring.take().is_none(), "both are in flight");
        second.set_state(State::Done);
        let block = ring.take().unwrap();
        assert_eq!(block.memory(), places[1]);
        block.until_complete(dispatch());
        // The record of the first has become that of another dispatch.
        first.kernargs.store(9, Ordering::Relaxed);
        assert_eq!(ring.take().map(|b| b.memory()), Some(places[0]));
    }

    #[test]
    fn a_block_whose_dispatch_is_never_seen_complete_is_not_used_again() {
        let ring = ring(1);
        let unseen = dispatch();
        unseen.add_flags(flag::NO_TIMES);
        unseen.set_state(State::Done);
        ring.take().unwrap().until_complete(unseen);
        assert!(ring.take().is_none());
    }

    #[test]
    fn threads_that_take_blocks_at_once_never_have_the_same() {
        let ring = ring(64);
        let owners: &'static [AtomicUsize] = Box::leak((0..64).map(|_| AtomicUsize::new(0)).collect());
        let threads: Vec<_> = (1..=4)
            .map(|me| {
                std::thread::spawn(move || {
                    let record = dispatch();
                    let mut taken = 0;
                    for _ in 0..20_000 {
                        let Some(block) = ring.take() else { continue };
                        let owner = &owners[block.index];
                        assert_eq!(owner.swap(me, Ordering::Relaxed), 0);
                        taken += 1;
                        record.set_state(State::InFlight);
                        owner.store(0, Ordering::Relaxed);
                        block.until_complete(record);
                        record.set_state(State::Done);
                    }
                    taken
                })
            })
            .collect();
        assert!(threads.into_iter().map(|t| t.join().unwrap()).sum::<usize>() > 20_000);
    }

    #[test]
    fn blocks_have_room_for_what_is_asked_and_are_aligned() {
        assert_eq!([1, 256, 257, 4096, 5000].map(block_bytes), [256, 256, 512, 4096, 8192]);
    }
}
