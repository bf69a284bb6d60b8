//! The decompressed contents of a bundle, as a stream.
//!
//! Sources: RFC 8878 for zstd's frames, RFC 1950 for zlib's.

use std::io::{self, Read};

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::error::{Result, Unreadable};
use crate::source::{self, Source};

/// How bytes are compressed. Source: LLVM's `Support/Compression.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Zlib,
    Zstd,
}

/// Bytes of a source, read in pieces.
struct SourceReader<'a> {
    source: &'a dyn Source,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    pos: usize,
    /// How many bytes are read at once: few at first, since often few are needed.
    step: u64,
}

impl SourceReader<'_> {
    fn fill(&mut self) -> io::Result<&[u8]> {
        if self.pos == self.buffer.len() {
            let length = self.step.min(self.end.saturating_sub(self.at));
            self.buffer.resize(length as usize, 0);
            self.source.read_at(self.at, &mut self.buffer)?;
            self.at += length;
            self.pos = 0;
            self.step = (self.step * 2).min(256 << 10);
        }
        Ok(self.buffer.get(self.pos..).unwrap_or_default())
    }
}

impl Read for SourceReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut from = self.fill()?;
        let count = from.read(to)?;
        self.pos += count;
        Ok(count)
    }
}

struct Zlib<'a> {
    piece: SourceReader<'a>,
    state: Box<InflateState>,
}

impl Read for Zlib<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let from = self.piece.fill()?;
            let at_end = from.is_empty();
            let result = inflate(&mut self.state, from, to, MZFlush::None);
            self.piece.pos += result.bytes_consumed;
            match result.status {
                _ if result.bytes_written > 0 || to.is_empty() => return Ok(result.bytes_written),
                Ok(MZStatus::StreamEnd) => return Ok(0),
                Ok(_) | Err(MZError::Buf) if !at_end => {}
                Ok(_) | Err(MZError::Buf) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return Err(io::Error::other(format!("zlib: {error:?}"))),
            }
        }
    }
}

enum Decoder<'a> {
    Zlib(Zlib<'a>),
    Zstd(Box<StreamingDecoder<SourceReader<'a>, FrameDecoder>>),
    /// Decompressed already.
    Bytes(io::Cursor<Vec<u8>>),
}

/// What a compressed bundle holds. Ends with an error, not silently, where it is longer than it should be.
pub(super) struct Unpacked<'a> {
    decoder: Decoder<'a>,
    position: u64,
    limit: u64,
}

impl<'a> Unpacked<'a> {
    /// Opens the compressed bytes from `start` to `end`, which hold `limit` bytes.
    ///
    /// # Errors
    /// When their header is damaged.
    pub(super) fn open(
        source: &'a dyn Source,
        method: Method,
        start: u64,
        end: u64,
        limit: u64,
    ) -> Result<Unpacked<'a>> {
        let piece = SourceReader { source, at: start, end, buffer: Vec::new(), pos: 0, step: PIECE };
        let decoder = match method {
            Method::Zlib => Decoder::Zlib(Zlib { piece, state: InflateState::new_boxed(DataFormat::Zlib) }),
            Method::Zstd => Decoder::Zstd(Box::new(StreamingDecoder::new(piece).map_err(|e| damaged(start, &e))?)),
        };
        Ok(Unpacked { decoder, position: 0, limit })
    }

    /// Like [`open`](Unpacked::open) for the first `limit` bytes alone.
    ///
    /// The decoder of zstd gives nothing before its window is full, which may be all there is: the first blocks are made
    /// a frame of their own for it.
    pub(super) fn open_first(
        source: &'a dyn Source,
        method: Method,
        start: u64,
        end: u64,
        limit: u64,
    ) -> Result<Unpacked<'a>> {
        if method == Method::Zlib {
            return Unpacked::open(source, method, start, end, limit);
        }
        let frame = Frame::read(source, start, end)?;
        let mut blocks = 1;
        loop {
            let (first, complete) = frame.first(source, blocks)?;
            let mut bytes = Vec::new();
            StreamingDecoder::new(first.as_slice())
                .map_err(|e| damaged(start, &e))?
                .read_to_end(&mut bytes)
                .map_err(|e| damaged(start, &e))?;
            if complete || bytes.len() as u64 >= limit {
                return Ok(Unpacked { decoder: Decoder::Bytes(io::Cursor::new(bytes)), position: 0, limit });
            }
            blocks *= 2;
            if blocks > MAX_FIRST {
                let what = "blocks of zstd before the end of a bundle's table";
                return Err(Unreadable::TooLarge { what, at: start, limit: MAX_FIRST, found: blocks });
            }
        }
    }

    /// How many bytes were read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.limit - self.position).unwrap_or(usize::MAX);
        let to = to.get_mut(..left.min(to.len())).unwrap_or_default();
        let count = match &mut self.decoder {
            Decoder::Zlib(zlib) => zlib.read(to),
            Decoder::Zstd(zstd) => zstd.read(to),
            Decoder::Bytes(bytes) => bytes.read(to),
        }?;
        self.position += count as u64;
        Ok(count)
    }
}

/// What is read of a source at first.
const PIECE: u64 = 4096;
/// The most that a block of zstd holds.
const BLOCK: u64 = 128 << 10;
/// So many blocks fit into the largest window that the decoder takes.
const MAX_FIRST: u64 = 1024;

fn damaged(at: u64, error: &dyn std::fmt::Display) -> Unreadable {
    Unreadable::unexpected("compressed data", at, "a frame of zstd", error.to_string())
}

/// A frame of zstd: where its blocks are.
struct Frame {
    /// Of the first block.
    at: u64,
    end: u64,
}

impl Frame {
    /// Reads a frame's header. Source: RFC 8878, section 3.1.1.1.
    fn read(source: &dyn Source, at: u64, end: u64) -> Result<Frame> {
        let start = source::read(source, "frame of zstd", at, end.saturating_sub(at).min(5))?;
        let [0x28, 0xb5, 0x2f, 0xfd, descriptor] = start[..] else {
            return Err(damaged(at, &format!("\"{}\"", start.escape_ascii())));
        };
        let single_segment = descriptor >> 5 & 1;
        let dictionary = match descriptor & 3 {
            3 => 4,
            size => u64::from(size),
        };
        let content = match descriptor >> 6 {
            0 => u64::from(single_segment),
            size => 1 << size,
        };
        let window = u64::from(1 - single_segment);
        Ok(Frame { at: at.saturating_add(5 + window + dictionary + content), end })
    }

    /// A frame of the first blocks, and whether those are all. Source: RFC 8878, section 3.1.1.2.
    fn first(&self, source: &dyn Source, blocks: u64) -> Result<(Vec<u8>, bool)> {
        // No checksum, no size; the window is the next power of two that all blocks fit in.
        let exponent = (blocks * BLOCK).next_power_of_two().trailing_zeros() as u8;
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (exponent - 10) << 3];
        let mut at = self.at;
        for number in 1..=blocks {
            let there = self.end.saturating_sub(at);
            if there < 3 {
                return Err(Unreadable::Short { what: "block of zstd", at, expected: 3, found: there });
            }
            let header = source::read(source, "block of zstd", at, 3)?;
            let word = header.iter().rev().fold(0, |n, &byte| n << 8 | u32::from(byte));
            let (last, kind, size) = (word & 1 == 1, word >> 1 & 3, u64::from(word >> 3));
            // A block of one byte repeated has only that.
            let length = if kind == 1 { 1 } else { size };
            if length > BLOCK || length > there - 3 {
                let found = (there - 3).min(BLOCK);
                return Err(Unreadable::Short { what: "block of zstd", at, expected: length, found });
            }
            let word = word | u32::from(last || number == blocks);
            frame.extend(word.to_le_bytes().get(..3).unwrap_or_default());
            frame.extend(source::read(source, "block of zstd", at + 3, length)?);
            at += 3 + length;
            if last {
                return Ok((frame, true));
            }
        }
        Ok((frame, false))
    }
}
