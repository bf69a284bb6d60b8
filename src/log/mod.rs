//! The log: rows, notices, and the account at the end.
//!
//! # Threads
//! One thread writes rows as dispatches complete; at the end of the runtime or the process, and before there is such a
//! thread, others do. Whoever writes holds the writer.

mod sink;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hsa::Agent;
use logdur_journal::account::Tally;
use logdur_journal::clock::Line as ClockLine;
use logdur_journal::columns::{self, Row};
use logdur_journal::compare::{self, Comparisons, Subject};
use logdur_journal::lines::Lines;
use logdur_journal::names::{is_named, one_line};
use logdur_journal::{Fate, Records, State, flag};
use logdur_settings::{Interceptor, RECORDS_AT};
use regex::Regex;

use crate::blocks::RecordRef;
use crate::queue::Queue;
use crate::reaper::{self, Access};
use crate::session::{SeenAgent, Session, lock};
use crate::wake::Sleeper;
use crate::{exit, records};

pub(crate) use sink::Sink;

/// Rows are written together when there are this many bytes of them, or none left to add.
const BATCH: usize = 32 << 10;
/// Between two looks for rows: what is complete is in the log this much later, and in the records at once. A burst of
/// dispatches is over before its rows ask for a processor.
const PAUSE: Duration = Duration::from_millis(100);
/// The same while some GPU's clock is not known: without it, whoever reads the records of a process that died has no times.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The log of the process.
pub(crate) struct Log {
    writer: Mutex<Writer>,
    /// Lines that are no rows, to be written before the next one.
    lines: Mutex<Vec<Line>>,
    filter: Option<Regex>,
    /// Where `omniprobe` looks for what it tells the user.
    hello: Option<PathBuf>,
    started: AtomicBool,
    sleeper: Sleeper,
    news: AtomicBool,
}

enum Line {
    Notice(String),
    /// Where the records are.
    Records(String),
    Agent {
        position: usize,
        name: String,
        product: String,
    },
}

struct Writer {
    sink: Sink,
    lines: Lines,
    buffer: Vec<u8>,
    /// Rows in the buffer, and where each ends.
    rows: Vec<(RecordRef, usize)>,
    records: &'static Records,
    /// Kernels and what replaces them.
    comparisons: Comparisons,
    /// The log ends in the middle of a line.
    torn: bool,
    ran: Ran,
}

/// What ran, in numbers of dispatches.
#[derive(Default)]
struct Ran {
    dispatches: u64,
    /// Those that the log does not want.
    filtered: u64,
    /// Those whose kernel ran in place of the application's, by that kernel's number.
    swapped: BTreeMap<u32, u64>,
}

impl Log {
    /// The log in an open sink, or nowhere for the reason of a `problem`.
    pub(crate) fn new(settings: &Interceptor, sink: Sink, problem: Option<String>, records: &'static Records) -> Log {
        let lines = Lines::of(records::format(settings));
        let to_file = sink.path().is_some();
        records.header().set_log_bytes(sink.length());
        let log = Log {
            writer: Mutex::new(Writer {
                sink,
                lines,
                buffer: Vec::new(),
                rows: Vec::new(),
                records,
                comparisons: Comparisons::default(),
                torn: false,
                ran: Ran::default(),
            }),
            lines: Mutex::default(),
            filter: None,
            hello: settings.hello.clone(),
            started: AtomicBool::new(false),
            sleeper: Sleeper::new(),
            news: AtomicBool::new(false),
        };
        if let Some(problem) = &problem {
            ::log::error!("{problem}");
        }
        say_hello(settings, problem.as_deref(), records);
        if let Some(path) = records.path().filter(|_| to_file) {
            lock(&log.lines).push(Line::Records(path.to_string_lossy().into_owned()));
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

    /// A line that says something to people.
    pub(crate) fn notice(&self, text: String) {
        lock(&self.lines).push(Line::Notice(text));
        self.wake();
    }

    /// A line for `omniprobe`, which prints it on stderr when the application has ended.
    pub(crate) fn tell(&self, text: &str) {
        let Some(path) = &self.hello else { return };
        if let Ok(mut file) = OpenOptions::new().append(true).open(path) {
            // Nobody reads it if it cannot be written.
            let _ = file.write_all(format!("{} {}\n", std::process::id(), one_line(text)).as_bytes());
        }
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
            {
                let may = session.may_use_runtime();
                if *may {
                    self.write_all(session, exit::access());
                } else {
                    // Rows are left to whoever shuts the runtime down, and can still have its clocks read.
                    self.write_lines(&mut lock(&self.writer), session);
                }
            }
            std::thread::sleep(if knows_clocks(session) { PAUSE } else { FIRST_PAUSE });
            self.sleeper.sleep(None, || self.news.load(Ordering::Acquire));
        }
    }

    /// Writes everything that there is to write. With full `access`, the runtime is asked how to convert times.
    pub(crate) fn write_all(&self, session: &Session, access: Access) {
        let mut writer = lock(&self.writer);
        self.write_lines(&mut writer, session);
        session.clock.calibrate();
        let queues = session.queues.all();
        for queue in &queues {
            self.write_rows(session, &mut writer, queue, access);
        }
        writer.flush();
        for queue in queues {
            tidy(session, queue);
        }
    }

    /// Writes the lines that are no rows.
    fn write_lines(&self, writer: &mut Writer, session: &Session) {
        if let Some(swapper) = &session.swapper {
            swapper.report(session);
        }
        if let Some(problem) = session.records.take_problem() {
            self.notice(format!("dispatches are recorded in memory that ends with the process: {problem}"));
        }
        let Writer { lines, buffer, .. } = &mut *writer;
        for line in std::mem::take(&mut *lock(&self.lines)) {
            match line {
                Line::Notice(text) => lines.notice(buffer, &one_line(&text)),
                Line::Records(path) => lines.records(buffer, std::process::id(), &one_line(&path)),
                Line::Agent { position, name, product } => lines.agent(buffer, position, &name, &product),
            }
        }
        writer.flush();
    }

    /// Writes the rows of a queue that are ready.
    fn write_rows(&self, session: &Session, writer: &mut Writer, queue: &'static Queue, access: Access) {
        let agent = session.agent(queue.agent);
        let mut old = agent.filter(|a| access == Access::Full && a.clock.is_old());
        let host = session.clock.line();
        let mut at = *lock(&queue.logged);
        while let Some(record) = at.record() {
            match record.record().state() {
                State::Free => break,
                State::Done => {
                    if let Some(agent) = old {
                        // Rows that were made with the old line are in the log, and marked, before there is a new one.
                        writer.flush();
                        old = old.filter(|_| !calibrate(session, queue, agent, record));
                    }
                    self.write_row(session, writer, queue, agent, host, record);
                }
                State::InFlight | State::Logged => {}
            }
            at.advance();
            if writer.buffer.len() >= BATCH {
                // On to the next block first: once the one behind is emptied, it does not say any more which one follows.
                let goes_on = at.record().is_some();
                writer.flush();
                empty_blocks(session, queue);
                if !goes_on {
                    break;
                }
            }
        }
    }

    fn write_row(
        &self,
        session: &Session,
        writer: &mut Writer,
        queue: &Queue,
        agent: Option<&SeenAgent>,
        host: Option<ClockLine>,
        record: RecordRef,
    ) {
        let r = record.record();
        if r.flags() & flag::NO_DISPATCH != 0 {
            r.set_state(State::Logged);
            return;
        }
        let shape = r.shape();
        let kernel = session.kernels.by_number(shape.kernel);
        let wanted = |filter: &Regex| {
            kernel.map_or_else(|| filter.is_match(""), |k| k.wanted(|symbol| is_named(symbol, filter)))
        };
        writer.ran.dispatches += 1;
        if kernel.is_some_and(|k| !k.kernel.replaced.is_empty()) {
            *writer.ran.swapped.entry(shape.kernel).or_default() += 1;
        }
        if !self.filter.as_ref().is_none_or(wanted) {
            writer.ran.filtered += 1;
            r.set_fate(Fate::Filtered);
            return;
        }
        ::log::trace!(
            "dispatch {} ran from tick {} to {}",
            r.id.load(Ordering::Relaxed),
            record.times().start.load(Ordering::Relaxed),
            record.times().end.load(Ordering::Relaxed)
        );
        let times = columns::times(r, record.times(), agent.and_then(|a| a.clock.line()));
        if times.is_none() && r.flags() & flag::INCOMPLETE == 0 {
            r.add_flags(flag::NO_TIMES);
        }
        let row = Row {
            kernel: kernel.map_or("", |k| k.name()),
            replaced: kernel.map_or("", |k| &k.kernel.replaced),
            kernarg_size: kernel.and_then(|k| k.kernel.kernarg_size),
            dispatch: columns::dispatch(r, host),
            times,
            agent: queue.agent,
            queue: record.block.get().queue(),
            shape,
            record: r,
            late: None,
        };
        if let Some(swapper) = &session.swapper
            && let Some((start, end)) = row.times.filter(|_| swapper.compares(shape.kernel))
        {
            let shape = compare::Shape { grid: shape.grid, workgroup: shape.workgroup };
            let subject = Subject { kernel: row.kernel.to_owned(), agent: queue.agent, shape };
            writer.comparisons.add(subject, row.replaced, end.saturating_sub(start));
        }
        if !writer.sink.is_nowhere() {
            writer.lines.row(&mut writer.buffer, &row);
        }
        writer.rows.push((record, writer.buffer.len()));
    }

    /// Tells what the process has done with the settings that could have had no effect: swaps, and a filter of rows.
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

    /// Gives the account of all dispatches so far, unless nothing has changed since it was last given.
    pub(crate) fn write_account(&self, session: &Session) {
        let mut writer = lock(&self.writer);
        let header = session.records.header();
        let seen = header.next_id().load(Ordering::Relaxed);
        if header.is_accounted(seen) {
            return;
        }
        let mut tally = header.tally();
        for queue in session.queues.all() {
            count(queue, &mut tally);
        }
        let Writer { lines, buffer, comparisons, .. } = &mut *writer;
        for comparison in comparisons.all() {
            let emulated = session.agent(comparison.subject.agent).is_some_and(|a| a.agent.is_emulated());
            lines.comparison(buffer, &comparison, emulated);
        }
        let shown = tally.shown(seen, header.has_private_blocks(), header.events());
        lines.account(buffer, std::process::id(), &shown);
        if writer.flush() {
            header.set_accounted(seen);
        }
    }
}

impl Writer {
    /// Writes the buffer, and then marks the records whose rows it had; true if it is all in the log.
    fn flush(&mut self) -> bool {
        if self.buffer.is_empty() && self.rows.is_empty() {
            return true;
        }
        if self.torn {
            self.buffer.insert(0, b'\n');
            self.rows.iter_mut().for_each(|(_, end)| *end += 1);
        }
        self.records.header().set_log_bytes(self.sink.length());
        for (record, _) in &self.rows {
            record.record().set_fate(Fate::Writing);
        }
        let result = self.sink.write(&self.buffer);
        let before = result.as_ref().err().map_or(self.buffer.len(), |u| u.before);
        for (record, end) in self.rows.drain(..) {
            record.record().set_fate(if end <= before { Fate::Written } else { Fate::Unwritten });
        }
        if before > 0 {
            self.torn = self.buffer[before - 1] != b'\n';
        }
        self.buffer.clear();
        if let Err(unwritten) = &result {
            ::log::error!("rows could not be written: {}", unwritten.error);
        }
        result.is_ok()
    }
}

/// Gives the blocks at the beginning of a queue back whose records have all come to their end.
fn empty_blocks(session: &Session, queue: &'static Queue) {
    let mut first = lock(&queue.logged);
    let mut at = *first;
    while let Some(record) = at.record() {
        if at.block != first.block {
            let old = first.block;
            *first = at;
            // The reaper may be a moment behind: every record of the block is done, but it has not looked.
            reaper::settle(queue);
            session.records.header().count_emptied(old.get());
            session.blocks.give_back(old);
        }
        if record.record().state() != State::Logged {
            break;
        }
        at.advance();
    }
    *first = at;
}

/// Gives back what a queue does not need any more.
fn tidy(session: &Session, queue: &'static Queue) {
    // Once the queue is gone its publisher adds nothing: what is written is all.
    let gone = queue.gone.load(Ordering::Acquire);
    empty_blocks(session, queue);
    if !gone {
        return;
    }
    let mut first = lock(&queue.logged);
    let mut at = *first;
    if at.record().is_some_and(|r| r.record().state() != State::Free) {
        return;
    }
    session.queues.remove(queue);
    session.blocks.take_back(&queue.spare);
    let last = std::mem::replace(&mut *first, session.blocks.nowhere()).block;
    *lock(&queue.reaped) = session.blocks.nowhere();
    session.records.header().count_emptied(last.get());
    session.blocks.give_back(last);
}

/// Counts what has become of the records in a queue's blocks.
fn count(queue: &Queue, tally: &mut Tally) {
    let mut block = Some(lock(&queue.logged).block);
    while let Some(present) = block {
        tally.block(present.get());
        block = present.next();
    }
}

/// True when the times of every queue's agent can be converted.
fn knows_clocks(session: &Session) -> bool {
    session.queues.all().iter().all(|q| session.agent(q.agent).is_none_or(|a| a.clock.line().is_some()))
}

/// Sees to it that the times of an agent can be converted; true if the record told a recent tick for that.
fn calibrate(session: &Session, queue: &Queue, agent: &SeenAgent, record: RecordRef) -> bool {
    let tick = record.times().end.load(Ordering::Relaxed);
    if tick == 0 {
        return false;
    }
    if let Err(error) = agent.clock.calibrate(session.api(), agent.agent.handle, tick) {
        session.notice_once("clock", format!("times of agent {} are not converted: {error}", queue.agent));
    }
    true
}

/// Tells `omniprobe` that the library was loaded, whether its log can be written, and where the records are.
fn say_hello(settings: &Interceptor, problem: Option<&str>, records: &Records) {
    let Some(path) = &settings.hello else { return };
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let pid = std::process::id();
        let mut text = format!("{pid} {}\n", problem.map_or("ok".to_owned(), one_line)).into_bytes();
        if let Some(path) = records.path() {
            text.extend_from_slice(format!("{pid} {RECORDS_AT} ").as_bytes());
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.push(b'\n');
        }
        // Lost if the file cannot be written; then omniprobe says that the library was not loaded, and which file.
        let _ = file.write_all(&text);
    }
}
