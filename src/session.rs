//! What lives between the first `OnLoad` and the end of the process.
//!
//! # Threads
//! Any. The session is created once and never freed. A forked child has no session: all calls pass through.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use hsa::Api;
use logdur_intercept::address_map::AddressMap;
use logdur_intercept::host_clock::ClockPair;
use logdur_intercept::lifetime::Access;
use logdur_intercept::ports::{ChangeDispatch, Follow, HoldQueue, NameSite};
use logdur_intercept::{Interceptor, Ports, interceptor};
use logdur_settings as settings;
use logdur_settings::Feature;

use crate::capture::Capture;
use crate::code::LoadedCode;
use crate::control::Control;
use crate::copies::Copies;
use crate::descriptors::DescriptorShortage;
use crate::instrument::Instrument;
use crate::kernels::Kernels;
use crate::log::{Log, Sink};
use crate::ports::Switch;
use crate::records::Opened;
use crate::stacks::Stacks;
use crate::swap::Swapper;
use crate::when::Conditions;
use crate::{markers, records};

/// The interceptor and the features on its ports. No other type knows all features.
pub(crate) struct Session {
    pub(crate) interceptor: Interceptor,
    pub(crate) log: &'static Log,
    pub(crate) kernels: &'static Kernels,
    pub(crate) code: &'static LoadedCode,
    /// Present when there is a kernel cache.
    pub(crate) swapper: Option<&'static Swapper>,
    /// Present in instrumented mode.
    pub(crate) instrument: Option<&'static Instrument>,
    /// Present when copies have rows.
    pub(crate) copies: Option<&'static Copies>,
    /// Present when dispatches are captured.
    pub(crate) capture: Option<&'static Capture>,
    /// Present when not all dispatches are recorded.
    pub(crate) conditions: Option<&'static Conditions>,
    /// Present when others may turn features on and off.
    pub(crate) control: Option<&'static Control>,
}

static SESSION: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

/// The session of this process, if there is one.
pub(crate) fn current() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: the pointer is null or comes from a `&'static`, in `install`.
    unsafe { session.as_ref() }
}

/// Makes a session that of the process; its problems are notices.
pub(crate) fn install(session: &'static Session) {
    SESSION.store(ptr::from_ref(session).cast_mut(), Ordering::Release);
    interceptor::install(Some(&session.interceptor));
}

/// The runtime is about to be shut down: what needs its functions is done now, because some refuse them in `OnUnload`.
pub(crate) fn leave_runtime() {
    let Some(session) = current() else { return };
    let interceptor = &session.interceptor;
    if !*interceptor.may_use_runtime() {
        return;
    }
    session.capture.iter().for_each(|capture| capture.leave(interceptor));
    session.copies.iter().for_each(|copies| copies.leave(interceptor));
    session.instrument.iter().for_each(|instrument| instrument.leave(interceptor));
    interceptor.leave_runtime();
    session.log.write_all(interceptor, Access::Full);
    let left = interceptor.destroy_signals();
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

/// A forked child has neither our threads nor a working runtime: it continues without the library.
pub(crate) extern "C" fn forked() {
    SESSION.store(ptr::null_mut(), Ordering::Release);
    interceptor::install(None);
    markers::forked();
}

impl Session {
    /// The session as the settings describe it, with the features on their ports; `None` if the system has no memory left.
    pub(crate) fn new(settings: &settings::Interceptor, shortage: Option<DescriptorShortage>) -> Option<Session> {
        let (sink, problem) = Sink::open(settings, shortage.is_none());
        let Opened { records, said, no_file } = records::open(settings, &sink, shortage);
        let kernel_numbers = leaked(AddressMap::new());
        let (kernels, code) = (leaked(Kernels::new(records, kernel_numbers)), leaked(LoadedCode::default()));
        let mut log = Log::new(settings, sink, problem, records, kernels, no_file);
        let captures = leaked(AtomicBool::default());
        let instrument = Instrument::new(settings, captures).map(leaked);
        let (swapper, of_cache) = Swapper::new(settings, instrument, kernels, code);
        let swapper = swapper.map(leaked);
        let copies = (settings.copies == 1).then(|| leaked(Copies::new(kernels)));
        let stacks = Stacks::new(settings, kernels);
        let (stacks, of_stacks) = stacks.map_or_else(|why| (None, Some(why)), |stacks| (stacks.map(leaked), None));
        log.connect(
            copies.map(|copies| copies as _),
            swapper.map(|swapper| swapper as _),
            stacks.map(|stacks| stacks as _),
        );
        let log = leaked(log);
        let (capture, of_capture) = Capture::new(settings, captures, kernels, swapper.map(|swapper| swapper as _), log);
        let capture = capture.map(leaked);
        swapper.zip(capture).into_iter().for_each(|(swapper, capture)| swapper.follow(capture));
        said.into_iter().for_each(|text| log.notice(text));
        of_stacks.into_iter().for_each(|text| log.off(text));
        for (is_on, said) in [(swapper.is_some(), of_cache), (capture.is_some(), of_capture)] {
            said.into_iter().for_each(|text| if is_on { log.notice(text) } else { log.off(text) });
        }
        let (conditions, of_conditions) =
            Conditions::new(settings::Interceptor::when, &settings.when, settings.start.is_some(), kernels);
        of_conditions.into_iter().for_each(|text| log.off(text));
        let conditions = conditions.map(leaked);
        let control = settings.start.as_ref().zip(conditions).map(|(start, conditions)| {
            let switches = [
                (Feature::Capture, capture.map(|capture| capture as &dyn Switch)),
                (Feature::Instrument, instrument.map(|instrument| instrument as _)),
                (Feature::Swap, swapper.filter(|_| instrument.is_none()).map(|swapper| swapper as _)),
            ];
            leaked(Control::new(start, conditions, switches, log, kernels))
        });
        let ports = Ports {
            change: swapper.map(|swapper| swapper as &dyn ChangeDispatch),
            hold: capture.map(|capture| capture as &dyn HoldQueue),
            window: conditions.map(|conditions| conditions.window()),
            count: conditions.filter(|conditions| conditions.count_kernels()).map(|conditions| conditions as _),
            sites: stacks.map(|stacks| stacks as &dyn NameSite),
            follow: [
                conditions.map(|conditions| conditions as &dyn Follow),
                Some(log as &dyn Follow),
                capture.map(|capture| capture as &dyn Follow),
            ]
            .into_iter()
            .flatten()
            .collect(),
            report: log,
        };
        let interceptor =
            Interceptor::new(records, settings.records_max.0, kernel_numbers, settings.queue_mode, ports)?;
        Some(Session { interceptor, log, kernels, code, swapper, instrument, copies, capture, conditions, control })
    }

    /// Learns what there is to know of a runtime that has just been started.
    pub(crate) fn attach(&self, api: &'static Api) -> hsa::Result<()> {
        self.log.clocks(ClockPair::now(api)?);
        self.interceptor.attach(api, |position, agent| self.log.agent(position, agent))?;
        if self.copies.is_some()
            && let Err(error) = api.take_times_of_copies()
        {
            self.interceptor.off(format!("copies have no times: {error}"));
        }
        self.log.write_at_once(&self.interceptor, Access::Full);
        Ok(())
    }
}

/// A value that is never freed.
fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
