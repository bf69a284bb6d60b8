//! The columns of a row, in order: the first four are logduration's; later ones are only ever added at the end.

use std::sync::atomic::Ordering;

use crate::clock::Line;
use crate::record::{Record, Shape, Times, flag};

/// What a row is written from.
#[derive(Debug)]
pub struct Row<'a> {
    /// Demangled; empty when it is not known.
    pub kernel: &'a str,
    /// Short hash of the code object whose kernel ran in place of the application's; empty if its own did.
    pub replaced: &'a str,
    /// Bytes of arguments of a known kernel.
    pub kernarg_size: Option<u32>,
    /// When the doorbell was rung, in nanoseconds of the system clock.
    pub dispatch: Option<u64>,
    /// Start and end, as well.
    pub times: Option<(u64, u64)>,
    /// Position of the agent among the GPUs.
    pub agent: usize,
    /// The runtime's number of the queue.
    pub queue: u64,
    /// What was dispatched.
    pub shape: Shape,
    /// Everything else.
    pub record: &'a Record,
    /// What a reader of the file knows and the record does not.
    pub late: Option<Late>,
}

/// Why a row that recovery writes has no times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// The process died before they were read.
    TimesLost,
    /// The dispatch is in flight.
    InFlight,
}

/// A cell.
#[derive(Debug)]
pub enum Cell<'a> {
    /// Quoted.
    Text(&'a str),
    /// In decimal.
    Number(u64),
    /// Not known.
    Nothing,
    /// Work-items in x, y and z.
    Size([u64; 3]),
    /// In hexadecimal.
    Address(u64),
    /// Words.
    Flags(Vec<&'static str>),
}

/// A column: its name, and what a row has in it.
#[derive(Debug)]
pub struct Column {
    /// As the header has it.
    pub name: &'static str,
    /// What a row has in it.
    pub cell: for<'a> fn(&Row<'a>) -> Cell<'a>,
}

/// Makes the table.
macro_rules! columns {
    ($( $name:literal: |$row:ident| $cell:expr; )*) => {
        /// Every column.
        pub const COLUMNS: &[Column] = &[$( Column { name: $name, cell: { fn cell<'a>($row: &Row<'a>) -> Cell<'a> { $cell } cell } }, )*];
    };
}

columns! {
    "kernel": |row| Cell::Text(row.kernel);
    "dispatch": |row| number(row.dispatch);
    "startNs": |row| number(row.times.map(|t| t.0));
    "endNs": |row| number(row.times.map(|t| t.1));
    "durationNs": |row| number(row.times.and_then(|(start, end)| end.checked_sub(start)));
    "id": |row| Cell::Number(row.record.id.load(Ordering::Relaxed));
    "agent": |row| Cell::Number(row.agent as u64);
    "queue": |row| Cell::Number(row.queue);
    "grid": |row| Cell::Size(row.shape.grid.map(Into::into));
    "workgroup": |row| Cell::Size(row.shape.workgroup.map(Into::into));
    "ldsBytes": |row| Cell::Number(row.shape.lds_bytes.into());
    "scratchBytes": |row| Cell::Number(row.shape.scratch_bytes.into());
    "kernargBytes": |row| number(row.kernarg_size.map(Into::into));
    "kernelObject": |row| Cell::Address(row.record.kernel_object.load(Ordering::Relaxed));
    "flags": |row| Cell::Flags(row.flags().collect());
    "replaced": |row| if row.replaced.is_empty() { Cell::Nothing } else { Cell::Text(row.replaced) };
}

fn number<'a>(value: Option<u64>) -> Cell<'a> {
    value.map_or(Cell::Nothing, Cell::Number)
}

/// Start and end of a dispatch in nanoseconds, from its ticks; `None` if there are none, or no way to convert them.
pub fn times(record: &Record, ticks: &Times, clock: Option<Line>) -> Option<(u64, u64)> {
    let (start, end) = (ticks.start.load(Ordering::Relaxed), ticks.end.load(Ordering::Relaxed));
    let line = clock.filter(|_| record.flags() & (flag::NO_TIMES | flag::INCOMPLETE) == 0 && end != 0)?;
    Some((line.to_ns(start), line.to_ns(end)))
}

/// When the doorbell of a dispatch was rung, in nanoseconds; `None` if there is no way to convert it.
pub fn dispatch(record: &Record, clock: Option<Line>) -> Option<u64> {
    Some(clock?.to_ns(record.dispatch.load(Ordering::Relaxed)))
}

impl Row<'_> {
    /// What is unusual about the dispatch.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let flags = self.record.flags();
        let backwards = self.times.is_some_and(|(start, end)| end < start);
        let all = [
            ("unknown-kernel", self.shape.kernel == 0),
            ("incomplete", flags & flag::INCOMPLETE != 0),
            ("no-times", flags & flag::INCOMPLETE == 0 && self.times.is_none() && self.late.is_none()),
            ("times-lost", self.late == Some(Late::TimesLost)),
            ("in-flight", self.late == Some(Late::InFlight)),
            ("shared-signal", flags & flag::SHARED_SIGNAL != 0),
            ("end-before-start", backwards),
        ];
        all.into_iter().filter(|&(_, set)| set).map(|(name, _)| name)
    }
}
