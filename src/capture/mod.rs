//! Captures: writes dispatches, with the memory before and after each, into a file.
//!
//! The publisher holds a queue before a dispatch that is to be captured, and the application's thread goes on. The capture thread
//! brings the queues to rest, reads memory, lets the one dispatch run, reads memory again, and releases all queues. One time limit
//! covers all of it: once it expires, the dispatch runs like any other, with a note.
//!
//! # Threads
//! Publishers select dispatches and hold queues. One thread captures them, one after the other. An application's thread waits if it
//! frees memory while a piece of that memory is read, if it copies during a capture, or if it loads code while a snapshot is written.

mod copies;
mod file;
mod hold;
mod host_access;
mod kernarg;
mod memory;
mod process;
mod read;
mod region;
mod scope;
mod select;
mod stall;
mod storage;
mod take;
mod unannounced;
mod untouched;

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Instant;

use amdgpu_code_object::{DataKind, Image};
use hsa::{Executable, KernelSymbol, VariableSymbol};
use hsa_sys::abi::aql::Packet;
use logdur_intercept::Interceptor;
use logdur_intercept::lifetime::Access;
use logdur_intercept::ports::{Follow, HoldQueue};
use logdur_intercept::queue::{Lease, Queue, Ring};
use logdur_intercept::thread::sleep_exactly;
use logdur_intercept::wake::Sleeper;
use logdur_settings as settings;
use logdur_settings::{CaptureScope, OF_SINGLE_DISPATCHES, Quiesce};
use logdur_system::lock;
use logdur_system::text::one_line;

use crate::code::{Object, Objects};
use crate::kernels::Kernels;
use crate::markers;
use crate::ports::{FollowCode, OwnVariables, Switch, WriteRows};
use crate::when::Conditions;

pub(crate) use copies::{
    AsyncCopy, Content, Copies, Destination, Engine, Giving, Inside, Moved, Path, copied_by_a_kernel,
};
pub(crate) use memory::Memory;

use file::File;
use hold::{Limits, Patience};
use read::Reader;
use region::{AtDoorbell, Choice, Region};
use select::Selection;
use untouched::Untouched;

/// The feature. It exists only if a capture file is set.
pub(crate) struct Capture {
    kernels: &'static Kernels,
    /// Present when there is a kernel cache.
    variables: Option<&'static dyn OwnVariables>,
    /// Written before the process is ended.
    rows: &'static dyn WriteRows,
    selection: Selection,
    /// Present when a stretch of the application is captured, instead of single dispatches.
    region: Option<Region>,
    scope: CaptureScope,
    quiesce: Quiesce,
    after: bool,
    memory: Mutex<Memory>,
    /// Held for writing while memory is read.
    reading: RwLock<()>,
    reader: Mutex<Option<Reader>>,
    pub(crate) copies: Copies,
    untouched: Untouched,
    file: Mutex<File>,
    inbox: Mutex<VecDeque<Target>>,
    sleeper: Sleeper,
    started: Mutex<bool>,
    is_on: AtomicBool,
    /// Nothing more is captured: a limit was reached, or the file could not be written.
    stopped: AtomicBool,
    limits: Limits,
    /// How many dispatches in a row were not captured.
    failures: AtomicU32,
    /// A notice has said that the scope is smaller than the requested one.
    reduced: AtomicBool,
    seconds: u64,
    /// After how many dispatches the process is ended.
    quit: Option<u64>,
    /// How many dispatches were captured; only the capture thread counts.
    taken: AtomicU64,
    /// Nanoseconds spent on capturing.
    spent: AtomicU64,
    /// The packet of a captured dispatch is being published.
    runs_one: &'static AtomicBool,
}

/// A dispatch that waits to be captured.
struct Target {
    queue: &'static Queue,
    _lease: Lease,
    /// The index of its packet in the queue.
    index: u64,
    /// Its number among those of its kernel and geometry.
    occurrence: u64,
    /// At the last check, the packet processor had taken all packets before it.
    reached: bool,
    /// When the hold began.
    since: Instant,
    /// False for one that waits for the end of a region.
    is_wanted: bool,
    /// Of a region: what was known when the host rang for it.
    at_doorbell: AtDoorbell,
}

impl HoldQueue for Capture {
    fn hold(
        &self,
        interceptor: &'static Interceptor,
        queue: &'static Queue,
        ring: &'static Ring,
        packets: Range<u64>,
    ) -> Option<u64> {
        let is_stopped =
            self.stopped.load(Ordering::Relaxed) || !self.is_on.load(Ordering::Relaxed) || interceptor.is_outside();
        for index in packets {
            let packet = ring.slot(index).read();
            let (mut is_wanted, mut at_doorbell) = (true, AtDoorbell::default());
            let wanted = match &self.region {
                _ if ring.hold.has_passed(index) => None,
                None => {
                    (!is_stopped && packet.is_dispatch()).then(|| self.wants(interceptor, queue, &packet)).flatten()
                }
                Some(region) if packet.is_dispatch() => {
                    let choice = self.choose(interceptor, region, &packet, is_stopped);
                    is_wanted = choice == Choice::Step;
                    at_doorbell = region.at_doorbell(queue, index);
                    (choice != Choice::Passes).then(|| self.selection.count(self.kernels, queue.agent, &packet))
                }
                Some(region) => {
                    region.other(interceptor, queue, index, &packet);
                    None
                }
            };
            let Some(occurrence) = wanted else {
                self.untouched.published(&packet);
                continue;
            };
            // Before the capture thread learns of it, since that thread may release the queue at once.
            ring.hold.begin(index);
            let _lease = interceptor.queues.lease();
            let (reached, since) = (false, Instant::now());
            let target = Target { queue, _lease, index, occurrence, reached, since, is_wanted, at_doorbell };
            lock(&self.inbox).push_back(target);
            self.sleeper.wake();
            return Some(index);
        }
        None
    }

    fn sees_written(&self) -> bool {
        self.region.as_ref().is_some_and(|region| !region.is_over())
    }

    fn written(&self, queue: &'static Queue, ring: &'static Ring, packets: Range<u64>) {
        if let Some(region) = &self.region {
            region.written(queue, ring, packets, self.copies.brought());
        }
    }

    fn cannot_hold(&self, interceptor: &Interceptor, queue: u64) {
        self.untouched.unseen();
        if let Some(region) = &self.region {
            region.break_off(format!("queue {queue} is one of the runtime's intercept queues, which cannot be held"));
        }
        interceptor.notice(format!(
            "capture: queue {queue} is one of the runtime's intercept queues: its dispatches are not captured, and not held while \
             others are"
        ));
    }
}

impl Follow for Capture {
    fn queue_begins(&'static self, interceptor: &'static Interceptor) {
        if let Some(region) = &self.region {
            region.queue_begins(interceptor);
        }
        self.start(interceptor);
    }

    fn records_changed(&self, _: &Interceptor) {}
}

impl Switch for Capture {
    fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }
}

impl FollowCode for Capture {
    fn loaded_ours(
        &self,
        interceptor: &Interceptor,
        executable: Executable,
        objects: &Objects<'_>,
        bytes: &[u8],
        symbols: &[KernelSymbol],
    ) {
        let [object] = objects.all() else { return };
        if let (Some(moved_by), Ok(image)) = (object.moved_by(), Image::parse(bytes)) {
            let written = image.data().into_iter().filter(|range| range.kind == DataKind::Variable);
            let written = written.map(|range| (range.start.wrapping_add(moved_by), range.size));
            self.memory(|memory| memory.loaded_ours(executable, object.agent, written));
        }
        let mut file = lock(&self.file);
        let noted = file
            .loaded(interceptor, executable, object, bytes)
            .and_then(|()| file.frozen(interceptor, executable, symbols, objects, &[]));
        drop(file);
        self.check(interceptor, noted);
    }

    fn unloaded(&self, executable: Executable) {
        self.memory_leaves(|memory| memory.unloaded(executable));
    }
}

impl Capture {
    /// How many bytes of memory of GPUs a copy brings to the host, where a region is captured.
    pub(crate) fn brings(&self, destination: &Destination) -> u64 {
        let (Some(_), Destination::Moved(Moved { to, bytes, content: Content::From(from) })) =
            (&self.region, destination)
        else {
            return 0;
        };
        let memory = lock(&self.memory);
        let is_of_gpu =
            |at: u64| memory.around(at).is_some_and(|a| matches!(a.kind, memory::Kind::Pool(pool) if pool.is_gpu));
        if is_of_gpu(*from) && !is_of_gpu(*to) { *bytes } else { 0 }
    }

    /// Whether a dispatch is captured: its number among those of its kernel and geometry, if so.
    fn wants(&self, interceptor: &Interceptor, queue: &Queue, packet: &Packet) -> Option<u64> {
        if packet.is_extended_dispatch() {
            interceptor.notice_once(
                "extended-capture",
                "capture: dispatches in AMD's extended format, which gfx1250 takes, are not captured",
            );
            return None;
        }
        self.selection.wants(self.kernels, queue.agent, packet)
    }

    /// What becomes of a dispatch where a region is captured.
    fn choose(&self, interceptor: &Interceptor, region: &Region, packet: &Packet, is_stopped: bool) -> Choice {
        let closed = if packet.is_extended_dispatch() {
            Some("a dispatch in AMD's extended format, which gfx1250 takes, is not captured")
        } else if is_stopped {
            Some("captures were turned off, or are outside of LOGDUR_WHEN")
        } else {
            None
        };
        region.choose(self.kernels.number(packet.kernel_object()), interceptor.numbered(), closed)
    }

    /// The conditions on markers and others that the setting has.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &'static Conditions> + use<> {
        self.region.as_ref().map(Region::conditions).into_iter().flatten()
    }

    /// The feature as the settings describe it, and notices on them; `None` without a file.
    pub(crate) fn new(
        settings: &settings::Interceptor,
        runs_one: &'static AtomicBool,
        kernels: &'static Kernels,
        variables: Option<&'static dyn OwnVariables>,
        rows: &'static dyn WriteRows,
    ) -> (Option<Capture>, Vec<String>) {
        let Some(path) = &settings.capture else { return (None, Vec::new()) };
        let name = settings::Interceptor::capture;
        let selection = match Selection::new(settings) {
            Ok(selection) => selection,
            Err((name, error)) => {
                let error = one_line(&error.to_string());
                return (None, vec![format!("{name}: expected a regular expression, nothing is captured: {error}")]);
            }
        };
        let (region, wrong) = Region::new(settings, kernels);
        if !wrong.is_empty() {
            return (None, wrong);
        }
        let file = match File::create(path, settings) {
            Ok(file) => file,
            Err(error) => return (None, vec![format!("{name}: {}; nothing is captured", whole(&error))]),
        };
        let mut said = vec![format!("capture: {}", file.path().display())];
        let of_single = OF_SINGLE_DISPATCHES
            .iter()
            .filter(|name| region.is_some() && std::env::var_os(name).is_some_and(|value| !value.is_empty()));
        let region_name = settings::Interceptor::capture_region;
        said.extend(
            of_single
                .map(|name| format!("{name}: expected {region_name} alone, which takes all dispatches; no effect")),
        );
        let capture = Capture {
            kernels,
            variables,
            rows,
            selection,
            region,
            scope: settings.capture_scope,
            quiesce: settings.capture_quiesce,
            after: settings.capture_after != 0,
            memory: Mutex::default(),
            reading: RwLock::new(()),
            reader: Mutex::new(None),
            copies: Copies::default(),
            untouched: Untouched::default(),
            file: Mutex::new(file),
            inbox: Mutex::default(),
            sleeper: Sleeper::new(),
            started: Mutex::default(),
            is_on: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
            limits: Limits::new(settings.capture_max_hold, settings.capture_max_stall),
            failures: AtomicU32::new(0),
            reduced: AtomicBool::new(false),
            seconds: settings.capture_max_seconds.into(),
            quit: settings.capture_quit.map(u64::from),
            taken: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            runs_one,
        };
        (Some(capture), said)
    }

    /// Starts the thread if it does not run yet.
    fn start(&'static self, interceptor: &'static Interceptor) {
        let mut tried = lock(&self.started);
        if !std::mem::replace(&mut *tried, true) {
            let started = interceptor.spawn("logdur-capture", "nothing is captured", move || self.run(interceptor));
            if !started {
                // Without the thread, a held queue would never be released.
                self.stopped.store(true, Ordering::Release);
            }
        }
    }

    fn run(&self, interceptor: &'static Interceptor) {
        sleep_exactly();
        let mut reading: Option<take::Reading<'_>> = None;
        loop {
            let has_work = || !lock(&self.inbox).is_empty() || self.region.as_ref().is_some_and(Region::is_due);
            if !has_work() {
                match reading.take() {
                    None => self.sleeper.sleep(self.region.as_ref().and_then(Region::look_in), has_work),
                    Some(late) => reading = late.wait_for_late_copies(has_work),
                }
            }
            // Keeps the runtime from being shut down.
            let may = interceptor.may_use_runtime();
            if let Some(region) = self.region.as_ref().filter(|region| *may && region.is_due()) {
                reading = self.end_due(interceptor, region, reading.take());
                continue;
            }
            if !*may {
                // Its memory is gone with the runtime.
                self.region.iter().for_each(Region::over);
            }
            drop(may);
            let Some(since) = lock(&self.inbox).front().map(|first| first.since) else { continue };
            let mut patience = Patience::until(since + self.limits.hold, self.limits.stall);
            let target = loop {
                let is_behind = patience.is_behind(interceptor, &self.copies);
                let is_ending = self.region.as_ref().is_some_and(Region::is_ending);
                let in_vain = patience.is_over(interceptor, &self.copies) || is_ending && patience.has_stood_still();
                match self.next(in_vain, is_behind) {
                    None if has_work() && !self.is_region_due() => std::thread::sleep(stall::LOOK),
                    target => break target,
                }
            };
            let Some(target) = target else { continue };
            let may = interceptor.may_use_runtime();
            if !hold::has_room() {
                self.stop(interceptor, hold::NO_ROOM);
            }
            let is_stopped = !*may || self.stopped.load(Ordering::Acquire);
            reading = match &self.region {
                // The queue was held for it before the last capture reached a limit. While a region is open, it would be held again.
                _ if is_stopped => {
                    self.region.iter().for_each(|region| self.end_stopped(interceptor, region));
                    drop(stall::Stalled::with(interceptor, target.queue));
                    continue;
                }
                None => self.take(interceptor, target, reading.take()),
                Some(region) if !region.is_over() => self.take_step(interceptor, region, &target, reading.take()),
                Some(_) => {
                    drop(stall::Stalled::with(interceptor, target.queue));
                    continue;
                }
            };
        }
    }

    fn is_region_due(&self) -> bool {
        self.region.as_ref().is_some_and(Region::is_due)
    }

    /// Takes a dispatch that its queue has come to: one that is behind a barrier may wait for what another queue is held at, or
    /// does once it goes on. Any, when that has been waited for in vain. None that waits for the end of a region, before that, unless
    /// the region `is_behind` it: what one of its dispatches waits for belongs to it.
    fn next(&self, in_vain: bool, is_behind: bool) -> Option<Target> {
        let ends = self.region.as_ref().is_some_and(Region::is_over) || self.stopped.load(Ordering::Acquire);
        let mut inbox = lock(&self.inbox);
        let reached = |target: &Target| target.queue.has_reached(target.index);
        let mut wanted = inbox.iter().enumerate().filter(|(_, target)| ends || target.is_wanted);
        let first = wanted.clone().next().map(|(at, _)| at);
        let reached_one = wanted.find(|(_, target)| reached(target)).map(|(at, _)| at);
        let behind = || inbox.iter().position(|target| !target.is_wanted && reached(target));
        if let (None, Some(_), true, Some(region)) = (reached_one, first, is_behind, &self.region)
            && let Some(at) = behind()
        {
            region.needs_another();
            return inbox.remove(at).map(|target| Target { reached: true, is_wanted: true, ..target });
        }
        let next = inbox.remove(reached_one.or(first.filter(|_| in_vain))?)?;
        Some(Target { reached: reached_one.is_some(), ..next })
    }

    /// The region has ended: lets all queues go on that wait for that.
    fn release_all(&self, interceptor: &'static Interceptor) {
        let waiting = std::mem::take(&mut *lock(&self.inbox));
        for target in waiting {
            drop(stall::Stalled::with(interceptor, target.queue));
        }
    }

    /// The process ends: a region that is open does, too, while the runtime is there.
    pub(crate) fn ends_with_process(&self) {
        if let Some(region) = &self.region {
            region.ends_with_process(|| self.sleeper.wake());
        }
    }

    /// Memory was allocated.
    pub(crate) fn memory(&self, body: impl FnOnce(&mut Memory)) {
        body(&mut lock(&self.memory));
    }

    /// Memory is about to be freed: waits while it is being read.
    pub(crate) fn memory_leaves(&self, body: impl FnOnce(&mut Memory)) {
        let _not_read = self.reading.read().unwrap_or_else(PoisonError::into_inner);
        body(&mut lock(&self.memory));
    }

    /// The application has loaded a code object with these bytes.
    pub(crate) fn loaded(&self, interceptor: &Interceptor, executable: Executable, object: &Object, bytes: &[u8]) {
        let noted = lock(&self.file).loaded(interceptor, executable, object, bytes);
        self.check(interceptor, noted);
    }

    /// An executable was frozen: its kernels and variables have addresses.
    pub(crate) fn frozen(
        &self,
        interceptor: &Interceptor,
        executable: Executable,
        symbols: &[KernelSymbol],
        objects: &Objects<'_>,
    ) {
        let api = interceptor.api();
        let agents: BTreeSet<u64> = objects.agents().chain(symbols.iter().map(|symbol| symbol.agent)).collect();
        let of_agent = |agent| api.variables(executable, agent).unwrap_or_default();
        let mut variables: Vec<VariableSymbol> = agents.into_iter().flat_map(of_agent).collect();
        // Kernels can also reach variables that only the file names.
        variables.extend(objects.all().iter().flat_map(|object| object.inner_variables()));
        self.memory(|memory| memory.loaded(executable, &variables));
        let noted = lock(&self.file).frozen(interceptor, executable, symbols, objects, &variables);
        self.check(interceptor, noted);
    }

    /// The runtime is about to shut down: held queues are released.
    pub(crate) fn leave(&self, interceptor: &'static Interceptor) {
        self.ends_with_process();
        self.stopped.store(true, Ordering::Release);
        for target in std::mem::take(&mut *lock(&self.inbox)) {
            drop(stall::Stalled::with(interceptor, target.queue));
        }
        lock(&self.memory).forget();
        self.untouched.put(None);
        // The reader's buffers and signals belong to the runtime.
        *lock(&self.reader) = None;
    }

    /// Logs what was captured.
    pub(crate) fn report(&self, interceptor: &Interceptor) {
        let lines = lock(&self.file).report();
        lines.into_iter().for_each(|line| interceptor.notice(line));
    }

    /// Writes the end of the file.
    pub(crate) fn finish(&self, interceptor: &Interceptor) {
        self.report(interceptor);
        let mut file = lock(&self.file);
        let told = file.tell();
        let finished = file.finish();
        drop(file);
        if let Some(line) = told {
            interceptor.tell(&line);
            let unmatched = match &self.region {
                Some(region) => region.unmet(markers::are_there()),
                None => self.selection.unmatched(self.kernels).into_iter().collect(),
            };
            unmatched.iter().for_each(|line| interceptor.tell(line));
        }
        self.check(interceptor, finished);
    }

    /// After an error nothing more is captured.
    fn check(&self, interceptor: &Interceptor, result: Result<(), file::Failed>) {
        if let Err(error) = result {
            self.stop(interceptor, &whole(&error));
        }
    }

    /// Ends the process, as the setting asks, by a signal that the application may handle. The file is complete.
    fn quit(&self, interceptor: &'static Interceptor, captured: u64) {
        self.stopped.store(true, Ordering::Release);
        let name = settings::Interceptor::capture_quit;
        interceptor.notice(format!("capture: nothing more is captured: {name}={captured}: the process is ended"));
        self.finish(interceptor);
        interceptor.drain(Access::Full);
        self.rows.write_all(interceptor);
        let process = std::process::id().cast_signed();
        // SAFETY: no memory is involved.
        unsafe { libc::kill(process, libc::SIGTERM) };
    }

    fn stop(&self, interceptor: &Interceptor, reason: &str) {
        if !self.stopped.swap(true, Ordering::AcqRel) {
            self.region.iter().for_each(|region| region.break_off(reason.to_owned()));
            interceptor.off(format!("capture: nothing more is captured: {reason}"));
        }
    }
}

/// An error with its reason.
fn whole(error: &file::Failed) -> String {
    let why = error.source().map_or_else(String::new, |why| format!(": {why}"));
    format!("{error}{why}")
}
