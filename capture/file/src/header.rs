//! The first bytes of a file.

use crate::error::CaptureError;

/// The first eight bytes: a transfer that changes line ends or cuts bit 7 changes them.
pub const CAPTURE_MAGIC: [u8; 8] = *b"LDCAP\r\n\x1a";
/// A reader takes files of its own major version, of any minor.
pub const MAJOR: u16 = 1;
/// Goes up when fields, optional frames, or anything else is added that older readers may ignore.
pub const MINOR: u16 = 10;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
/// Memory is cut where addresses are multiples of this.
pub const CHUNK: u64 = 64 * 1024;
/// What a reader's comparison of snapshots is rounded to.
pub const PAGE: u64 = 4096;
/// A feature without which a file cannot be read: contents are in a store.
pub(crate) const SHARES: u64 = 1;
/// The features that this version has.
const KNOWN_FEATURES: u64 = SHARES;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the format.
    pub version: (u16, u16),
    /// A number that no other file has.
    pub uuid: [u8; 16],
    /// When the file was made, in ns since 1970.
    pub created_ns: u64,
    /// Features that a reader must know.
    pub required: u64,
    /// Features that a reader may ignore.
    pub optional: u64,
    /// Bytes before the first frame.
    pub bytes: u32,
}

impl Header {
    /// True for a capture whose contents are in a store.
    pub fn is_shared(&self) -> bool {
        self.required & SHARES != 0
    }

    pub(crate) fn new(uuid: [u8; 16], created_ns: u64) -> Header {
        Header { version: (MAJOR, MINOR), uuid, created_ns, required: 0, optional: 0, bytes: HEADER_BYTES as u32 }
    }

    /// What frames of this file carry, so that those of another are not taken for its own.
    pub(crate) fn tag(&self) -> u32 {
        let [a, b, c, d, ..] = self.uuid;
        u32::from_le_bytes([a, b, c, d])
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&CAPTURE_MAGIC);
        out.extend_from_slice(&self.version.0.to_le_bytes());
        out.extend_from_slice(&self.version.1.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.required.to_le_bytes());
        out.extend_from_slice(&self.optional.to_le_bytes());
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&(CHUNK as u32).to_le_bytes());
        out.extend_from_slice(&(PAGE as u32).to_le_bytes());
        out.extend_from_slice(&self.created_ns.to_le_bytes());
        out.resize(HEADER_BYTES - 4, 0);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, CaptureError> {
        let u16_at = |at: usize| u16::from_le_bytes(array(bytes, at));
        let u32_at = |at: usize| u32::from_le_bytes(array(bytes, at));
        let u64_at = |at: usize| u64::from_le_bytes(array(bytes, at));
        if array::<8>(bytes, 0) != CAPTURE_MAGIC {
            return Err(CaptureError::damaged(
                0,
                "a capture file, which begins with LDCAP",
                format!("\"{}\"", array::<8>(bytes, 0).escape_ascii()),
            ));
        }
        // Before the checksum, which another major version may have elsewhere.
        if u16_at(8) != MAJOR {
            let what = format!("version {}.{} of the format, this reader has {MAJOR}.{MINOR}", u16_at(8), u16_at(10));
            return Err(CaptureError::Newer { offset: 8, what });
        }
        let (said, is) = (u32_at(HEADER_BYTES - 4), crc32fast::hash(bytes.get(..HEADER_BYTES - 4).unwrap_or_default()));
        if said != is {
            return Err(CaptureError::damaged(
                124,
                format!("the header's checksum {is:#010x}"),
                format!("{said:#010x}"),
            ));
        }
        let header = Header {
            version: (u16_at(8), u16_at(10)),
            bytes: u32_at(12),
            required: u64_at(16),
            optional: u64_at(24),
            uuid: array(bytes, 32),
            created_ns: u64_at(56),
        };
        let unknown = header.required & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(CaptureError::Newer {
                offset: 16,
                what: format!("features {unknown:#x}, which have to be known"),
            });
        }
        if u64::from(header.bytes) < HEADER_BYTES as u64 || !header.bytes.is_multiple_of(8) {
            let expected = format!("a header of {HEADER_BYTES} bytes or more, a multiple of 8");
            return Err(CaptureError::damaged(12, expected, header.bytes.to_string()));
        }
        for (at, expected) in [(48, CHUNK), (52, PAGE)] {
            if u64::from(u32_at(at)) != expected {
                return Err(CaptureError::damaged(at as u64, expected.to_string(), u32_at(at).to_string()));
            }
        }
        Ok(header)
    }

    /// What a damaged header was. If one byte is another, the checksum says which. Otherwise the tag of the file's frames and what all
    /// files of this version have are enough to read it; `tag` is `None` where no frame is known, or the header has to be exact.
    pub(crate) fn recovered(bytes: &[u8; HEADER_BYTES], tag: Option<u32>) -> Option<Header> {
        let is_of_frames = |header: &Header| tag.is_none_or(|tag| header.tag() == tag);
        // 0 of a header whose checksum is right: what is wrong with it was written so.
        let syndrome = |bytes: &[u8; HEADER_BYTES]| {
            let (body, said) = bytes.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
            crc32fast::hash(body) ^ u32::from_le_bytes(*said)
        };
        let wrong = Some(syndrome(bytes)).filter(|wrong| *wrong != 0)?;
        let changed = |at: usize, by: u8| {
            let mut changed = *bytes;
            *changed.get_mut(at)? ^= by;
            Some(changed)
        };
        for at in 0..HEADER_BYTES {
            // What each bit of the byte does to the syndrome; that of several bits is the sum without carry.
            let mut bits = [0; 8];
            for (bit, to) in bits.iter_mut().enumerate() {
                *to = syndrome(&changed(at, 1 << bit)?) ^ wrong;
            }
            for by in 1..=u8::MAX {
                let set = bits.iter().enumerate().filter(|(bit, _)| by & 1 << bit != 0);
                let sum = set.fold(0, |sum, (_, bit)| sum ^ bit);
                if sum == wrong
                    && let Some(header) = Header::parse(&changed(at, by)?).ok().filter(is_of_frames)
                {
                    return Some(header);
                }
            }
        }
        let mut uuid = [0; 16];
        *uuid.first_chunk_mut()? = tag?.to_le_bytes();
        Some(Header::new(uuid, 0))
    }
}

/// Some bytes from a place; zeros where there are none.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(from) = bytes.get(at..).and_then(|rest| rest.get(..N)) {
        out.copy_from_slice(from);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_every_flipped_bit_is_seen() {
        let header = Header::new([7; 16], 99);
        let bytes: [u8; HEADER_BYTES] = header.to_bytes().try_into().unwrap();
        assert_eq!(Header::parse(&bytes).unwrap(), header);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_header_with_another_byte_is_read_as_it_was_and_a_worse_one_by_the_tag_of_the_frames() {
        let header = Header::new([7; 16], 99);
        let whole: [u8; HEADER_BYTES] = header.to_bytes().try_into().unwrap();
        for at in 0..HEADER_BYTES {
            let mut bytes = whole;
            bytes[at] ^= 0x41;
            assert_eq!(Header::recovered(&bytes, Some(header.tag())), Some(header), "byte {at}");
        }
        let mut bytes = whole;
        bytes[20..60].fill(0x55);
        let read = Header::recovered(&bytes, Some(header.tag())).unwrap();
        assert_eq!((read.tag(), read.bytes, read.created_ns), (header.tag(), 128, 0));
        assert_eq!(Header::recovered(&bytes, None), None);
    }

    #[test]
    fn another_major_version_is_named_and_a_later_minor_is_taken() {
        let mut header = Header { version: (2, 0), ..Header::new([0; 16], 0) };
        let parse = |h: Header| Header::parse(&h.to_bytes().try_into().unwrap());
        let text = parse(header).unwrap_err().to_string();
        assert!(text.contains("version 2.0") && text.contains("newer reader"), "{text}");
        header.version = (MAJOR, 40);
        assert_eq!(parse(header).unwrap().version, (MAJOR, 40));
        header.optional = u64::MAX;
        assert!(parse(header).is_ok());
        header.required = 1 << 9;
        assert!(parse(header).unwrap_err().to_string().contains("0x200"));
    }
}
