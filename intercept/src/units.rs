//! An allocator of memory in equal units. A dispatch gets adjacent units.
//!
//! A dispatch has a power of two of units. Its *slot*, with what is known of the dispatch, belongs to the first of them.
//!
//! # Threads
//! Publishers take units; no thread waits. Another thread follows the dispatches that run, and frees their units.
//!
//! # Ordering
//! A bit of `used` is set with acquire and cleared with release: the next user sees all that was done with the units. A slot's state
//! is changed with acquire and stored with release: who has the slot sees what was written into it. A bit of `running` only says
//! where to look.

use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Units, with a `T` for each dispatch that has some.
pub struct Units<T> {
    /// A bit for each unit that a dispatch has.
    used: Box<[AtomicU64]>,
    /// A bit for each slot whose dispatch runs.
    running: Box<[AtomicU64]>,
    slots: Box<[Slot<T>]>,
    next: AtomicUsize,
}

/// What is known of a dispatch.
struct Slot<T> {
    /// One of [`FREE`], [`TAKEN`], [`RUNNING`] and [`BUSY`].
    state: AtomicU8,
    dispatch: UnsafeCell<Option<T>>,
}

/// No dispatch.
const FREE: u8 = 0;
/// The dispatch is being prepared.
const TAKEN: u8 = 1;
/// The dispatch was given to the GPU.
const RUNNING: u8 = 2;
/// A thread reads or writes what is known.
const BUSY: u8 = 3;

// SAFETY: a slot's contents are reached by one thread at a time: see `Slot::change`.
unsafe impl<T: Send> Sync for Slot<T> {}

impl<T> Slot<T> {
    /// Has `with` read or write what is known if the state is `from`, and makes it `to`. A slot whose `with` panics stays as it is,
    /// and is used no more.
    fn change<R>(&self, from: u8, to: u8, with: impl FnOnce(&mut Option<T>) -> R) -> Option<R> {
        self.state.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let result = self.dispatch.with_mut(|dispatch| {
            // SAFETY: this thread has made the state busy, and no other thread comes here before it is changed below.
            let dispatch = unsafe { &mut *dispatch };
            with(dispatch)
        });
        self.state.store(to, Ordering::Release);
        Some(result)
    }
}

impl<T> Units<T> {
    /// Bytes that a unit needs here.
    pub const BYTES: usize = size_of::<Slot<T>>();

    /// So many units, none of them in use.
    pub fn new(count: usize) -> Units<T> {
        let bits = || (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let slot = || Slot { state: AtomicU8::new(FREE), dispatch: UnsafeCell::new(None) };
        let (used, running) = (bits(), bits());
        // Bits behind the last unit are never free.
        if let (Some(last), rest @ 1..) = (used.last(), count % 64) {
            last.store(u64::MAX << rest, Ordering::Relaxed);
        }
        Units { used, running, slots: (0..count).map(|_| slot()).collect(), next: AtomicUsize::new(0) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Takes `2^level` units beside each other for a dispatch. Returns the first of them.
    pub fn take(&self, level: u32, dispatch: T) -> Option<usize> {
        let first = self.take_units(level)?;
        // Units that are not in use have a free slot.
        self.slots.get(first)?.change(FREE, TAKEN, |slot| *slot = Some(dispatch))?;
        Some(first)
    }

    fn take_units(&self, level: u32) -> Option<usize> {
        let (count, words) = (1_usize << level, self.used.len());
        let in_word = count.min(64);
        let mask = if in_word == 64 { u64::MAX } else { (1 << in_word) - 1 };
        let step = count.div_ceil(64);
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        for n in 0..words / step {
            let word = (start + n) % (words / step) * step;
            if step > 1 {
                if self.take_words(word, step) {
                    return Some(word * 64);
                }
                continue;
            }
            let mut bits = self.used[word].load(Ordering::Relaxed);
            let free = |bits: u64| (0..64 / in_word).map(|k| k * in_word).find(|at| bits & mask << at == 0);
            while let Some(at) = free(bits) {
                let new = bits | mask << at;
                match self.used[word].compare_exchange_weak(bits, new, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(word * 64 + at),
                    Err(now) => bits = now,
                }
            }
        }
        None
    }

    /// Takes whole words, or none.
    fn take_words(&self, first: usize, count: usize) -> bool {
        let take = |word: &AtomicU64| word.compare_exchange(0, u64::MAX, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let words = &self.used[first..first + count];
        let taken = words.iter().take_while(|word| take(word)).count();
        if taken < count {
            words[..taken].iter().for_each(|word| word.store(0, Ordering::Release));
        }
        taken == count
    }

    fn release(&self, first: usize, count: usize) {
        if count >= 64 {
            let words = &self.used[first / 64..(first + count) / 64];
            words.iter().for_each(|word| word.store(0, Ordering::Release));
        } else {
            let mask = ((1_u64 << count) - 1) << (first % 64);
            self.used[first / 64].fetch_and(!mask, Ordering::Release);
        }
    }

    /// The units that were taken are not needed.
    pub fn give_back(&self, first: usize, count: usize) {
        if self.slots[first].change(TAKEN, FREE, |slot| *slot = None).is_some() {
            self.release(first, count);
        }
    }

    /// The dispatch runs from now on: [`running`](Self::running) names it. `with` changes what is known of it.
    pub fn begin(&self, first: usize, with: impl FnOnce(&mut T)) {
        if self.slots[first].change(TAKEN, RUNNING, |slot| slot.as_mut().map(with)).is_some() {
            self.running[first / 64].fetch_or(1 << (first % 64), Ordering::Release);
        }
    }

    /// The first units of the dispatches that run, or have run.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        self.running.iter().enumerate().flat_map(|(n, word)| {
            let mut bits = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let at = bits.checked_ilog2().map(|_| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(n * 64 + at)
            })
        })
    }

    /// Keeps what has become known of a dispatch that runs.
    pub fn keep(&self, first: usize, dispatch: T) {
        self.slots[first].change(RUNNING, RUNNING, |slot| *slot = Some(dispatch));
    }

    /// A dispatch has ended. Its units are used again if `again`.
    pub fn end(&self, first: usize, count: usize, again: bool) {
        self.running[first / 64].fetch_and(!(1 << (first % 64)), Ordering::Relaxed);
        if self.slots[first].change(RUNNING, FREE, |slot| *slot = None).is_some() && again {
            self.release(first, count);
        }
    }
}

impl<T: Copy> Units<T> {
    /// What is known of a dispatch that runs.
    pub fn dispatch(&self, first: usize) -> Option<T> {
        self.slots.get(first)?.change(RUNNING, RUNNING, |slot| *slot).flatten()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::explore;
    use loom::sync::Arc;
    use loom::thread;

    /// The units and their memory, as loom watches it: threads that use a unit at once are an error.
    struct Harness {
        /// The number of a dispatch, and its power of two.
        units: Units<(u64, u32)>,
        memory: Vec<UnsafeCell<u64>>,
    }

    impl Harness {
        fn new(count: usize) -> Arc<Harness> {
            Arc::new(Harness { units: Units::new(count), memory: (0..count).map(|_| UnsafeCell::new(0)).collect() })
        }

        fn write(&self, first: usize, count: usize, number: u64) {
            for memory in &self.memory[first..first + count] {
                // SAFETY: the unit is this thread's, which loom checks.
                memory.with_mut(|memory| unsafe { *memory = number });
            }
        }

        /// A publisher, and the GPU after it: a dispatch that writes its number into its units. Returns how many it began.
        fn publish(&self, level: u32, number: u64) -> usize {
            let Some(first) = self.units.take(level, (0, level)) else { return 0 };
            self.write(first, 1 << level, number);
            self.units.begin(first, |dispatch| dispatch.0 = number);
            1
        }

        /// The thread that follows: ends what runs. Returns how many there were.
        fn follow(&self) -> usize {
            let running: Vec<usize> = self.units.running().collect();
            for &first in &running {
                let (number, level) = self.units.dispatch(first).expect("it runs");
                for memory in &self.memory[first..first + (1 << level)] {
                    // SAFETY: the dispatch has ended, and its units are this thread's, which loom checks.
                    memory.with(|memory| assert_eq!(unsafe { *memory }, number));
                }
                self.write(first, 1 << level, 0);
                self.units.end(first, 1 << level, true);
            }
            running.len()
        }
    }

    #[test]
    fn a_unit_has_one_dispatch_at_a_time_and_the_thread_that_follows_sees_what_was_written() {
        explore(3, || {
            let harness = Harness::new(2);
            // Both units, or the one that is left.
            let others = [(1, 1), (0, 2)].map(|(level, number)| {
                let harness = Arc::clone(&harness);
                thread::spawn(move || harness.publish(level, number))
            });
            let mut ended = harness.follow();
            let mut begun = harness.publish(0, 3);
            begun += others.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>();
            ended += harness.follow();
            assert_eq!(begun, ended);
            assert!(begun > 0);
            assert!(harness.units.take(1, (9, 1)).is_some(), "both are free again");
        });
    }

    #[test]
    fn dispatches_of_several_words_have_all_of_them_or_none() {
        explore(3, || {
            let harness = Harness::new(128);
            let other = Arc::clone(&harness);
            let thread = thread::spawn(move || {
                if let Some(first) = other.units.take(6, (5, 6)) {
                    other.write(first, 64, 5);
                    other.units.give_back(first, 64);
                }
            });
            if let Some(first) = harness.units.take(7, (6, 7)) {
                harness.write(first, 128, 6);
                harness.units.give_back(first, 128);
            }
            thread.join().unwrap();
            assert_eq!(harness.units.take(7, (7, 7)), Some(0), "all are free again");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn units_are_taken_once_beside_each_other_and_again_after_they_are_given_back() {
        for (count, level) in [(1, 0), (5, 0), (5, 2), (64, 3), (200, 5), (200, 7), (1000, 8), (1024, 6)] {
            let (all, size) = (Units::new(count), 1 << level);
            for round in 0..3 {
                let mut taken = BTreeSet::new();
                while let Some(first) = all.take(level, ()) {
                    assert!(first % size == 0 && first + size <= count, "{count} {level}: {first}");
                    assert!((first..first + size).all(|n| taken.insert(n)), "{count} {level}: {first} again");
                }
                // All that begin at a multiple of their number, but for whole words in a row.
                let step = size.max(64);
                let most = if size > 64 { count / step * step / size * size } else { count / size * size };
                assert_eq!(taken.len(), most, "{count} {level} in round {round}");
                taken.iter().step_by(size).for_each(|&first| all.give_back(first, size));
            }
        }
    }

    #[test]
    fn what_is_known_of_a_dispatch_is_there_while_it_runs_and_only_then() {
        let units = Units::new(8);
        let first = units.take(1, 5).expect("there is room");
        assert_eq!(units.dispatch(first), None, "it does not run yet");
        units.begin(first, |dispatch| *dispatch += 1);
        assert_eq!(units.running().collect::<Vec<_>>(), [first]);
        units.give_back(first, 2);
        assert_eq!(units.dispatch(first), Some(6), "what runs is not given back");
        units.keep(first, 7);
        assert_eq!(units.dispatch(first), Some(7));
        units.end(first, 2, false);
        assert_eq!((units.dispatch(first), units.running().count()), (None, 0));
        assert!((0..3).all(|_| units.take(1, 0).is_some_and(|other| other != first)));
        assert_eq!(units.take(1, 0), None, "units that are not used again stay in use");
    }

    #[test]
    fn threads_that_take_units_at_once_never_share_any() {
        let units = Units::new(300);
        let owners: Vec<AtomicU32> = (0..300).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (units, owners) = (&units, &owners);
                scope.spawn(move || {
                    for n in 0..20_000_u32 {
                        let level = (n + thread) % 9;
                        let Some(first) = units.take(level, thread) else { continue };
                        let own = &owners[first..first + (1 << level)];
                        assert!(own.iter().all(|owner| owner.swap(thread + 1, Ordering::Relaxed) == 0));
                        own.iter().for_each(|owner| owner.store(0, Ordering::Relaxed));
                        units.give_back(first, 1 << level);
                    }
                });
            }
        });
        assert_eq!(units.take(8, 0), Some(0), "all are free again");
    }
}
