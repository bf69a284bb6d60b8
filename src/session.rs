//! What lives between the first `OnLoad` and the end of the process.
//!
//! # Threads
//! Any. The session is created once and never freed. A forked child has no session: all calls pass through.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use hsa::{Api, LiveTable};
use hsa_sys::raw::HsaApiTable;
use logdur_intercept::address_map::AddressMap;
use logdur_intercept::host_clock::ClockPair;
use logdur_intercept::lifetime::Access;
use logdur_intercept::ports::{ChangeDispatch, Follow, HoldQueue};
use logdur_intercept::{Interceptor, Ports, calls, interceptor, lifetime};
use logdur_settings as settings;

use crate::capture::Capture;
use crate::code::LoadedCode;
use crate::copies::{Copies, Recorder};
use crate::descriptors::Few;
use crate::instrument::Instrument;
use crate::kernels::Kernels;
use crate::log::{Log, Sink};
use crate::records::Opened;
use crate::swap::Swapper;
use crate::{diagnostics, exit, hooks, markers, process, records};

/// The interceptor and the features on its ports. No other type knows all features.
pub(crate) struct Session {
    pub(crate) interceptor: Interceptor,
    pub(crate) log: &'static Log,
    pub(crate) kernels: Kernels,
    pub(crate) code: LoadedCode,
    /// Present when there is a kernel cache.
    pub(crate) swapper: Option<&'static Swapper>,
    /// Present in instrumented mode.
    pub(crate) instrument: Option<&'static Instrument>,
    /// Present when copies have rows.
    pub(crate) copies: Option<Copies>,
    /// Present when dispatches are captured.
    pub(crate) capture: Option<&'static Capture>,
}

/// Variables that choose the visible GPUs, and their order: of the runtime, and of HIP and OpenCL above it.
const VISIBLE: &[&str] = &["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// The variables that choose the visible GPUs, as `NAME=VALUE` with blanks in between; those that are not set are left out.
pub(crate) fn visible_agents() -> String {
    let set =
        |name: &&str| Some(format!("{name}={}", std::env::var_os(name)?.to_string_lossy().replace(['\n', ' '], "")));
    VISIBLE.iter().filter_map(set).collect::<Vec<_>>().join(" ")
}

static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());

/// The session of this process, if there is one.
pub(crate) fn current() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from a leaked box, in `load`.
    unsafe { session.as_ref() }
}

/// The session, if it watches.
pub(crate) fn active() -> Option<&'static Session> {
    current().filter(|session| session.interceptor.is_active())
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
    if let Some(session) = current().filter(|_| lifetime::is_runtime_up()) {
        hooks::runtime::another_started();
        session.tell_of_another_runtime(&live);
        return;
    }
    let api: &'static Api = Box::leak(Box::new(Api::copy(&live)));
    calls::set(api);
    let session = current().unwrap_or_else(create);
    if let Err(error) = session.attach(api) {
        session.interceptor.notice(format!("nothing is logged: {error}"));
        return;
    }
    session.interceptor.use_runtime(true);
    lifetime::runtime_is_up(true);
    hooks::runtime::started();
    hooks::install(&live, session);
    markers::connect(session.recorder());
}

/// True in a program with rights that its user does not have (setuid). There the library does nothing, since variables of the environment
/// must not name files.
fn has_raised_privileges() -> bool {
    // SAFETY: the call reads what the kernel has told the process, and cannot fail.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn create() -> &'static Session {
    let (mut settings, problems) = settings::Interceptor::from_environment();
    let few = Few::left();
    let off = few.and_then(|few| few.turn_off(&mut settings));
    if let (Some(ranks), Some(rank)) = (&settings.ranks, process::rank())
        && !ranks.contains(rank)
    {
        settings.log_location = settings::LogLocation::Nowhere;
        settings.capture = None;
        if std::mem::take(&mut settings.instrumented.0) {
            // They have clones for the instrumented ranks: no kernel is swapped.
            settings.kernel_cache.0.clear();
        }
    }
    diagnostics::start(&settings);
    let session: &'static Session = Box::leak(Box::new(Session::new(&settings, few)));
    SESSION.store(std::ptr::from_ref(session).cast_mut(), Ordering::Release);
    interceptor::install(Some(&session.interceptor));
    for problem in problems {
        session.interceptor.notice(problem);
    }
    off.into_iter().for_each(|off| session.interceptor.notice(off));
    exit::register();
    session
}

/// The runtime is about to be shut down: what needs its functions is done now, because some refuse them in `OnUnload`.
pub(crate) fn leave_runtime() {
    let Some(session) = current() else { return };
    if !*session.interceptor.may_use_runtime() {
        return;
    }
    session.capture.iter().for_each(|capture| capture.leave(session));
    session.copies.iter().for_each(|copies| copies.leave(session.recorder()));
    session.leave_instrument();
    session.interceptor.leave_runtime();
    session.log.write_all(session, Access::Full);
    let left = session.interceptor.destroy_signals();
    ::log::debug!("leaving the runtime, {left} signals left to it");
}

/// The runtime has more users than were counted.
pub(crate) fn runtime_used_again() {
    if let Some(session) = current() {
        session.interceptor.use_runtime(true);
        session
            .interceptor
            .notice("the runtime is used after it was shut down: dispatches of queues that are older pass unseen");
    }
}

/// The runtime goes: nothing of it may be touched afterwards.
pub(crate) fn unload() {
    if hooks::runtime::another_ends() {
        return;
    }
    markers::disconnect();
    // Done before, unless it was shut down around our hook.
    leave_runtime();
    let Some(session) = current() else { return };
    if let Some(capture) = &session.capture {
        capture.report(session);
    }
    session.interceptor.unseen.tell(&session.interceptor);
    session.log.write_all(session, Access::Memory);
    session.log.write_account(session);
    session.kernels.forget();
    session.code.forget();
    session.swapper.iter().for_each(|swapper| swapper.forget());
    session.instrument.iter().for_each(|instrument| instrument.forget());
    lifetime::runtime_is_up(false);
    hooks::restore(session.interceptor.api());
}

/// A forked child has neither our threads nor a working runtime: it continues without the library.
pub(crate) extern "C" fn forked() {
    SESSION.store(std::ptr::null_mut(), Ordering::Release);
    interceptor::install(None);
    markers::forked();
}

impl Session {
    fn new(settings: &settings::Interceptor, few: Option<Few>) -> Session {
        let (sink, problem) = Sink::open(settings, few.is_none());
        let Opened { records, said, no_file } = records::open(settings, &sink, few);
        let log: &'static Log = Box::leak(Box::new(Log::new(settings, sink, problem, records, no_file)));
        let captures: &'static AtomicBool = Box::leak(Box::default());
        let instrument: Option<&'static Instrument> =
            Instrument::new(settings, captures).map(|instrument| &*Box::leak(Box::new(instrument)));
        let (swapper, of_cache) = Swapper::new(settings, instrument);
        let (capture, of_capture) = Capture::new(settings, captures);
        said.into_iter().chain(of_cache).chain(of_capture).for_each(|text| log.notice(text));
        let swapper: Option<&'static Swapper> = swapper.map(|swapper| &*Box::leak(Box::new(swapper)));
        let capture: Option<&'static Capture> = capture.map(|capture| &*Box::leak(Box::new(capture)));
        let kernel_numbers: &'static AddressMap = Box::leak(Box::new(AddressMap::new()));
        let ports = Ports {
            change: swapper.map(|swapper| swapper as &dyn ChangeDispatch),
            hold: capture.map(|capture| capture as &dyn HoldQueue),
            follow: [log as &dyn Follow].into_iter().chain(capture.map(|capture| capture as &dyn Follow)).collect(),
            report: log,
        };
        Session {
            interceptor: Interceptor::new(records, settings.records_max.0, kernel_numbers, settings.queue_mode, ports),
            log,
            kernels: Kernels::new(records, kernel_numbers),
            code: LoadedCode::default(),
            swapper,
            instrument,
            copies: (settings.copies == 1).then(Copies::default),
            capture,
        }
    }

    /// The library watches one runtime of a process: a call does not show which of two runtimes it is for.
    fn tell_of_another_runtime(&self, live: &LiveTable) {
        let (first, other) = (hooks::watched_library(), hooks::library_of(live));
        let text = format!(
            "the process has two HSA runtimes: dispatches of {other} pass unseen, since {first} was started first; with \
             LD_PRELOAD={other} the application may use that one only"
        );
        self.log.tell(&text);
        self.interceptor.notice(text);
    }

    /// The runtime or the process is about to end: handlers get the messages of dispatches that have ended, and are closed.
    pub(crate) fn leave_instrument(&'static self) {
        if let Some(instrument) = self.instrument {
            self.interceptor.drain(Access::Full);
            if let Err(text) = instrument.leave() {
                self.log.tell(&text);
                self.interceptor.notice(text);
            }
        }
    }

    /// What copies are recorded with.
    pub(crate) fn recorder(&self) -> Recorder<'_> {
        Recorder { interceptor: &self.interceptor, kernels: &self.kernels }
    }

    /// Learns what there is to know of a runtime that has just been started.
    fn attach(&self, api: &'static Api) -> hsa::Result<()> {
        self.log.clocks(ClockPair::now(api)?);
        self.interceptor.attach(api, |position, agent| self.log.agent(position, agent))?;
        if self.copies.is_some()
            && let Err(error) = api.take_times_of_copies()
        {
            self.interceptor.notice(format!("copies have no times: {error}"));
        }
        self.log.write_at_once(self, Access::Full);
        Ok(())
    }
}
