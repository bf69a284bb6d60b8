//! Events: what the runtime waits for in the kernel.
//!
//! Source: the behaviour of `kfd_events.c` as its user interface shows it: a wait is activated by every signal that comes
//! while it lasts, auto-reset events are consumed by the waits that they wake, ages count signals.
//!
//! One thing is kinder than the kernel. Runtimes that do not use ages look at a value and then wait for an event that
//! other threads wait for too: all queues of ROCr 5.2 share one. A signal in between, consumed by another thread, is
//! lost, and `hsa_queue_destroy` waits for ever. On hardware hardly anything comes in between; here the machine itself
//! takes the processor away. So a thread's wait also ends when the event was signaled since that thread's last wait: it
//! looks at its value once more, as it does after every wait.
//!
//! # Threads
//! Each wait has a condition variable of its own: a signal wakes those whom it concerns.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::Errno;
use crate::lock;
use crate::uapi::kfd;

/// Numbers of signal events, which are also their slots in the event page.
const SIGNAL_EVENTS: u32 = kfd::KFD_SIGNAL_EVENT_LIMIT;
/// Numbers of the other events begin here.
const FIRST_OTHER: u32 = 1 << 30;
/// The content of a slot whose event has not been signaled.
const UNSIGNALED: u64 = u64::MAX;

/// Signals of all events so far. Of the whole process, for threads compare with it: a forked child counts on.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What [`SIGNALS`] was when this thread's last wait ended.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// What a memory exception tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryException {
    pub(crate) gpu_id: u32,
    pub(crate) address: u64,
    /// It is there, but may not be written.
    pub(crate) read_only: bool,
}

struct Event {
    kind: u32,
    auto_reset: bool,
    signaled: bool,
    age: u64,
    /// When it was signaled last, in [`SIGNALS`].
    last: u64,
    exception: MemoryException,
    /// Waits that are under way, and the place of this event in them.
    waits: Vec<(u64, usize)>,
}

/// A wait that is under way.
struct Wait {
    /// Which of its events have been signaled.
    flags: Vec<bool>,
    changed: Arc<Condvar>,
}

#[derive(Default)]
struct Table {
    events: BTreeMap<u32, Event>,
    waits: BTreeMap<u64, Wait>,
    last_wait: u64,
    last_other: u32,
    page: Option<Page>,
}

/// The event page: a slot of eight bytes for each signal event.
#[derive(Clone, Copy)]
struct Page(*const std::sync::atomic::AtomicU64);

// SAFETY: points to atomics in memory that is never unmapped (see `Events::set_page`).
unsafe impl Send for Page {}

/// The events of a process.
#[derive(Default)]
pub(crate) struct Events {
    table: Mutex<Table>,
}

/// What one entry of a wait asks for.
pub(crate) struct Wanted {
    pub(crate) event: u32,
    /// The age that the caller has seen already, if it counts.
    pub(crate) last_age: u64,
}

/// How a wait ended.
pub(crate) struct Outcome {
    pub(crate) complete: bool,
    /// For each entry that was activated: its age and what a memory exception tells.
    pub(crate) activated: Vec<Option<(u64, Option<MemoryException>)>>,
}

impl Event {
    fn signal(&mut self) -> Vec<(u64, usize)> {
        self.age += 1;
        self.last = SIGNALS.fetch_add(1, Ordering::Relaxed) + 1;
        self.signaled = !self.auto_reset || self.waits.is_empty();
        self.waits.clone()
    }
}

impl Events {
    /// Tells where the event page is.
    ///
    /// # Safety
    /// `page` must be valid for atomic access to all slots for the rest of the process.
    pub(crate) unsafe fn set_page(&self, page: *const std::sync::atomic::AtomicU64) {
        lock(&self.table).page = Some(Page(page));
    }

    /// True when there is an event page.
    pub(crate) fn has_page(&self) -> bool {
        lock(&self.table).page.is_some()
    }

    /// Makes an event and returns its number.
    ///
    /// # Errors
    /// ENOSPC when there are too many.
    pub(crate) fn create(&self, kind: u32, auto_reset: bool) -> Result<u32, Errno> {
        let mut table = lock(&self.table);
        let id = if kind == kfd::KFD_IOC_EVENT_SIGNAL || kind == kfd::KFD_IOC_EVENT_DEBUG_EVENT {
            (1..SIGNAL_EVENTS).find(|id| !table.events.contains_key(id)).ok_or(libc::ENOSPC)?
        } else {
            table.last_other += 1;
            FIRST_OTHER + table.last_other
        };
        let event = Event {
            kind,
            auto_reset,
            signaled: false,
            age: 1,
            last: 0,
            exception: MemoryException::default(),
            waits: Vec::new(),
        };
        table.events.insert(id, event);
        table.write_slot(id, UNSIGNALED);
        Ok(id)
    }

    /// Removes an event; waits for it end.
    ///
    /// # Errors
    /// EINVAL for a number that is none.
    pub(crate) fn destroy(&self, id: u32) -> Result<(), Errno> {
        let mut table = lock(&self.table);
        let event = table.events.remove(&id).ok_or(libc::EINVAL)?;
        table.activate(&event.waits);
        Ok(())
    }

    /// Signals an event.
    ///
    /// # Errors
    /// EINVAL for a number that is none.
    pub(crate) fn set(&self, id: u32) -> Result<(), Errno> {
        let mut table = lock(&self.table);
        let waits = table.events.get_mut(&id).ok_or(libc::EINVAL)?.signal();
        table.activate(&waits);
        Ok(())
    }

    /// Takes a signal back.
    ///
    /// # Errors
    /// EINVAL for a number that is none.
    pub(crate) fn reset(&self, id: u32) -> Result<(), Errno> {
        lock(&self.table).events.get_mut(&id).map(|e| e.signaled = false).ok_or(libc::EINVAL)
    }

    /// An interrupt of the packet processor: signals the event, if there still is one.
    pub(crate) fn raise(&self, id: u32) {
        let mut table = lock(&self.table);
        if let Some(event) = table.events.get_mut(&id) {
            let waits = event.signal();
            table.activate(&waits);
            table.write_slot(id, UNSIGNALED);
        }
    }

    /// An interrupt of a wave or of a command, which carries only low bits of the number: signals the events that match and whose slot
    /// has been written; if there is none, all whose slots have been. Source: the kernel's `kfd_signal_event_interrupt`.
    pub(crate) fn raise_partial(&self, partial: u32) {
        let matching: Vec<u32> = {
            let table = lock(&self.table);
            let ids = table.events.range(1..SIGNAL_EVENTS).map(|(&id, _)| id);
            let matching: Vec<u32> = ids
                .filter(|id| *id == partial || (id & 0xff == partial & 0xff && table.read_slot(*id) != UNSIGNALED))
                .collect();
            if matching.is_empty() {
                let ids = table.events.range(1..SIGNAL_EVENTS).map(|(&id, _)| id);
                ids.filter(|id| table.read_slot(*id) != UNSIGNALED).collect()
            } else {
                matching
            }
        };
        for id in matching {
            self.raise(id);
        }
    }

    /// A GPU touched memory that is not mapped: signals every event that waits for this.
    pub(crate) fn memory_exception(&self, exception: MemoryException) {
        let mut table = lock(&self.table);
        let ids: Vec<u32> =
            table.events.iter().filter(|(_, e)| e.kind == kfd::KFD_IOC_EVENT_MEMORY).map(|(&id, _)| id).collect();
        for id in ids {
            if let Some(event) = table.events.get_mut(&id) {
                event.exception = exception;
                let waits = event.signal();
                table.activate(&waits);
            }
        }
    }

    /// Waits until one (or all) of some events are signaled. `timeout` is `None` for ever.
    ///
    /// # Errors
    /// EINVAL when one of the numbers is none.
    pub(crate) fn wait(&self, wanted: &[Wanted], all: bool, timeout: Option<Duration>) -> Result<Outcome, Errno> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut table = lock(&self.table);
        if wanted.iter().any(|w| !table.events.contains_key(&w.event)) {
            return Err(libc::EINVAL);
        }
        let seen = SEEN.get();
        let flags = wanted.iter().map(|w| table.consume(w, seen)).collect::<Vec<_>>();
        table.last_wait += 1;
        let wait = table.last_wait;
        for (n, w) in wanted.iter().enumerate() {
            if let Some(event) = table.events.get_mut(&w.event) {
                event.waits.push((wait, n));
            }
        }
        let changed = Arc::new(Condvar::new());
        table.waits.insert(wait, Wait { flags, changed: changed.clone() });
        let done = |flags: &[bool]| if all { flags.iter().all(|&f| f) } else { flags.contains(&true) };
        let complete = loop {
            if table.waits.get(&wait).is_none_or(|wait| done(&wait.flags)) {
                break true;
            }
            table = match deadline.map(|d| d.saturating_duration_since(Instant::now())) {
                None => changed.wait(table).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(left) if left.is_zero() => break false,
                Some(left) => changed.wait_timeout(table, left).unwrap_or_else(std::sync::PoisonError::into_inner).0,
            };
        };
        let flags = table.waits.remove(&wait).map(|wait| wait.flags).unwrap_or_default();
        SEEN.set(SIGNALS.load(Ordering::Relaxed));
        for w in wanted {
            if let Some(event) = table.events.get_mut(&w.event) {
                event.waits.retain(|(id, _)| *id != wait);
            }
        }
        let activated = wanted
            .iter()
            .enumerate()
            .map(|(n, w)| flags.get(n).copied().unwrap_or(false).then(|| table.details(w.event)))
            .collect();
        Ok(Outcome { complete, activated })
    }
}

impl Table {
    fn activate(&mut self, waits: &[(u64, usize)]) {
        for (wait, n) in waits {
            if let Some(wait) = self.waits.get_mut(wait)
                && let Some(flag) = wait.flags.get_mut(*n)
            {
                *flag = true;
                wait.changed.notify_one();
            }
        }
    }

    /// True if an event satisfies a wait that begins now. `seen` is the number of signals that the thread has seen.
    fn consume(&mut self, wanted: &Wanted, seen: u64) -> bool {
        let Some(event) = self.events.get_mut(&wanted.event) else { return true };
        let newer = if wanted.last_age != 0 { event.age != wanted.last_age } else { event.last > seen };
        let activated = event.signaled || newer;
        if event.signaled && event.auto_reset {
            event.signaled = false;
        }
        activated
    }

    fn details(&self, id: u32) -> (u64, Option<MemoryException>) {
        match self.events.get(&id) {
            Some(event) if event.kind == kfd::KFD_IOC_EVENT_MEMORY => (event.age, Some(event.exception)),
            Some(event) => (event.age, None),
            None => (0, None),
        }
    }

    fn slot(&self, id: u32) -> Option<&std::sync::atomic::AtomicU64> {
        let page = self.page.filter(|_| id < SIGNAL_EVENTS)?;
        // SAFETY: `set_page` was promised room for every slot below the limit.
        let slot = unsafe { page.0.add(id as usize) };
        // SAFETY: and that it stays mapped for the rest of the process.
        Some(unsafe { &*slot })
    }

    fn write_slot(&self, id: u32, value: u64) {
        if let Some(slot) = self.slot(id) {
            slot.store(value, std::sync::atomic::Ordering::Release);
        }
    }

    fn read_slot(&self, id: u32) -> u64 {
        self.slot(id).map_or(UNSIGNALED, |slot| slot.load(std::sync::atomic::Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn wait(events: &Events, ids: &[u32], all: bool, timeout: u64) -> Result<Outcome, Errno> {
        let wanted: Vec<_> = ids.iter().map(|&event| Wanted { event, last_age: 0 }).collect();
        events.wait(&wanted, all, Some(Duration::from_millis(timeout)))
    }

    #[test]
    fn a_signal_before_the_wait_is_remembered_once() {
        let events = Events::default();
        let id = events.create(kfd::KFD_IOC_EVENT_SIGNAL, true).expect("room");
        events.set(id).expect("exists");
        assert!(wait(&events, &[id], false, 1000).expect("exists").complete);
        assert!(!wait(&events, &[id], false, 0).expect("exists").complete, "auto-reset events are consumed");
    }

    #[test]
    fn one_signal_wakes_every_wait_that_is_under_way() {
        let events = Arc::new(Events::default());
        let id = events.create(kfd::KFD_IOC_EVENT_SIGNAL, true).expect("room");
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let events = events.clone();
                thread::spawn(move || wait(&events, &[id], false, 20_000).expect("exists").complete)
            })
            .collect();
        // Both waits are under way when the event knows of them.
        while lock(&events.table).events[&id].waits.len() < 2 {
            thread::yield_now();
        }
        events.set(id).expect("exists");
        assert!(waiters.into_iter().all(|w| w.join().expect("no panic")));
    }

    #[test]
    fn a_signal_that_another_thread_has_consumed_ends_the_next_wait_of_each_thread_once() {
        let events = Events::default();
        let id = events.create(kfd::KFD_IOC_EVENT_SIGNAL, true).expect("room");
        assert!(!wait(&events, &[id], false, 0).expect("exists").complete);
        events.set(id).expect("exists");
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(wait(&events, &[id], false, 20_000).expect("exists").complete);
                assert!(!wait(&events, &[id], false, 0).expect("exists").complete, "consumed");
            });
        });
        assert!(wait(&events, &[id], false, 20_000).expect("exists").complete, "it came since this thread's last wait");
        assert!(!wait(&events, &[id], false, 0).expect("exists").complete);
    }

    #[test]
    fn an_age_that_has_moved_on_ends_the_wait_at_once() {
        let events = Events::default();
        let id = events.create(kfd::KFD_IOC_EVENT_SIGNAL, true).expect("room");
        let seen =
            |last_age| events.wait(&[Wanted { event: id, last_age }], false, Some(Duration::ZERO)).expect("exists");
        assert!(!seen(1).complete);
        events.set(id).expect("exists");
        events.reset(id).expect("exists");
        assert!(seen(1).complete);
        assert!(!seen(2).complete);
    }

    #[test]
    fn waiting_for_all_needs_every_event_and_a_destroyed_one_counts() {
        let events = Events::default();
        let (a, b) = (events.create(0, false).expect("room"), events.create(0, false).expect("room"));
        events.set(a).expect("exists");
        assert!(!wait(&events, &[a, b], true, 0).expect("exist").complete);
        events.set(b).expect("exists");
        assert!(wait(&events, &[a, b], true, 0).expect("exist").complete);
        assert_eq!(events.destroy(99).err(), Some(libc::EINVAL));
    }

    #[test]
    fn a_memory_exception_reaches_only_events_that_ask_for_it() {
        let events = Events::default();
        let memory = events.create(kfd::KFD_IOC_EVENT_MEMORY, true).expect("room");
        let other = events.create(kfd::KFD_IOC_EVENT_SIGNAL, true).expect("room");
        let expected = MemoryException { gpu_id: 7, address: 0xdead_0000, read_only: true };
        events.memory_exception(expected);
        let outcome = wait(&events, &[other, memory], false, 0).expect("exist");
        assert_eq!(outcome.activated[0], None);
        assert_eq!(outcome.activated[1].map(|(_, e)| e), Some(Some(expected)));
    }
}
