//! The columns of a row, in order: the first four are logduration's; later ones are only ever added at the end.

use std::sync::atomic::Ordering;

use crate::clock::Line;
use crate::names::{Kernel, Operation, Registers};
use crate::process::Process;
use crate::record::{Record, Shape, Times, flag};

/// What a row is written from.
#[derive(Debug)]
pub struct Row<'a> {
    /// The kernel's name; empty when it is not known.
    pub kernel: &'a str,
    /// Its symbol, if rows have it beside the name; else empty.
    pub symbol: &'a str,
    /// What else is known of the kernel.
    pub known: Option<&'a Kernel>,
    /// The process of the dispatch.
    pub process: Process,
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
    /// A word of ours: quoted in JSON only.
    Word(&'static str),
    /// In decimal.
    Number(u64),
    /// Not known.
    Nothing,
    /// Work-items in x, y and z.
    Size([u64; 3]),
    /// In hexadecimal.
    Address(u64),
    /// Words.
    Flags(Flags),
}

/// What is unusual about a dispatch: a bit for each of [`Flags::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// As rows have them.
    pub const NAMES: [&'static str; 8] = [
        "unknown-kernel",
        "incomplete",
        "no-times",
        "times-lost",
        "in-flight",
        "shared-signal",
        "end-before-start",
        "not-instrumented",
    ];

    /// True when nothing is unusual.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of those that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let mut left = self.0;
        // Most rows have none.
        std::iter::from_fn(move || {
            let name = Flags::NAMES.get(left.trailing_zeros() as usize).copied();
            left &= left.wrapping_sub(1);
            name
        })
    }
}

/// What the cells of a column have that are not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A number below 2^63.
    Number,
    /// A number of 64 bits, written as `0x...`.
    Address,
    /// Three numbers, written as `64x2x1`, and what each is called where it is a column of its own.
    Size([&'static str; 3]),
}

/// A column: its name, and what a row has in it.
#[derive(Debug)]
pub struct Column {
    /// As the header has it.
    pub name: &'static str,
    /// Dispatches of one kernel and shape on one queue can differ in it. Other columns depend on [`Row::common`] only.
    pub is_own: bool,
    /// What its cells have.
    pub kind: Kind,
    /// What a row has in it.
    pub cell: for<'a> fn(&Row<'a>) -> Cell<'a>,
}

/// Takes cells one after the other.
pub(crate) trait Cells {
    /// Takes a cell. Inlined, it costs no more than its kind of cell needs.
    fn put(&mut self, cell: Cell<'_>);
}

/// Makes the table: `own` columns differ between dispatches of one kernel and shape, `common` ones do not.
macro_rules! columns {
    ($( $name:literal: $differs:ident $kind:expr, |$row:ident| $cell:expr; )*) => {
        /// Every column.
        pub const COLUMNS: &[Column] = &[$( Column {
            name: $name,
            is_own: columns!(@$differs),
            kind: $kind,
            cell: { fn cell<'a>($row: &Row<'a>) -> Cell<'a> { $cell } cell },
        }, )*];

        /// Passes on the cell of each column that is [`Column::is_own`], in their order.
        #[inline]
        pub(crate) fn own_cells(row: &Row<'_>, to: &mut impl Cells) {
            $( columns!(@$differs to, row, |$row| $cell); )*
        }
    };
    (@own) => { true };
    (@common) => { false };
    (@own $to:ident, $from:ident, |$row:ident| $cell:expr) => {{ let $row = $from; $to.put($cell); }};
    (@common $to:ident, $from:ident, |$row:ident| $cell:expr) => {};
}

columns! {
    "kernel": common Kind::Text, |row| Cell::Text(row.kernel);
    "dispatch": own Kind::Number, |row| number(row.dispatch);
    "startNs": own Kind::Number, |row| number(row.times.map(|t| t.0));
    "endNs": own Kind::Number, |row| number(row.times.map(|t| t.1));
    "durationNs": own Kind::Number, |row| number(row.times.and_then(|(start, end)| end.checked_sub(start)));
    "id": own Kind::Number, |row| Cell::Number(row.record.id.load(Ordering::Relaxed));
    "agent": common Kind::Number, |row| number(row.agent());
    "queue": common Kind::Number, |row| row.of_dispatch(Cell::Number(row.queue));
    "grid": common Kind::Size(["gridX", "gridY", "gridZ"]), |row|
        row.of_dispatch(Cell::Size(row.shape.grid.map(Into::into)));
    "workgroup": common Kind::Size(["workgroupX", "workgroupY", "workgroupZ"]), |row|
        row.of_dispatch(Cell::Size(row.shape.workgroup.map(Into::into)));
    "ldsBytes": common Kind::Number, |row| row.of_dispatch(Cell::Number(row.shape.lds_bytes.into()));
    "scratchBytes": common Kind::Number, |row| row.of_dispatch(Cell::Number(row.shape.scratch_bytes.into()));
    "kernargBytes": common Kind::Number, |row| number(row.known.and_then(|kernel| kernel.kernarg_size).map(Into::into));
    "kernelObject": common Kind::Address, |row|
        row.of_dispatch(Cell::Address(row.record.kernel_object().load(Ordering::Relaxed)));
    "flags": own Kind::Text, |row| Cell::Flags(row.flags());
    "replaced": common Kind::Text, |row| match row.known.map_or("", |kernel| &kernel.replaced) {
        "" => Cell::Nothing,
        hash => Cell::Text(hash),
    };
    "kind": common Kind::Text, |row| Cell::Word(row.operation().name());
    "bytes": common Kind::Number, |row| number(row.copied_bytes());
    "pid": common Kind::Number, |row| Cell::Number(row.process.pid.into());
    "rank": common Kind::Number, |row| number(row.process.rank.map(Into::into));
    "vgprs": common Kind::Number, |row| registers(row, |registers| registers.vgprs);
    "agprs": common Kind::Number, |row| registers(row, |registers| registers.agprs);
    "sgprs": common Kind::Number, |row| registers(row, |registers| registers.sgprs);
    "tid": own Kind::Number, |row| number(Some(row.record.thread.load(Ordering::Relaxed).into()).filter(|&tid| tid != 0));
    "code": common Kind::Text, |row| match row.known.map_or("", |kernel| &kernel.code) {
        "" => Cell::Nothing,
        name => Cell::Text(name),
    };
    "symbol": common Kind::Text, |row| match row.symbol {
        "" => Cell::Nothing,
        symbol => Cell::Text(symbol),
    };
    "site": own Kind::Number, |row| number(Some(row.record.site.load(Ordering::Relaxed).into()).filter(|&site| site != 0));
}

fn registers<'a>(row: &Row<'a>, of: impl Fn(&Registers) -> Option<u32>) -> Cell<'a> {
    number(row.known.and_then(|kernel| of(&kernel.registers)).map(Into::into))
}

fn number<'a>(value: Option<u64>) -> Cell<'a> {
    value.map_or(Cell::Nothing, Cell::Number)
}

/// Position of the agent of a copy that is none of a GPU.
pub const NO_GPU: usize = u32::MAX as usize;

/// True if there are times, and a way to convert them.
#[inline]
pub fn has_times(record: &Record, operation: Operation, ticks: &Times, clock: Option<&Line>) -> bool {
    let has_ticks = || clock.is_some() && ticks.end.load(Ordering::Relaxed) != 0;
    record.flags() & (flag::NO_TIMES | flag::INCOMPLETE) == 0 && (operation != Operation::Dispatch || has_ticks())
}

/// Start and end in nanoseconds, from ticks; `None` if there are none, or no way to convert them.
pub fn times(record: &Record, operation: Operation, ticks: &Times, clock: Option<Line>) -> Option<(u64, u64)> {
    if !has_times(record, operation, ticks, clock.as_ref()) {
        return None;
    }
    let (start, end) = (ticks.start.load(Ordering::Relaxed), ticks.end.load(Ordering::Relaxed));
    if operation != Operation::Dispatch {
        return Some((start, end));
    }
    let line = clock?;
    Some((line.to_ns(start), line.to_ns(end)))
}

/// When the doorbell of a dispatch was rung, or a copy was asked for, in nanoseconds; `None` if there is no way to convert it, and
/// for markers.
pub fn dispatch(record: &Record, operation: Operation, clock: Option<Line>) -> Option<u64> {
    let clock = clock.filter(|_| !operation.is_marker())?;
    Some(clock.to_ns(record.dispatch.load(Ordering::Relaxed)))
}

/// What the `common` columns of a row are made of. The kernel's number stands for its name and its replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    shape: Shape,
    subject: u64,
    queue: u64,
    agent: usize,
}

impl Common {
    /// A number that is often another one for another value.
    pub fn hash(&self) -> u64 {
        let Shape { kernel, grid, workgroup, .. } = self.shape;
        let sizes = u64::from(grid[0]) ^ u64::from(grid[1]) << 20 ^ u64::from(workgroup[0]) << 40;
        let names = u64::from(kernel) ^ self.queue << 32;
        // Fibonacci hashing: the upper bits of the product depend on all lower ones.
        sizes.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ names.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}

impl Row<'_> {
    /// What it is of.
    pub fn operation(&self) -> Operation {
        self.known.map_or(Operation::Dispatch, |kernel| kernel.operation)
    }

    /// The bytes of a copy.
    fn copied_bytes(&self) -> Option<u64> {
        (self.operation() == Operation::Copy).then(|| self.record.copied_bytes().load(Ordering::Relaxed))
    }

    fn of_dispatch<'c>(&self, cell: Cell<'c>) -> Cell<'c> {
        if self.operation() == Operation::Dispatch { cell } else { Cell::Nothing }
    }

    fn agent(&self) -> Option<u64> {
        Some(self.agent).filter(|agent| *agent != NO_GPU).map(|agent| agent as u64)
    }

    /// What all rows have in common that differ in `own` columns only.
    pub fn common(&self) -> Common {
        let subject = self.record.subject();
        Common { shape: self.shape, subject, queue: self.queue, agent: self.agent }
    }

    /// What is unusual about the dispatch.
    pub fn flags(&self) -> Flags {
        let flags = self.record.flags();
        let is_incomplete = flags & flag::INCOMPLETE != 0;
        // In the order of the names.
        let all = [
            self.shape.kernel == 0,
            is_incomplete,
            !is_incomplete && self.times.is_none() && self.late.is_none(),
            self.late == Some(Late::TimesLost),
            self.late == Some(Late::InFlight),
            flags & flag::SHARED_SIGNAL != 0,
            self.times.is_some_and(|(start, end)| end < start),
            flags & flag::NOT_INSTRUMENTED != 0,
        ];
        Flags(all.into_iter().enumerate().fold(0, |bits, (bit, is_set)| bits | u8::from(is_set) << bit))
    }
}
