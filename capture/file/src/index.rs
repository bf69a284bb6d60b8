//! Where the frames of a file are, packs left out: those are found through extents.
//!
//! ```text
//! previous        u64: the offset of the index frame before, 0 when there is none
//! entries         offset u64, type u16, 0 u16, 0 u32: in the order of the file
//! trailer         of the footer only: number of frames u64, offset of the footer u64, "LDCAPEND"
//! ```

use crate::error::CaptureError;
use crate::header::array;

/// The last bytes of a file that was finished.
pub(crate) const END_MAGIC: [u8; 8] = *b"LDCAPEND";
/// Bytes of the trailer.
pub(crate) const TRAILER: usize = 24;
/// Entries after which an index is written, so that the writer's memory is bounded.
const MOST: usize = 64 * 1024;
const ENTRY: usize = 16;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) kind: u16,
}

/// The entries that are not in the file yet.
#[derive(Debug)]
pub(crate) struct Builder {
    previous: u64,
    entries: Vec<Entry>,
}

/// The offset of the index before, and the entries since.
#[derive(Debug)]
pub(crate) struct Due {
    previous: u64,
    entries: Vec<Entry>,
}

impl Builder {
    pub(crate) fn new(entries: Vec<Entry>) -> Builder {
        Builder { previous: 0, entries }
    }

    pub(crate) fn push(&mut self, offset: u64, kind: u16) {
        self.entries.push(Entry { offset, kind });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= MOST
    }

    /// Those that an index has to have which is written now. They stay until it is: a write can fail.
    pub(crate) fn due(&self) -> Due {
        Due { previous: self.previous, entries: self.entries.clone() }
    }

    /// The entries so far are in the index at an offset.
    pub(crate) fn follow(&mut self, offset: u64) {
        self.previous = offset;
        self.entries.clear();
    }
}

impl Due {
    /// Writes an index.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.previous.to_le_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&entry.offset.to_le_bytes());
            out.extend_from_slice(&entry.kind.to_le_bytes());
            out.extend_from_slice(&[0; 6]);
        }
    }

    /// Writes the footer at an offset, of a file with this number of frames, the footer included.
    pub(crate) fn put_footer(&self, frames: u64, offset: u64, out: &mut Vec<u8>) {
        self.put(out);
        out.extend_from_slice(&frames.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&END_MAGIC);
    }
}

/// Reads an index, without the trailer: the offset of the one before, and the entries. `offset` is the frame's.
pub(crate) fn parse(body: &[u8], offset: u64) -> Result<(u64, Vec<Entry>), CaptureError> {
    let Some((previous, rest)) = body.split_first_chunk::<8>() else {
        return Err(CaptureError::damaged(offset, "an index", format!("{} bytes", body.len())));
    };
    let (rows, rest) = rest.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        let expected = format!("an index with entries of {ENTRY} bytes");
        return Err(CaptureError::damaged(offset, expected, format!("{} bytes", body.len())));
    }
    let entry = |row: &[u8; ENTRY]| Entry {
        offset: u64::from_le_bytes(array(row, 0)),
        kind: u16::from_le_bytes(array(row, 8)),
    };
    Ok((u64::from_le_bytes(*previous), rows.iter().map(entry).collect()))
}

/// Number of frames and offset of the footer, from the last bytes of a file; `None` when it has no footer.
pub(crate) fn trailer(bytes: &[u8; TRAILER]) -> Option<(u64, u64)> {
    let (numbers, magic) = bytes.split_at(16);
    (*magic == END_MAGIC).then(|| (u64::from_le_bytes(array(numbers, 0)), u64::from_le_bytes(array(numbers, 8))))
}

/// Reads a footer: the number of frames, the offset of the index before, and the entries.
pub(crate) fn parse_footer(body: &[u8], offset: u64) -> Result<(u64, u64, Vec<Entry>), CaptureError> {
    let (rest, last) = body.split_last_chunk::<TRAILER>().unwrap_or((&[], &[0; TRAILER]));
    let Some((frames, at)) = trailer(last) else {
        return Err(CaptureError::damaged(offset, "a footer, which ends with LDCAPEND", format!("{last:02x?}")));
    };
    if at != offset {
        return Err(CaptureError::damaged(offset, format!("a footer that says its offset {offset}"), at.to_string()));
    }
    let (previous, entries) = parse(rest, offset)?;
    Ok((frames, previous, entries))
}
