//! Lines on their way into the log, and the records whose rows they are.
//!
//! Lines that cannot be written stay here and in the records, and are tried again. A row is lost only if its record is lost.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use logdur_intercept::blocks::{Blocks, Cursor, RecordRef};
use logdur_intercept::packing::Run;
use logdur_journal::compare::{Comparisons, Subject};
use logdur_journal::lines::{Format, Lines};
use logdur_journal::packed::{Packer, Room, Source};
use logdur_journal::rows::Rows;
use logdur_journal::{Fate, Naming, Operation, Process, Records};
use logdur_settings as settings;

use super::Line;
use super::sink::{Patience, Sink, Unwritten};
use super::wanted::Filtered;
use crate::kernels::{Kernels, KnownKernel};

/// The lines that are not in the log yet, and where they go.
pub(super) struct Writer {
    pub(super) sink: Sink,
    pub(super) lines: Lines,
    /// Lines that are no rows.
    pub(super) mail: Receiver<Line>,
    /// Those that wait for the first dispatch.
    pub(super) held: Vec<Line>,
    pub(super) formatted: Rows,
    /// Present if rows are not formatted, but chunks of records.
    packer: Option<Packer>,
    pub(super) buffer: Vec<u8>,
    rows: Vec<Pending>,
    records: &'static Records,
    last_kernel: Option<(u32, &'static KnownKernel)>,
    /// Kernels and what replaces them.
    pub(super) comparisons: Comparisons,
    pub(super) ran: Ran,
    /// The log ends in the middle of a line.
    in_line: bool,
    /// The rest of that line was given up.
    torn: bool,
    /// Since when nothing could be written, and why.
    blocked: Option<(Instant, String)>,
    /// Why there is no log though one is wanted.
    unopened: Option<String>,
    /// Rows that were given up.
    dropped: u64,
    /// Rows that were written.
    written: u64,
    /// The file that had those rows is gone.
    lost_its_file: bool,
}

/// What ran, in numbers of dispatches.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) dispatches: u64,
    /// What the filters of the log did to them.
    pub(super) filtered: Filtered,
    /// Those whose kernel ran in place of the application's, by that kernel's number.
    pub(super) swapped: BTreeMap<u32, u64>,
}

impl Ran {
    /// So many records of a kernel, or of copies or markers.
    pub(super) fn count(&mut self, number: u32, kernel: Option<&KnownKernel>, records: u64) {
        let operation = kernel.map_or(Operation::Dispatch, |known| known.kernel.operation);
        // Copies have rows, too.
        self.dispatches += records * u64::from(operation == Operation::Dispatch);
        if kernel.is_some_and(|known| !known.kernel.replaced.is_empty()) {
            *self.swapped.entry(number).or_default() += records;
        }
    }
}

/// A row, or several of one chunk, in the buffer.
struct Pending {
    run: Run,
    /// Where its line ends in the buffer, or its chunk; [`OPEN`] while that is not closed.
    end: usize,
    measured: Option<Box<Measured>>,
}

/// A dispatch's part in a comparison.
pub(super) struct Measured {
    pub(super) subject: Subject,
    pub(super) replaced: String,
    pub(super) nanoseconds: u64,
}

/// The end of a chunk that is not closed.
const OPEN: usize = usize::MAX;

/// What became of an attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// No row is left: the rows are in the log, or were given up. A notice about the pause may be in the buffer.
    All,
    /// There are lines left.
    Blocked,
}

impl Writer {
    /// A writer to a sink. `problem` says why a sink is nowhere that should be somewhere.
    pub(super) fn new(
        sink: Sink,
        problem: Option<String>,
        lines: Lines,
        mail: Receiver<Line>,
        records: &'static Records,
    ) -> Writer {
        records.header().set_log_bytes(sink.length());
        let mut buffer = Vec::new();
        // Early, and only if there is room: memory that is not used yet is only an address. Without it, the buffer grows later.
        drop(buffer.try_reserve_exact(2 * super::BATCH));
        Writer {
            unopened: problem.filter(|_| sink.is_nowhere()),
            dropped: 0,
            written: 0,
            lost_its_file: false,
            sink,
            lines,
            mail,
            held: Vec::new(),
            formatted: Rows::new(lines),
            packer: lines.are_packed().then(|| Packer::new(records.header().stream())),
            buffer,
            rows: Vec::new(),
            records,
            last_kernel: None,
            comparisons: Comparisons::default(),
            ran: Ran::default(),
            in_line: false,
            torn: false,
            blocked: None,
        }
    }

    /// True if rows are chunks of records.
    pub(super) fn is_packed(&self) -> bool {
        self.packer.is_some()
    }

    /// Says in chunks whose rows they are; each file has this before them.
    pub(super) fn begin_chunks(&mut self, process: Process, naming: Naming) {
        if let Some(packer) = &self.packer {
            let before = self.buffer.len();
            packer.begin(&mut self.buffer, process, naming);
            self.sink.remember(&self.buffer[before..]);
        }
    }

    /// Adds the row of a record to the chunk that is open.
    pub(super) fn pack(
        &mut self,
        record: RecordRef,
        source: &Source<'_>,
        kernel: Option<&'static KnownKernel>,
        measured: Option<Box<Measured>>,
    ) {
        let kernel = kernel.map(|known| &known.kernel);
        loop {
            let Some(packer) = &mut self.packer else { return };
            match packer.row(&mut self.buffer, source, kernel) {
                Room::More => break self.ends_at(record, OPEN, measured),
                Room::None => self.close_chunk(),
                Room::Last => {
                    self.ends_at(record, OPEN, measured);
                    break self.close_chunk();
                }
            }
        }
    }

    /// Adds the rows of the records from a place on that have the kernel of the last row and nothing of their own to be looked at; how many
    /// they are. Its record is the one before.
    pub(super) fn pack_more(&mut self, at: &mut Cursor, kernel: u32) -> usize {
        let (Some(packer), Some(last)) = (&mut self.packer, self.rows.last_mut()) else { return 0 };
        if last.end != OPEN {
            return 0;
        }
        let (rows, room) = last.run.pack_more(at, kernel, packer, &mut self.buffer);
        if room == Room::Last {
            self.close_chunk();
        }
        rows
    }

    /// Closes the chunk that is open.
    fn close_chunk(&mut self) {
        let Some(packer) = &mut self.packer else { return };
        if let Some(names) = packer.close(&mut self.buffer) {
            self.sink.remember(&names);
        }
        let end = self.buffer.len();
        self.rows.iter_mut().rev().take_while(|row| row.end == OPEN).for_each(|row| row.end = end);
    }

    /// Says that the buffer ends with the row of a record.
    pub(super) fn ends_row(&mut self, record: RecordRef, measured: Option<Box<Measured>>) {
        self.ends_at(record, self.buffer.len(), measured);
    }

    fn ends_at(&mut self, record: RecordRef, end: usize, measured: Option<Box<Measured>>) {
        if self.rows.is_empty() && self.blocked.is_none() {
            // From here on, recovery has to look for the rows that the log has already.
            self.records.header().set_log_bytes(self.sink.length());
        }
        // Now, while the record is in the cache; the log gets the row later, or never.
        record.set_fate(Fate::Writing);
        self.rows.push(Pending { run: Run::of(record), end, measured });
    }

    /// The kernel with a number. Neighbouring rows mostly have the same one, and a number stands for one kernel for ever.
    pub(super) fn kernel(&mut self, kernels: &Kernels, number: u32) -> Option<&'static KnownKernel> {
        if let Some((last, kernel)) = self.last_kernel
            && last == number
        {
            return Some(kernel);
        }
        let kernel = kernels.by_number(number)?;
        self.last_kernel = Some((number, kernel));
        Some(kernel)
    }

    /// True while the buffer has rows.
    pub(super) fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// True while nothing can be written, or may be.
    pub(super) fn has_to_try_again(&self) -> bool {
        self.blocked.is_some() || self.sink.must_wait()
    }

    /// Why the log lacks what the buffer or the records have, or why there is no log.
    pub(super) fn reason(&self) -> Option<&str> {
        self.unopened.as_deref().or(self.blocked.as_ref().map(|(_, reason)| reason.as_str()))
    }

    /// Looks whether others have deleted or shortened the log since the last look; what is to be said of that, which is in the buffer
    /// already. The buffer has no rows then.
    pub(super) fn look(&mut self) -> Option<String> {
        if !self.rows.is_empty() || self.sink.must_wait() || !self.sink.began_anew() {
            return None;
        }
        self.lost_its_file = true;
        // The account was in the same file.
        self.records.header().forget_account();
        let rows = self.written;
        let text = format!(
            "the log was deleted or shortened by others while it was written: it has begun anew, without {rows} rows of this process"
        );
        self.lines.notice(&mut self.buffer, &text);
        Some(text).filter(|_| rows > 0)
    }

    /// True if the file that had rows is gone.
    pub(super) fn lost_its_file(&self) -> bool {
        self.lost_its_file
    }

    /// How many rows were given up.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Writes the buffer, and marks the records whose rows are in the log. What is left is the beginning of the next
    /// attempt. If the backlog in `blocks` has reached its limit and no thread writes the rest, the rest is given up, and counted.
    pub(super) fn flush(&mut self, patience: Patience, blocks: &Blocks) -> Flushed {
        let flushed = self.flush_or_keep(patience);
        if flushed == Flushed::Blocked && blocks.are_too_many() && !self.sink.is_writing() {
            self.give_up();
            return Flushed::All;
        }
        flushed
    }

    /// The same, but for that limit.
    pub(super) fn flush_or_keep(&mut self, patience: Patience) -> Flushed {
        self.close_chunk();
        if self.buffer.is_empty() && self.rows.is_empty() {
            return Flushed::All;
        }
        if self.unopened.is_some() {
            self.give_up();
            return Flushed::All;
        }
        if self.torn {
            let end = self.lines.give_up();
            self.rows.iter_mut().for_each(|row| row.end += end.len());
            self.buffer.splice(0..0, end);
            self.torn = false;
        }
        let result = self.sink.write(&self.buffer, patience);
        let before = result.as_ref().err().map_or(self.buffer.len(), |unwritten| unwritten.before);
        self.advance(before);
        let Err(unwritten) = result else {
            self.say_that_it_goes_on();
            return Flushed::All;
        };
        self.stop(&unwritten);
        if self.sink.is_nowhere() {
            self.give_up();
            return Flushed::All;
        }
        Flushed::Blocked
    }

    /// So many bytes of the buffer are in the log.
    fn advance(&mut self, bytes: usize) {
        let written = self.rows.iter().take_while(|row| row.end <= bytes).count();
        for row in self.rows.drain(..written) {
            self.written += row.run.rows as u64;
            row.run.set_fate(Fate::Written);
            if let Some(measured) = row.measured {
                let Measured { subject, replaced, nanoseconds } = *measured;
                self.comparisons.add(subject, &replaced, nanoseconds);
            }
        }
        self.rows.iter_mut().for_each(|row| row.end -= bytes);
        if bytes > 0 {
            self.in_line = !self.lines.end_before(&self.buffer, bytes);
        }
        self.buffer.drain(..bytes);
    }

    fn stop(&mut self, unwritten: &Unwritten) {
        let error = &unwritten.error;
        if self.blocked.is_none() {
            ::log::error!("lines could not be written, they are kept: {error}");
            self.blocked = Some((Instant::now(), error.to_string()));
        }
    }

    fn say_that_it_goes_on(&mut self) {
        let Some((since, reason)) = self.blocked.take() else { return };
        let seconds = since.elapsed().as_secs_f64();
        let text = format!("the log could not be written for {seconds:.1} s, its lines were kept: {reason}");
        self.lines.notice(&mut self.buffer, &text);
    }

    /// Writes a last notice past the buffer, whose rows stay in the records. A line that is cut stays the last one: the
    /// records have its rest.
    pub(super) fn write_last(&mut self, text: &str) {
        if self.in_line || self.sink.is_writing() {
            return;
        }
        let mut line = Vec::new();
        self.lines.notice(&mut line, text);
        // There may be no room for it either.
        let _ = self.sink.write(&line, Patience::none());
    }

    /// Counts the rows that are left as unwritten.
    fn give_up(&mut self) {
        let rows = self.rows.iter().map(|row| row.run.rows as u64).sum();
        self.dropped += rows;
        if let Some(packer) = &mut self.packer {
            packer.forget(rows);
        }
        for row in self.rows.drain(..) {
            row.run.set_fate(Fate::Unwritten);
        }
        self.torn = self.in_line;
        self.buffer.clear();
        if self.is_packed() {
            // Later chunks need names that may have been given up, too.
            self.buffer.extend_from_slice(self.sink.preamble());
        }
    }
}

/// Which names of kernels rows have.
pub(crate) fn naming(settings: &settings::Interceptor) -> Naming {
    match settings.names {
        settings::Names::Demangled => Naming::Demangled,
        settings::Names::Mangled => Naming::Mangled,
        settings::Names::Both => Naming::Both,
    }
}

/// How the log's lines are written.
pub(crate) fn format(settings: &settings::Interceptor) -> Format {
    match settings.log_format {
        settings::Format::Csv => Format::Csv,
        settings::Format::CsvSafe => Format::CsvSafe,
        settings::Format::Json => Format::Json,
        settings::Format::Records => Format::Records,
    }
}
