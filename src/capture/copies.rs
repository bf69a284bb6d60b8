//! Copies of the application's that may be under way, and are not to begin while memory is captured.
//!
//! # Threads
//! Any that start copies or destroy signals; the capture thread waits for what is there and holds what is to come.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hsa_sys::abi::signal::Signal;
use logdur_system::lock;

/// For how long a call that gives an engine a copy waits for others that do. The runtime may hold such a call for as long as the
/// engine's ring is full, and then the order in which the engine got the copies is not known.
const TURN: Duration = Duration::from_millis(100);

/// Which engine of a GPU copies. The runtime has one of each kind, chosen by the agents that a copy is asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// To the host; inside of the GPU, too, if the copy is small.
    ToHost,
    /// To the GPU.
    ToGpu,
    /// Inside of the GPU: a kernel of the runtime's on a queue of its own.
    Within,
    /// On the SDMA engine that is named: a bit of `hsa_amd_sdma_engine_id_t`.
    Sdma(u32),
}

/// An engine, which copies in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Engine {
    /// The GPU's agent.
    pub(crate) gpu: u64,
    pub(crate) path: Path,
}

/// True when the runtime has a kernel copy so many bytes inside of a GPU. Source: ROCr's `GpuAgent::GetBlitObject` and its
/// variable `HSA_FORCE_SDMA_SIZE`.
pub(crate) fn copied_by_a_kernel(bytes: usize) -> bool {
    static LEAST: LazyLock<usize> = LazyLock::new(|| {
        let told = std::env::var("HSA_FORCE_SDMA_SIZE").ok().and_then(|text| text.trim().parse().ok());
        told.unwrap_or(1 << 20)
    });
    bytes >= *LEAST
}

impl Engine {
    /// The engine that the runtime uses for a path.
    pub(crate) fn of(gpu: u64, path: Path) -> Engine {
        // Without SDMA, kernels on one queue copy. Source: ROCr's `GpuAgent::InitDma` and its variable `HSA_ENABLE_SDMA`.
        static WITHOUT_SDMA: LazyLock<bool> =
            LazyLock::new(|| std::env::var("HSA_ENABLE_SDMA").is_ok_and(|text| text.trim() == "0"));
        Engine { gpu, path: if *WITHOUT_SDMA { Path::ToHost } else { path } }
    }
}

/// The memory that copies write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// From an address on, so many bytes.
    Range(u64, u64),
    /// All of that, and it is known what is written.
    Moved(Moved),
    /// It is not known: of an image, or of a list of operations.
    Unknown,
}

/// What a copy or a fill of one range writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The first address.
    pub(crate) to: u64,
    /// How many bytes.
    pub(crate) bytes: u64,
    /// What they become.
    pub(crate) content: Content,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The bytes from an address on.
    From(u64),
    /// A word, again and again.
    Word(u32),
}

/// What copies have written since it was asked for.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Addresses and sizes.
    pub(super) ranges: Vec<(u64, u64)>,
    /// What else they have written, and what that was.
    pub(super) moved: Vec<Moved>,
    /// Other memory, too.
    pub(super) elsewhere: bool,
}

impl Written {
    fn add(&mut self, destination: Destination) {
        match destination {
            Destination::Range(at, bytes) => self.ranges.push((at, bytes)),
            Destination::Moved(moved) => self.moved.push(moved),
            Destination::Unknown => self.elsewhere = true,
        }
    }
}

/// A copy, by its signals.
pub(crate) struct AsyncCopy {
    pub(crate) destination: Destination,
    /// How many bytes of a GPU it brings to the host.
    pub(crate) to_host: u64,
    /// Has a value above 0 until the copy is complete.
    pub(crate) completion: u64,
    /// It begins when all of these are 0.
    pub(crate) dependencies: Vec<u64>,
    /// The engine that may have been asked for it.
    pub(crate) engine: Option<Engine>,
}

/// What is known of copies.
#[derive(Default)]
struct Known {
    /// Those that were not complete when they were last looked at, in the order in which engines got them.
    copies: Vec<AsyncCopy>,
    /// Engines that calls are giving copies, and the threads of these calls.
    given: Vec<(libc::pthread_t, Engine)>,
    /// Threads in calls that return when their copy is complete.
    inside: usize,
    /// Memory is being captured: no copy begins.
    held: bool,
    /// Threads that wait until copies are released.
    waiting: usize,
    /// Threads that wait for their turn with an engine.
    queued: usize,
    /// How many calls have begun copies.
    begun: u64,
    /// A copy was begun that no signal tells the end of.
    endless: bool,
    /// What copies that are complete have written, if somebody wants to know.
    written: Option<Written>,
    /// How many bytes of GPUs copies that are complete have brought to the host.
    brought: u64,
}

impl Known {
    /// Forgets copies that are complete.
    fn forget(&mut self, is_complete: impl Fn(&AsyncCopy) -> bool) {
        let Known { copies, written, brought, .. } = self;
        copies.retain(|copy| {
            let gone = is_complete(copy);
            *brought = brought.saturating_add(if gone { copy.to_host } else { 0 });
            written.iter_mut().filter(|_| gone).for_each(|written| written.add(copy.destination));
            !gone
        });
    }

    /// The end of a copy that was begun cannot be seen.
    fn lost_sight(&mut self) {
        self.endless = true;
        self.written.iter_mut().for_each(|written| written.elsewhere = true);
    }

    /// True when a signal that was just given to a copy says that copies are complete before they are: each decrements it.
    fn is_early(&self, signal: u64) -> bool {
        let copies = self.copies.iter().filter(|copy| copy.completion == signal).count() as i64;
        // SAFETY: the application has given the signal to a copy that has not begun.
        unsafe { value(signal) < copies }
    }
}

/// The application's copies.
#[derive(Default)]
pub(crate) struct Copies {
    known: Mutex<Known>,
    /// They may begin again.
    released: Condvar,
    /// An engine has got what a call gave it.
    taken: Condvar,
}

/// A call is giving copies to engines, until this is dropped: the engines get those of the next call after them.
pub(crate) struct Giving<'a> {
    copies: &'a Copies,
    /// As they are in [`Known::given`].
    engines: Vec<(libc::pthread_t, Engine)>,
}

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        let mut known = lock(&self.copies.known);
        for engine in &self.engines {
            if let Some(at) = known.given.iter().position(|given| given == engine) {
                known.given.swap_remove(at);
            }
        }
        if known.queued > 0 {
            self.copies.taken.notify_all();
        }
    }
}

/// Copies do not begin until this is dropped.
pub(super) struct Held<'a>(&'a Copies);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        lock(&self.0.known).held = false;
        self.0.released.notify_all();
    }
}

/// A call that returns when its copy is complete.
pub(crate) struct Inside<'a>(&'a Copies, Destination, u64);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let Inside(copies, destination, to_host) = self;
        let mut known = lock(&copies.known);
        known.inside -= 1;
        known.brought = known.brought.saturating_add(*to_host);
        known.written.iter_mut().for_each(|written| written.add(*destination));
    }
}

/// The value of a signal that the application has given to a copy or a barrier.
///
/// # Safety
/// The copy or the barrier must not be complete: the application may not destroy the signal before that.
pub(super) unsafe fn value(signal: u64) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { Signal::from_handle(signal) }.value.load(Ordering::Acquire)
}

impl AsyncCopy {
    fn is_complete(&self) -> bool {
        // SAFETY: the hooks of the signal's next use and of its end remove the copy.
        unsafe { value(self.completion) <= 0 }
    }

    /// True when something has to end before it begins. Nothing that could does so while queues are at rest.
    fn waits(&self) -> bool {
        // SAFETY: the copy has not begun, and waits for these signals.
        self.dependencies.iter().any(|&signal| unsafe { value(signal) != 0 })
    }
}

impl Copies {
    /// Waits while copies are held, which is as long as a capture takes.
    fn released<'a>(&self, mut known: MutexGuard<'a, Known>) -> MutexGuard<'a, Known> {
        known.waiting += 1;
        known = self.released.wait_while(known, |known| known.held).unwrap_or_else(PoisonError::into_inner);
        known.waiting -= 1;
        known
    }

    /// Waits until no other thread gives a copy to one of these engines, at most for [`TURN`].
    fn turn<'a>(
        &self,
        mut known: MutexGuard<'a, Known>,
        engines: &[(libc::pthread_t, Engine)],
        end: Instant,
    ) -> MutexGuard<'a, Known> {
        let is_before = |(other, given): &(libc::pthread_t, Engine)| {
            engines.iter().any(|(thread, engine)| engine == given && thread != other)
        };
        known.queued += 1;
        while known.given.iter().any(is_before) {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { break };
            known = self.taken.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        known.queued -= 1;
        known
    }

    /// Copies are about to be started by one call, which lasts until the result is dropped. If one could begin at once, the
    /// thread waits while copies are held. Copies that wait for what a capture holds do not begin, and their thread goes on.
    pub(crate) fn start(&self, copies: Vec<AsyncCopy>) -> Giving<'_> {
        // SAFETY: the function has no precondition.
        let thread = unsafe { libc::pthread_self() };
        let engines: Vec<_> = copies.iter().filter_map(|copy| Some((thread, copy.engine?))).collect();
        let end = Instant::now() + TURN;
        let mut known = lock(&self.known);
        loop {
            known = self.turn(known, &engines, end);
            if !known.held || copies.iter().all(AsyncCopy::waits) {
                break;
            }
            known = self.released(known);
        }
        known.given.extend(&engines);
        // Those that are complete delay no queue.
        if known.copies.len().is_power_of_two() {
            known.forget(AsyncCopy::is_complete);
        }
        let signals: Vec<u64> = copies.iter().map(|copy| copy.completion).collect();
        known.copies.extend(copies);
        known.begun += 1;
        if signals.into_iter().any(|signal| known.is_early(signal)) {
            known.lost_sight();
        }
        Giving { copies: self, engines }
    }

    /// A copy is about to be started that no signal tells the end of.
    pub(crate) fn never_end(&self) {
        self.released(lock(&self.known)).lost_sight();
    }

    /// A call is about to copy, so many bytes of a GPU to the host, and returns when that is done.
    pub(crate) fn inside(&self, destination: Destination, to_host: u64) -> Inside<'_> {
        let mut known = self.released(lock(&self.known));
        known.inside += 1;
        known.begun += 1;
        Inside(self, destination, to_host)
    }

    /// What copies have written that were complete since the last call, or since the first one, which begins it. Copies under way are not
    /// in it.
    pub(super) fn written(&self) -> Written {
        lock(&self.known).written.replace(Written::default()).unwrap_or_default()
    }

    /// How many bytes of GPUs copies have brought to the host, as far as they are complete.
    pub(super) fn brought(&self) -> u64 {
        let mut known = lock(&self.known);
        known.forget(AsyncCopy::is_complete);
        known.brought
    }

    /// Nobody wants to know any more what copies write.
    pub(super) fn forget_written(&self) {
        lock(&self.known).written = None;
    }

    /// The application gives a signal a value, for something else: a copy that had it is complete.
    pub(crate) fn reused(&self, signal: u64) {
        lock(&self.known).forget(|copy| copy.completion == signal);
    }

    /// A signal is about to be destroyed.
    pub(crate) fn destroyed(&self, signal: u64) {
        let mut known = lock(&self.known);
        known.forget(|copy| copy.completion == signal);
        known.copies.iter_mut().for_each(|copy| copy.dependencies.retain(|&s| s != signal));
    }

    /// The engines of a GPU that have come to a copy that waits, or will.
    pub(super) fn blocked(&self, gpu: u64) -> Vec<Path> {
        let known = lock(&self.known);
        let waiting = known.copies.iter().filter(|copy| !copy.is_complete() && copy.waits());
        waiting.filter_map(|copy| copy.engine).filter(|engine| engine.gpu == gpu).map(|engine| engine.path).collect()
    }

    /// What a GPU's engines wait for, in words.
    pub(super) fn describe_waits(&self, gpu: u64) -> String {
        let (blocked, known) = (self.blocked(gpu), lock(&self.known));
        let unknown = known.copies.iter().filter(|copy| copy.engine.is_none() && !copy.is_complete()).count();
        if blocked.is_empty() && unknown == 0 {
            return "no copy of the application's is in their way, so they may have lost its completion, as those of gfx942 \
                    do with some drivers; HSA_ENABLE_SDMA=0 has kernels copy"
                .to_owned();
        }
        format!(
            "{} copies of the application's wait for work that is held, {unknown} are of engines that are not known",
            blocked.len()
        )
    }

    /// Lets no copy begin any more.
    pub(super) fn hold(&self) -> Held<'_> {
        lock(&self.known).held = true;
        Held(self)
    }

    /// True when threads wait until copies are released.
    pub(super) fn has_waiting_threads(&self) -> bool {
        lock(&self.known).waiting > 0
    }

    /// How many are not complete.
    pub(super) fn under_way(&self) -> usize {
        let known = lock(&self.known);
        known.inside + known.copies.iter().filter(|copy| !copy.is_complete()).count()
    }

    /// How many calls have begun copies, while all copies are held; `None` if one may still write memory, now or when copies are
    /// released.
    pub(super) fn all_ended(&self) -> Option<u64> {
        let known = lock(&self.known);
        let ended = known.inside == 0 && !known.endless && known.copies.iter().all(AsyncCopy::is_complete);
        (ended && known.held).then_some(known.begun)
    }

    /// True when all have ended that have begun: the others wait, or their engine does at one before them.
    pub(super) fn are_at_rest(&self) -> bool {
        let mut known = lock(&self.known);
        known.forget(AsyncCopy::is_complete);
        let mut blocked = Vec::new();
        known.inside == 0
            && known.copies.iter().all(|copy| {
                let waits = copy.waits();
                if waits {
                    blocked.extend(copy.engine);
                }
                waits || copy.engine.is_some_and(|engine| blocked.contains(&engine))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A signal, as far as [`value`] reads it, and its handle.
    fn signal(value: i64) -> (Box<Signal>, u64) {
        // SAFETY: a signal is numbers, and the type is that of the layout.
        let signal: Box<Signal> = unsafe { Box::new(std::mem::zeroed()) };
        signal.value.store(value, Ordering::Relaxed);
        let handle = std::ptr::from_ref(&*signal).expose_provenance() as u64;
        (signal, handle)
    }

    fn copy(completion: u64, dependencies: Vec<u64>, path: Path) -> AsyncCopy {
        let destination = Destination::Range(completion, 8);
        AsyncCopy { destination, to_host: 5, completion, dependencies, engine: Some(Engine { gpu: 1, path }) }
    }

    #[test]
    fn an_engine_gets_copies_of_two_threads_in_the_order_in_which_they_are_known() {
        let (copies, given) = (Copies::default(), AtomicBool::new(false));
        let [(_first, first), (_second, second), (_held, held)] = [1, 1, 1].map(signal);
        std::thread::scope(|scope| {
            let giving = copies.start(vec![copy(first, vec![], Path::ToGpu)]);
            // Another engine is not waited for, and a call inside of this one neither.
            drop(copies.start(vec![copy(second, vec![], Path::ToHost)]));
            drop(copies.start(vec![copy(second, vec![], Path::ToGpu)]));
            let other = scope.spawn(|| {
                let _giving = copies.start(vec![copy(second, vec![held], Path::ToGpu)]);
                assert!(given.load(Ordering::Acquire));
            });
            while lock(&copies.known).queued == 0 && !other.is_finished() {
                std::thread::yield_now();
            }
            given.store(true, Ordering::Release);
            drop(giving);
        });
        assert_eq!(lock(&copies.known).copies.len(), 4);
        assert!(lock(&copies.known).given.is_empty());
    }

    #[test]
    fn a_call_that_lasts_delays_the_others_for_a_limited_time() {
        let copies = Copies::default();
        let [(_first, first), (_second, second)] = [1, 1].map(signal);
        let _giving = copies.start(vec![copy(first, vec![], Path::ToGpu)]);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(copies.start(vec![copy(second, vec![], Path::ToGpu)])));
        });
        assert_eq!(lock(&copies.known).copies.len(), 2);
    }

    #[test]
    fn what_copies_have_written_is_known_once_they_are_complete() {
        let copies = Copies::default();
        let [(first, first_handle), (_second, second), (third, third_handle)] = [1, 1, 1].map(signal);
        drop(copies.start(vec![copy(first_handle, vec![], Path::ToGpu)]));
        // From here on.
        assert!(copies.written().ranges.is_empty());
        drop(copies.start(vec![copy(second, vec![], Path::ToGpu), copy(third_handle, vec![], Path::ToHost)]));
        first.value.store(0, Ordering::Relaxed);
        third.value.store(0, Ordering::Relaxed);
        assert!(!copies.are_at_rest());
        drop(copies.inside(Destination::Range(64, 4), 4));
        let written = copies.written();
        assert_eq!(written.ranges, [(first_handle, 8), (third_handle, 8), (64, 4)]);
        assert!(!written.elsewhere);
        assert_eq!(copies.brought(), 5 + 5 + 4, "the second is not complete");
        copies.destroyed(second);
        drop(copies.inside(Destination::Unknown, 0));
        let written = copies.written();
        assert_eq!((written.ranges, written.elsewhere), (vec![(second, 8)], true));
    }
}
