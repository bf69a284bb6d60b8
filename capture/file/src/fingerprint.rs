//! Fingerprints of chunks: what tells unchanged memory, several times as fast as the hash that names contents.
//!
//! A fingerprint is made in two steps. Each [`BLOCK`] of a chunk gives two sums of [`NH`](https://www.rfc-editor.org/rfc/rfc4418), whose
//! keys are random numbers of this writer. Of these sums and the chunk's length, the fingerprint is the BLAKE3 hash. Two different blocks
//! have the same two sums with a chance of 2^-64, whatever their bytes are (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC: Fast and
//! Secure Message Authentication", Crypto 1999, theorem 2 for the second key, which is the first one shifted by one pair). The keys never
//! leave the process, so that no content can be made to fit them. Fingerprints are compared with each other only, and are not in the file.

use crate::chunk::{Content, Key, fill};
use crate::id::{Id, random};

/// Bytes that are summed with one key.
const BLOCK: usize = 4096;
/// Words of eight bytes in it.
const WORDS: usize = BLOCK / 8;
/// Sums that are made beside each other, in vectors where the processor has them.
const LANES: usize = 8;
/// Bytes of a row of lanes.
const ROW: usize = 8 * LANES;

/// The keys of a writer.
#[derive(Debug)]
pub(crate) struct Fingerprints {
    /// One for each word, and for the second sum those behind them.
    keys: Box<[u64; WORDS + LANES]>,
}

impl Fingerprints {
    /// With new keys.
    pub(crate) fn new() -> Fingerprints {
        let mut keys = Box::new([0; WORDS + LANES]);
        let mut random = blake3::Hasher::new().update(&random()).finalize_xof();
        for key in keys.iter_mut() {
            let mut bytes = [0; 8];
            random.fill(&mut bytes);
            *key = u64::from_le_bytes(bytes);
        }
        Fingerprints { keys }
    }

    /// Of a chunk.
    pub(crate) fn of(&self, chunk: &[u8]) -> Key {
        let mut hasher = blake3::Hasher::new();
        let mut all = Vec::with_capacity(8 + chunk.len().div_ceil(BLOCK) * 16);
        all.extend_from_slice(&(chunk.len() as u64).to_le_bytes());
        for block in chunk.chunks(BLOCK) {
            self.sums(block).iter().for_each(|sum| all.extend_from_slice(&sum.to_le_bytes()));
        }
        hasher.update(&all);
        Key::of_hash(hasher.finalize().as_bytes())
    }

    /// The two sums of a block. Behind the end of the last one are zeros: its chunk's length is part of the fingerprint.
    fn sums(&self, block: &[u8]) -> [u64; 2] {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature, which is all that the function asks for.
            return unsafe { sums_by_avx2(&self.keys, block) };
        }
        sums(&self.keys, block)
    }
}

/// A chunk of memory that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What is remembered of it: [`Key::of_fill`], or its fingerprint.
    pub(crate) key: Key,
    /// `None` if it has the key that was expected: then its content need not be named.
    pub(crate) content: Option<Content>,
}

impl Seen {
    /// Of a chunk at an address, where a chunk with a key may be expected.
    pub(crate) fn of(prints: &Fingerprints, chunk: &[u8], address: u64, expected: Option<Key>) -> Seen {
        if let Some(pattern) = fill(chunk, address) {
            return Seen { key: Key::of_fill(pattern), content: Some(Content::Fill(pattern)) };
        }
        let key = prints.of(chunk);
        Seen { key, content: (expected != Some(key)).then(|| Content::Bytes(Id::of(chunk))) }
    }
}

/// The same by vectors of 32 bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sums_by_avx2(keys: &[u64; WORDS + LANES], block: &[u8]) -> [u64; 2] {
    sums(keys, block)
}

#[inline(always)]
fn sums(keys: &[u64; WORDS + LANES], block: &[u8]) -> [u64; 2] {
    let (rows, rest) = block.as_chunks::<ROW>();
    let mut keys = keys.windows(LANES + 1).step_by(LANES);
    let mut lanes = [[0_u64; LANES]; 2];
    // In this order: `zip` does not take a key that has no row.
    for (row, keys) in rows.iter().zip(&mut keys) {
        add(&mut lanes, row, keys);
    }
    if let Some(keys) = keys.next().filter(|_| !rest.is_empty()) {
        let mut row = [0; ROW];
        row.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        add(&mut lanes, &row, keys);
    }
    lanes.map(|lanes| lanes.iter().fold(0, |sum: u64, lane| sum.wrapping_add(*lane)))
}

/// Adds the products of a row to two rows of sums. Each word is a pair of numbers of 32 bits, and so is its key.
#[inline(always)]
fn add([first, second]: &mut [[u64; LANES]; 2], row: &[u8; ROW], keys: &[u64]) {
    const LOW: u64 = u32::MAX as u64;
    let Some((keys, shifted)) = keys.first_chunk::<LANES>().zip(keys.last_chunk::<LANES>()) else { return };
    let lanes = first.iter_mut().zip(second).zip(keys.iter().zip(shifted));
    for (word, ((first, second), (key, shifted))) in row.as_chunks::<8>().0.iter().zip(lanes) {
        let word = u64::from_le_bytes(*word);
        let product = |key: &u64| (word.wrapping_add(*key) & LOW) * ((word >> 32).wrapping_add(*key >> 32) & LOW);
        *first = first.wrapping_add(product(key));
        *second = second.wrapping_add(product(shifted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum as RFC 4418 writes it, for one key.
    fn nh(keys: &[u64], block: &[u8]) -> u64 {
        let mut padded = block.to_vec();
        padded.resize(block.len().next_multiple_of(8), 0);
        let halves = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks(4).map(|half| u32::from_le_bytes(half.try_into().unwrap())).collect()
        };
        let key_bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let (words, keys) = (halves(&padded), halves(&key_bytes));
        let half = |n: usize| u64::from(words[n].wrapping_add(keys[n]));
        (0..words.len()).step_by(2).fold(0_u64, |sum, n| sum.wrapping_add(half(n) * half(n + 1)))
    }

    #[test]
    fn sums_of_a_block_are_those_of_the_rfc_by_any_instructions_for_any_length() {
        let prints = Fingerprints::new();
        let bytes: Vec<u8> = (0..BLOCK as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect();
        for length in (0..200).chain([1000, BLOCK - 1, BLOCK]) {
            let block = &bytes[..length];
            // Lanes behind the end of a row that is not whole are products of keys alone.
            let padded = [block, &vec![0; length.next_multiple_of(ROW) - length]].concat();
            let expected = [nh(&prints.keys[..], &padded), nh(&prints.keys[1..], &padded)];
            assert_eq!(prints.sums(block), expected, "{length} bytes");
            assert_eq!(sums(&prints.keys, block), expected, "{length} bytes");
        }
    }

    #[test]
    fn each_changed_bit_and_each_other_length_changes_the_fingerprint() {
        let prints = Fingerprints::new();
        let mut chunk: Vec<u8> = (0..3 * BLOCK as u32 / 2).map(|i| (i / 7) as u8).collect();
        let print = prints.of(&chunk);
        assert_eq!(prints.of(&chunk), print);
        for bit in 0..chunk.len() * 8 {
            chunk[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(prints.of(&chunk), print, "bit {bit}");
            chunk[bit / 8] ^= 1 << (bit % 8);
        }
        chunk.extend([0; 100]);
        let longer: Vec<Key> = (0..100).map(|n| prints.of(&chunk[..chunk.len() - n])).collect();
        assert!((1..100).all(|n| longer[n - 1] != longer[n] && longer[n] != print));
        // Blocks in another order are another chunk.
        let (a, b) = (vec![1; BLOCK], vec![2; BLOCK]);
        assert_ne!(prints.of(&[a.as_slice(), &b].concat()), prints.of(&[b, a].concat()));
        assert_ne!(Fingerprints::new().of(&chunk), prints.of(&chunk), "keys are random");
    }
}
