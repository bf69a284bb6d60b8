//! What lives between the first `OnLoad` and the end of the process.
//!
//! # Threads
//! Any. The session is made once and never freed; a fork's child has none, and everything passes through unseen there.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use hsa::{Agent, AgentKind, Api, LiveTable};
use hsa_sys::raw::HsaApiTable;
use logdur_journal::Records;
use logdur_settings::{Interceptor, QueueMode};

use crate::blocks::Blocks;
use crate::capture::Capture;
use crate::clock::AgentClock;
use crate::code::LoadedCode;
use crate::host_clock::HostClock;
use crate::kernels::Kernels;
use crate::log::{Log, Sink};
use crate::pending::Pending;
use crate::queue::{self, Queues};
use crate::reaper::{self, Access, Reaper};
use crate::signals::SignalPool;
use crate::swap::Swapper;
use crate::{calls, descriptors, diagnostics, exit, hooks, records};

/// How long kernels in flight are waited for when the runtime or the process ends.
const DRAIN: Duration = Duration::from_millis(500);

/// Everything, in its parts.
pub(crate) struct Session {
    pub(crate) log: Log,
    pub(crate) records: &'static Records,
    pub(crate) blocks: Blocks,
    pub(crate) signals: SignalPool,
    pub(crate) pending: Pending,
    pub(crate) kernels: Kernels,
    pub(crate) code: LoadedCode,
    pub(crate) queues: Queues,
    pub(crate) reaper: Reaper,
    pub(crate) clock: HostClock,
    pub(crate) queue_mode: QueueMode,
    /// Present when there is a kernel cache.
    pub(crate) swapper: Option<Swapper>,
    /// Present when dispatches are captured.
    pub(crate) capture: Option<Capture>,
    agents: RwLock<Vec<&'static SeenAgent>>,
    api: AtomicPtr<Api>,
    /// True while our threads may use the runtime and its memory; they hold it for as long as they do.
    runtime: RwLock<bool>,
    passive: AtomicBool,
    said: Mutex<HashSet<&'static str>>,
}

/// A GPU.
pub(crate) struct SeenAgent {
    pub(crate) agent: Agent,
    pub(crate) clock: AgentClock,
}

static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());

/// Locks, whether or not a panic has left the lock poisoned: what it guards is whole between two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The session of this process, if there is one.
pub(crate) fn current() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from a leaked box, in `load`.
    unsafe { session.as_ref() }
}

/// The session, if it watches.
pub(crate) fn active() -> Option<&'static Session> {
    current().filter(|s| s.is_active())
}

/// The runtime has been started.
///
/// # Safety
/// `table` must be the runtime's table.
pub(crate) unsafe fn load(table: *mut HsaApiTable) {
    if has_raised_privileges() {
        return;
    }
    // SAFETY: the caller's promise.
    let Ok(live) = (unsafe { LiveTable::of(table) }) else { return };
    if hooks::installed(&live) {
        return;
    }
    let api: &'static Api = Box::leak(Box::new(Api::copy(&live)));
    calls::set(api);
    let session = current().unwrap_or_else(create);
    session.api.store(std::ptr::from_ref(api).cast_mut(), Ordering::Release);
    if let Err(error) = session.attach(api) {
        session.notice(format!("nothing is logged: {error}"));
        return;
    }
    session.use_runtime(true);
    exit::runtime_is_up(true);
    hooks::runtime::started();
    hooks::install(&live, session);
}

/// True in a program that runs with rights that its user does not have: variables of the environment may name no file there,
/// so that the library does nothing at all.
fn has_raised_privileges() -> bool {
    // SAFETY: the call reads what the kernel has told the process, and cannot fail.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn create() -> &'static Session {
    let (mut settings, problems) = Interceptor::from_environment();
    let off = descriptors::leave_room(&mut settings);
    diagnostics::start(&settings);
    let session: &'static Session = Box::leak(Box::new(Session::new(&settings)));
    SESSION.store(std::ptr::from_ref(session).cast_mut(), Ordering::Release);
    for problem in problems {
        session.notice(problem);
    }
    off.into_iter().for_each(|off| session.notice(off));
    exit::register();
    session
}

/// The runtime is about to be shut down: what needs its functions is done now, because some refuse them in `OnUnload`.
pub(crate) fn leave_runtime() {
    let Some(session) = current() else { return };
    if !*session.may_use_runtime() {
        return;
    }
    session.capture.iter().for_each(|capture| capture.leave(session));
    session.drain(Access::Full);
    session.queues.all().into_iter().for_each(queue::inplace::leave);
    // What the reaper has in its hands is back in its place before signals are destroyed.
    session.use_runtime(false);
    for queue in session.queues.all() {
        reaper::give_up(session, queue);
        queue::destroyed(session, queue);
    }
    session.log.write_all(session, Access::Full);
    let left = session.signals.destroy(session.api());
    ::log::debug!("leaving the runtime, {left} signals left to it");
}

/// The runtime has more users than were counted.
pub(crate) fn runtime_goes_on() {
    if let Some(session) = current() {
        session.use_runtime(true);
        session.notice("the runtime is used after it was shut down: dispatches of queues that are older pass unseen");
    }
}

/// The runtime goes: nothing of it may be touched afterwards.
pub(crate) fn unload() {
    // Done before, unless it was shut down around our hook.
    leave_runtime();
    let Some(session) = current() else { return };
    if let Some(capture) = &session.capture {
        capture.report(session);
        session.log.write_all(session, Access::Memory);
    }
    session.log.write_account(session);
    session.kernels.forget();
    session.code.forget();
    session.swapper.iter().for_each(Swapper::forget);
    exit::runtime_is_up(false);
    hooks::restore(session.api());
}

/// The child of a fork has neither our threads nor a runtime that works: it goes on without us.
pub(crate) extern "C" fn forked() {
    SESSION.store(std::ptr::null_mut(), Ordering::Release);
}

/// Code of ours has panicked: from now on everything passes through unseen.
pub(crate) fn panicked(message: &str) {
    if let Some(session) = current()
        && !session.passive.swap(true, Ordering::Relaxed)
    {
        session.notice(format!("an error of the library itself ({message}): later dispatches pass unseen"));
    }
}

impl Session {
    fn new(settings: &Interceptor) -> Session {
        let (sink, problem) = Sink::open(settings);
        let (records, said) = records::open(settings, &sink);
        let log = Log::new(settings, sink, problem, records);
        let (swapper, of_cache) = Swapper::new(settings);
        let (capture, of_capture) = Capture::new(settings);
        said.into_iter().chain(of_cache).chain(of_capture).for_each(|text| log.notice(text));
        Session {
            log,
            records,
            blocks: Blocks::new(records, settings.records_max.0),
            signals: SignalPool::default(),
            pending: Pending::new(),
            kernels: Kernels::new(records),
            code: LoadedCode::default(),
            queues: Queues::default(),
            reaper: Reaper::new(),
            clock: HostClock::new(records),
            queue_mode: settings.queue_mode,
            swapper,
            capture,
            agents: RwLock::default(),
            api: AtomicPtr::default(),
            runtime: RwLock::new(false),
            passive: AtomicBool::new(false),
            said: Mutex::default(),
        }
    }

    /// Learns what there is to know of a runtime that has just been started.
    fn attach(&self, api: &Api) -> hsa::Result<()> {
        self.clock.compare(api)?;
        let gpus = api.agents()?.into_iter().filter(|a| a.kind == AgentKind::Gpu);
        let mut agents = self.agents.write().unwrap_or_else(|e| e.into_inner());
        for (position, agent) in gpus.enumerate() {
            // A runtime that is started again has the same devices; their handles may differ.
            if agents.get(position).is_some_and(|a| a.agent.handle == agent.handle) {
                continue;
            }
            let first = agents.get(position).is_none();
            if first {
                self.log.agent(position, &agent);
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
        drop(agents);
        self.log.write_at_once(self, Access::Full);
        Ok(())
    }

    /// The runtime's functions as they were before any hook of ours.
    pub(crate) fn api(&self) -> &'static Api {
        // SAFETY: the pointer comes from a leaked box, in `load`, before the session can be reached through a hook.
        unsafe { &*self.api.load(Ordering::Acquire) }
    }

    /// Whether our threads may use the runtime and its memory, for as long as the answer is kept.
    pub(crate) fn may_use_runtime(&self) -> RwLockReadGuard<'_, bool> {
        self.runtime.read().unwrap_or_else(|e| e.into_inner())
    }

    /// From now on our threads may use the runtime, or none of them does any more.
    fn use_runtime(&self, may: bool) {
        *self.runtime.write().unwrap_or_else(|e| e.into_inner()) = may;
    }

    /// False once code of ours has panicked.
    pub(crate) fn is_active(&self) -> bool {
        !self.passive.load(Ordering::Relaxed)
    }

    /// The GPU at a position of the list.
    pub(crate) fn agent(&self, position: usize) -> Option<&'static SeenAgent> {
        self.agents.read().unwrap_or_else(|e| e.into_inner()).get(position).copied()
    }

    /// Position of a GPU in the list.
    pub(crate) fn agent_position(&self, handle: u64) -> Option<usize> {
        self.agents.read().unwrap_or_else(|e| e.into_inner()).iter().position(|a| a.agent.handle == handle)
    }

    /// A line of the log that is always written.
    pub(crate) fn notice(&self, text: impl Display) {
        ::log::warn!("{text}");
        self.log.notice(text.to_string());
    }

    /// The same, once in the life of the process for each `key`.
    pub(crate) fn notice_once(&self, key: &'static str, text: impl Display) {
        if lock(&self.said).insert(key) {
            self.notice(text);
        }
    }

    /// Starts a thread that takes none of the application's signals.
    pub(crate) fn spawn(&'static self, name: &str, body: impl FnOnce() + Send + 'static) {
        let blocked = exit::BlockedSignals::all();
        let guarded = move || crate::entry::guard((), body);
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(guarded) {
            self.notice(format!("the thread {name} could not be started: rows are written when the runtime or the process ends ({error})"));
        }
        drop(blocked);
    }

    /// Waits for what is in flight, a little, and takes note of it.
    pub(crate) fn drain(&'static self, access: Access) {
        let start = Instant::now();
        loop {
            let seen = reaper::look(self, access);
            if seen.in_flight == 0 || start.elapsed() >= DRAIN {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
