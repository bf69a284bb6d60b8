//! Frames: a file consists of them after its header. A frame is a head with its own checksum, and a body whose checksum the head has.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

use crate::error::CaptureError;
use crate::header::array;

/// Bytes of a frame's head.
pub(crate) const HEAD: usize = 48;
/// The first four bytes of a frame.
pub(crate) const MAGIC: [u8; 4] = *b"LDFR";
/// The most bytes that the body of a frame has, stored or not. No reader needs more memory for one.
pub const MAX_BODY: u64 = 64 << 20;

/// Frames that are not records. Those are numbered from 16 in [`crate::records`].
pub(crate) mod kind {
    /// Nothing: what a repair took out.
    pub(crate) const PADDING: u16 = 1;
    /// Contents of memory.
    pub(crate) const PACK: u16 = 2;
    /// Where the contents of a snapshot are.
    pub(crate) const EXTENTS: u16 = 3;
    /// Where the frames of a part of the file are.
    pub(crate) const INDEX: u16 = 4;
    /// Where the frames of the rest of the file are: the last frame.
    pub(crate) const FOOTER: u16 = 5;
    /// Contents of memory, some of which are in a store.
    pub(crate) const SHARED: u16 = 6;
    /// A chunk: of a store's files, in no capture.
    pub(crate) const CHUNK: u16 = 7;

    /// True for what holds contents.
    pub(crate) fn is_pack(kind: u16) -> bool {
        matches!(kind, PACK | SHARED)
    }

    /// True for what an index names.
    pub(crate) fn is_indexed(kind: u16) -> bool {
        !matches!(kind, PADDING | PACK | SHARED | INDEX | FOOTER)
    }
}

/// Frames that are not records: type, name, what they are, for the documentation.
pub(crate) const STRUCTURAL: &[(u16, &str, &str)] = &[
    (kind::PADDING, "Padding", "Nothing. What a repair took out is replaced by it."),
    (kind::PACK, "Pack", "Contents of memory and of code objects."),
    (kind::EXTENTS, "Extents", "Where the contents of a snapshot are."),
    (kind::INDEX, "Index", "Where the frames of a part of the file are."),
    (
        kind::FOOTER,
        "Footer",
        "Where the frames of the rest of the file are: the last frame of a file that was finished.",
    ),
    (kind::SHARED, "SharedPack", "Contents, the larger of which are in a store."),
    (kind::CHUNK, "Chunk", "One content. It is the only frame of a file of a store; no capture has it."),
];

/// Bits of a head's flags. Others are reserved, and zero.
pub(crate) mod flag {
    /// A reader that does not know the type of the frame may skip it.
    pub(crate) const OPTIONAL: u16 = 1;
    /// Everything up to the end of this frame is complete.
    pub(crate) const COMMIT: u16 = 2;
    pub(crate) const KNOWN: u16 = OPTIONAL | COMMIT;
}

/// How the body of a frame is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// As it is.
    Raw,
    /// One LZ4 block.
    Lz4,
    /// One zstd frame (RFC 8878).
    Zstd,
    /// A codec that this version does not know.
    Other(u8),
}

impl Codec {
    fn number(self) -> u8 {
        match self {
            Codec::Raw => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
            Codec::Other(number) => number,
        }
    }

    fn of(number: u8) -> Codec {
        match number {
            0 => Codec::Raw,
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            other => Codec::Other(other),
        }
    }
}

/// True if the decoded size is possible for the stored size: the bound is LZ4's highest compression ratio.
pub(crate) fn is_believed(raw: u64, stored: u64) -> bool {
    raw <= stored.saturating_mul(256).saturating_add(256)
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    /// Of the frame: 0, 1, 2, ….
    pub(crate) sequence: u64,
    /// Bytes of the body in the file.
    pub(crate) stored: u64,
    /// Bytes of the body, decoded.
    pub(crate) raw: u64,
    pub(crate) codec: Codec,
    /// Of the stored body and the zeros behind it.
    pub(crate) crc: u32,
}

/// Bytes after a body of some length, so that the next frame begins at a multiple of 8.
pub(crate) fn padding(stored: u64) -> u64 {
    stored.wrapping_neg() % 8
}

/// What a head says about its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    /// Bytes of the body.
    pub(crate) stored: u64,
    /// Of the body and the zeros behind it.
    pub(crate) crc: u32,
}

impl Seal {
    /// Puts zeros behind a body that follows the room for a head.
    pub(crate) fn put(frame: &mut Vec<u8>) -> Seal {
        let stored = frame.len().saturating_sub(HEAD) as u64;
        frame.resize(frame.len() + padding(stored) as usize, 0);
        Seal { stored, crc: crc32fast::hash(frame.get(HEAD..).unwrap_or_default()) }
    }
}

impl Head {
    /// Bytes of the whole frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        HEAD as u64 + self.stored + padding(self.stored)
    }

    pub(crate) fn to_bytes(self, tag: u32) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            if let Some(to) = out.get_mut(at..at + bytes.len()) {
                to.copy_from_slice(bytes);
            }
            at += bytes.len();
        };
        put(&MAGIC);
        put(&self.kind.to_le_bytes());
        put(&self.flags.to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.stored.to_le_bytes());
        put(&self.raw.to_le_bytes());
        put(&[self.codec.number(), 0, 0, 0]);
        put(&tag.to_le_bytes());
        put(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(out.get(..HEAD - 4).unwrap_or_default());
        if let Some(to) = out.last_chunk_mut() {
            *to = crc.to_le_bytes();
        }
        out
    }

    /// Reads a head. What is wrong with it is said with the offset of the frame.
    pub(crate) fn parse(bytes: &[u8; HEAD], tag: u32, offset: u64) -> Result<Head, CaptureError> {
        let u16_at = |at: usize| u16::from_le_bytes(array(bytes, at));
        let u32_at = |at: usize| u32::from_le_bytes(array(bytes, at));
        let u64_at = |at: usize| u64::from_le_bytes(array(bytes, at));
        if array::<4>(bytes, 0) != MAGIC {
            return Err(CaptureError::damaged(
                offset,
                "a frame, which begins with LDFR",
                format!("{:02x?}", array::<4>(bytes, 0)),
            ));
        }
        let (said, is) = (u32_at(HEAD - 4), crc32fast::hash(bytes.get(..HEAD - 4).unwrap_or_default()));
        if said != is {
            let expected = format!("a frame whose head has the checksum {is:#010x}");
            return Err(CaptureError::damaged(offset, expected, format!("{said:#010x}")));
        }
        if u32_at(36) != tag {
            return Err(CaptureError::damaged(
                offset,
                format!("a frame of this file, {tag:#010x}"),
                format!("one of {:#010x}", u32_at(36)),
            ));
        }
        let [codec, r0, r1, r2] = array::<4>(bytes, 32);
        let head = Head {
            kind: u16_at(4),
            flags: u16_at(6),
            sequence: u64_at(8),
            stored: u64_at(16),
            raw: u64_at(24),
            codec: Codec::of(codec),
            crc: u32_at(40),
        };
        if head.flags & !flag::KNOWN != 0 || [r0, r1, r2] != [0; 3] {
            return Err(CaptureError::Newer {
                offset,
                what: format!("a frame with flags {:#x}, reserved {:02x?}", head.flags, [r0, r1, r2]),
            });
        }
        if head.stored > MAX_BODY || head.raw > MAX_BODY || (head.codec == Codec::Raw && head.stored != head.raw) {
            let expected = format!("a body of at most {MAX_BODY} bytes, as long as stored if it is stored as it is");
            return Err(CaptureError::damaged(offset, expected, format!("{} bytes, {} stored", head.raw, head.stored)));
        }
        // Each of those before it has a head.
        if head.sequence > offset / HEAD as u64 {
            let expected = format!("a number of at most {}", offset / HEAD as u64);
            return Err(CaptureError::damaged(offset, expected, format!("frame number {}", head.sequence)));
        }
        // LZ4 makes at most 255 bytes of one: more is a claim that only costs memory.
        if !is_believed(head.raw, head.stored) {
            let expected = format!("at most {} bytes", head.stored * 256 + 256);
            return Err(CaptureError::damaged(offset, expected, format!("{} bytes from {}", head.raw, head.stored)));
        }
        Ok(head)
    }

    /// Checks the checksum of a body and the zeros behind it.
    pub(crate) fn expect(&self, crc: u32, offset: u64) -> Result<(), CaptureError> {
        if crc == self.crc {
            return Ok(());
        }
        let expected = format!("a frame whose body has the checksum {:#010x}", self.crc);
        Err(CaptureError::damaged(offset, expected, format!("{crc:#010x}")))
    }

    /// The decoded body from the bytes of the file behind the head: the stored body and its padding.
    pub(crate) fn body(&self, stored: Vec<u8>, offset: u64) -> Result<Vec<u8>, CaptureError> {
        self.expect(crc32fast::hash(&stored), offset)?;
        let mut stored = stored;
        stored.truncate(self.stored as usize);
        match self.codec {
            Codec::Raw => Ok(stored),
            Codec::Lz4 => {
                let expected = || format!("an LZ4 block of {} bytes", self.raw);
                // The length is not believed before the block fills it: the decoder writes no further.
                let mut body = vec![0; self.raw as usize];
                let length = lz4_flex::block::decompress_into(&stored, &mut body)
                    .map_err(|e| CaptureError::damaged(offset, expected(), e.to_string()))?;
                if length != body.len() {
                    return Err(CaptureError::damaged(offset, expected(), format!("one of {length}")));
                }
                Ok(body)
            }
            Codec::Zstd => {
                let expected = || format!("a zstd frame of {} bytes", self.raw);
                let damaged = |found: String| CaptureError::damaged(offset, expected(), found);
                let mut decoder =
                    StreamingDecoder::new(stored.as_slice()).map_err(|error| damaged(error.to_string()))?;
                let mut body = vec![0; self.raw as usize];
                decoder.read_exact(&mut body).map_err(|error| damaged(error.to_string()))?;
                match decoder.read(&mut [0]) {
                    Ok(0) => Ok(body),
                    Ok(_) => Err(damaged("a longer one".to_owned())),
                    Err(error) => Err(damaged(error.to_string())),
                }
            }
            Codec::Other(number) => {
                Err(CaptureError::Newer { offset, what: format!("a frame that is stored by codec {number}") })
            }
        }
    }
}
