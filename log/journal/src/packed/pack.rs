//! Writes chunks. Nothing is formatted and no name is looked at: a row is a copy of its record's numbers.

use std::sync::atomic::Ordering;

use super::{Kind, MAJOR, MINOR, ROWS_HEAD, UNCOUNTED, complete, late_number, open, whole};
use crate::clock::Line;
use crate::columns::Late;
use crate::layout::Body;
use crate::names::{Kernel, Naming};
use crate::process::Process;
use crate::record::{Record, Times};

/// A chunk of rows is closed when it is as long as this: it is written by one system call, between those of other processes.
const FULL: usize = 64 << 10;
/// Subjects that are kept at hand: applications repeat few kernels and shapes.
const AT_HAND: usize = 256;
/// A place where no subject is at hand: no chunk has this number.
const NOTHING: (Subject, u32) = ([0; 5], u32::MAX);

/// What a row is made of.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The record.
    pub record: &'a Record,
    /// When it ran, in ticks.
    pub times: &'a Times,
    /// The runtime's number of the queue.
    pub queue: u64,
    /// Position of the agent among the GPUs.
    pub agent: usize,
    /// What the ticks of the host's counter are converted with.
    pub host: Option<Line>,
    /// The same for the agent's ticks.
    pub clock: Option<Line>,
    /// What is known of the dispatch and not in its record.
    pub late: Option<Late>,
}

/// What became of a row, and of the chunk that it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It is there, and there is room for more.
    More,
    /// It is there, and was the last: the chunk has to be closed.
    Last,
    /// It is not there: the chunk has to be closed before it.
    None,
}

/// What the rows of a chunk have in common that have one number for it: the words of [`Record::common_words`], as the file has them.
type Subject = [u64; 5];

const _: () = assert!(size_of::<Subject>() == super::SUBJECT);

/// The rows of one process as chunks.
#[derive(Debug)]
pub struct Packer {
    stream: u64,
    /// Rows of the process that chunks before this one have, if somebody counts them.
    rows: Option<u64>,
    open: Option<Open>,
    /// Subjects of the open chunk that came last, and which number they have there.
    at_hand: Vec<(Subject, u32)>,
    /// By the kernels' numbers: true for those that have been named.
    named: Vec<bool>,
}

/// A chunk of rows that is not full.
#[derive(Debug)]
struct Open {
    start: usize,
    queue: u64,
    agent: usize,
    clocks: [Option<Line>; 2],
    /// Number of its first dispatch.
    first: u64,
    rows: u32,
    subjects: Vec<Subject>,
    /// Kernels that chunks before this one do not name.
    names: Vec<(u32, &'static Kernel)>,
}

impl Packer {
    /// For the rows of a process whose records have this stream.
    pub fn new(stream: u64) -> Packer {
        Packer { stream, rows: Some(0), open: None, at_hand: vec![NOTHING; AT_HAND], named: Vec::new() }
    }

    /// For rows that the process did not write: nobody counts them.
    pub fn for_recovery(stream: u64) -> Packer {
        Packer { rows: None, ..Packer::new(stream) }
    }

    /// Says whose rows follow. Every file has this once at least before the first of them.
    pub fn begin(&self, to: &mut Vec<u8>, process: Process, naming: Naming) {
        let body = Body::default()
            .number(u32::from(MAJOR) | u32::from(MINOR) << 16)
            .number(process.pid)
            .known(process.rank)
            .number(naming as u32)
            .text(env!("CARGO_PKG_VERSION").as_bytes());
        whole(to, Kind::Begin, self.stream, &body.bytes());
    }

    /// Adds a row. It is written when its chunk is [closed](Self::close).
    pub fn row(&mut self, to: &mut Vec<u8>, source: &Source<'_>, kernel: Option<&'static Kernel>) -> Room {
        let id = source.record.id.load(Ordering::Relaxed);
        match &self.open {
            Some(open) if !open.takes(source, id) => return Room::None,
            Some(_) => {}
            None => self.open = Some(Open::new(to, self.stream, source, id, &mut self.at_hand)),
        }
        self.add(to, source.record, source.times, source.late, kernel)
    }

    /// Adds the row of a dispatch that has the queue, the kernel and the clocks of the row before it.
    #[inline]
    pub fn more(&mut self, to: &mut Vec<u8>, record: &Record, times: &Times) -> Room {
        self.add(to, record, times, None, None)
    }

    /// Adds a row to the chunk that is open, if there is one and the dispatch's number fits.
    #[inline(always)]
    fn add(
        &mut self,
        to: &mut Vec<u8>,
        record: &Record,
        times: &Times,
        late: Option<Late>,
        kernel: Option<&'static Kernel>,
    ) -> Room {
        let Some(open) = &mut self.open else { return Room::None };
        let id = record.id.load(Ordering::Relaxed);
        let Some(number_of_dispatch) = open.number(id) else { return Room::None };
        let subject = record.common_words();
        let slot = place(&subject);
        let number = match self.at_hand.get(slot) {
            Some((known, number)) if is_same(known, &subject) && *number < open.subjects.len() as u32 => *number,
            _ => open.enter(subject, self.at_hand.get_mut(slot), &mut self.named, kernel),
        };
        let mut row = [0; super::ROW];
        let mut put = |at: usize, bytes: &[u8]| row[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &record.dispatch.load(Ordering::Relaxed).to_le_bytes());
        put(8, &times.start.load(Ordering::Relaxed).to_le_bytes());
        put(16, &times.end.load(Ordering::Relaxed).to_le_bytes());
        put(24, &number_of_dispatch.to_le_bytes());
        put(28, &record.thread.load(Ordering::Relaxed).to_le_bytes());
        put(32, &record.site.load(Ordering::Relaxed).to_le_bytes());
        put(36, &(number as u16).to_le_bytes());
        put(38, &[record.flags(), late_number(late)]);
        to.extend_from_slice(&row);
        open.rows += 1;
        if to.len() - open.start >= FULL || open.subjects.len() == usize::from(u16::MAX) {
            Room::Last
        } else {
            Room::More
        }
    }

    /// Closes the chunk that rows were added to. Kernels that it is the first to name stand before it; they are returned, too, since
    /// each file needs them.
    pub fn close(&mut self, to: &mut Vec<u8>) -> Option<Vec<u8>> {
        let open = self.open.take()?;
        for subject in &open.subjects {
            subject.iter().for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
        }
        let head = open.head(self.rows);
        if let Some(place) = to.get_mut(open.start + super::HEAD..).and_then(|body| body.get_mut(..ROWS_HEAD)) {
            place.copy_from_slice(&head);
        }
        complete(to, open.start);
        self.rows = self.rows.map(|rows| rows.saturating_add(open.rows.into()));
        if open.names.is_empty() {
            return None;
        }
        let mut names = Vec::new();
        Packer::names(&mut names, self.stream, &open.names);
        to.splice(open.start..open.start, names.iter().copied());
        Some(names)
    }

    /// Names kernels by the numbers that rows of a stream have.
    pub(crate) fn names(to: &mut Vec<u8>, stream: u64, kernels: &[(u32, &Kernel)]) {
        let body = Body::default().number(kernels.len() as u32);
        let body = kernels.iter().fold(body, |body, (number, kernel)| body.kernel(*number, kernel));
        whole(to, Kind::Kernels, stream, &body.bytes());
    }

    /// Some rows of closed chunks are not going to be written.
    pub fn forget(&mut self, rows: u64) {
        self.rows = self.rows.map(|all| all.saturating_sub(rows));
    }
}

/// True for a kernel that has not been named before.
fn name(named: &mut Vec<bool>, number: u32) -> bool {
    let at = number as usize;
    if named.len() <= at {
        named.resize(at + 1, false);
    }
    named.get_mut(at).is_some_and(|named| !std::mem::replace(named, true))
}

impl Open {
    /// A chunk that is going to begin with a row.
    fn new(to: &mut Vec<u8>, stream: u64, source: &Source<'_>, first: u64, at_hand: &mut [(Subject, u32)]) -> Open {
        let start = open(to, Kind::Rows, stream);
        to.resize(to.len() + ROWS_HEAD, 0);
        at_hand.fill(NOTHING);
        Open {
            start,
            queue: source.queue,
            agent: source.agent,
            clocks: [source.host, source.clock],
            first,
            rows: 0,
            subjects: Vec::new(),
            names: Vec::new(),
        }
    }

    /// True if the row of a dispatch fits to those that are there.
    fn takes(&self, source: &Source<'_>, id: u64) -> bool {
        (self.queue, self.agent, self.clocks) == (source.queue, source.agent, [source.host, source.clock])
            && self.number(id).is_some()
    }

    /// The number of a dispatch here, if it is not too far from the first one.
    #[inline]
    fn number(&self, id: u64) -> Option<u32> {
        u32::try_from(id.wrapping_sub(self.first)).ok()
    }

    /// Gives a subject that is not at hand a number.
    #[cold]
    fn enter(
        &mut self,
        subject: Subject,
        at_hand: Option<&mut (Subject, u32)>,
        named: &mut Vec<bool>,
        kernel: Option<&'static Kernel>,
    ) -> u32 {
        let number = self.subjects.len() as u32;
        self.subjects.push(subject);
        if let Some(at_hand) = at_hand {
            *at_hand = (subject, number);
        }
        let of = subject[1] as u32;
        if let Some(kernel) = kernel.filter(|_| name(named, of)) {
            self.names.push((of, kernel));
        }
        number
    }

    fn head(&self, rows_before: Option<u64>) -> [u8; ROWS_HEAD] {
        let mut head = [0; ROWS_HEAD];
        let line = |line: Option<Line>| line.map_or([0; 3], |line| [line.tick, line.ns, line.ns_per_tick.to_bits()]);
        let [[a, b, c], [d, e, f]] = self.clocks.map(line);
        let numbers = [self.queue, self.first, rows_before.unwrap_or(UNCOUNTED), a, b, c, d, e, f];
        for (to, number) in head.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        for (to, number) in
            head[72..].chunks_exact_mut(4).zip([self.agent as u32, self.rows, self.subjects.len() as u32, 0])
        {
            to.copy_from_slice(&number.to_le_bytes());
        }
        head
    }
}

/// True for equal subjects: without the call that `==` makes of an array.
#[inline(always)]
fn is_same(one: &Subject, other: &Subject) -> bool {
    one.iter().zip(other).fold(0, |different, (one, other)| different | (one ^ other)) == 0
}

/// Where a subject is kept at hand.
fn place(subject: &Subject) -> usize {
    let [of, kernel_and_grid_x, grid_y_and_z, _, workgroup] = *subject;
    let words = of ^ kernel_and_grid_x.rotate_left(32) ^ grid_y_and_z.rotate_left(17) ^ workgroup << 40;
    // Fibonacci hashing: the upper bits of the product depend on all lower ones.
    (words.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % AT_HAND
}
