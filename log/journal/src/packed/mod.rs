//! A log whose rows nobody formats while the application runs: finished records in chunks, as `docs/log-format.md` describes every byte.
//!
//! ```text
//! 0      magic number, MAGIC
//! 8      kind
//! 12     bytes of the body
//! 16     stream: one process that writes; 0 for a line
//! 24     CRC-32 (IEEE 802.3) of bytes 8 to 24 and of the body
//! 28     0
//! 32     body
//! ```
//! All numbers are little-endian. A file is nothing but chunks, of any number of processes, in the order in which they were written.
//!
//! Rows keep the ticks of the clocks and the lines that convert them: the [`Reader`] does with them what a process does that writes CSV.

mod chunks;
mod pack;
mod read;
mod text;

pub use pack::{Packer, Room, Source};
pub use read::{Found, Reader};
pub use text::{print, say};

use memchr::memmem;

use crate::columns::Late;

/// How each chunk begins, and with that each file.
pub const MAGIC: [u8; 8] = *b"LDROWS\r\n";
/// Readers refuse a stream of another major version.
pub const MAJOR: u16 = 1;
/// Higher for each addition that readers of this major version skip.
pub const MINOR: u16 = 0;

/// Bytes of a chunk before its body.
pub(crate) const HEAD: usize = 32;
/// No body is longer: a chunk that says so is damaged.
const MOST_BODY: usize = 1 << 26;
/// Bytes of the body of rows before the first row.
const ROWS_HEAD: usize = 88;
/// Bytes of a row.
const ROW: usize = 40;
/// Bytes of a subject: what rows have in common.
const SUBJECT: usize = 40;
/// Of rows that recovery wrote: how many rows the process had written before is not known.
const UNCOUNTED: u64 = u64::MAX;

/// What a chunk has. Readers skip numbers that they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// A process begins to write.
    Begin = 1,
    /// Kernels, copies and markers, by the numbers that subjects have.
    Kernels = 2,
    /// Finished records of one queue.
    Rows = 3,
    /// A line that is no row, as a log in JSON has it.
    Line = 4,
    /// What stands before it is the beginning of a chunk that its process gave up: its rows are in the account, or written again.
    Mend = 5,
}

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        [Kind::Begin, Kind::Kernels, Kind::Rows, Kind::Line, Kind::Mend].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Appends the head of a chunk, which [`complete`] fills. Returns where it begins.
fn open(to: &mut Vec<u8>, kind: Kind, stream: u64) -> usize {
    let start = to.len();
    to.extend_from_slice(&MAGIC);
    to.extend_from_slice(&(kind as u32).to_le_bytes());
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(&stream.to_le_bytes());
    to.extend_from_slice(&[0; 8]);
    start
}

/// Says in the head of the last chunk how long it is, and its checksum.
pub(crate) fn complete(to: &mut [u8], start: usize) {
    let Some(chunk) = to.get_mut(start..).filter(|chunk| chunk.len() >= HEAD) else { return };
    let length = (chunk.len() - HEAD) as u32;
    chunk[12..16].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(chunk);
    chunk[24..28].copy_from_slice(&sum.to_le_bytes());
}

/// Of a whole chunk.
fn checksum(chunk: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(chunk.get(8..24).unwrap_or_default());
    sum.update(chunk.get(HEAD..).unwrap_or_default());
    sum.finalize()
}

/// A chunk in one piece.
fn whole(to: &mut Vec<u8>, kind: Kind, stream: u64, body: &[u8]) {
    let start = open(to, kind, stream);
    to.extend_from_slice(body);
    complete(to, start);
}

/// Appends the head of a chunk for a line that is no row. Its text follows, and then [`complete`].
pub(crate) fn open_line(to: &mut Vec<u8>) -> usize {
    open(to, Kind::Line, 0)
}

/// Says that what stands before it was given up.
pub fn mend(to: &mut Vec<u8>) {
    whole(to, Kind::Mend, 0, &[]);
}

/// True where a chunk may begin, or behind the last one.
pub fn begins_at(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.is_empty() || rest.starts_with(&MAGIC))
}

/// How many of the first bytes are whole chunks, at most `size` if the first one allows. They may begin with the rest of a chunk.
pub fn piece(bytes: &[u8], size: usize) -> usize {
    let mut end = 0;
    while let Some(rest) = bytes.get(end..).filter(|rest| !rest.is_empty()) {
        let length = match rest.get(12..16).and_then(|length| length.first_chunk()) {
            Some(length) if rest.starts_with(&MAGIC) => HEAD.saturating_add(u32::from_le_bytes(*length) as usize),
            _ => memmem::find(rest.get(1..).unwrap_or_default(), &MAGIC).map_or(rest.len(), |at| at + 1),
        };
        let next = end.saturating_add(length).min(bytes.len());
        if end > 0 && next > size {
            break;
        }
        end = next;
    }
    end
}

/// [`Late`] as rows have it.
fn late_number(late: Option<Late>) -> u8 {
    match late {
        None => 0,
        Some(Late::TimesLost) => 1,
        Some(Late::InFlight) => 2,
    }
}

fn late_of(number: u8) -> Option<Late> {
    match number {
        1 => Some(Late::TimesLost),
        2 => Some(Late::InFlight),
        _ => None,
    }
}
