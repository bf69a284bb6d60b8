//! The account: how many dispatches were seen, logged, filtered or lost.

use std::sync::atomic::Ordering;

use crate::layout::{Header, TALLY};
use crate::record::{Block, Fate, Record, State, flag};

/// Makes the struct of counters and the conversion from and to the numbers in the header.
macro_rules! counters {
    ($( $(#[doc = $doc:literal])+ $field:ident; )*) => {
        /// How many dispatches came to which end.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Tally {
            $( $(#[doc = $doc])+ pub $field: u64, )*
        }

        impl Tally {
            fn each(&mut self) -> impl Iterator<Item = &mut u64> {
                [$( &mut self.$field, )*].into_iter()
            }
        }

        const _: () = assert!([$( stringify!($field), )*].len() <= TALLY);
    };
}

counters! {
    /// Rows written.
    logged;
    /// Dispatches whose kernel the log does not want.
    filtered;
    /// Rows that could not be written to the log.
    unwritten;
    /// Of the rows: complete, but with no times from the GPU.
    no_times;
    /// Of the rows: never seen complete.
    incomplete;
    /// Of the rows: the process died before their times were read.
    times_lost;
    /// Of the rows: of a kernel whose name is not known.
    unknown_kernel;
}

/// What is counted beside dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// A queue whose packets are written around the library.
    BypassedQueue,
    /// A packet, a dispatch or not, that passed on such a queue unseen, or on one that is not watched.
    UnseenPacket,
    /// A dispatch that was not recorded, because records have reached their limit.
    UnrecordedDispatch,
    /// A dispatch that was not to be recorded: it was not in the window that the user wants.
    DispatchOutside,
}

impl Event {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;
    const NAMES: [&'static str; Event::COUNT] = ["bypassed-queues", "unseen-packets", "not-recorded", "outside"];

    /// Dispatches that have no record.
    pub(crate) fn without_record(events: &[u64; Event::COUNT]) -> u64 {
        let counts = [Event::UnrecordedDispatch, Event::DispatchOutside].map(|event| events[event as usize]);
        // What is read from a damaged file may be any number.
        counts.into_iter().fold(0, u64::saturating_add)
    }
}

/// The counter of dispatches whose packets were never given to the GPU.
pub(crate) const NOT_SUBMITTED: &str = "not-submitted";

impl Tally {
    /// Counts a row.
    pub fn row(&mut self, record: &Record) {
        let flags = record.flags();
        for (counter, counts) in [
            (&mut self.logged, true),
            (&mut self.unknown_kernel, record.shape().kernel == 0),
            (&mut self.incomplete, flags & flag::INCOMPLETE != 0),
            (&mut self.no_times, flags & (flag::INCOMPLETE | flag::NO_TIMES) == flag::NO_TIMES),
        ] {
            // What is read from a damaged file may be any number.
            *counter = counter.saturating_add(counts.into());
        }
    }

    /// Counts the records of a block that have come to an end.
    pub fn block(&mut self, block: &Block) {
        let ended = |r: &&Record| r.state() == State::Logged && r.flags() & flag::NO_DISPATCH == 0;
        for record in block.records.iter().filter(ended) {
            match record.fate() {
                Fate::Written => self.row(record),
                Fate::Filtered => self.filtered = self.filtered.saturating_add(1),
                Fate::Unwritten => self.unwritten = self.unwritten.saturating_add(1),
                Fate::Pending | Fate::Writing => {}
            }
        }
    }

    /// All that came to an end.
    pub(crate) fn ended(&self) -> u64 {
        [self.filtered, self.unwritten].into_iter().fold(self.logged, u64::saturating_add)
    }

    fn numbers(mut self) -> [u64; TALLY] {
        let mut numbers = [0; TALLY];
        numbers.iter_mut().zip(self.each()).for_each(|(to, from)| *to = *from);
        numbers
    }

    fn of(numbers: &[u64]) -> Tally {
        let mut tally = Tally::default();
        tally.each().zip(numbers).for_each(|(to, from)| *to = *from);
        tally
    }

    /// Name and value of everything that an account shows. Dispatches that were seen and came to no end are those whose
    /// packets were never given to the GPU, or, when `private`, those whose records are gone with the process. `unsubmitted` are
    /// packets that were rung for and not seen.
    pub fn shown(
        &self,
        seen: u64,
        unsubmitted: u64,
        private: bool,
        events: [u64; Event::COUNT],
    ) -> Vec<(&'static str, u64)> {
        let ended = self.ended().saturating_add(Event::without_record(&events));
        let rest = seen.saturating_sub(ended);
        let (unrecorded, rest) = if private { (rest, 0) } else { (0, rest) };
        let always = [("seen", seen.saturating_add(unsubmitted)), ("logged", self.logged)];
        let others = [
            ("filtered", self.filtered),
            ("unwritten", self.unwritten),
            ("unrecorded", unrecorded),
            (NOT_SUBMITTED, rest.saturating_add(unsubmitted)),
            ("no-times", self.no_times),
            ("incomplete", self.incomplete),
            ("times-lost", self.times_lost),
            ("unknown-kernel", self.unknown_kernel),
        ];
        let events = Event::NAMES.into_iter().zip(events);
        always.into_iter().chain(others.into_iter().chain(events).filter(|&(_, value)| value != 0)).collect()
    }
}

impl Header {
    /// The block whose records are counted and which is about to be emptied, and what became of those emptied so far.
    pub(crate) fn emptied(&self) -> (Tally, (u64, u64)) {
        let Some(numbers) = self.emptied.get() else { return (Tally::default(), (0, 0)) };
        (Tally::of(&numbers[..TALLY]), (numbers[TALLY], numbers[TALLY + 1]))
    }

    /// Counts the records of a block that is about to be emptied, all at once: a reader of the file takes them from here
    /// or from the block, never from both. One thread at a time.
    pub fn count_emptied(&self, block: &Block) {
        let (mut tally, _) = self.emptied();
        tally.block(block);
        let mut numbers = [0; TALLY + 2];
        numbers[..TALLY].copy_from_slice(&tally.numbers());
        (numbers[TALLY], numbers[TALLY + 1]) = block.life();
        self.emptied.set(numbers);
    }

    /// What became of the dispatches whose blocks were emptied.
    pub fn tally(&self) -> Tally {
        self.emptied().0
    }

    /// Counts what is no dispatch.
    pub fn count(&self, event: Event, count: u64) {
        self.events[event as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// What was counted beside dispatches.
    pub fn events(&self) -> [u64; Event::COUNT] {
        std::array::from_fn(|i| self.events[i].load(Ordering::Relaxed))
    }
}
