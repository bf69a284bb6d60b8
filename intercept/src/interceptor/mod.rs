//! The state that the interception of all queues shares, from the first start of the runtime to the end of the process.
//!
//! # Threads
//! Any. The interceptor is created once and never freed. A forked child has none: all calls pass through.

pub mod ports;
pub mod reaper;
mod self_check;
pub mod unseen;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, RwLock, RwLockReadGuard};

use hsa::{Agent, AgentKind, Api};
use hsa_sys::table::NEWEST_TESTED_AMD_STEP;
use logdur_journal::Records;
use logdur_settings::QueueMode;
use logdur_system::lock;

use crate::address_map::AddressMap;
use crate::blocks::Blocks;
use crate::clock::AgentClock;
use crate::decrements::Decrements;
use crate::events::AwaitedEvents;
use crate::guard::report_panics_to;
use crate::host_clock::HostClock;
use crate::pending::Pending;
use crate::queue::{Queue, Queues};
use crate::signals::SignalPool;
use crate::thread;

use ports::Ports;
use reaper::Reaper;
use self_check::SelfCheck;
use unseen::Unseen;

/// Everything that queues, their publishers and the reaper share.
pub struct Interceptor {
    /// Where dispatches are recorded.
    pub records: &'static Records,
    /// The blocks of the records.
    pub blocks: Blocks,
    /// The queues that are watched.
    pub queues: Queues,
    /// Packets of queues that are not watched.
    pub unseen: Unseen,
    /// The thread that completes dispatches.
    pub reaper: Reaper,
    /// The clock that dispatches are stamped with.
    pub clock: HostClock,
    /// Address of a kernel descriptor to the number of the kernel, for records; 0 where no kernel is known.
    pub kernel_numbers: &'static AddressMap,
    pub(crate) signals: SignalPool,
    pub(crate) pending: Pending,
    pub(crate) decrements: Decrements,
    pub(crate) queue_mode: QueueMode,
    pub(crate) ports: Ports,
    /// Where work without a packet is recorded, by the position of its agent.
    pub(crate) completed: Mutex<BTreeMap<usize, &'static Queue>>,
    agents: RwLock<Vec<&'static SeenAgent>>,
    api: AtomicPtr<Api>,
    /// True while our threads may use the runtime and its memory; they hold it for as long as they do.
    runtime: RwLock<bool>,
    passive: AtomicBool,
    /// Events of signals that tools wait for by ioctls of their own.
    pub(crate) events: AwaitedEvents,
    /// What the first dispatches on a new runtime have to pass.
    pub(crate) self_check: SelfCheck,
    said: Mutex<HashSet<&'static str>>,
}

/// A GPU.
pub struct SeenAgent {
    /// As the runtime describes it.
    pub agent: Agent,
    /// Converts its ticks.
    pub clock: AgentClock,
}

static INTERCEPTOR: AtomicPtr<Interceptor> = AtomicPtr::new(std::ptr::null_mut());

/// The interceptor of this process, if there is one.
#[inline]
pub fn current() -> Option<&'static Interceptor> {
    let interceptor = INTERCEPTOR.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from a `&'static`, in `install`.
    unsafe { interceptor.as_ref() }
}

/// The interceptor, if it watches.
pub fn active() -> Option<&'static Interceptor> {
    current().filter(|interceptor| interceptor.is_active())
}

/// Makes an interceptor that of the process, or takes it away in a fork's child, which has neither our threads nor a runtime
/// that works.
pub fn install(interceptor: Option<&'static Interceptor>) {
    report_panics_to(panicked);
    let to = interceptor.map_or(std::ptr::null_mut(), |interceptor| std::ptr::from_ref(interceptor).cast_mut());
    INTERCEPTOR.store(to, Ordering::Release);
}

/// Code of ours has panicked: from now on everything passes through unseen.
fn panicked(message: &str) {
    if let Some(interceptor) = current() {
        interceptor.turn_passive(format_args!("an error of the library itself ({message})"));
    }
}

impl Interceptor {
    /// As `new`, with a reaper.
    pub(crate) fn with_reaper(
        reaper: Reaper,
        records: &'static Records,
        records_max: u64,
        kernel_numbers: &'static AddressMap,
        queue_mode: QueueMode,
        ports: Ports,
    ) -> Option<Interceptor> {
        Some(Interceptor {
            records,
            blocks: Blocks::new(records, records_max)?,
            queues: Queues::default(),
            unseen: Unseen::default(),
            reaper,
            clock: HostClock::new(records),
            kernel_numbers,
            signals: SignalPool::default(),
            pending: Pending::new()?,
            decrements: Decrements::new(),
            queue_mode,
            ports,
            completed: Mutex::default(),
            agents: RwLock::default(),
            api: AtomicPtr::default(),
            runtime: RwLock::new(false),
            passive: AtomicBool::new(false),
            events: AwaitedEvents::default(),
            self_check: SelfCheck::default(),
            said: Mutex::default(),
        })
    }

    /// Learns what there is to know of a runtime that has just been started. `new` learns of each GPU that was not there before,
    /// with its position.
    ///
    /// # Errors
    /// When the runtime does not tell its time or its GPUs.
    pub fn attach(&self, api: &'static Api, mut new: impl FnMut(usize, &Agent)) -> hsa::Result<()> {
        self.api.store(std::ptr::from_ref(api).cast_mut(), Ordering::Release);
        self.clock.compare(api)?;
        if api.amd.version.step_id > NEWEST_TESTED_AMD_STEP {
            self.self_check.begin();
        }
        let gpus = api.agents()?.into_iter().filter(|a| a.kind == AgentKind::Gpu);
        let mut agents = self.agents.write().unwrap_or_else(|e| e.into_inner());
        for (position, agent) in gpus.enumerate() {
            // A runtime that is started again has the same devices; their handles may differ.
            if agents.get(position).is_some_and(|a| a.agent.handle == agent.handle) {
                continue;
            }
            let first = agents.get(position).is_none();
            if first {
                new(position, &agent);
                self.records.agent(position, &agent.name, &agent.product);
            }
            let clock = AgentClock::new(self.records, position);
            let seen: &'static SeenAgent = Box::leak(Box::new(SeenAgent { agent, clock }));
            if first {
                agents.push(seen);
            } else {
                agents[position] = seen;
            }
        }
        Ok(())
    }

    /// The runtime's functions as they were before any hook of ours.
    pub fn api(&self) -> &'static Api {
        // SAFETY: the pointer comes from a `&'static`, in `attach`, before the interceptor can be reached through a hook.
        unsafe { &*self.api.load(Ordering::Acquire) }
    }

    /// Whether our threads may use the runtime and its memory, for as long as the answer is kept.
    pub fn may_use_runtime(&self) -> RwLockReadGuard<'_, bool> {
        self.runtime.read().unwrap_or_else(|e| e.into_inner())
    }

    /// From now on our threads may use the runtime, or none of them does any more.
    pub fn use_runtime(&self, may: bool) {
        *self.runtime.write().unwrap_or_else(|e| e.into_inner()) = may;
    }

    /// From now on everything passes through unseen.
    pub(crate) fn turn_passive(&self, why: impl Display) {
        if !self.passive.swap(true, Ordering::Relaxed) {
            self.off(format!("{why}: later dispatches pass unseen"));
        }
    }

    /// False once code of ours has panicked, or the times of a new runtime have turned out to be none.
    pub fn is_active(&self) -> bool {
        !self.passive.load(Ordering::Relaxed)
    }

    /// The GPU at a position of the list.
    pub fn agent(&self, position: usize) -> Option<&'static SeenAgent> {
        self.agents.read().unwrap_or_else(|e| e.into_inner()).get(position).copied()
    }

    /// How many GPUs there are.
    pub fn agents(&self) -> usize {
        self.agents.read().unwrap_or_else(|e| e.into_inner()).len()
    }

    /// Position of a GPU in the list.
    pub fn agent_position(&self, handle: u64) -> Option<usize> {
        self.agents.read().unwrap_or_else(|e| e.into_inner()).iter().position(|a| a.agent.handle == handle)
    }

    /// A line for the user that is always written.
    pub fn notice(&self, text: impl Display) {
        ::log::warn!("{text}");
        self.ports.report.notice(text.to_string());
    }

    /// True if what happens now is not to be recorded: its number would be the next one.
    pub fn is_outside(&self) -> bool {
        self.ports.window.is_some_and(|window| !window.has(self.numbered()))
    }

    /// How many dispatches, copies and markers have numbers.
    pub fn numbered(&self) -> u64 {
        self.records.header().next_id().load(Ordering::Relaxed)
    }

    /// A line that something which was asked for is off, or ends: it is told wherever the log goes.
    pub fn off(&self, text: impl Display) {
        ::log::warn!("{text}");
        self.ports.report.off(text.to_string());
    }

    /// A line that is written at the end of the process, wherever the log goes.
    pub fn tell(&self, text: &str) {
        self.ports.report.tell(text);
    }

    /// A notice, once in the life of the process for each `key`; true if it was this time.
    pub fn notice_once(&self, key: &'static str, text: impl Display) -> bool {
        let first = lock(&self.said).insert(key);
        if first {
            self.notice(text);
        }
        first
    }

    /// Starts a thread that takes none of the application's signals; false if the system refuses, which a notice says, with
    /// what it means.
    pub fn spawn(&'static self, name: &'static str, without: &str, body: impl FnOnce() + Send + 'static) -> bool {
        self.spawn_with_stack(name, without, 256 << 10, body)
    }

    /// The same for a thread that runs code of others, with as large a stack as theirs may need.
    pub fn spawn_large(&'static self, name: &'static str, without: &str, body: impl FnOnce() + Send + 'static) -> bool {
        self.spawn_with_stack(name, without, 8 << 20, body)
    }

    fn spawn_with_stack(
        &'static self,
        name: &'static str,
        without: &str,
        stack: usize,
        body: impl FnOnce() + Send + 'static,
    ) -> bool {
        let started = thread::spawn(name, stack, body);
        if let Err(error) = &started
            && lock(&self.said).insert(name)
        {
            self.off(format!("the thread {name} could not be started ({error}): {without}"));
        }
        started.is_ok()
    }

    /// Starts what watches queues, before the first one; false if that is impossible.
    pub fn start(&'static self) -> bool {
        let without = "dispatches of new queues pass unseen";
        let started = self.reaper.start(|run| self.spawn("logdur-reaper", without, move || run(self)));
        if started {
            self.ports.follow.iter().for_each(|feature| feature.queue_begins(self));
        }
        started
    }

    /// Tells the features that there may be work.
    pub(crate) fn records_changed(&self) {
        self.ports.follow.iter().for_each(|feature| feature.records_changed(self));
    }

    /// Destroys our signals, when no row needs them any more; how many are left to the runtime.
    pub fn destroy_signals(&self) -> usize {
        self.signals.destroy(self.api())
    }

    /// A signal is about to be destroyed: its last times are read, and no thread of ours is inside it afterwards.
    pub fn signal_destroyed(&self, signal: u64) {
        self.decrements.wait_for(signal);
        self.pending.before_destroy(signal);
        self.events.forget(signal);
    }

    /// A tool has asked for KFD's event of a signal, and may wait for it by an ioctl of its own.
    pub fn signal_event_given(&self, signal: u64, event: u32) {
        if let Err(error) = self.events.given(signal, event) {
            let text = "tools that wait for the event of a signal by an ioctl may not be woken";
            self.notice_once("events", format!("/dev/kfd: {error}: {text}"));
        }
    }

    /// Other processes can decrement a signal, too.
    pub fn signal_shared_with_others(&self, signal: u64) {
        self.pending.shared_with_others(signal);
    }

    /// Something other than a packet of a watched queue is about to complete on a signal.
    pub fn signal_reused(&self, signal: u64) {
        self.pending.before_reuse(signal);
    }
}
