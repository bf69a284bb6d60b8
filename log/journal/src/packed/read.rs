//! Reads chunks, and makes of rows what the process makes of them that writes CSV.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::atomic::Ordering;

use super::chunks::{Chunk, Chunks};
use super::{Kind, MAJOR, ROW, ROWS_HEAD, SUBJECT, UNCOUNTED, late_of};
use crate::clock::Line;
use crate::columns::{self, Late, Row};
use crate::layout::Fields;
use crate::names::{Kernel, Naming, Operation};
use crate::process::Process;
use crate::record::{Record, Shape, Times};

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A row: see [`Reader::row`].
    Row,
    /// A line that is no row, as a log in JSON has it: see [`Reader::text`].
    Line,
    /// Something that cannot be read, or is missing: [`Reader::text`] says it.
    Damage,
}

/// Reads a log of chunks from its beginning.
#[derive(Debug, Default)]
pub struct Reader {
    chunks: Chunks,
    streams: HashMap<u64, Stream>,
    /// The chunk that rows come from.
    open: Open,
    /// The row that was read last.
    record: Record,
    times: Times,
    late: Option<Late>,
    text: String,
}

/// What is known of a process that writes.
#[derive(Debug, Default)]
struct Stream {
    process: Process,
    naming: Naming,
    /// By number, with the name and the symbol beside it in rows.
    kernels: HashMap<u32, (Kernel, [String; 2])>,
    /// Rows of the process up to here, as it counts them.
    rows: Option<u64>,
    /// Its major version is another one.
    is_foreign: bool,
}

#[derive(Debug, Default)]
struct Open {
    stream: u64,
    queue: u64,
    agent: usize,
    first: u64,
    host: Option<Line>,
    clock: Option<Line>,
    /// The next row, and how many there are.
    next: usize,
    rows: usize,
    subjects: Vec<(Shape, u64)>,
}

impl Reader {
    /// Where the last chunk begins, in bytes.
    pub fn start(&self) -> u64 {
        self.chunks.start()
    }

    /// How many bytes have been read, up to the end of a chunk.
    pub fn position(&self) -> u64 {
        self.chunks.position()
    }

    /// What a line or a damage says.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The stream of the row that was read last.
    pub(crate) fn stream(&self) -> u64 {
        self.open.stream
    }

    /// Goes on to what comes next; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next(&mut self, input: &mut impl BufRead) -> io::Result<Option<Found>> {
        loop {
            if self.open.next < self.open.rows {
                if let Some(()) = self.take() {
                    return Ok(Some(Found::Row));
                }
                let (left, at) = (self.open.rows - self.open.next, self.position());
                self.open.rows = 0;
                return Ok(Some(self.damage(format!("before byte {at}: {left} rows of a chunk cannot be read"))));
            }
            let (kind, stream) = match self.chunks.next(input)? {
                None => return Ok(None),
                Some(Chunk::Damage(text)) => return Ok(Some(self.damage(text))),
                Some(Chunk::Whole { kind, stream }) => (kind, stream),
            };
            let Some(known) = Kind::of(kind) else { continue };
            match self.chunk(known, stream) {
                Some(None) => {}
                Some(Some(found)) => return Ok(Some(found)),
                None => {
                    let at = self.position();
                    return Ok(Some(self.damage(format!("before byte {at}: a chunk of kind {kind} cannot be read"))));
                }
            }
        }
    }

    fn damage(&mut self, text: String) -> Found {
        self.text = text;
        Found::Damage
    }

    /// Takes what a chunk has; `None` if it is not what it should be.
    fn chunk(&mut self, kind: Kind, stream: u64) -> Option<Option<Found>> {
        let body = self.chunks.body();
        let mut fields = Fields(body);
        match kind {
            Kind::Mend => {}
            Kind::Line => {
                self.text.clear();
                self.text.push_str(std::str::from_utf8(body).ok()?.trim_end_matches('\n'));
                return Some(Some(Found::Line));
            }
            Kind::Begin => {
                let version = fields.number()?;
                let (major, minor) = (version as u16, version >> 16);
                let known = self.streams.entry(stream).or_default();
                known.is_foreign = major != MAJOR;
                if known.is_foreign {
                    let text = format!(
                        "expected version {MAJOR} of the format, found {major}.{minor}: the rows of this process are not read; use the \
                         omniprobe of the library that wrote them"
                    );
                    return Some(Some(self.damage(text)));
                }
                known.process = Process { pid: fields.number()?, rank: fields.known()? };
                known.naming = Naming::of(fields.number()?)?;
            }
            Kind::Kernels => {
                let known = self.streams.entry(stream).or_default();
                for _ in 0..fields.number()? {
                    let (number, kernel) = fields.kernel()?;
                    let shown = [kernel.shown(known.naming), kernel.shown_beside(known.naming)];
                    known.kernels.insert(number, (kernel, shown));
                }
            }
            Kind::Rows => {
                let known = self.streams.entry(stream).or_default();
                if known.is_foreign {
                    return Some(None);
                }
                let before = self.open.begin(body, stream)?;
                let missing = known.rows.filter(|_| before != UNCOUNTED).and_then(|rows| before.checked_sub(rows));
                if before != UNCOUNTED {
                    known.rows = Some(before.saturating_add(self.open.rows as u64));
                }
                if let Some(missing) = missing.filter(|missing| *missing > 0) {
                    let (at, pid) = (self.chunks.position(), known.process.pid);
                    let text = format!("before byte {at}: {missing} rows of process {pid} are missing");
                    return Some(Some(self.damage(text)));
                }
            }
        }
        Some(None)
    }

    /// Takes the next row of the open chunk.
    fn take(&mut self) -> Option<()> {
        let at = ROWS_HEAD + self.open.next * ROW;
        let row: &[u8; ROW] = self.chunks.body().get(at..)?.first_chunk()?;
        let long = |at: usize| row.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u64::from_le_bytes(*n));
        let short = |at: usize| row.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u32::from_le_bytes(*n));
        let &(shape, subject) = self.open.subjects.get(usize::from(short(36) as u16))?;
        self.record.dispatch.store(long(0), Ordering::Relaxed);
        self.times.start.store(long(8), Ordering::Relaxed);
        self.times.end.store(long(16), Ordering::Relaxed);
        self.record.id.store(self.open.first.wrapping_add(short(24).into()), Ordering::Relaxed);
        self.record.thread.store(short(28), Ordering::Relaxed);
        self.record.site.store(short(32), Ordering::Relaxed);
        self.record.set_flags(row[38]);
        self.record.kernel_object().store(subject, Ordering::Relaxed);
        self.record.set_shape(shape);
        self.late = late_of(row[39]);
        self.open.next += 1;
        Some(())
    }

    /// The row that was read last.
    pub fn row(&self) -> Row<'_> {
        let (open, record, shape) = (&self.open, &self.record, self.record.shape());
        let stream = self.streams.get(&open.stream);
        let kernel = stream.and_then(|stream| stream.kernels.get(&shape.kernel));
        let [name, symbol] = kernel.map_or(["", ""], |(_, shown)| shown.each_ref().map(String::as_str));
        let known = kernel.map(|(kernel, _)| kernel);
        let operation = known.map_or(Operation::Dispatch, |kernel| kernel.operation);
        let times = columns::times(record, operation, &self.times, open.clock);
        Row {
            kernel: name,
            symbol,
            known,
            process: stream.map(|stream| stream.process).unwrap_or_default(),
            dispatch: columns::dispatch(record, operation, open.host),
            times: times.filter(|_| self.late.is_none()),
            agent: open.agent,
            queue: open.queue,
            shape,
            record,
            late: self.late,
        }
    }
}

impl Open {
    /// Begins with the body of a chunk. Returns how many rows of the process there were before; `None` if it is not what it should be.
    fn begin(&mut self, body: &[u8], stream: u64) -> Option<u64> {
        // Nothing of it, if it is damaged.
        (self.next, self.rows) = (0, 0);
        let (head, rest) = body.split_at_checked(ROWS_HEAD)?;
        let long =
            |at: usize| head.get(at * 8..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u64::from_le_bytes(*n));
        let [agent, rows, subjects] = [long(9), long(9) >> 32, long(10)].map(|number| number as u32 as usize);
        let line = |at: usize| {
            let ns_per_tick = f64::from_bits(long(at + 2));
            (ns_per_tick != 0.0).then(|| Line { tick: long(at), ns: long(at + 1), ns_per_tick })
        };
        let (_, table) = rest.split_at_checked(rows.checked_mul(ROW)?)?;
        let table = table.get(..subjects.checked_mul(SUBJECT)?)?;
        let subjects = table.chunks_exact(SUBJECT).map(subject).collect::<Option<Vec<_>>>()?;
        *self = Open {
            stream,
            queue: long(0),
            agent,
            first: long(1),
            host: line(3),
            clock: line(6),
            next: 0,
            rows,
            subjects,
        };
        Some(long(2))
    }
}

/// A subject, as rows have it in common.
fn subject(bytes: &[u8]) -> Option<(Shape, u64)> {
    let (of, rest) = bytes.split_first_chunk::<8>()?;
    let (numbers, rest) = rest.split_first_chunk::<24>()?;
    let number =
        |at: usize| numbers.get(at * 4..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u32::from_le_bytes(*n));
    let size = |at: usize| rest.get(at * 2..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u16::from_le_bytes(*n));
    let shape = Shape {
        kernel: number(0),
        grid: [number(1), number(2), number(3)],
        workgroup: [size(0), size(1), size(2)],
        scratch_bytes: number(4),
        lds_bytes: number(5),
    };
    Some((shape, u64::from_le_bytes(*of)))
}
