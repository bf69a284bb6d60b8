//! Packs: contents, one after the other, with their ids.
//!
//! ```text
//! data            the chunks' bytes
//! table           for each chunk: length u32, id 32 bytes
//! count           u32
//! ```

use crate::error::CaptureError;
use crate::frame::{Codec, HEAD, Seal, is_believed};
use crate::header::array;
use crate::id::Id;

/// Bytes of chunks after which a pack is written.
pub(crate) const TARGET: usize = 1 << 20;
/// Bytes of a row of the table.
const ROW: usize = 36;
/// Less than this is not worth decoding: 1 part in 10.
const WORTH: usize = 10;

/// How contents are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compress {
    /// As they are.
    None,
    /// By LZ4 where the first chunk of a pack says that it saves a tenth.
    #[default]
    Auto,
    /// By LZ4 where the whole pack becomes smaller.
    Lz4,
    /// By zstd where the whole pack becomes smaller: smaller files than LZ4's, and slower.
    Zstd,
}

/// A pack that is being filled.
#[derive(Debug)]
pub(crate) struct Builder {
    /// Room for the frame's head, then the chunks.
    body: Vec<u8>,
    table: Vec<u8>,
    count: u32,
    /// Buffers of packs that were written.
    spare: Vec<Vec<u8>>,
}

/// A pack with all of its chunks.
#[derive(Debug)]
pub(crate) struct Filled {
    /// Room for the frame's head, then the pack.
    body: Vec<u8>,
    /// Bytes of its first chunk.
    first: usize,
    compress: Compress,
    /// A buffer to compress it into.
    packed: Vec<u8>,
}

/// A pack as it is going to be stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) codec: Codec,
    /// Bytes of the pack, decoded.
    pub(crate) raw: u64,
    /// Space for the frame's head, then the stored bytes.
    pub(crate) frame: Vec<u8>,
    pub(crate) seal: Seal,
    /// The other buffer.
    spare: Vec<u8>,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder { body: vec![0; HEAD], table: Vec::new(), count: 0, spare: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if a chunk of this size belongs into the next pack.
    pub(crate) fn is_full_for(&self, bytes: usize) -> bool {
        !self.is_empty() && self.body.len() - HEAD + bytes > TARGET
    }

    /// Adds a chunk; its number in the pack.
    pub(crate) fn push(&mut self, bytes: &[u8], id: &Id) -> u32 {
        self.body.extend_from_slice(bytes);
        self.table.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.table.extend_from_slice(&id.0);
        self.count += 1;
        self.count - 1
    }

    /// Ends the pack, and begins the next one.
    pub(crate) fn end(&mut self, compress: Compress) -> Filled {
        let first = u32::from_le_bytes(array(&self.table, 0)) as usize;
        self.body.extend_from_slice(&self.table);
        self.body.extend_from_slice(&self.count.to_le_bytes());
        self.table.clear();
        self.count = 0;
        let mut next = self.spare.pop().unwrap_or_default();
        next.resize(HEAD, 0);
        let body = std::mem::replace(&mut self.body, next);
        Filled { body, first, compress, packed: self.spare.pop().unwrap_or_default() }
    }

    /// Keeps the buffers of a pack that was written, for the next ones.
    pub(crate) fn reuse(&mut self, stored: Stored) {
        for buffer in [stored.frame, stored.spare] {
            // Two of the pack that is being filled and of each one before it, which there are not more of.
            self.spare.push(buffer);
        }
    }
}

impl Filled {
    /// Compresses the pack, if that is worth it, and takes the checksum.
    pub(crate) fn store(self) -> Stored {
        let Filled { mut body, first, compress, mut packed } = self;
        let pack = body.get(HEAD..).unwrap_or_default();
        let raw = pack.len();
        let enough = raw - raw / WORTH;
        let smaller = match compress {
            Compress::None => None,
            Compress::Auto => {
                // What the first chunk does not save, the others of its allocation mostly do not either.
                let probe = pack.get(..first).unwrap_or(pack);
                lz4(probe, &mut packed)
                    .filter(|n| *n <= probe.len() - probe.len() / WORTH)
                    .and_then(|_| lz4(pack, &mut packed).filter(|n| *n <= enough))
                    .map(|n| (Codec::Lz4, n))
            }
            Compress::Lz4 => lz4(pack, &mut packed).filter(|n| *n < raw).map(|n| (Codec::Lz4, n)),
            Compress::Zstd => {
                // A reader believes no more than what LZ4 could have saved.
                let n = zstd(pack, &mut packed);
                (n < raw && is_believed(raw as u64, n as u64)).then_some((Codec::Zstd, n))
            }
        };
        let codec = match smaller {
            Some((codec, length)) => {
                packed.truncate(HEAD + length);
                std::mem::swap(&mut body, &mut packed);
                codec
            }
            None => Codec::Raw,
        };
        Stored { codec, raw: raw as u64, seal: Seal::put(&mut body), frame: body, spare: packed }
    }
}

/// Packs bytes behind the room for a head; how many they are then.
fn lz4(bytes: &[u8], to: &mut Vec<u8>) -> Option<usize> {
    to.resize(HEAD + lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
    lz4_flex::block::compress_into(bytes, to.get_mut(HEAD..)?).ok()
}

/// The same as one frame of zstd.
fn zstd(bytes: &[u8], to: &mut Vec<u8>) -> usize {
    to.truncate(HEAD);
    to.resize(HEAD, 0);
    ruzstd::encoding::compress(bytes, &mut *to, ruzstd::encoding::CompressionLevel::Fastest);
    to.len() - HEAD
}

/// A pack that was read.
#[derive(Debug)]
pub(crate) struct Pack {
    body: Vec<u8>,
    chunks: Vec<Chunk>,
}

/// A chunk of a pack.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    start: u32,
    length: u32,
    id: Id,
}

impl Pack {
    /// Reads the body of a pack; `offset` is the frame's.
    pub(crate) fn parse(body: Vec<u8>, offset: u64) -> Result<Pack, CaptureError> {
        let bad =
            |found: String| CaptureError::damaged(offset, "a pack: chunks, their lengths and ids, their number", found);
        let Some((rest, count)) = body.split_last_chunk::<4>() else {
            return Err(bad(format!("{} bytes", body.len())));
        };
        let count = u32::from_le_bytes(*count) as usize;
        let table = count.checked_mul(ROW).and_then(|bytes| rest.len().checked_sub(bytes));
        let Some((data, table)) = table.and_then(|at| rest.split_at_checked(at)) else {
            return Err(bad(format!("{count} chunks in {} bytes", body.len())));
        };
        let mut start = 0_u32;
        let mut chunks = Vec::with_capacity(count);
        for row in table.as_chunks::<ROW>().0 {
            let length = u32::from_le_bytes(array(row, 0));
            chunks.push(Chunk { start, length, id: Id(array(row, 4)) });
            start = start.checked_add(length).ok_or_else(|| bad("lengths that are too large".to_owned()))?;
        }
        if start as usize != data.len() {
            return Err(bad(format!("{start} bytes in the table, {} in the pack", data.len())));
        }
        Ok(Pack { body, chunks })
    }

    /// A chunk's bytes and id.
    pub(crate) fn chunk(&self, number: u32) -> Option<(&[u8], Id)> {
        let chunk = self.chunks.get(number as usize)?;
        let bytes = self.body.get(chunk.start as usize..)?.get(..chunk.length as usize)?;
        Some((bytes, chunk.id))
    }

    /// Where a chunk begins in the pack.
    pub(crate) fn start(&self, number: u32) -> Option<u64> {
        self.chunks.get(number as usize).map(|chunk| chunk.start.into())
    }

    /// How many chunks there are.
    pub(crate) fn count(&self) -> u32 {
        self.chunks.len() as u32
    }
}
