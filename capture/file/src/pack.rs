//! Packs: contents, one after the other, with their ids.
//!
//! ```text
//! data            the chunks' bytes
//! table           for each chunk: length u32, id 32 bytes
//! count           u32
//! ```
//! A shared pack has the same, without the bytes of chunks that are in a store: bit 31 of their length is set.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::compress::{Compress, WORTH, lz4, zstd};
use crate::error::CaptureError;
use crate::frame::{Codec, HEAD, Seal, is_believed, kind};
use crate::header::{CHUNK, array};
use crate::id::Id;
use crate::store::{self, Store};

/// Bytes of chunks after which a pack is written.
pub(crate) const TARGET: usize = 1 << 20;
/// Bytes of a row of the table.
const ROW: usize = 36;
/// In a row of a shared pack: the chunk is in a store.
const IN_STORE: u32 = 1 << 31;

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
    /// Where its larger chunks go.
    store: Option<Arc<Store>>,
}

/// A pack as it is going to be stored.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The type of its frame.
    pub(crate) kind: u16,
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
        if self.is_empty() {
            // At once: a buffer that grows is copied.
            self.body.reserve(TARGET + TARGET / CHUNK as usize * ROW + size_of::<u32>());
        }
        self.body.extend_from_slice(bytes);
        self.table.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.table.extend_from_slice(&id.0);
        self.count += 1;
        self.count - 1
    }

    /// Ends the pack, and begins the next one.
    pub(crate) fn end(&mut self, compress: Compress, store: Option<Arc<Store>>) -> Filled {
        let first = u32::from_le_bytes(array(&self.table, 0)) as usize;
        self.body.extend_from_slice(&self.table);
        self.body.extend_from_slice(&self.count.to_le_bytes());
        self.table.clear();
        self.count = 0;
        let mut next = self.spare.pop().unwrap_or_default();
        next.resize(HEAD, 0);
        let body = std::mem::replace(&mut self.body, next);
        Filled { body, first, compress, packed: self.spare.pop().unwrap_or_default(), store }
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
    /// Puts chunks into the store, if there is one, compresses what is left, if that is worth it, and takes the checksum.
    ///
    /// # Errors
    /// When a chunk cannot be put into the store.
    pub(crate) fn store(self) -> io::Result<Stored> {
        let Filled { mut body, mut first, compress, mut packed, store } = self;
        let mut kind = kind::PACK;
        if let Some(store) = store {
            (kind, first) = share(&mut body, &store, compress, &mut packed)?;
        }
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
        Ok(Stored { kind, codec, raw: raw as u64, seal: Seal::put(&mut body), frame: body, spare: packed })
    }
}

/// Puts the larger chunks of a pack into a store, and takes them out of the pack; the type of its frame then, and the bytes of the
/// first chunk that is left.
fn share(body: &mut Vec<u8>, store: &Store, mut compress: Compress, packed: &mut Vec<u8>) -> io::Result<(u16, usize)> {
    let whole = Pack::parse(body.split_off(HEAD), 0, kind::PACK).map_err(io::Error::other)?;
    let (mut table, mut first) = (Vec::with_capacity(whole.chunks.len() * ROW), None);
    for chunk in &whole.chunks {
        let bytes = whole.bytes(chunk).unwrap_or_default();
        let mut length = chunk.length;
        if bytes.len() < store::LEAST {
            body.extend_from_slice(bytes);
            first = first.or(Some(bytes.len()));
        } else {
            length |= IN_STORE;
            if !store.put(&chunk.id, bytes, compress, packed)? && compress == Compress::Auto {
                // As for a pack: what the first one does not save, the others mostly do not either.
                compress = Compress::None;
            }
        }
        table.extend_from_slice(&length.to_le_bytes());
        table.extend_from_slice(&chunk.id.0);
    }
    let count = whole.chunks.len() as u32;
    let kept = body.len() - HEAD;
    body.extend_from_slice(&table);
    body.extend_from_slice(&count.to_le_bytes());
    Ok((if kept == whole.body.len() - table.len() - 4 { kind::PACK } else { kind::SHARED }, first.unwrap_or(0)))
}

/// A pack that was read.
#[derive(Debug)]
pub(crate) struct Pack {
    body: Vec<u8>,
    chunks: Vec<Chunk>,
}

/// A chunk of a pack.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Where it begins in the pack.
    start: u32,
    pub(crate) length: u32,
    pub(crate) id: Id,
    /// Its bytes, if they are in a store, once they were read.
    stored: Option<OnceLock<Vec<u8>>>,
}

impl Chunk {
    /// True for one that is in a store.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored.is_some()
    }
}

impl Pack {
    /// Reads the body of a pack; `offset` and `kind` are the frame's.
    pub(crate) fn parse(body: Vec<u8>, offset: u64, kind: u16) -> Result<Pack, CaptureError> {
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
            let (mut length, id) = (u32::from_le_bytes(array(row, 0)), Id(array(row, 4)));
            let is_stored = kind == kind::SHARED && length & IN_STORE != 0;
            if is_stored {
                length &= !IN_STORE;
                if u64::from(length) > CHUNK {
                    return Err(bad(format!("a chunk of {length} bytes in a store")));
                }
            }
            chunks.push(Chunk { start, length, id, stored: is_stored.then(OnceLock::new) });
            let here = if is_stored { 0 } else { length };
            start = start.checked_add(here).ok_or_else(|| bad("lengths that are too large".to_owned()))?;
        }
        if start as usize != data.len() {
            return Err(bad(format!("{start} bytes in the table, {} in the pack", data.len())));
        }
        Ok(Pack { body, chunks })
    }

    /// All chunks.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// A chunk.
    pub(crate) fn chunk(&self, number: u32) -> Option<&Chunk> {
        self.chunks.get(number as usize)
    }

    /// The bytes of a chunk, if they are in the pack.
    fn bytes(&self, chunk: &Chunk) -> Option<&[u8]> {
        self.body.get(chunk.start as usize..)?.get(..chunk.length as usize)
    }

    /// The bytes of a chunk of this pack; those of one in a store are asked for once.
    pub(crate) fn read<'p>(
        &'p self,
        chunk: &'p Chunk,
        fetch: impl FnOnce() -> Result<Vec<u8>, CaptureError>,
    ) -> Result<&'p [u8], CaptureError> {
        let Some(stored) = &chunk.stored else { return Ok(self.bytes(chunk).unwrap_or_default()) };
        match stored.get() {
            Some(bytes) => Ok(bytes),
            None => {
                let bytes = fetch()?;
                Ok(stored.get_or_init(|| bytes))
            }
        }
    }

    /// Where a chunk begins in the pack, if it is there.
    pub(crate) fn start(&self, number: u32) -> Option<u64> {
        self.chunk(number).filter(|chunk| !chunk.is_stored()).map(|chunk| chunk.start.into())
    }

    /// How many bytes a body with all of the chunks has.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.length) + ROW as u64).sum::<u64>() + 4
    }

    /// How many chunks there are.
    pub(crate) fn count(&self) -> u32 {
        self.chunks.len() as u32
    }
}
