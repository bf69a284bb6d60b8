//! Extents: they map addresses to contents.

use crate::error::CaptureError;
use crate::frame::MAX_BODY;
use crate::header::array;

/// Bytes of an extent in a file.
pub(crate) const EXTENT: usize = 32;

/// What is at some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// No memory any more: the snapshot lacks the parent's memory at these addresses.
    Dropped,
    /// Chunks of a pack, one after the other. `start` is where the first one begins.
    Chunks {
        /// The offset of the pack's frame.
        pack: u64,
        /// Of the first chunk, in the pack.
        first: u32,
        /// The address of the first chunk's first byte.
        start: u64,
    },
    /// Eight bytes, over and over; the first is that of addresses that are a multiple of 8.
    Fill(u64),
}

impl What {
    fn number(self) -> u8 {
        match self {
            What::Dropped => 0,
            What::Chunks { .. } => 1,
            What::Fill(_) => 2,
        }
    }
}

/// What is at some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) what: What,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.length)
    }

    /// Merges the following extent, if one can express both.
    pub(crate) fn join(&mut self, next: &Extent) -> bool {
        let fits = match (self.what, next.what) {
            (What::Dropped, What::Dropped) => true,
            (What::Fill(a), What::Fill(b)) => a == b,
            // The chunks that lie between are those that boundaries make, so that their places follow from addresses.
            (What::Chunks { pack, first, start }, What::Chunks { pack: other, first: next_first, .. }) => {
                let whole = next.address.is_multiple_of(crate::CHUNK);
                let follows = u64::from(first) + crate::chunk::count(start, self.end()) as u64 == u64::from(next_first);
                whole && pack == other && follows
            }
            _ => false,
        };
        let joins = fits && self.end() == next.address;
        if joins {
            self.length += next.length;
        }
        joins
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (word, first) = match self.what {
            What::Dropped => (0, 0),
            What::Chunks { pack, first, .. } => (pack, first),
            What::Fill(pattern) => (pattern, 0),
        };
        out.extend_from_slice(&self.address.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&word.to_le_bytes());
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&[self.what.number(), 0, 0, 0]);
    }

    /// Reads extents; `offset` is the frame's.
    pub(crate) fn parse(bytes: &[u8], offset: u64) -> Result<Vec<Extent>, CaptureError> {
        let (all, rest) = bytes.as_chunks::<EXTENT>();
        if !rest.is_empty() {
            let expected = format!("extents of {EXTENT} bytes each");
            return Err(CaptureError::damaged(offset, expected, format!("{} bytes", bytes.len())));
        }
        all.iter().map(|bytes| Extent::parse_one(bytes, offset)).collect()
    }

    fn parse_one(bytes: &[u8; EXTENT], offset: u64) -> Result<Extent, CaptureError> {
        let u64_at = |at| u64::from_le_bytes(array(bytes, at));
        let (address, length, word) = (u64_at(0), u64_at(8), u64_at(16));
        let what = match array::<4>(bytes, 28) {
            [0, 0, 0, 0] => What::Dropped,
            [1, 0, 0, 0] => What::Chunks { pack: word, first: u32::from_le_bytes(array(bytes, 24)), start: address },
            [2, 0, 0, 0] => What::Fill(word),
            other => return Err(CaptureError::damaged(offset, "an extent of kind 0, 1 or 2", format!("{other:?}"))),
        };
        if length == 0 || address.checked_add(length).is_none() {
            return Err(CaptureError::damaged(
                offset,
                "an extent that ends before the last address",
                format!("{length} bytes at {address:#x}"),
            ));
        }
        // Chunks are in one pack, which no more go into.
        if matches!(what, What::Chunks { .. }) && length > MAX_BODY {
            return Err(CaptureError::damaged(
                offset,
                format!("an extent of at most {MAX_BODY} bytes of a pack"),
                length.to_string(),
            ));
        }
        Ok(Extent { address, length, what })
    }
}
