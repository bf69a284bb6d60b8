//! Lines of logs, CSV, JSON and records (`packed`). A header says where the cells of later lines are, so that logs with more columns, with
//! fewer (logduration's have four), or several logs in one file can be read.

mod cells;
mod comment;
mod json;
mod packed;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, BufRead};
use std::sync::Arc;

use logdur_journal::Operation;
use logdur_journal::appended;
use logdur_journal::columns::COLUMNS;
use logdur_journal::lines::SAFE;

use crate::gpus::Device;
use crate::processes::{LastRun, Processes};

use cells::{Cells, Header, split_own};
use packed::Packed;

/// Bytes that a line may have. A longer one is not of a log, and is skipped.
const LONGEST_LINE: usize = 1 << 20;
/// How the header of a log begins.
const HEADER: &[u8] = b"kernel,dispatch,startNs,endNs";
/// Cells that a line may have.
const MOST_CELLS: usize = 256;

/// What a file cannot be read for.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file gives an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It begins as no log does.
    #[error(
        "line {line}: expected a header with kernel, startNs and endNs, lines of JSON, or rows of {} columns; found {found:?} (if its \
         beginning was cut off, put the log's first line before it)",
        COLUMNS.len()
    )]
    Foreign {
        /// From 1.
        line: u64,
        /// The beginning of the line.
        found: String,
    },
}

/// The row of a dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// The kernel's demangled name; empty if it is not known.
    pub kernel: Cow<'a, str>,
    /// When the doorbell was rung, in nanoseconds.
    pub dispatch: Option<u64>,
    /// Start and end, in nanoseconds of the same clock.
    pub times: Option<(u64, u64)>,
    /// Position of the GPU.
    pub agent: u64,
    /// The runtime's number of the queue.
    pub queue: u64,
    /// Work-items in x, y and z; zeroes if the log does not say.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub workgroup: [u32; 3],
    /// True if another kernel ran in place of the application's.
    pub replaced: bool,
    /// The code object of the application's kernel, as the log calls it; empty if it does not say.
    pub code: Cow<'a, str>,
    /// The process.
    pub process: Process,
    /// The thread that asked for it, or began the range; `None` if the log does not say.
    pub thread: Option<u64>,
    /// The place that it was launched from; `None` if the log does not say.
    pub site: Option<u64>,
    /// What it is of.
    pub kind: Kind,
}

/// What a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The dispatch of a kernel.
    Dispatch,
    /// A copy.
    Copy {
        /// How much was copied.
        bytes: u64,
    },
    /// A range between two calls of the application.
    Range,
    /// A moment that the application marked.
    Mark,
}

impl Kind {
    /// From the columns `kind` and `bytes`; `None` if the first one has no known word.
    fn of(name: &[u8], bytes: Option<u64>) -> Option<Kind> {
        // Logs of earlier versions have dispatches only, and no such column.
        let operation = if name.is_empty() { Operation::Dispatch } else { Operation::named(name)? };
        Some(match operation {
            Operation::Dispatch => Kind::Dispatch,
            Operation::Copy => Kind::Copy { bytes: bytes.unwrap_or(0) },
            Operation::Range => Kind::Range,
            Operation::Mark => Kind::Mark,
        })
    }
}

/// The process of a row; empty in logs of versions that do not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Its place in a parallel job.
    pub rank: Option<u64>,
    /// Its number.
    pub pid: Option<u64>,
}

impl Process {
    /// Its rank alone, if it has one.
    pub(crate) fn rank_alone(self) -> Process {
        Process { rank: self.rank, pid: self.pid.filter(|_| self.rank.is_none()) }
    }

    /// As people read it: `rank 2 (pid 17)`.
    pub fn name(self) -> String {
        match (self.rank, self.pid) {
            (Some(rank), Some(pid)) => format!("rank {rank} (pid {pid})"),
            (Some(rank), None) => format!("rank {rank}"),
            (None, Some(pid)) => format!("pid {pid}"),
            (None, None) => "unknown process".to_owned(),
        }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line<'a> {
    /// A dispatch.
    Row(Row<'a>),
    /// A GPU. In CSV, the line of its name comes before that of its device.
    Agent {
        /// As rows have it.
        position: u64,
        /// Its name and its product's.
        name: Option<String>,
        /// Which device it is.
        device: Option<Device>,
    },
    /// What became of every dispatch of a process: counters by name.
    Account(Vec<(String, u64)>),
    /// A process begins: its number, and the run that it belongs to.
    Run {
        /// Of the run.
        id: String,
        /// Of the process.
        pid: u64,
    },
    /// A place that kernels are launched from.
    Site {
        /// As rows have it.
        number: u64,
        /// The process.
        pid: u64,
        /// Return addresses, the innermost first.
        frames: Vec<String>,
    },
    /// The runtime's system clock and the time since 1970 at one moment, in nanoseconds.
    Clocks {
        /// The system clock.
        system_ns: u64,
        /// Since 1970.
        wall_ns: u64,
    },
    /// A notice, a comparison, a header.
    Other,
    /// A line that cannot be read, and why.
    Unreadable(String),
}

/// Makes the list of the columns that are read.
macro_rules! columns {
    ($( $column:ident $name:literal; )*) => {
        #[derive(Clone, Copy)]
        enum Column { $( $column, )* }
        const NAMES: &[&str] = &[$( $name, )*];
    };
}

columns! {
    Kernel "kernel";
    Dispatch "dispatch";
    Start "startNs";
    End "endNs";
    Agent "agent";
    Queue "queue";
    Grid "grid";
    Workgroup "workgroup";
    Replaced "replaced";
    Kind "kind";
    Bytes "bytes";
    Pid "pid";
    Rank "rank";
    Tid "tid";
    Code "code";
    Site "site";
}

/// The lines of a log.
pub struct Log<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    /// Bytes that were read.
    position: u64,
    /// Rows that begin before this byte are another run's.
    appended_after: u64,
    /// So are those of other processes, if these are known.
    of: Option<Arc<HashSet<u64>>>,
    processes: Processes,
    header: Option<Header>,
    chosen: &'static [&'static str],
    cells: Cells,
    /// Present if the log is one of chunks, which has no lines of text.
    packed: Option<Box<Packed>>,
}

impl<R: BufRead> Log<R> {
    /// Reads from the beginning of a log.
    pub fn new(input: R) -> Log<R> {
        Log {
            input,
            line: Vec::new(),
            number: 0,
            position: 0,
            appended_after: 0,
            of: None,
            processes: Processes::default(),
            header: None,
            chosen: &[],
            cells: Cells::default(),
            packed: None,
        }
    }

    /// Reads the rows of a run only: others, and accounts of others, are [`Line::Other`]. It has all processes, if none is known.
    pub fn of_run(self, run: LastRun) -> Log<R> {
        let of = (!run.pids.is_empty()).then(|| Arc::new(run.pids.into_iter().collect()));
        Log { appended_after: run.from, of, ..self }
    }

    /// How many rows the accounts have that were not read so far.
    pub fn missing(&self) -> u64 {
        self.processes.missing()
    }

    /// How many runs have begun in what was read so far, as far as the log says it.
    pub fn runs(&self) -> usize {
        self.processes.runs()
    }

    /// How many bytes were read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Makes [`texts`](Self::texts) give these columns. Before the first line is read.
    pub fn choose(&mut self, columns: &'static [&'static str]) {
        self.chosen = columns;
    }

    /// The chosen columns of the row that was read last, as CSV has them; `None` for an empty cell, or a column that the log lacks.
    pub fn texts(&self) -> Vec<Option<Cow<'_, str>>> {
        if let Some(packed) = &self.packed {
            return packed.texts(self.chosen);
        }
        if self.line.first() == Some(&b'{') {
            let object: serde_json::Map<String, serde_json::Value> =
                serde_json::from_slice(&self.line).unwrap_or_default();
            return self.chosen.iter().map(|name| object.get(*name).and_then(json::text).map(Cow::Owned)).collect();
        }
        let Some(header) = &self.header else { return Vec::new() };
        let cell = |place: &Option<usize>| self.cells.get((*place)?).filter(|cell| !cell.is_empty());
        header.chosen.iter().map(|place| cell(place).map(|cell| String::from_utf8_lossy(header.text(cell)))).collect()
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read, or is no log.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        self.line.clear();
        self.number += 1;
        let mut begins = self.position;
        if self.number == 1 && appended::is_packed(self.begin()?) {
            self.packed = Some(Box::default());
        }
        let is_there = match &mut self.packed {
            Some(packed) => packed.next(&mut self.input)?,
            None => self.read_line()?,
        };
        if !is_there {
            return Ok(None);
        }
        let Log { line, header, cells, processes, of, packed, .. } = self;
        let is_others = |pid: Option<u64>| of.as_ref().is_some_and(|of| pid.is_some_and(|pid| !of.contains(&pid)));
        let line = match packed {
            Some(packed) => {
                (begins, self.position) = packed.place();
                packed.line()
            }
            None => parsed(line, header, cells, self.chosen, self.number)?,
        };
        let is_earlier = begins < self.appended_after;
        match &line {
            Line::Row(_) | Line::Account(_) | Line::Unreadable(_) | Line::Run { .. } if is_earlier => {
                return Ok(Some(Line::Other));
            }
            Line::Row(row) if is_others(row.process.pid) => return Ok(Some(Line::Other)),
            Line::Account(counters) if is_others(pid_of(counters)) => return Ok(Some(Line::Other)),
            Line::Run { pid, .. } | Line::Site { pid, .. } if is_others(Some(*pid)) => return Ok(Some(Line::Other)),
            Line::Row(row) => processes.row(row.process.pid),
            Line::Account(counters) => processes.account(counters),
            Line::Run { id, .. } => processes.run(id),
            _ => {}
        }
        Ok(Some(line))
    }

    /// How the log begins.
    fn begin(&mut self) -> io::Result<&[u8]> {
        loop {
            match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Asked again, for the borrow.
                begin => break begin.map(drop)?,
            }
        }
        self.input.fill_buf()
    }

    /// Reads a line with its end; of one that is too long, its beginning. False at the end of the file.
    fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if available.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = memchr::memchr(b'\n', available).map(|at| at + 1);
            let taken = end.unwrap_or(available.len());
            if self.line.len() <= LONGEST_LINE {
                self.line.extend_from_slice(available.get(..taken).unwrap_or_default());
            }
            self.input.consume(taken);
            self.position += taken as u64;
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

/// What a line says.
fn parsed<'a>(
    line: &'a [u8],
    header: &mut Option<Header>,
    cells: &'a mut Cells,
    chosen: &[&str],
    number: u64,
) -> Result<Line<'a>, ReadError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(match line.first() {
        None => Line::Other,
        Some(_) if line.len() > LONGEST_LINE => {
            Line::Unreadable(format!("the line is longer than {LONGEST_LINE} bytes"))
        }
        Some(b'{') => json::line(line),
        Some(b'#') => {
            if let Some(header) = header.as_mut().filter(|_| line == SAFE.as_bytes()) {
                header.is_safe = true;
            }
            comment::parsed(&String::from_utf8_lossy(line))
        }
        Some(_) => match split_own(line, header.as_ref(), cells) {
            Err(why) => Line::Unreadable(why),
            Ok(()) => {
                if let Some(found) = cells.header(chosen) {
                    *header = Some(found);
                    return Ok(Line::Other);
                }
                if header.is_none() {
                    *header = cells.without_header(chosen);
                }
                let Some(header) = header.as_ref() else {
                    let found = String::from_utf8_lossy(line).chars().take(80).collect();
                    return Err(ReadError::Foreign { line: number, found });
                };
                match cells.row(header) {
                    Ok(row) => Line::Row(row),
                    Err(why) => Line::Unreadable(why),
                }
            }
        },
    })
}

/// The process of an account.
fn pid_of(counters: &[(String, u64)]) -> Option<u64> {
    counters.iter().find(|(name, _)| name == "pid").map(|(_, pid)| *pid)
}

fn unexpected_kind(found: &[u8]) -> String {
    let known = Operation::ALL.map(Operation::name).join(", ");
    unexpected(&format!("one of {known}"), Column::Kind, found)
}

fn unexpected(expected: &str, column: Column, found: &[u8]) -> String {
    let name = NAMES.get(column as usize).copied().unwrap_or_default();
    format!("expected {expected} in {name}, found {:?}", String::from_utf8_lossy(found))
}

/// What a size is shown as that the log does not say.
pub const UNKNOWN: &str = "-";

/// Work-items in x, y and z as logs have them; [`UNKNOWN`] for zeroes.
pub fn size_text(size: [u32; 3]) -> String {
    let [x, y, z] = size;
    if size == [0; 3] { UNKNOWN.to_owned() } else { format!("{x}x{y}x{z}") }
}

#[cfg(test)]
mod tests;
