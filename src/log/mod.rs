//! The log: rows, notices, and the account at the end.
//!
//! # Threads
//! One thread writes rows as dispatches complete; at the end of the runtime or the process, and before there is such a
//! thread, others do. Whoever writes holds the writer.

mod columns;
mod format;
mod sink;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hsa::Agent;
use logdur_journal::{State, flag};
use logdur_settings::Interceptor;
use regex::Regex;

use crate::blocks::RecordRef;
use crate::exit;
use crate::log::columns::Row;
use crate::log::format::Lines;
use crate::log::sink::Sink;
use crate::queue::Queue;
use crate::reaper::{self, Access};
use crate::session::{Session, lock};
use crate::wake::Sleeper;

/// Rows are written together when there are this many bytes of them, or none left to add.
const BATCH: usize = 32 << 10;
/// Between two looks for rows: what is complete is in the log this much later.
const PAUSE: Duration = Duration::from_millis(20);

/// The log of the process.
pub(crate) struct Log {
    writer: Mutex<Writer>,
    /// Lines that are no rows, to be written before the next one.
    lines: Mutex<Vec<Line>>,
    filter: Option<Regex>,
    started: AtomicBool,
    sleeper: Sleeper,
    news: AtomicBool,
    /// What the account was when it was last given.
    accounted: AtomicU64,
}

enum Line {
    Notice(String),
    Agent { position: usize, name: String, product: String },
}

struct Writer {
    sink: Sink,
    lines: Lines,
    buffer: Vec<u8>,
    rows: u64,
}

impl Log {
    /// Opens the log that is asked for, and writes what stands at its beginning.
    pub(crate) fn open(settings: &Interceptor) -> Log {
        let lines = Lines::of(settings.log_format);
        let (sink, problem) = Sink::open(&settings.log_location, lines.header());
        let log = Log {
            writer: Mutex::new(Writer { sink, lines, buffer: Vec::new(), rows: 0 }),
            lines: Mutex::default(),
            filter: None,
            started: AtomicBool::new(false),
            sleeper: Sleeper::new(),
            news: AtomicBool::new(false),
            accounted: AtomicU64::new(u64::MAX),
        };
        if let Some(problem) = &problem {
            ::log::error!("{problem}");
        }
        say_hello(settings, problem.as_deref());
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

    /// A line that says something to people.
    pub(crate) fn notice(&self, text: String) {
        lock(&self.lines).push(Line::Notice(text));
        self.wake();
    }

    /// A line that names a GPU.
    pub(crate) fn agent(&self, position: usize, agent: &Agent) {
        lock(&self.lines).push(Line::Agent { position, name: agent.name.clone(), product: agent.product.clone() });
    }

    /// Starts the thread if it does not run yet.
    pub(crate) fn start(&self, session: &'static Session) {
        if !self.started.swap(true, Ordering::AcqRel) {
            session.spawn("logdur-log", move || session.log.run(session));
        }
    }

    /// There is something to write.
    pub(crate) fn wake(&self) {
        self.news.store(true, Ordering::Release);
        self.sleeper.wake();
    }

    fn run(&self, session: &Session) {
        loop {
            self.news.store(false, Ordering::Release);
            self.write_all(session, exit::access());
            std::thread::sleep(PAUSE);
            self.sleeper.sleep(None, || self.news.load(Ordering::Acquire));
        }
    }

    /// Writes everything that there is to write. With full `access`, the runtime is asked how to convert times.
    pub(crate) fn write_all(&self, session: &Session, access: Access) {
        let mut writer = lock(&self.writer);
        let Writer { lines, buffer, .. } = &mut *writer;
        for line in std::mem::take(&mut *lock(&self.lines)) {
            match line {
                Line::Notice(text) => lines.notice(buffer, &one_line(&text)),
                Line::Agent { position, name, product } => lines.agent(buffer, position, &name, &product),
            }
        }
        writer.flush(session);
        for queue in session.queues.all() {
            self.write_rows(session, &mut writer, queue, access);
        }
        writer.flush(session);
    }

    /// Writes the rows of a queue that are ready, and returns its empty blocks.
    fn write_rows(&self, session: &Session, writer: &mut Writer, queue: &'static Queue, access: Access) {
        let mut calibrated = access != Access::Full;
        let gone = queue.gone.load(Ordering::Acquire);
        let mut first = lock(&queue.logged);
        let mut at = *first;
        let mut all = true;
        while let Some(record) = at.record() {
            match record.record().state() {
                State::Free => break,
                State::InFlight => all = false,
                State::Done => {
                    if !calibrated {
                        calibrated = calibrate(session, queue, record);
                    }
                    self.write_row(session, writer, queue, record);
                }
                State::Logged => {}
            }
            at.advance();
            if all {
                let old = first.block;
                *first = at;
                if old != at.block {
                    // The reaper may be a moment behind: every record of the block is done, but it has not looked.
                    reaper::settle(queue);
                    session.blocks.give_back(old);
                }
            }
        }
        // Once the queue is gone its publisher adds nothing: what is written is all.
        if gone && all {
            session.account.seen.add(queue.newly_seen());
            session.queues.remove(queue);
        }
    }

    fn write_row(&self, session: &Session, writer: &mut Writer, queue: &Queue, record: RecordRef) {
        let r = record.record();
        if r.flags() & flag::NO_DISPATCH != 0 {
            r.set_state(State::Logged);
            return;
        }
        let number = r.kernel.load(Ordering::Relaxed);
        let kernel = session.kernels.by_number(number);
        let wanted =
            |filter: &Regex| kernel.map_or_else(|| filter.is_match(""), |k| k.wanted(|name| filter.is_match(name)));
        if !self.filter.as_ref().is_none_or(wanted) {
            session.account.filtered.add(1);
            r.set_state(State::Logged);
            return;
        }
        let agent = session.agent(queue.agent);
        let ticks = (record.times().start.load(Ordering::Relaxed), record.times().end.load(Ordering::Relaxed));
        ::log::trace!("dispatch {} ran from tick {} to {}", r.id.load(Ordering::Relaxed), ticks.0, ticks.1);
        let timed = r.flags() & (flag::NO_TIMES | flag::INCOMPLETE) == 0 && ticks.1 != 0;
        let row = Row {
            kernel: kernel.map_or("", |k| k.name()),
            kernarg_size: kernel.map(|k| k.kernarg_size),
            times: agent.filter(|_| timed).and_then(|a| a.clock.to_ns(ticks.0, ticks.1)),
            agent: queue.agent,
            queue: queue.id.load(Ordering::Relaxed),
            record: r,
        };
        let account = &session.account;
        for (set, counter) in [
            (number == 0, &account.unknown_kernel),
            (r.flags() & flag::INCOMPLETE != 0, &account.incomplete),
            (r.flags() & flag::INCOMPLETE == 0 && row.times.is_none(), &account.no_times),
        ] {
            counter.add(set.into());
        }
        if !writer.sink.is_nowhere() {
            writer.lines.row(&mut writer.buffer, &row);
        }
        writer.rows += 1;
        if writer.buffer.len() >= BATCH {
            writer.flush(session);
        }
        r.set_state(State::Logged);
    }

    /// Gives the account of all dispatches so far, unless nothing has changed since it was last given.
    pub(crate) fn write_account(&self, session: &Session) {
        let mut writer = lock(&self.writer);
        for queue in session.queues.all() {
            session.account.seen.add(queue.newly_seen());
        }
        let seen = session.account.seen.get();
        if self.accounted.swap(seen, Ordering::AcqRel) == seen {
            return;
        }
        let Writer { lines, buffer, .. } = &mut *writer;
        lines.account(buffer, &session.account.shown());
        writer.flush(session);
    }
}

impl Writer {
    fn flush(&mut self, session: &Session) {
        let (written, rows) = (self.sink.write(&self.buffer), std::mem::take(&mut self.rows));
        self.buffer.clear();
        match written {
            Ok(()) => session.account.logged.add(rows),
            Err(error) => {
                session.account.unwritten.add(rows);
                ::log::error!("{rows} rows could not be written: {error}");
            }
        }
    }
}

/// Sees to it that the times of a queue's agent can be converted; true if the record told a recent tick for that.
fn calibrate(session: &Session, queue: &Queue, record: RecordRef) -> bool {
    let tick = record.times().end.load(Ordering::Relaxed);
    let Some(agent) = session.agent(queue.agent).filter(|_| tick != 0) else { return false };
    if let Err(error) = agent.clock.calibrate(session.api(), agent.agent.handle, tick) {
        session.notice_once("clock", format!("times of agent {} are not converted: {error}", queue.agent));
    }
    true
}

/// Tells `omniprobe` that the library was loaded, and whether its log can be written.
fn say_hello(settings: &Interceptor, problem: Option<&str>) {
    let Some(path) = &settings.hello else { return };
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        // Lost if the file cannot be written; then omniprobe says that the library was not loaded, and which file.
        let _ = writeln!(file, "{} {}", std::process::id(), problem.map_or("ok".to_owned(), one_line));
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
