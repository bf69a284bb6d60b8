//! Captures a region: a stretch of the application, whose dispatches run one at a time, with the memory that changes between them.
//!
//! A publisher chooses the dispatches of the region, and holds each. The capture thread takes one after the other as it takes single
//! dispatches: it brings all queues and copies to rest, writes a *delta*, lets the dispatch run, and looks at what memory of the host was
//! then, before the application learns that the dispatch is complete ([`reach`], [`take`]). A dispatch that comes when the last one is
//! chosen waits until the region has ended.
//!
//! # Threads
//! Publishers choose. The capture thread takes, and ends the region.

mod order;
mod reach;
mod shadow;
mod take;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use hsa_sys::abi::aql::{Packet, PacketType};
use logdur_capture::StepKind;
use logdur_intercept::Interceptor;
use logdur_intercept::ports::{CountDispatch, Follow};
use logdur_intercept::queue::{Lease, Queue, Ring};
use logdur_settings as settings;
use logdur_system::lock;

use crate::kernels::Kernels;
use crate::markers;
use crate::when::Conditions;

pub(super) use order::AtDoorbell;
use order::{Order, Waits};
pub(super) use reach::Reached;

/// How often is looked whether a trigger that no dispatch tells has ended the region.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long the end of the process waits for the end of the region.
const AT_END: Duration = Duration::from_secs(30);

/// The setting, and how far the region has come.
pub(super) struct Region {
    /// As it was asked for.
    text: String,
    begins: &'static Conditions,
    ends: Option<&'static Conditions>,
    /// After how many steps memory is captured as a whole.
    every: Option<u64>,
    /// Hashes of what each dispatch changes are kept.
    hashes: bool,
    chosen: Mutex<Chosen>,
    ended: Condvar,
    /// The process waits for its end.
    ending: AtomicBool,
    /// Of the capture thread.
    reached: Mutex<Reached>,
}

/// How far a region has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Before,
    Open,
    /// Its last dispatch is chosen.
    Closing,
    Over,
}

/// What publishers have chosen.
struct Chosen {
    phase: Phase,
    /// The number of the next dispatch, as the column `id` has it, at least.
    next: u64,
    /// Dispatches that were chosen, and how many of them were taken or given up.
    selected: u64,
    taken: u64,
    /// Dispatches were seen that came before the region.
    before: u64,
    /// Why the region ends before its last dispatch.
    reason: Option<String>,
    /// Packets that are no dispatches, since the last step.
    others: Vec<Other>,
    order: Order,
}

/// A packet that is no dispatch and belongs to the region.
struct Other {
    kind: StepKind,
    packet: Packet,
    queue: &'static Queue,
    _lease: Lease,
    index: u64,
    /// What the host knew when it rang for it.
    known: AtDoorbell,
    waits: Waits,
    /// It came when the last dispatch was chosen: it is a step only if one behind it has to be one.
    is_late: bool,
}

/// What becomes of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It is none of the region's.
    Passes,
    /// It is a step.
    Step,
    /// It waits for the end of the region.
    Waits,
}

impl Region {
    /// The region that the settings describe, and what is wrong with it; `None` if none is asked for.
    pub(super) fn new(settings: &settings::Interceptor, kernels: &'static Kernels) -> (Option<Region>, Vec<String>) {
        let Some(wanted) = &settings.capture_region else { return (None, Vec::new()) };
        let name = settings::Interceptor::capture_region;
        let made = |when: &settings::When| {
            let (conditions, wrong) = Conditions::new(name, when, false, kernels);
            (conditions.map(|conditions| &*Box::leak(Box::new(conditions))), wrong)
        };
        let (begins, mut wrong) = made(&wanted.begins);
        let (ends, wrong_ends) = wanted.ends.as_ref().map(made).unwrap_or_default();
        wrong.extend(wrong_ends);
        let Some(begins) = begins.filter(|_| wrong.is_empty()) else { return (None, wrong) };
        let chosen = Chosen {
            phase: Phase::Before,
            next: 0,
            selected: 0,
            taken: 0,
            before: 0,
            reason: None,
            others: Vec::new(),
            order: Order::default(),
        };
        let region = Region {
            text: wanted.text().to_string_lossy().into_owned(),
            begins,
            ends,
            every: settings.capture_checkpoints.filter(|every| *every > 0).map(u64::from),
            hashes: settings.region_hashes != 0,
            chosen: Mutex::new(chosen),
            ended: Condvar::new(),
            ending: AtomicBool::new(false),
            reached: Mutex::default(),
        };
        (Some(region), Vec::new())
    }

    /// The conditions of both ends.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &'static Conditions> + use<> {
        [Some(self.begins), self.ends].into_iter().flatten()
    }

    /// A queue is about to be watched: times and files are looked at from now on.
    pub(super) fn queue_begins(&self, interceptor: &'static Interceptor) {
        self.conditions().for_each(|conditions| conditions.queue_begins(interceptor));
    }

    /// A dispatch is about to be published: what becomes of it. `closed` is why nothing can be captured now, if so.
    pub(super) fn choose(&self, kernel: u32, numbered: u64, closed: Option<&str>) -> Choice {
        let mut chosen = lock(&self.chosen);
        if chosen.phase == Phase::Over {
            return Choice::Passes;
        }
        let number = chosen.next.max(numbered);
        chosen.next = number + 1;
        self.conditions().for_each(|conditions| conditions.comes(kernel));
        let begins = self.begins.window().has(number);
        let choice = match (chosen.phase, closed) {
            (Phase::Before, None) if begins => {
                chosen.phase = Phase::Open;
                Choice::Step
            }
            (Phase::Before | Phase::Over, _) => {
                chosen.before += 1;
                Choice::Passes
            }
            (Phase::Open, Some(why)) => {
                chosen.close(Some(why.to_owned()));
                Choice::Waits
            }
            (Phase::Open, None) => match self.ends {
                None if !begins => {
                    chosen.close(None);
                    Choice::Waits
                }
                None => Choice::Step,
                Some(ends) => {
                    if ends.window().has(number) {
                        chosen.close(None);
                    }
                    Choice::Step
                }
            },
            (Phase::Closing, _) => Choice::Waits,
        };
        self.conditions().for_each(|conditions| conditions.has_come(kernel));
        if choice == Choice::Step {
            chosen.selected += 1;
            // No later dispatch need come to end it.
            let is_last = self.ends.is_none()
                && self.begins.depend_on_dispatches()
                && !self.begins.window().has(number + 1)
                && chosen.phase == Phase::Open;
            if is_last {
                chosen.close(None);
            }
        }
        choice
    }

    /// Another packet than a dispatch is about to be published: a step, in a region.
    pub(super) fn other(&self, interceptor: &Interceptor, queue: &'static Queue, index: u64, packet: &Packet) {
        let mut chosen = lock(&self.chosen);
        let own = queue.id.load(Ordering::Relaxed);
        let waits = chosen.order.of_barrier(own, index);
        let is_late = chosen.phase == Phase::Closing;
        if !is_late && chosen.phase != Phase::Open {
            return;
        }
        let kind = match packet.packet_type() {
            PacketType::BarrierAnd | PacketType::BarrierOr => StepKind::Barrier,
            _ => StepKind::Vendor,
        };
        let known = chosen.order.at_doorbell(own, index);
        let _lease = interceptor.queues.lease();
        chosen.others.push(Other { kind, packet: *packet, queue, _lease, index, known, waits, is_late });
    }

    /// The host has written packets of a queue, and rung for them, when copies had brought so many bytes of GPUs to it.
    pub(super) fn written(&self, queue: &Queue, ring: &Ring, packets: Range<u64>, host_had: u64) {
        // No lock is held meanwhile: the library of markers has its own.
        let ranges = markers::open_ranges();
        let mut chosen = lock(&self.chosen);
        let Chosen { order, others, .. } = &mut *chosen;
        order.pass(others);
        order.written(queue, ring, packets, (ranges, host_had));
    }

    /// What was known when the host rang for a packet, which is asked once, in order.
    pub(super) fn at_doorbell(&self, queue: &Queue, index: u64) -> AtDoorbell {
        lock(&self.chosen).order.at_doorbell(queue.id.load(Ordering::Relaxed), index)
    }

    /// The packets that are no dispatches and are over, each with what it depended on: those that the packet processor has passed, and
    /// those before a dispatch; all of them that came before its last dispatch, where nothing more comes.
    fn others(&self, before: Option<(&Queue, u64)>) -> Vec<(Other, AtDoorbell)> {
        let mut all = std::mem::take(&mut lock(&self.chosen).others);
        let Some((queue, index)) = before else {
            all.retain(|other| !other.is_late);
            return lock(&self.chosen).order.put_in_order(all);
        };
        let number = |queue: &Queue| queue.id.load(Ordering::Relaxed);
        let is_over = |other: &Other| {
            let is_before = std::ptr::eq(other.queue, queue) && other.index < index;
            let has_passed = || lock(&self.chosen).order.has_passed(number(other.queue), other.index + 1);
            is_before || has_passed() || other.queue.has_reached(other.index + 1)
        };
        // A queue whose lock is taken is not looked at: what stands before a packet that is over is over, too.
        let mut ends: HashMap<u64, u64> = HashMap::new();
        for other in all.iter().filter(|other| is_over(other)) {
            let end = ends.entry(number(other.queue)).or_default();
            *end = (*end).max(other.index + 1);
        }
        let is_within = |other: &Other| ends.get(&number(other.queue)).is_some_and(|end| other.index < *end);
        let (over, left): (Vec<Other>, Vec<Other>) = all.into_iter().partition(is_within);
        let mut chosen = lock(&self.chosen);
        chosen.others.splice(0..0, left);
        chosen.order.put_in_order(over)
    }

    /// The region cannot go on, for this reason.
    pub(super) fn break_off(&self, why: String) {
        let mut chosen = lock(&self.chosen);
        if chosen.phase == Phase::Open {
            chosen.close(Some(why));
        }
    }

    /// True once nothing more is captured.
    pub(super) fn is_over(&self) -> bool {
        lock(&self.chosen).phase == Phase::Over
    }

    /// True if nothing is left but to end it. Where no dispatch tells that it has ended, the triggers are looked at.
    pub(super) fn is_due(&self) -> bool {
        let mut chosen = lock(&self.chosen);
        if chosen.phase == Phase::Open && self.is_looked_at() && !self.begins.window().has(chosen.next) {
            chosen.close(None);
        }
        chosen.phase == Phase::Closing && chosen.taken == chosen.selected
    }

    /// How long the capture thread may sleep: it has to look at triggers while a region is open that other things than dispatches end.
    pub(super) fn look_in(&self) -> Option<Duration> {
        let is_open = lock(&self.chosen).phase == Phase::Open;
        (is_open && self.is_looked_at()).then_some(LOOK_EVERY)
    }

    fn is_looked_at(&self) -> bool {
        self.ends.is_none() && !self.begins.depend_on_dispatches()
    }

    /// A dispatch behind the end of the region is one of it: another one waits for it.
    pub(super) fn needs_another(&self) {
        lock(&self.chosen).selected += 1;
    }

    /// A chosen dispatch is complete.
    fn has_taken(&self, queue: &Queue, index: u64) {
        let mut chosen = lock(&self.chosen);
        chosen.taken += 1;
        chosen.order.has_completed(queue.id.load(Ordering::Relaxed), index);
    }

    /// The process ends: an open region does, too. Waits until it has.
    pub(super) fn ends_with_process(&self, wake: impl FnOnce()) {
        let mut chosen = lock(&self.chosen);
        let reason = self.ends.map(|_| format!("the process has ended before the last dispatch of {}", self.text));
        if chosen.phase == Phase::Open {
            chosen.close(reason);
        }
        if chosen.phase != Phase::Closing {
            return;
        }
        self.ending.store(true, Ordering::Relaxed);
        wake();
        let end = Instant::now() + AT_END;
        while chosen.phase != Phase::Over {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { break };
            chosen = self.ended.wait_timeout(chosen, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// True once the process waits for the end of the region, which it does without what makes no progress.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Nothing more is captured.
    pub(super) fn over(&self) {
        lock(&self.chosen).phase = Phase::Over;
        self.ended.notify_all();
    }

    /// What was asked for and did not happen, a line for each.
    pub(super) fn unmet(&self, has_markers: bool) -> Vec<String> {
        let chosen = lock(&self.chosen);
        if chosen.selected == 0 {
            let lines = self.begins.unmet(chosen.next, chosen.before, has_markers);
            let name = settings::Interceptor::capture_region;
            return if lines.is_empty() { vec![format!("{name}: no dispatch began {}", self.text)] } else { lines };
        }
        Vec::new()
    }
}

impl Chosen {
    fn close(&mut self, reason: Option<String>) {
        self.phase = Phase::Closing;
        self.reason = self.reason.take().or(reason);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use logdur_intercept::address_map::AddressMap;
    use logdur_journal::{Kernel, Records};
    use logdur_settings::Value;

    use super::*;

    /// A region, and the numbers of the kernels `a` and `b`.
    fn region(text: &str) -> (Region, [u32; 2]) {
        let kernels = Box::leak(Box::new(Kernels::new(
            Box::leak(Box::new(Records::private())),
            Box::leak(Box::new(AddressMap::new())),
        )));
        let numbers = ["a", "b"].map(|name| kernels.named(Kernel { symbol: name.to_owned(), ..Kernel::default() }));
        let mut settings = settings::Interceptor::from(|_| None).0;
        settings.capture_region = Value::parse(OsStr::new(text)).unwrap();
        let (region, wrong) = Region::new(&settings, kernels);
        assert_eq!(wrong, [""; 0]);
        (region.unwrap(), numbers)
    }

    /// What becomes of dispatches of these kernels: `.` passes, `s` is a step, `w` waits.
    fn choices(text: &str, kernels: &str) -> String {
        let (region, [a, b]) = region(text);
        let choose = |kernel| match region.choose(if kernel == 'a' { a } else { b }, 0, None) {
            Choice::Passes => '.',
            Choice::Step => 's',
            Choice::Waits => 'w',
        };
        kernels.chars().map(choose).collect()
    }

    #[test]
    fn a_region_has_the_dispatches_from_the_one_that_begins_it_to_the_first_later_one_that_ends_it() {
        assert_eq!(choices("dispatches:2..dispatches:4", "aaaaaaa"), "..sssww");
        assert_eq!(choices("dispatches:2..dispatches:1", "aaaa"), "..ss");
        assert_eq!(choices("kernel:a@2..kernel:b@1", "aababb"), ".sswww");
        // The first one that ends it is a later one.
        assert_eq!(choices("kernel:a@1..kernel:a@1-9", "baab"), ".ssw");
        // Without numbers, it is the next one of such a kernel, however many were before.
        assert_eq!(choices("kernel:a..kernel:b", "bbabab"), "..ssww");
        assert_eq!(choices("dispatches:2..kernel:b", "bbaaba"), "..sssw");
        assert_eq!(choices("kernel:a", "babaa"), ".swww");
    }

    #[test]
    fn a_single_trigger_has_the_dispatches_that_it_selects_and_knows_the_last_one_where_it_can() {
        assert_eq!(choices("dispatches:1-2", "aaaaa"), ".ssww");
        assert_eq!(choices("kernel:b@1-2", "ababa"), ".sssw");
        let (region, [a, _]) = region("dispatches:1");
        assert_eq!([(); 2].map(|()| region.choose(a, 0, None)), [Choice::Passes, Choice::Step]);
        assert!(!region.is_due(), "it is not taken yet");
        lock(&region.chosen).taken = 1;
        assert!(region.is_due());
    }

    #[test]
    fn numbers_are_those_of_the_log_where_other_rows_have_numbers_too() {
        let (region, [a, _]) = region("dispatches:5-6");
        assert_eq!(region.choose(a, 4, None), Choice::Passes);
        assert_eq!(region.choose(a, 4, None), Choice::Step, "published together with the one before");
        assert_eq!(region.choose(a, 6, None), Choice::Step);
        assert_eq!(region.choose(a, 7, None), Choice::Waits);
    }

    #[test]
    fn a_region_that_cannot_go_on_ends_with_the_reason_and_one_that_never_began_is_told() {
        let (region, [a, _]) = region("dispatches:1..dispatches:9");
        assert_eq!(region.choose(a, 0, None), Choice::Passes);
        let told = region.unmet(false);
        assert!(told[0].starts_with("LOGDUR_CAPTURE_REGION: dispatches:1: there were 1"), "{told:?}");
        assert_eq!(region.choose(a, 0, Some("off")), Choice::Passes, "it does not begin");
        let (region, [a, _]) = self::region("dispatches:0..dispatches:9");
        assert_eq!(region.choose(a, 0, None), Choice::Step);
        assert_eq!(region.choose(a, 0, Some("off")), Choice::Waits);
        assert_eq!(lock(&region.chosen).reason.as_deref(), Some("off"));
        assert_eq!(region.unmet(false), [""; 0]);
    }
}
