//! Writes the rows and the account that a process could not.
//!
//! A process may have died between writing rows and taking note of it, or in the middle of a line. Rows are therefore
//! made exactly as the process makes them, and compared with what the log has since the process last began to write: a
//! row that is there is not written again, and the beginning of one at the end of the log is completed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use logdur_system::path::Target;
use logdur_system::patient;
use logdur_system::text::one_line;

use crate::account::{NOT_SUBMITTED, Tally};
use crate::appended;
use crate::columns::{self, Late, Row};
use crate::filter::Filter;
use crate::lines::{Format, Lines};
use crate::names::{Kernel, Naming, Operation};
use crate::packed::{self, Found, Packer, Source};
use crate::record::{State, flag};
use crate::snapshot::{Dispatch, Snapshot};

/// Kernels, and dispatches of each, that are named when they were in flight.
const NAMED: usize = 16;
/// How long a pipe's reader may take nothing.
const STALL: Duration = Duration::from_secs(3);
/// Lines are written in pieces of this size, so that several processes can share a log.
const PIECE: usize = 64 << 10;

/// What a log lacks.
#[derive(Debug)]
pub struct Missing {
    lines: Lines,
    stream: u64,
    agents: Vec<u8>,
    /// What chunks of rows need: whose they are, and the kernels.
    begin: Vec<u8>,
    /// In the order of the dispatches' numbers, which stand beside them.
    rows: Vec<(u64, Vec<u8>)>,
    notices: Vec<u8>,
    account: Vec<u8>,
    log_bytes: u64,
}

/// What was done to a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows that it lacked.
    pub rows: usize,
    /// Rows that it had.
    pub there: usize,
    /// True when its last line was completed.
    pub completed: bool,
}

/// Makes what the log of a process lacks. `how` says how the process ended, if that is known.
pub fn missing(snapshot: &Snapshot, format: Format, how: Option<&str>) -> Missing {
    let lines = Lines::of(format);
    let late = if snapshot.is_alive() { Late::InFlight } else { Late::TimesLost };
    let filter = snapshot.origin.as_ref().map_or_else(Filter::default, |origin| Filter::new(&origin.filter).0);
    let naming = snapshot.origin.as_ref().map_or_else(Naming::default, |origin| origin.naming);
    let mut names: HashMap<u32, ([String; 2], bool)> = HashMap::new();
    let mut tally = snapshot.ended;
    let mut rows = Vec::new();
    let mut in_flight: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for dispatch in &snapshot.dispatches {
        let record = &dispatch.record;
        let number = record.shape().kernel;
        let kernel = snapshot.kernel(number);
        let (texts, wanted) = names.entry(number).or_insert_with(|| {
            let texts = kernel.map(|kernel| [kernel.shown(naming), kernel.shown_beside(naming)]);
            let wanted = filter.choice(kernel).has_rows();
            (texts.unwrap_or_default(), wanted)
        });
        if record.state() == State::InFlight {
            in_flight.entry(texts[0].clone()).or_default().push(record.id.load(Ordering::Relaxed));
        }
        if *wanted && filter.is_of(kernel, dispatch.agent) {
            let id = record.id.load(Ordering::Relaxed);
            rows.push((id, row(snapshot, lines, dispatch, (texts, kernel), late, &mut tally)));
        } else {
            tally.filtered = tally.filtered.saturating_add(1);
        }
    }
    let mut begin = Vec::new();
    if lines.are_packed() && !rows.is_empty() {
        Packer::for_recovery(snapshot.stream).begin(&mut begin, snapshot.process(), naming);
        let mut used: Vec<(u32, &Kernel)> =
            names.keys().filter_map(|number| Some((*number, snapshot.kernel(*number)?))).collect();
        used.sort_unstable_by_key(|(number, _)| *number);
        Packer::names(&mut begin, snapshot.stream, &used);
    }
    let mut missing = Missing {
        lines,
        stream: snapshot.stream,
        agents: Vec::new(),
        begin,
        rows,
        notices: Vec::new(),
        account: Vec::new(),
        log_bytes: snapshot.log_bytes,
    };
    for (position, (name, product)) in &snapshot.agents {
        lines.agent(&mut missing.agents, *position as usize, name, product, "");
    }
    missing.say(snapshot, how, &in_flight);
    let mut shown = tally.shown(snapshot.seen, snapshot.unsubmitted, snapshot.private, snapshot.events);
    if !snapshot.problems.is_empty() {
        // Nobody can tell any more.
        shown.iter_mut().filter(|(name, _)| *name == NOT_SUBMITTED).for_each(|(name, _)| *name = "damaged");
    }
    lines.account(&mut missing.account, snapshot.pid, &shown);
    missing
}

fn row(
    snapshot: &Snapshot,
    lines: Lines,
    dispatch: &Dispatch,
    ([name, symbol], kernel): (&[String; 2], Option<&Kernel>),
    late: Late,
    tally: &mut Tally,
) -> Vec<u8> {
    let record = &dispatch.record;
    let in_flight = record.state() == State::InFlight;
    let operation = kernel.map_or(Operation::Dispatch, |kernel| kernel.operation);
    let times =
        columns::times(record, operation, &dispatch.times, snapshot.clock(dispatch.agent)).filter(|_| !in_flight);
    // Times that are there and cannot be converted are lost, too.
    let unconverted = times.is_none()
        && dispatch.times.end.load(Ordering::Relaxed) != 0
        && record.flags() & (flag::NO_TIMES | flag::INCOMPLETE) == 0;
    let late = Some(late).filter(|_| in_flight || unconverted);
    if late.is_none() && times.is_none() && record.flags() & flag::INCOMPLETE == 0 {
        record.add_flags(flag::NO_TIMES);
    }
    tally.row(record);
    if late == Some(Late::TimesLost) {
        tally.times_lost = tally.times_lost.saturating_add(1);
    }
    let mut line = Vec::new();
    if lines.are_packed() {
        let Dispatch { queue, agent, times, .. } = dispatch;
        let (host, clock) = (snapshot.host_clock, snapshot.clock(*agent));
        let mut packer = Packer::for_recovery(snapshot.stream);
        packer.row(&mut line, &Source { record, times, queue: *queue, agent: *agent, host, clock, late }, None);
        packer.close(&mut line);
        return line;
    }
    let row = Row {
        kernel: name,
        symbol,
        known: kernel,
        process: snapshot.process(),
        dispatch: columns::dispatch(record, operation, snapshot.host_clock),
        times,
        agent: dispatch.agent,
        queue: dispatch.queue,
        shape: record.shape(),
        record,
        late,
    };
    lines.row(&mut line, &row);
    line
}

impl Missing {
    fn say(&mut self, snapshot: &Snapshot, how: Option<&str>, in_flight: &BTreeMap<String, Vec<u64>>) {
        let pid = snapshot.pid;
        let ended = match how {
            _ if snapshot.is_alive() => format!("process {pid} runs, this is what it looks like now"),
            Some(how) => format!("process {pid} {how}"),
            None => format!("process {pid} ended before its log was written whole"),
        };
        let mut notice = |text: String| self.lines.notice(&mut self.notices, &one_line(&text));
        notice(ended);
        for (kernel, ids) in in_flight.iter().take(NAMED) {
            let kernel = if kernel.is_empty() { "a kernel whose name is not known" } else { kernel };
            let named: Vec<String> = ids.iter().take(NAMED).map(u64::to_string).collect();
            let more = if ids.len() > NAMED { ", …" } else { "" };
            let number = ids.len();
            let dispatches = if number == 1 { "dispatch" } else { "dispatches" };
            notice(format!("in flight: {kernel}: {number} {dispatches}, id {}{more}", named.join(", ")));
        }
        if in_flight.len() > NAMED {
            notice(format!("in flight: {} more kernels", in_flight.len() - NAMED));
        }
        for problem in &snapshot.problems {
            notice(format!("the records of process {pid} are damaged: {problem}"));
        }
    }

    /// How many rows may be missing.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// How many rows are not in the log that the process wrote to. All of them, if that cannot be read.
    pub fn rows_not_in(&self, log: &Path) -> usize {
        let there = || -> io::Result<usize> {
            // A pipe would be waited for.
            if !log.metadata()?.is_file() {
                return Ok(0);
            }
            let mut file = File::open(log)?;
            let begin = self.begin(file.metadata()?.len(), true);
            Ok(Tail::read(&mut file, begin, self)?.there.len())
        };
        self.rows.len().saturating_sub(there().unwrap_or(0))
    }

    /// The offset in a log of some length from which rows may be there.
    fn begin(&self, length: u64, own: bool) -> u64 {
        if own && self.log_bytes <= length { self.log_bytes } else { 0 }
    }

    /// Writes everything to a reader that has nothing, or, with `header` false, has the beginning of the log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn print(&self, to: &mut impl Write, header: bool) -> io::Result<()> {
        if header {
            to.write_all(self.lines.header().as_bytes())?;
            to.write_all(&self.agents)?;
        }
        to.write_all(&self.begin)?;
        for (_, row) in &self.rows {
            to.write_all(row)?;
        }
        to.write_all(&self.notices)?;
        to.write_all(&self.account)?;
        to.flush()
    }

    /// Writes everything but the header to what may have a slow reader, or none.
    ///
    /// # Errors
    /// When it cannot be written, or nothing of it is taken for so long.
    pub fn give(&self, to: &File, stall: Duration) -> io::Result<()> {
        let mut text = Vec::new();
        self.print(&mut text, false)?;
        patient::write(to, &text, stall)
    }

    /// Appends what a log does not have. `own` says that it is the log that the process wrote to: then it need not be
    /// searched from its beginning.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn append(&self, log: &Path, own: bool) -> io::Result<Written> {
        let is_open_already = matches!(Target::of(log)?, Target::Descriptor(_));
        if is_open_already || log.metadata().is_ok_and(|data| !data.is_file()) {
            // A pipe that nobody reads would be waited for.
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
            let opened = appended::open(log, false, flags).map_err(|error| match error.raw_os_error() {
                Some(libc::ENXIO) => io::Error::other("no process reads this pipe"),
                _ => error,
            });
            self.give(&opened?, STALL)?;
            return Ok(Written { rows: self.rows.len(), ..Written::default() });
        }
        let mut file = appended::open_log(log, self.lines, true, libc::O_CLOEXEC)?;
        lock(&file);
        let length = file.metadata()?.len();
        let tail = Tail::read(&mut file, self.begin(length, own), self)?;
        let mut text = Vec::new();
        let mut written = Written { there: tail.there.len(), ..Written::default() };
        if length == 0 {
            text.extend_from_slice(self.lines.header().as_bytes());
            text.extend_from_slice(&self.agents);
        }
        // Rows begin alike: one that is there is not the one that was cut.
        let cut = |(id, row): &(u64, Vec<u8>)| row.starts_with(&tail.torn) && !tail.there.contains(id);
        let torn = self.rows.iter().position(cut).filter(|_| !tail.torn.is_empty() && !self.lines.are_packed());
        if let Some((_, row)) = torn.and_then(|torn| self.rows.get(torn)) {
            text.extend_from_slice(row.get(tail.torn.len()..).unwrap_or_default());
            written.completed = true;
            written.rows = 1;
        } else if !tail.torn.is_empty() {
            text.extend_from_slice(&self.lines.give_up());
            if !self.lines.are_packed() {
                self.lines.notice(&mut text, "the line before is not whole");
            }
        }
        if self.rows.iter().any(|(id, _)| !tail.there.contains(id)) {
            text.extend_from_slice(&self.begin);
        }
        for (i, (id, row)) in self.rows.iter().enumerate() {
            if Some(i) != torn && !tail.there.contains(id) {
                text.extend_from_slice(row);
                written.rows += 1;
            }
        }
        if written.rows > 0 || !tail.accounted {
            text.extend_from_slice(&self.notices);
            text.extend_from_slice(&self.account);
        }
        let mut left = text.as_slice();
        while !left.is_empty() {
            let (piece, rest) = left.split_at(self.lines.piece(left, PIECE));
            file.write_all(piece)?;
            left = rest;
        }
        Ok(written)
    }
}

/// The end of a log.
#[derive(Default)]
struct Tail {
    /// Rows of those that may be missing, by the numbers of their dispatches.
    there: HashSet<u64>,
    /// The account is there.
    accounted: bool,
    /// What follows the last line break, or the last whole chunk.
    torn: Vec<u8>,
}

impl Tail {
    fn read(file: &mut File, from: u64, missing: &Missing) -> io::Result<Tail> {
        file.seek(SeekFrom::Start(from))?;
        let mut reader = BufReader::with_capacity(PIECE, file);
        if missing.lines.are_packed() {
            return Tail::of_chunks(&mut reader, missing);
        }
        let rows: HashMap<&[u8], u64> = missing.rows.iter().map(|(id, row)| (row.as_slice(), *id)).collect();
        let mut tail = Tail::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Ok(tail);
            }
            if line.last() != Some(&b'\n') {
                tail.torn = line;
                return Ok(tail);
            }
            tail.there.extend(rows.get(line.as_slice()));
            tail.accounted |= line == missing.account;
        }
    }

    fn of_chunks(reader: &mut impl BufRead, missing: &Missing) -> io::Result<Tail> {
        let mut tail = Tail::default();
        let mut chunks = packed::Reader::default();
        while let Some(found) = chunks.next(reader)? {
            tail.torn.clear();
            match found {
                Found::Row if chunks.stream() == missing.stream => {
                    tail.there.insert(chunks.row().record.id.load(Ordering::Relaxed));
                }
                Found::Row => {}
                Found::Line => {
                    let mut line = Vec::new();
                    packed::say(chunks.text(), missing.lines, &mut line);
                    tail.accounted |= line == missing.account;
                }
                // What follows it is looked for by every reader.
                Found::Damage => tail.torn.push(0),
            }
        }
        Ok(tail)
    }
}

/// Several that write what one process left do so one after the other; it is let go when the file is closed.
fn lock(file: &File) {
    // SAFETY: the descriptor is open. A file system that knows no locks has at most one of us, in practice.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
}
