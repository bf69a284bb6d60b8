//! The log: rows, notices, and the account at the end.
//!
//! # Threads
//! The log thread writes rows as dispatches complete. Other threads write before it starts, and at the end of the runtime or the
//! process. The thread that writes holds the writer's lock.

mod clocks;
mod file;
mod finished;
pub(crate) mod handshake;
mod missing_rows;
mod place;
mod said;
mod served;
mod sink;
mod wanted;
mod writer;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use logdur_intercept::Interceptor;
use logdur_intercept::blocks::{Cursor, RecordRef};
use logdur_intercept::lifetime::{self, Access};
use logdur_intercept::packing::AHEAD;
use logdur_intercept::ports::{Follow, Report};
use logdur_intercept::queue::Queue;
use logdur_intercept::thread::wake_without_preempting;
use logdur_intercept::wake::Sleeper;
use logdur_journal::account::Event;
use logdur_journal::clock::Line as ClockLine;
use logdur_journal::columns::{self, Row};
use logdur_journal::compare::{self, Subject};
use logdur_journal::lines::Lines;
use logdur_journal::packed::Source;
use logdur_journal::{Fate, Filter, Naming, Operation, Process, Records, State, flag};
use logdur_settings::{self as settings, HelloLine};
use logdur_system::lock;
use logdur_system::text::one_line;

use crate::guarded::Guarded;
use crate::kernels::Kernels;
use crate::ports::{CollectRows, DescribeSites, DescribeSwaps, WriteRows};
use crate::process;
use crate::totals::Totals;

use clocks::{calibrate, calibrate_by_records, knows_clocks};
pub(crate) use place::Place;
use said::Line;
use sink::Patience;
pub(crate) use sink::Sink;
pub(crate) use wanted::row_filter;
use writer::{Flushed, Measured, Ran, Writer};
pub(crate) use writer::{format, naming};

/// Rows are written together when there are this many bytes of them, or none left to add.
const BATCH: usize = 256 << 10;
/// The same for chunks of records: about as many rows as the cache of a processor has room for with their records, which are marked
/// afterwards.
const BATCH_OF_CHUNKS: usize = 64 << 10;
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
    lines: Sender<Line>,
    /// Lines in the mailbox, which takes memory for those that there are.
    lines_waiting: AtomicUsize,
    /// Lines that the mailbox had no room for.
    lines_lost: AtomicU64,
    filter: Filter,
    naming: Naming,
    kernels: &'static Kernels,
    /// Present when copies have rows.
    copies: Option<&'static dyn CollectRows>,
    /// Present when there is a kernel cache.
    swaps: Option<&'static dyn DescribeSwaps>,
    totals: Totals,
    /// Present when call sites are kept.
    sites: Option<&'static dyn DescribeSites>,
    /// Rows go somewhere.
    has_rows: bool,
    process: Process,
    /// Where `omniprobe` looks for what it tells the user.
    handshake: Option<PathBuf>,
    started: AtomicBool,
    sleeper: Sleeper,
    news: AtomicBool,
    /// Where the thread pauses, and how many blocks of records had been taken before that.
    pause: (Sleeper, AtomicUsize),
    /// What is left of the last patience.
    last_patience: Mutex<Duration>,
    /// Why rows that cannot be written end with the process.
    no_file: Mutex<Option<String>>,
    /// The standard error that the process was started with.
    stderr: Option<Guarded>,
    /// What was asked for and is off, where `omniprobe` is not told.
    off: Mutex<Vec<String>>,
}

impl Follow for Log {
    fn queue_begins(&'static self, interceptor: &'static Interceptor) {
        self.start(interceptor);
    }

    fn records_changed(&self, interceptor: &Interceptor) {
        self.news.store(true, Ordering::Release);
        self.sleeper.wake();
        let (pause, taken) = &self.pause;
        if interceptor.blocks.are_many_since(taken.load(Ordering::Relaxed)) {
            pause.wake();
        }
    }
}

impl Report for Log {
    fn notice(&self, text: String) {
        Log::notice(self, text);
    }

    fn tell(&self, text: &str) {
        Log::tell(self, text);
    }

    fn off(&self, text: String) {
        Log::off(self, text);
    }
}

impl WriteRows for Log {
    fn write_all(&self, interceptor: &Interceptor) {
        Log::write_all(self, interceptor, Access::Full);
    }
}

/// The clocks that the times of a queue's rows are converted with.
struct Clocks {
    agent: Option<ClockLine>,
    host: Option<ClockLine>,
}

impl Log {
    /// The log in an open sink, or nowhere for the reason of a `problem`. `no_file` says why `records` end with the process.
    pub(crate) fn new(
        settings: &settings::Interceptor,
        sink: Sink,
        problem: Option<String>,
        records: &'static Records,
        kernels: &'static Kernels,
        no_file: Option<String>,
    ) -> Log {
        let lines = Lines::of(format(settings));
        let (to_file, has_rows) = (sink.path().is_some(), !sink.is_nowhere());
        if let Some(problem) = &problem {
            ::log::error!("{problem}");
        }
        handshake::say(settings, problem.as_deref(), &sink, records, no_file.as_deref());
        let (sender, mail) = mpsc::channel();
        let log = Log {
            writer: Mutex::new(Writer::new(sink, problem, lines, mail, records)),
            lines: sender,
            lines_waiting: AtomicUsize::new(0),
            lines_lost: AtomicU64::new(0),
            filter: Filter::default(),
            naming: naming(settings),
            kernels,
            copies: None,
            swaps: None,
            totals: Totals::default(),
            sites: None,
            has_rows,
            process: process::this(),
            handshake: settings.hello.clone(),
            started: AtomicBool::new(false),
            sleeper: Sleeper::new(),
            news: AtomicBool::new(false),
            pause: (Sleeper::new(), AtomicUsize::new(0)),
            last_patience: Mutex::new(LAST_PATIENCE[1]),
            no_file: Mutex::new(no_file),
            stderr: Guarded::borrow(libc::STDERR_FILENO).ok(),
            off: Mutex::default(),
        };
        lock(&log.writer).begin_chunks(log.process, log.naming);
        if let Some(run) = &settings.run {
            log.add(Line::Run(run.clone()));
        }
        if let Some(path) = records.path().filter(|_| to_file) {
            log.add(Line::Records(path.to_owned()));
        }
        let (filter, bad) = wanted::filter(settings);
        bad.into_iter().for_each(|line| log.off(line));
        Log { filter, ..log }
    }

    /// Rows also come from these features.
    pub(crate) fn connect(
        &mut self,
        copies: Option<&'static dyn CollectRows>,
        swaps: Option<&'static dyn DescribeSwaps>,
        sites: Option<&'static dyn DescribeSites>,
    ) {
        (self.copies, self.swaps, self.sites) = (copies, swaps, sites);
    }

    /// True if rows are written.
    pub(crate) fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// Starts the thread if it does not run yet.
    fn start(&'static self, interceptor: &'static Interceptor) {
        if !self.started.swap(true, Ordering::AcqRel) {
            let without = "rows are written when the runtime or the process ends";
            interceptor.spawn("logdur-log", without, move || self.run(interceptor));
        }
    }

    /// There is something to write.
    pub(crate) fn wake(&self) {
        self.news.store(true, Ordering::Release);
        self.sleeper.wake();
    }

    fn run(&self, interceptor: &Interceptor) {
        wake_without_preempting();
        loop {
            self.news.store(false, Ordering::Release);
            let (blocks, (pause, taken)) = (&interceptor.blocks, &self.pause);
            taken.store(blocks.taken(), Ordering::Relaxed);
            {
                let may = interceptor.may_use_runtime();
                let [stall, total] = THREADS_PATIENCE;
                let patience = Patience::of(stall, total);
                if lock(&self.writer).sink.must_wait() {
                    // The application may need the last descriptor now.
                } else if *may {
                    self.write(interceptor, lifetime::access(), patience);
                } else {
                    // Rows are left to the thread that shuts the runtime down, which can still have its clocks read.
                    self.write_lines(&mut lock(&self.writer), interceptor, patience);
                }
            }
            let most = if knows_clocks(interceptor) { PAUSE } else { FIRST_PAUSE };
            // Rows that wait need memory.
            pause.sleep(Some(most), || blocks.are_many_since(taken.load(Ordering::Relaxed)));
            let again = lock(&self.writer).has_to_try_again().then_some(AGAIN);
            self.sleeper.sleep(again, || self.news.load(Ordering::Acquire));
        }
    }

    /// Writes what can be written without waiting.
    pub(crate) fn write_at_once(&self, interceptor: &Interceptor, access: Access) {
        self.write(interceptor, access, Patience::none());
    }

    /// Writes everything that is left, because the runtime or the process ends. Waits for a slow reader; all such waits of a process
    /// share one limit. With full `access`, the runtime converts times.
    pub(crate) fn write_all(&self, interceptor: &Interceptor, access: Access) {
        self.with_last_patience(|patience| self.write(interceptor, access, patience));
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

    fn write(&self, interceptor: &Interceptor, access: Access, patience: Patience) -> Flushed {
        let may_use_runtime = access == Access::Full;
        let are_copies_under_way =
            self.copies.filter(|_| may_use_runtime).is_some_and(|copies| copies.collect(interceptor));
        if are_copies_under_way {
            self.news.store(true, Ordering::Release);
        }
        let mut writer = lock(&self.writer);
        self.look(&mut writer, interceptor);
        let mut flushed = self.write_lines(&mut writer, interceptor, patience);
        if !writer.has_rows() {
            // Rows that may be in the log are made again of the records, and compared: with the clock that they were made with.
            interceptor.clock.calibrate();
        }
        let queues = interceptor.queues.all();
        if flushed == Flushed::Blocked && access == Access::Full && !writer.has_rows() {
            // Rows that are made later, of the records, need the clocks too.
            queues.iter().for_each(|queue| calibrate_by_records(interceptor, queue));
        }
        for queue in queues.iter() {
            if flushed == Flushed::All {
                flushed = self.write_rows(interceptor, &mut writer, queue, access, patience);
            }
        }
        if flushed == Flushed::All {
            flushed = writer.flush(patience, &interceptor.blocks);
        }
        for queue in queues.iter() {
            finished::tidy(interceptor, queue);
        }
        interceptor.blocks.rest();
        flushed
    }

    /// Sees to it that a log or a file of records that others have removed is told of.
    fn look(&self, writer: &mut Writer, interceptor: &Interceptor) {
        if let Some(text) = writer.look() {
            ::log::error!("{text}");
            let place = writer.sink.path().map_or(String::new(), |path| format!("{}: ", path.display()));
            self.tell(&format!("{place}{text}"));
        }
        interceptor.records.look();
    }

    /// Writes the lines that are no rows.
    fn write_lines(&self, writer: &mut Writer, interceptor: &Interceptor, patience: Patience) -> Flushed {
        if let Some(swaps) = self.swaps {
            swaps.report(interceptor);
        }
        if let Some(problem) = interceptor.records.take_problem() {
            self.notice(format!("dispatches are recorded in memory that ends with the process: {problem}"));
            if interceptor.records.is_gone() {
                self.say(HelloLine::NoRecords(one_line(&problem)));
            }
            *lock(&self.no_file) = Some(problem);
        }
        let unrecorded = interceptor.records.header().events()[Event::UnrecordedDispatch as usize];
        if unrecorded > 0 {
            let why = if interceptor.blocks.were_refused() {
                "the system has no memory left for records".to_owned()
            } else {
                format!("records have reached their limit, {}", settings::Interceptor::records_max)
            };
            let text = format!("{why}: dispatches pass unrecorded, and are counted");
            interceptor.notice_once("records-max", text);
        }
        if writer.flush(patience, &interceptor.blocks) == Flushed::Blocked {
            return Flushed::Blocked;
        }
        let (sites, said) = self.sites.map(DescribeSites::take).unwrap_or_default();
        said.into_iter().for_each(|text| self.notice(text));
        let has_dispatches = interceptor.records.header().next_id().load(Ordering::Relaxed) > 0;
        let Writer { sink, lines, mail, held, buffer, .. } = &mut *writer;
        if has_dispatches {
            sink.begin();
        }
        let mut all = if sink.has_begun() { std::mem::take(held) } else { Vec::new() };
        let before = all.len();
        all.extend(mail.try_iter());
        self.lines_waiting.fetch_sub(all.len() - before, Ordering::Relaxed);
        all.extend(sites.into_iter().map(Line::Site));
        for line in all {
            // The standard output of a process that dispatches nothing may be another program's input.
            if !sink.has_begun() && !matches!(line, Line::Notice(_)) {
                held.push(line);
                continue;
            }
            let (before, repeats) = (buffer.len(), line.repeats());
            line.write(*lines, buffer);
            if repeats {
                sink.remember(&buffer[before..]);
            }
        }
        let lost = self.lines_lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            lines.notice(buffer, &format!("{lost} notices are lost: they came faster than the log was written"));
        }
        if !buffer.is_empty() {
            // The account is the last line.
            interceptor.records.header().forget_account();
        }
        writer.flush(patience, &interceptor.blocks)
    }

    /// Writes the rows of a queue that are ready. The buffer is empty, so that none of them is in it.
    fn write_rows(
        &self,
        interceptor: &Interceptor,
        writer: &mut Writer,
        queue: &'static Queue,
        access: Access,
        patience: Patience,
    ) -> Flushed {
        let agent = interceptor.agent(queue.agent);
        let mut old = agent.filter(|a| queue.has_packets && access == Access::Full && a.clock.is_old());
        let line = || agent.and_then(|agent| agent.clock.line());
        let mut clocks = Clocks { agent: line(), host: interceptor.clock.line() };
        let batch = if writer.is_packed() { BATCH_OF_CHUNKS } else { BATCH };
        let mut at = *lock(&queue.logged);
        while let Some(record) = at.record() {
            record.ask_ahead(AHEAD);
            match record.state() {
                State::Free => break,
                State::Done => {
                    if let Some(agent) = old {
                        // Rows that were made with the old line are in the log, and marked, before there is a new one.
                        if writer.flush(patience, &interceptor.blocks) == Flushed::Blocked {
                            return Flushed::Blocked;
                        }
                        old = old.filter(|_| !calibrate(interceptor, queue, agent, record));
                        clocks.agent = line();
                    }
                    let goes_on = self.write_row(writer, queue, &clocks, record);
                    at.advance();
                    if goes_on && old.is_none() {
                        self.pack_more(writer, queue, record, &mut at);
                    }
                }
                State::InFlight | State::Logged => at.advance(),
            }
            if writer.buffer.len() >= batch {
                // On to the next block first: once the one behind is emptied, it does not say any more which one follows.
                let goes_on = at.record().is_some();
                let flushed = writer.flush(patience, &interceptor.blocks);
                finished::empty_blocks(interceptor, queue);
                if flushed == Flushed::Blocked || !goes_on {
                    return flushed;
                }
            }
        }
        // Rows of this queue stay in the buffer for those of the next.
        Flushed::All
    }

    /// Adds rows like that of a record for those behind it.
    fn pack_more(&self, writer: &mut Writer, queue: &Queue, record: RecordRef, at: &mut Cursor) {
        let number = record.record().kernel();
        let kernel = writer.kernel(self.kernels, number);
        let rows = writer.pack_more(at, number) as u64;
        writer.ran.count(number, kernel, rows);
        // What it wants of the record, it wants of these.
        writer.ran.filtered.wants(&self.filter, kernel, queue.agent, rows);
    }

    /// Writes the row of a record. True if rows of its kernel are copied into the chunk as they are: nothing else is made of them.
    fn write_row(&self, writer: &mut Writer, queue: &Queue, clocks: &Clocks, record: RecordRef) -> bool {
        if record.flags() & flag::NO_DISPATCH != 0 {
            record.set_state(State::Logged);
            return false;
        }
        let r = record.record();
        let shape = r.shape();
        let kernel = writer.kernel(self.kernels, shape.kernel);
        let operation = kernel.map_or(Operation::Dispatch, |k| k.kernel.operation);
        writer.ran.count(shape.kernel, kernel, 1);
        if !writer.ran.filtered.wants(&self.filter, kernel, queue.agent, 1) {
            record.set_fate(Fate::Filtered);
            return false;
        }
        ::log::trace!(
            "dispatch {} ran from tick {} to {}",
            r.id.load(Ordering::Relaxed),
            record.times().start.load(Ordering::Relaxed),
            record.times().end.load(Ordering::Relaxed)
        );
        let has_times = columns::has_times(r, operation, record.times(), clocks.agent.as_ref());
        if !has_times && record.flags() & flag::INCOMPLETE == 0 {
            record.add_flags(flag::NO_TIMES);
        }
        let (is_packed, is_nowhere) = (writer.is_packed(), writer.sink.is_nowhere());
        let is_compared = self.swaps.is_some_and(|swaps| swaps.compares(shape.kernel));
        // The reader of records converts ticks.
        let is_converted = !is_packed || is_compared || self.totals.are_asked_for();
        let times = columns::times(r, operation, record.times(), clocks.agent.filter(|_| is_converted));
        if let Some(times) = times.filter(|_| operation == Operation::Dispatch) {
            self.totals.add(shape.kernel, queue.agent, times);
        }
        let name = || kernel.map_or(["", ""], |k| k.in_rows(self.naming).each_ref().map(String::as_str));
        let measured = times.filter(|_| is_compared).map(|(start, end)| {
            let [kernel_name, _] = name();
            let shape = compare::Shape { grid: shape.grid, workgroup: shape.workgroup };
            let subject = Subject { kernel: kernel_name.to_owned(), agent: queue.agent, shape };
            let replaced = kernel.map_or(String::new(), |k| k.kernel.replaced.clone());
            Box::new(Measured { subject, replaced, nanoseconds: end.saturating_sub(start) })
        });
        let number = record.block.get().queue();
        if is_packed && !is_nowhere {
            let times = record.times();
            let source = Source {
                record: r,
                times,
                queue: number,
                agent: queue.agent,
                host: clocks.host,
                clock: clocks.agent,
                late: None,
            };
            writer.pack(record, &source, kernel, measured);
            let is_traced = ::log::log_enabled!(::log::Level::Trace);
            return operation == Operation::Dispatch && clocks.agent.is_some() && !is_converted && !is_traced;
        }
        let [kernel_name, symbol] = name();
        let row = Row {
            kernel: kernel_name,
            symbol,
            known: kernel.map(|k| &k.kernel),
            process: self.process,
            dispatch: columns::dispatch(r, operation, clocks.host),
            times,
            agent: queue.agent,
            queue: number,
            shape,
            record: r,
            late: None,
        };
        if !is_nowhere {
            writer.formatted.write(&mut writer.buffer, &row);
        }
        writer.ends_row(record, measured);
        false
    }

    /// Logs whether swaps and the filter of rows had an effect.
    pub(crate) fn tell_end(&self) {
        let writer = lock(&self.writer);
        let Ran { dispatches, filtered, swapped } = &writer.ran;
        if let Some(swaps) = self.swaps {
            swaps.end(*dispatches, swapped).iter().for_each(|line| self.tell(line));
        }
        filtered.unmatched(&self.filter, *dispatches).iter().for_each(|line| self.tell(line));
    }

    /// Logs the account of all dispatches, if it has changed since the last one; true if the log is complete. Otherwise the records
    /// keep the missing rows, and the log's last line says so if there is room for it.
    pub(crate) fn write_account(&self, interceptor: &Interceptor) -> bool {
        let flushed = self.with_last_patience(|patience| self.try_account(interceptor, patience));
        if flushed == Flushed::Blocked {
            return self.say_what_is_missing(interceptor);
        }
        true
    }

    fn try_account(&self, interceptor: &Interceptor, patience: Patience) -> Flushed {
        let mut writer = lock(&self.writer);
        self.look(&mut writer, interceptor);
        let header = interceptor.records.header();
        let seen = header.next_id().load(Ordering::Relaxed);
        // An account that is not true yet may not be in the buffer.
        if writer.flush_or_keep(patience) == Flushed::Blocked {
            return Flushed::Blocked;
        }
        if header.is_accounted(seen) || !writer.sink.has_begun() {
            return Flushed::All;
        }
        let mut tally = header.tally();
        for queue in interceptor.queues.all().iter() {
            finished::count(queue, &mut tally);
        }
        let Writer { lines, buffer, comparisons, .. } = &mut *writer;
        for comparison in comparisons.all() {
            let emulated = interceptor.agent(comparison.subject.agent).is_some_and(|a| a.agent.is_emulated());
            lines.comparison(buffer, &comparison, emulated);
        }
        let shown = tally.shown(seen, header.unsubmitted(), header.has_private_blocks(), header.events());
        lines.account(buffer, std::process::id(), &shown);
        let flushed = writer.flush_or_keep(patience);
        if flushed == Flushed::All {
            header.set_accounted(seen);
        }
        flushed
    }
}
