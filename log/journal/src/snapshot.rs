//! Reads a file of records: of a process that has ended, or, for a look, of one that runs.
//!
//! Whatever the bytes are, nothing outside them is read, and what cannot be understood is said.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use logdur_system::trust::mistrust;
use thiserror::Error;

use crate::account::{Event, Tally};
use crate::clock::Line;
use crate::filter::RowFilter;
use crate::layout::{
    CHUNK_ALIGN, CHUNK_MAGIC, ChunkHead, Fields, HEADER_BYTES, Header, Kind, MAGIC, MAX_AGENTS, VERSION, copied,
};
use crate::lines::Format;
use crate::names::{Kernel, Naming};
use crate::process::{self, Process};
use crate::record::{BLOCK_BYTES, Block, Fate, Record, State, Times, flag};
use crate::store::Origin;

/// How often a file that changes is read again.
const RETRIES: usize = 5;

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// It cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A folder, a device.
    #[error("expected a file of dispatch records, found a folder or a device")]
    NoFile,
    /// Another user may have written it.
    #[error("{0}")]
    Foreign(String),
    /// It is too short for a header.
    #[error("expected a file of dispatch records, found {0} bytes, fewer than the {HEADER_BYTES} of a header")]
    Short(usize),
    /// It is another kind of file.
    #[error("expected a file of dispatch records, which begins with \"LDRECORD\", found \"{}\"", .0.escape_ascii())]
    Magic([u8; 8]),
    /// Of another version of the library.
    #[error(
        "expected version {VERSION} of the layout with blocks of {BLOCK_BYTES} bytes, found version {version} with {block_bytes}: use the omniprobe of the library that wrote it"
    )]
    Version {
        /// Of the layout.
        version: u32,
        /// Of a block.
        block_bytes: u32,
    },
}

/// What was in a file at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The process.
    pub pid: u32,
    start_time: u64,
    /// How many dispatches there have been.
    pub seen: u64,
    /// Packets beyond those, which were rung for and not given to the GPU.
    pub(crate) unsubmitted: u64,
    /// Where rows go and how; `None` if the process died before it could say so.
    pub origin: Option<Origin>,
    /// Name and product of each GPU.
    pub agents: BTreeMap<u32, (String, String)>,
    /// By number.
    kernels: HashMap<u32, Kernel>,
    /// Of the counter that is read when a doorbell is rung.
    pub(crate) host_clock: Option<Line>,
    clocks: [Option<Line>; MAX_AGENTS],
    /// Those that came to an end.
    pub(crate) ended: Tally,
    /// True when records were in private memory.
    pub(crate) private: bool,
    pub(crate) events: [u64; Event::COUNT],
    accounted: u64,
    pub(crate) log_bytes: u64,
    pub(crate) stream: u64,
    /// Those that did not, in the order of their numbers.
    pub dispatches: Vec<Dispatch>,
    /// The process ran when this was read: what it was writing is not whole.
    lives: bool,
    /// What could not be understood.
    pub problems: Vec<String>,
    changes: u64,
}

/// A dispatch whose row may not be in the log.
#[derive(Debug)]
pub struct Dispatch {
    /// The runtime's number of its queue.
    pub queue: u64,
    /// Position of the queue's agent.
    pub agent: usize,
    /// The record.
    pub record: Record,
    /// Its times.
    pub times: Times,
}

impl Snapshot {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is no file of records of this version. What is wrong further on is in [`problems`](Self::problems).
    pub fn read(path: &Path) -> Result<Snapshot, Unreadable> {
        // A pipe is not waited for.
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Unreadable::NoFile);
        }
        if let Some(reason) = mistrust(&metadata) {
            return Err(Unreadable::Foreign(reason));
        }
        let mut tries = 0;
        loop {
            file.rewind()?;
            let mut bytes = Vec::new();
            file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
            // Before the rest, which may be large, is read.
            header(&bytes)?;
            file.read_to_end(&mut bytes)?;
            let snapshot = Snapshot::parse(&bytes)?;
            file.rewind()?;
            let mut again = Vec::new();
            file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut again)?;
            tries += 1;
            if tries == RETRIES || header(&again)?.emptied.changes() == snapshot.changes {
                return Ok(snapshot);
            }
        }
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// As above.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, Unreadable> {
        let header = header(bytes)?;
        let (ended, emptied) = header.emptied();
        let mut snapshot = Snapshot {
            pid: header.pid.load(Ordering::Relaxed),
            start_time: header.start_time.load(Ordering::Relaxed),
            seen: header.next_id().load(Ordering::Relaxed),
            unsubmitted: header.unsubmitted(),
            origin: None,
            agents: BTreeMap::new(),
            kernels: HashMap::new(),
            host_clock: Line::load(&header.host_clock),
            clocks: header.clocks.each_ref().map(Line::load),
            ended,
            private: header.private_blocks.load(Ordering::Relaxed) > 0,
            events: header.events(),
            accounted: header.accounted.load(Ordering::Relaxed),
            log_bytes: header.log_bytes.load(Ordering::Relaxed),
            stream: header.stream(),
            dispatches: Vec::new(),
            lives: false,
            problems: Vec::new(),
            changes: header.emptied.changes(),
        };
        snapshot.lives = snapshot.is_alive();
        snapshot.chunks(bytes, emptied);
        snapshot.compare();
        snapshot.dispatches.sort_by_key(|d| d.record.id.load(Ordering::Relaxed));
        Ok(snapshot)
    }

    fn chunks(&mut self, bytes: &[u8], emptied: (u64, u64)) {
        let mut at = HEADER_BYTES;
        while let Some(head) = bytes.get(at..).and_then(copied::<ChunkHead>) {
            let [magic, kind] = [&head.magic, &head.kind].map(|n| n.load(Ordering::Relaxed));
            if magic == 0 && (self.lives || bytes[at..].iter().all(|byte| *byte == 0)) {
                break;
            }
            let length = head.bytes.load(Ordering::Relaxed);
            let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
            let whole = end.and_then(|end| bytes.get(at..end)).filter(|chunk| chunk.len() >= ChunkHead::BYTES);
            let (true, Some(chunk)) = (magic == CHUNK_MAGIC && length % CHUNK_ALIGN == 0, whole) else {
                let next = next_chunk(bytes, at);
                self.problems.push(format!(
                    "at byte {at}: expected a chunk, found magic number {magic:#x} and {length} bytes of {}; {} bytes are not read",
                    bytes.len() - at,
                    next - at
                ));
                at = next;
                continue;
            };
            if self.chunk(kind, chunk, emptied, at).is_some() {
                at += chunk.len();
                continue;
            }
            // Its length may be what is wrong.
            let next = next_chunk(bytes, at);
            self.problems.push(format!(
                "at byte {at}: expected a chunk of kind {kind}, found {length} bytes that are none; {} bytes are not read",
                next - at
            ));
            at = next;
        }
    }

    /// Compares what was read with the number of dispatches.
    fn compare(&mut self) {
        let (seen, read) = (self.seen, self.ended.ended().saturating_add(self.dispatches.len() as u64));
        if read > seen && !self.lives {
            self.problems.push(format!("expected records of {seen} dispatches, as the header counts, found {read}"));
        }
    }

    /// How many dispatches have no record in the file though it may have one of each: their packets were never given to the GPU, or
    /// the records cannot be read.
    pub fn without_record(&self) -> u64 {
        let read = self.ended.ended().saturating_add(self.dispatches.len() as u64);
        let others = read.saturating_add(Event::without_record(&self.events));
        if self.private || self.lives { 0 } else { self.seen.saturating_sub(others) }
    }

    /// `None` if it is not what it should be.
    fn chunk(&mut self, kind: u32, chunk: &[u8], emptied: (u64, u64), at: usize) -> Option<()> {
        let mut fields = Fields(&chunk[ChunkHead::BYTES..]);
        match Kind::of(kind)? {
            Kind::Padding => {}
            Kind::Block => {
                let block = copied::<Block>(chunk).filter(|_| chunk.len() == BLOCK_BYTES)?;
                if block.life() != emptied {
                    self.block(*block, at);
                }
            }
            Kind::Origin => self.origin = Some(origin(&mut fields)?),
            Kind::Kernels => {
                for _ in 0..fields.number()? {
                    let (number, kernel) = fields.kernel()?;
                    self.kernels.insert(number, kernel);
                }
            }
            Kind::Agent => {
                let position = fields.number()?;
                let [name, product] = [fields.text()?, fields.text()?].map(|t| String::from_utf8_lossy(t).into_owned());
                self.agents.insert(position, (name, product));
            }
        }
        Some(())
    }

    fn block(&mut self, block: Block, at: usize) {
        let (queue, agent) = (block.queue(), block.agent());
        let used = block.records.iter().rposition(|record| record.state() != State::Free).map_or(0, |last| last + 1);
        let lost = block.records.iter().take(used).filter(|record| !record.is_known()).count();
        if lost > 0 && !self.lives {
            self.problems.push(format!("at byte {at}: {lost} of {used} records of a block have a state that none has"));
        }
        for (i, (record, times)) in block.records.into_iter().zip(block.times).enumerate() {
            match (record.state(), record.fate()) {
                _ if i >= used || record.flags() & flag::NO_DISPATCH != 0 => {}
                // The rest of it may be right.
                _ if !record.is_known() => self.dispatches.push(Dispatch { queue, agent, record, times }),
                (State::Free, _) => {}
                (State::Logged, Fate::Written) => self.ended.row(&record),
                (State::Logged, Fate::Filtered) => self.ended.filtered = self.ended.filtered.saturating_add(1),
                // What could not be written can be tried again.
                _ => self.dispatches.push(Dispatch { queue, agent, record, times }),
            }
        }
    }

    /// True while the process runs.
    pub fn is_alive(&self) -> bool {
        self.start_time != 0 && process::start_time(self.pid) == Some(self.start_time)
    }

    /// True when the log has all rows and an account of them.
    pub fn is_complete(&self) -> bool {
        self.dispatches.is_empty() && self.seen.checked_add(1) == Some(self.accounted)
    }

    /// The kernel with a number.
    pub fn kernel(&self, number: u32) -> Option<&Kernel> {
        self.kernels.get(&number)
    }

    /// The process, as rows name it.
    pub(crate) fn process(&self) -> Process {
        Process { pid: self.pid, rank: self.origin.as_ref().and_then(|origin| origin.rank) }
    }

    pub(crate) fn clock(&self, agent: usize) -> Option<Line> {
        self.clocks.get(agent).copied().flatten()
    }
}

fn header(bytes: &[u8]) -> Result<Box<Header>, Unreadable> {
    // Another file is told what it is, however short.
    if let Some(magic) = bytes.first_chunk::<8>().filter(|m| u64::from_ne_bytes(**m) != MAGIC) {
        return Err(Unreadable::Magic(*magic));
    }
    let header = copied::<Header>(bytes).ok_or(Unreadable::Short(bytes.len()))?;
    let [version, block_bytes] = [&header.version, &header.block_bytes].map(|n| n.load(Ordering::Relaxed));
    if (version, block_bytes) != (VERSION, BLOCK_BYTES as u32) {
        return Err(Unreadable::Version { version, block_bytes });
    }
    Ok(header)
}

/// Where the next chunk of the file may begin; its end if there is none.
fn next_chunk(bytes: &[u8], at: usize) -> usize {
    let is_chunk = |at: &usize| {
        let head = bytes.get(*at..).and_then(copied::<ChunkHead>);
        head.is_some_and(|head| {
            let [magic, kind] = [&head.magic, &head.kind].map(|number| number.load(Ordering::Relaxed));
            magic == CHUNK_MAGIC && Kind::of(kind).is_some()
        })
    };
    let step = CHUNK_ALIGN as usize;
    (at + step..bytes.len()).step_by(step).find(is_chunk).unwrap_or(bytes.len())
}

/// A text that may be none; `None` if the fields end before.
fn known_text<'f>(fields: &mut Fields<'f>) -> Option<Option<&'f [u8]>> {
    if fields.number()? == 0 { Some(None) } else { Some(Some(fields.text()?)) }
}

fn origin(fields: &mut Fields<'_>) -> Option<Origin> {
    let format = match fields.number()? {
        0 => Format::Csv,
        1 => Format::Json,
        2 => Format::CsvSafe,
        3 => Format::Records,
        _ => return None,
    };
    let log = known_text(fields)?.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let expression = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let only = known_text(fields)?.map(expression);
    let rank = fields.known()?;
    let except = known_text(fields)?.map(expression);
    let pairs = 0..fields.number()?;
    let agents = pairs.map(|_| Some(fields.number()?..=fields.number()?)).collect::<Option<_>>()?;
    let naming = Naming::of(fields.number()?)?;
    Some(Origin { format, log, filter: RowFilter { only, except, agents }, rank, naming })
}
