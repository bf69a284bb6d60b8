//! The log: rows, notices, and the account at the end.
//!
//! # Threads
//! The log thread writes rows as dispatches complete. Other threads write before it starts, and at the end of the runtime or the
//! process. The thread that writes holds the writer's lock.

mod finished;
pub(crate) mod hello;
mod owed;
mod sink;
mod writer;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, Instant};

use hsa::Agent;
use logdur_intercept::blocks::RecordRef;
use logdur_intercept::clock::Jump;
use logdur_intercept::host_clock::ClockPair;
use logdur_intercept::interceptor::SeenAgent;
use logdur_intercept::lifetime;
use logdur_intercept::lifetime::Access;
use logdur_intercept::lock;
use logdur_intercept::ports::{Follow, Report};
use logdur_intercept::queue::Queue;
use logdur_intercept::wake::Sleeper;
use logdur_journal::clock::Line as ClockLine;
use logdur_journal::columns::{self, Row};
use logdur_journal::compare::{self, Subject};
use logdur_journal::lines::Lines;
use logdur_journal::names::one_line;
use logdur_journal::{Fate, Operation, Process, Records, State, flag};
use logdur_settings::Interceptor;
use regex::Regex;

use crate::guarded::Guarded;
use crate::process;
use crate::records;
use crate::session::{self, Session};

use sink::Patience;
use writer::{Flushed, Measured, Ran, Writer};

pub(crate) use sink::Sink;

/// Rows are written together when there are this many bytes of them, or none left to add.
const BATCH: usize = 256 << 10;
/// How many records ahead a cache line is prefetched: the publisher and the reaper leave it in other caches.
const AHEAD: usize = 16;
/// Time between two checks for rows. A complete dispatch is in its record at once, and in the log after this time. A burst of
/// dispatches is over before the thread uses a processor for its rows.
const PAUSE: Duration = Duration::from_millis(100);
/// The same while some GPU's clock is not calibrated: without the calibration, the records of a dead process have no times.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The most lines, other than rows, that wait for the writer.
const MOST_LINES: usize = 4096;

/// Between two attempts to write a log that cannot be written.
const AGAIN: Duration = Duration::from_millis(400);
/// How long the log thread waits for a slow reader, without progress and in all: it keeps the runtime from going.
const THREADS_PATIENCE: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];
/// How long the end of the runtime and of the process wait for one, without progress and in all.
const LAST_PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// The log of the process.
pub(crate) struct Log {
    writer: Mutex<Writer>,
    /// Lines that are no rows, to be written before the next one.
    lines: SyncSender<Line>,
    /// Lines that the mailbox had no room for.
    lines_lost: AtomicU64,
    filter: Option<Regex>,
    /// Rows go somewhere.
    has_rows: bool,
    process: Process,
    /// Where `omniprobe` looks for what it tells the user.
    hello: Option<PathBuf>,
    started: AtomicBool,
    sleeper: Sleeper,
    news: AtomicBool,
    /// What is left of the last patience.
    last_patience: Mutex<Duration>,
    /// Why rows that cannot be written end with the process.
    no_file: Mutex<Option<String>>,
    /// The standard error that the process was started with.
    stderr: Option<Guarded>,
}

enum Line {
    Notice(String),
    /// Where the records are.
    Records(PathBuf),
    Clocks(ClockPair),
    Agent {
        position: usize,
        name: String,
        product: String,
        /// Which device it is, as [`hsa::Identity`] shows it, and the variables that chose it.
        identity: String,
    },
}

impl Follow for Log {
    fn queue_begins(&self) {
        session::current().iter().for_each(|session| session.log.start(session));
    }

    fn records_changed(&self) {
        self.news.store(true, Ordering::Release);
        self.sleeper.wake();
    }
}

impl Report for Log {
    fn notice(&self, text: String) {
        Log::notice(self, text);
    }

    fn tell(&self, text: &str) {
        Log::tell(self, text);
    }
}

/// The clocks that the times of a queue's rows are converted with.
struct Clocks<'c> {
    agent: Option<&'c SeenAgent>,
    host: Option<ClockLine>,
}

impl Log {
    /// The log in an open sink, or nowhere for the reason of a `problem`. `no_file` says why `records` end with the process.
    pub(crate) fn new(
        settings: &Interceptor,
        sink: Sink,
        problem: Option<String>,
        records: &'static Records,
        no_file: Option<String>,
    ) -> Log {
        let lines = Lines::of(records::format(settings));
        let (to_file, has_rows) = (sink.path().is_some(), !sink.is_nowhere());
        if let Some(problem) = &problem {
            ::log::error!("{problem}");
        }
        hello::say(settings, problem.as_deref(), &sink, records, no_file.as_deref());
        let (sender, mail) = mpsc::sync_channel(MOST_LINES);
        let log = Log {
            writer: Mutex::new(Writer::new(sink, problem, lines, mail, records)),
            lines: sender,
            lines_lost: AtomicU64::new(0),
            filter: None,
            has_rows,
            process: process::this(),
            hello: settings.hello.clone(),
            started: AtomicBool::new(false),
            sleeper: Sleeper::new(),
            news: AtomicBool::new(false),
            last_patience: Mutex::new(LAST_PATIENCE[1]),
            no_file: Mutex::new(no_file),
            stderr: Guarded::borrow(libc::STDERR_FILENO).ok(),
        };
        if let Some(path) = records.path().filter(|_| to_file) {
            log.add(Line::Records(path.to_owned()));
        }
        let (filter, bad) = match settings.log_filter.as_deref().map(Regex::new).transpose() {
            Ok(filter) => (filter, None),
            Err(error) => (None, Some(error.to_string())),
        };
        if let Some(error) = bad {
            log.notice(format!(
                "{}: expected a regular expression, every kernel is logged: {}",
                Interceptor::log_filter,
                one_line(&error)
            ));
        }
        Log { filter, ..log }
    }

    /// Hands a line to the writer without waiting. If the log cannot be written, later lines are lost and counted.
    fn add(&self, line: Line) {
        if self.lines.try_send(line).is_err() {
            self.lines_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A line that says something to people.
    pub(crate) fn notice(&self, text: String) {
        self.add(Line::Notice(text));
        self.wake();
    }

    /// True if rows are written.
    pub(crate) fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// A line for `omniprobe`, which prints it on stderr when the application has ended.
    pub(crate) fn tell(&self, text: &str) {
        if let Some(path) = &self.hello {
            hello::add(path, &one_line(text));
        }
    }

    /// A line that says what the runtime's clock is as wall time.
    pub(crate) fn clocks(&self, pair: ClockPair) {
        self.add(Line::Clocks(pair));
    }

    /// A line that names a GPU.
    pub(crate) fn agent(&self, position: usize, agent: &Agent) {
        let visible = crate::session::visible_agents();
        let identity = format!("{} {visible}", agent.identity).trim_end().to_owned();
        self.add(Line::Agent { position, name: agent.name.clone(), product: agent.product.clone(), identity });
    }

    /// Starts the thread if it does not run yet.
    pub(crate) fn start(&self, session: &'static Session) {
        if !self.started.swap(true, Ordering::AcqRel) {
            let without = "rows are written when the runtime or the process ends";
            session.interceptor.spawn("logdur-log", without, move || session.log.run(session));
        }
    }

    /// There is something to write.
    pub(crate) fn wake(&self) {
        self.news.store(true, Ordering::Release);
        self.sleeper.wake();
    }

    fn run(&self, session: &Session) {
        wake_without_preempting();
        loop {
            self.news.store(false, Ordering::Release);
            {
                let may = session.interceptor.may_use_runtime();
                let [stall, total] = THREADS_PATIENCE;
                let patience = Patience::of(stall, total);
                if lock(&self.writer).sink.must_wait() {
                    // The application may need the last descriptor now.
                } else if *may {
                    self.write(session, lifetime::access(), patience);
                } else {
                    // Rows are left to the thread that shuts the runtime down, which can still have its clocks read.
                    self.write_lines(&mut lock(&self.writer), session, patience);
                }
            }
            std::thread::sleep(if knows_clocks(session) { PAUSE } else { FIRST_PAUSE });
            let again = lock(&self.writer).has_to_try_again().then_some(AGAIN);
            self.sleeper.sleep(again, || self.news.load(Ordering::Acquire));
        }
    }

    /// Writes what can be written without waiting.
    pub(crate) fn write_at_once(&self, session: &Session, access: Access) {
        self.write(session, access, Patience::none());
    }

    /// Writes everything that is left, because the runtime or the process ends. Waits for a slow reader; all such waits of a process
    /// share one limit. With full `access`, the runtime converts times.
    pub(crate) fn write_all(&self, session: &Session, access: Access) {
        self.with_last_patience(|patience| self.write(session, access, patience));
    }

    fn with_last_patience(&self, write: impl FnOnce(Patience) -> Flushed) -> Flushed {
        let mut left = lock(&self.last_patience);
        let start = Instant::now();
        let flushed = write(Patience::of(LAST_PATIENCE[0], *left));
        if flushed == Flushed::Blocked {
            *left = left.saturating_sub(start.elapsed());
        }
        flushed
    }

    fn write(&self, session: &Session, access: Access, patience: Patience) -> Flushed {
        let may_use_runtime = access == Access::Full;
        let are_copies_under_way = session
            .copies
            .as_ref()
            .filter(|_| may_use_runtime)
            .is_some_and(|copies| copies.collect(session.recorder()));
        if are_copies_under_way {
            self.news.store(true, Ordering::Release);
        }
        let mut writer = lock(&self.writer);
        let mut flushed = self.write_lines(&mut writer, session, patience);
        session.interceptor.clock.calibrate();
        let queues = session.interceptor.queues.all();
        for queue in queues.iter() {
            if flushed == Flushed::All {
                flushed = self.write_rows(session, &mut writer, queue, access, patience);
            }
        }
        if flushed == Flushed::All {
            flushed = writer.flush(patience, &session.interceptor.blocks);
        }
        for queue in queues.iter() {
            finished::tidy(session, queue);
        }
        flushed
    }

    /// Writes the lines that are no rows.
    fn write_lines(&self, writer: &mut Writer, session: &Session, patience: Patience) -> Flushed {
        if let Some(swapper) = &session.swapper {
            swapper.report(session);
        }
        if let Some(problem) = session.interceptor.records.take_problem() {
            self.notice(format!("dispatches are recorded in memory that ends with the process: {problem}"));
            *lock(&self.no_file) = Some(problem);
        }
        let [.., unrecorded] = session.interceptor.records.header().events();
        if unrecorded > 0 {
            let limit = Interceptor::records_max;
            let text =
                format!("records have reached their limit, {limit}: dispatches pass unrecorded, and are counted");
            session.interceptor.notice_once("records-max", text);
        }
        if writer.flush(patience, &session.interceptor.blocks) == Flushed::Blocked {
            return Flushed::Blocked;
        }
        let Writer { lines, mail, buffer, .. } = &mut *writer;
        while let Ok(line) = mail.try_recv() {
            match line {
                Line::Notice(text) => lines.notice(buffer, &one_line(&text)),
                Line::Records(path) => lines.records(buffer, std::process::id(), &path),
                Line::Clocks(ClockPair { system_ns, wall_ns }) => lines.clocks(buffer, system_ns, wall_ns),
                Line::Agent { position, name, product, identity } => {
                    lines.agent(buffer, position, &name, &product, &identity);
                }
            }
        }
        let lost = self.lines_lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            lines.notice(buffer, &format!("{lost} notices are lost: they came faster than the log was written"));
        }
        writer.flush(patience, &session.interceptor.blocks)
    }

    /// Writes the rows of a queue that are ready. The buffer is empty, so that none of them is in it.
    fn write_rows(
        &self,
        session: &Session,
        writer: &mut Writer,
        queue: &'static Queue,
        access: Access,
        patience: Patience,
    ) -> Flushed {
        let agent = session.interceptor.agent(queue.agent);
        let mut old = agent.filter(|a| queue.has_packets && access == Access::Full && a.clock.is_old());
        let clocks = Clocks { agent, host: session.interceptor.clock.line() };
        let mut at = *lock(&queue.logged);
        while let Some(record) = at.record() {
            record.ask_ahead(AHEAD);
            match record.state() {
                State::Free => break,
                State::Done => {
                    if let Some(agent) = old {
                        // Rows that were made with the old line are in the log, and marked, before there is a new one.
                        if writer.flush(patience, &session.interceptor.blocks) == Flushed::Blocked {
                            return Flushed::Blocked;
                        }
                        old = old.filter(|_| !calibrate(session, queue, agent, record));
                    }
                    self.write_row(session, writer, queue, &clocks, record);
                }
                State::InFlight | State::Logged => {}
            }
            at.advance();
            if writer.buffer.len() >= BATCH {
                // On to the next block first: once the one behind is emptied, it does not say any more which one follows.
                let goes_on = at.record().is_some();
                let flushed = writer.flush(patience, &session.interceptor.blocks);
                finished::empty_blocks(session, queue);
                if flushed == Flushed::Blocked || !goes_on {
                    return flushed;
                }
            }
        }
        // Rows of this queue stay in the buffer for those of the next.
        Flushed::All
    }

    fn write_row(&self, session: &Session, writer: &mut Writer, queue: &Queue, clocks: &Clocks<'_>, record: RecordRef) {
        if record.flags() & flag::NO_DISPATCH != 0 {
            record.set_state(State::Logged);
            return;
        }
        let r = record.record();
        let shape = r.shape();
        let kernel = writer.kernel(&session.kernels, shape.kernel);
        let wanted = |filter: &Regex| kernel.map_or_else(|| filter.is_match(""), |k| k.wanted(filter));
        let operation = kernel.map_or(Operation::Dispatch, |k| k.kernel.operation);
        // Copies have rows, too.
        let dispatches = u64::from(operation == Operation::Dispatch);
        writer.ran.dispatches += dispatches;
        if kernel.is_some_and(|k| !k.kernel.replaced.is_empty()) {
            *writer.ran.swapped.entry(shape.kernel).or_default() += 1;
        }
        if !self.filter.as_ref().is_none_or(wanted) {
            writer.ran.filtered += dispatches;
            record.set_fate(Fate::Filtered);
            return;
        }
        ::log::trace!(
            "dispatch {} ran from tick {} to {}",
            r.id.load(Ordering::Relaxed),
            record.times().start.load(Ordering::Relaxed),
            record.times().end.load(Ordering::Relaxed)
        );
        let times = columns::times(r, operation, record.times(), clocks.agent.and_then(|a| a.clock.line()));
        if times.is_none() && record.flags() & flag::INCOMPLETE == 0 {
            record.add_flags(flag::NO_TIMES);
        }
        let row = Row {
            kernel: kernel.map_or("", |k| k.name()),
            known: kernel.map(|k| &k.kernel),
            process: self.process,
            dispatch: columns::dispatch(r, operation, clocks.host),
            times,
            agent: queue.agent,
            queue: record.block.get().queue(),
            shape,
            record: r,
            late: None,
        };
        let swapper = session.swapper.as_ref().filter(|swapper| swapper.compares(shape.kernel));
        let measured = row.times.filter(|_| swapper.is_some()).map(|(start, end)| {
            let shape = compare::Shape { grid: shape.grid, workgroup: shape.workgroup };
            let subject = Subject { kernel: row.kernel.to_owned(), agent: queue.agent, shape };
            let replaced = kernel.map_or(String::new(), |k| k.kernel.replaced.clone());
            Box::new(Measured { subject, replaced, nanoseconds: end.saturating_sub(start) })
        });
        if !writer.sink.is_nowhere() {
            writer.formatted.write(&mut writer.buffer, &row);
        }
        writer.ends_row(record, measured);
    }

    /// Logs whether swaps and the filter of rows had an effect.
    pub(crate) fn tell_end(&self, session: &Session) {
        let writer = lock(&self.writer);
        let Ran { dispatches, filtered, swapped } = &writer.ran;
        if let Some(swapper) = &session.swapper {
            swapper.end(session, *dispatches, swapped).iter().for_each(|line| self.tell(line));
        }
        if let Some(filter) = self.filter.as_ref().filter(|_| *dispatches > 0 && filtered == dispatches) {
            let name = Interceptor::log_filter;
            self.tell(&format!("{name}: none of {dispatches} dispatches is of a kernel with a name like {filter}"));
        }
    }

    /// Logs the account of all dispatches, if it has changed since the last one; true if the log is complete. Otherwise the records
    /// keep the missing rows, and the log's last line says so if there is room for it.
    pub(crate) fn write_account(&self, session: &Session) -> bool {
        let flushed = self.with_last_patience(|patience| self.try_account(session, patience));
        if flushed == Flushed::Blocked {
            self.say_what_is_owed(session);
        }
        flushed == Flushed::All
    }

    fn try_account(&self, session: &Session, patience: Patience) -> Flushed {
        let mut writer = lock(&self.writer);
        let header = session.interceptor.records.header();
        let seen = header.next_id().load(Ordering::Relaxed);
        // An account that is not true yet may not be in the buffer.
        if writer.flush_or_keep(patience) == Flushed::Blocked {
            return Flushed::Blocked;
        }
        if header.is_accounted(seen) {
            return Flushed::All;
        }
        let mut tally = header.tally();
        for queue in session.interceptor.queues.all().iter() {
            finished::count(queue, &mut tally);
        }
        let Writer { lines, buffer, comparisons, .. } = &mut *writer;
        for comparison in comparisons.all() {
            let emulated = session.interceptor.agent(comparison.subject.agent).is_some_and(|a| a.agent.is_emulated());
            lines.comparison(buffer, &comparison, emulated);
        }
        let shown = tally.shown(seen, header.has_private_blocks(), header.events());
        lines.account(buffer, std::process::id(), &shown);
        let flushed = writer.flush_or_keep(patience);
        if flushed == Flushed::All {
            header.set_accounted(seen);
        }
        flushed
    }
}

/// Gives the calling thread the policy `SCHED_BATCH`, whatever policy its creator had: a thread that wakes then preempts none. A thread
/// of `SCHED_IDLE` could not leave that policy without privilege, and would hold locks as long as others fill the processors.
/// Source: sched(7).
fn wake_without_preempting() {
    let lowest = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is read during the call, which concerns this thread alone. If it is refused, nothing has changed.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &lowest) };
}

/// True when the times of every queue's agent can be converted.
fn knows_clocks(session: &Session) -> bool {
    session
        .interceptor
        .queues
        .all()
        .iter()
        .filter(|q| q.has_packets)
        .all(|q| session.interceptor.agent(q.agent).is_none_or(|a| a.clock.line().is_some()))
}

/// Sees to it that the times of an agent can be converted; true if the record told a recent tick for that.
fn calibrate(session: &Session, queue: &Queue, agent: &SeenAgent, record: RecordRef) -> bool {
    let tick = record.times().end.load(Ordering::Relaxed);
    if tick == 0 {
        return false;
    }
    let interceptor = &session.interceptor;
    match agent.clock.calibrate(interceptor.api(), agent.agent.handle, tick) {
        Err(error) => {
            let text = format!("times of agent {} are not converted: {error}", queue.agent);
            interceptor.notice_once("clock", text);
        }
        Ok(Some(Jump::Doubted(off))) => {
            let text = format!(
                "the runtime's relation of the clock of agent {} and the host's jumped by {} us: rows keep the relation of before \
                 until the runtime reads both clocks right, but event times of the application do not",
                queue.agent,
                off / 1000
            );
            interceptor.notice_once("clock-doubted", text);
        }
        Ok(Some(Jump::Believed(off))) => {
            let text = format!(
                "the clock of agent {} was set by {} us: times of rows before and after it do not compare",
                queue.agent,
                off / 1000
            );
            interceptor.notice_once("clock-believed", text);
        }
        Ok(None) => {}
    }
    true
}
