//! Chunks: pieces of memory that end where an address is a multiple of [`CHUNK`].

use crate::header::CHUNK;
use crate::id::Id;

/// The address at which the chunk that holds an address ends, at the latest.
pub(crate) fn boundary(address: u64) -> u64 {
    // The last chunk of all ends at the last address: one that cannot be captured.
    (address | (CHUNK - 1)).saturating_add(1)
}

/// How many chunks there are from an address to another.
pub(crate) fn count(start: u64, end: u64) -> usize {
    if end <= start { 0 } else { ((end - 1) / CHUNK - start / CHUNK + 1) as usize }
}

/// The eight bytes that a piece of memory repeats, the first being that of addresses that are a multiple of 8.
pub(crate) fn fill(bytes: &[u8], address: u64) -> Option<u64> {
    let (early, late) = (bytes.get(..bytes.len().saturating_sub(8))?, bytes.get(8..).unwrap_or_default());
    if early != late {
        return None;
    }
    let mut pattern = [0; 8];
    for (i, byte) in bytes.iter().take(8).enumerate() {
        if let Some(to) = pattern.get_mut(((address % 8) as usize + i) % 8) {
            *to = *byte;
        }
    }
    Some(u64::from_le_bytes(pattern))
}

/// Writes what memory has that is filled with a pattern.
pub(crate) fn write_fill(pattern: u64, address: u64, to: &mut [u8]) {
    let bytes = pattern.rotate_right((address % 8) as u32 * 8).to_le_bytes();
    for piece in to.chunks_mut(8) {
        if let Some(from) = bytes.get(..piece.len()) {
            piece.copy_from_slice(from);
        }
    }
}

/// What is in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Eight bytes, over and over: see [`fill`].
    Fill(u64),
    /// Other bytes, by their hash.
    Bytes(Id),
}

/// Cuts memory from an address on into chunks, each with its address.
pub(crate) fn cut(mut bytes: &[u8], mut address: u64) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let at = address;
        let length = (boundary(at) - at).min(bytes.len() as u64);
        let (chunk, rest) = bytes.split_at_checked(length as usize).unwrap_or((bytes, &[]));
        bytes = rest;
        address = at.saturating_add(length);
        Some((at, chunk))
    })
}

/// What the writer remembers of a chunk instead of its bytes: half of a hash, or its pattern. One bit says which, so that the two are never
/// equal. Contents in the file have half of their id, which no two contents share; memory has its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u8; 16]);

impl Key {
    pub(crate) fn of_id(id: &Id) -> Key {
        Key::of_hash(&id.0)
    }

    /// Half of a hash.
    pub(crate) fn of_hash(hash: &[u8; 32]) -> Key {
        let [low @ .., last] = crate::header::array::<16>(hash, 0);
        let mut key = [0; 16];
        key[..15].copy_from_slice(&low);
        key[15] = last & 0xfe;
        Key(key)
    }

    pub(crate) fn of_fill(pattern: u64) -> Key {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&pattern.to_le_bytes());
        key[15] = 1;
        Key(key)
    }

    /// Some of its bits, as a number.
    pub(crate) fn hash(&self) -> u64 {
        u64::from_le_bytes(crate::header::array(&self.0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_at_any_address_and_writes_the_same_bytes() {
        for address in [0, 3, 0x1_0005, 0xffff] {
            for length in [0, 1, 7, 8, 9, 30, 100] {
                let bytes: Vec<u8> = (0..length).map(|i| [1, 2, 3, 4, 5, 6, 7, 8][i % 8]).collect();
                let pattern = fill(&bytes, address).unwrap();
                let mut again = vec![0; length];
                write_fill(pattern, address, &mut again);
                assert_eq!(again, bytes, "{length} at {address}");
                // From the middle of it as well.
                if length > 11 {
                    write_fill(pattern, address + 11, &mut again[11..]);
                    assert_eq!(again, bytes);
                }
            }
        }
        assert_eq!(fill(&[0; 4096], 5), Some(0));
        let mut bytes = [7; 4096];
        bytes[4095] = 8;
        assert_eq!(fill(&bytes, 0), None);
    }

    #[test]
    fn chunks_are_counted_by_the_boundaries_between_them() {
        assert_eq!(count(5, 5), 0);
        assert_eq!(count(0, CHUNK), 1);
        assert_eq!(count(CHUNK - 1, CHUNK + 1), 2);
        assert_eq!(count(10, 3 * CHUNK), 3);
        assert_eq!((boundary(0), boundary(CHUNK - 1), boundary(CHUNK)), (CHUNK, CHUNK, 2 * CHUNK));
    }
}
