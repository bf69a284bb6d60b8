//! Many pairs of numbers in little memory: in ascending order of the first numbers, which are near each other.

use prost::bytes::Buf;
use prost::encoding::{decode_varint, encode_varint};

/// Pairs in ascending order of their first numbers. Each is the distance from the one before and the second number, both of as
/// many bytes as they need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    last: u64,
}

impl Pairs {
    /// Adds a pair. `first` is at least that of the last pair.
    pub(crate) fn push(&mut self, first: u64, second: u64) {
        encode_varint(first.wrapping_sub(self.last), &mut self.bytes);
        encode_varint(second, &mut self.bytes);
        self.last = first;
    }

    /// Gives back memory that is reserved for more.
    pub(crate) fn end(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let (mut bytes, mut last) = (&self.bytes[..], 0u64);
        std::iter::from_fn(move || {
            if !bytes.has_remaining() {
                return None;
            }
            last = last.wrapping_add(decode_varint(&mut bytes).ok()?);
            Some((last, decode_varint(&mut bytes).ok()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_as_they_were_added_and_near_ones_take_few_bytes() {
        let all = [(0, 1), (0, u64::MAX), (5, 0), (1 << 40, 3), (u64::MAX, u64::MAX)];
        let mut pairs = Pairs::default();
        all.iter().for_each(|&(first, second)| pairs.push(first, second));
        assert_eq!(pairs.iter().collect::<Vec<_>>(), all);
        let mut near = Pairs::default();
        (0..1000).for_each(|n| near.push((1 << 60) + n * 100, 90));
        assert!(near.bytes.len() < 2020, "{}", near.bytes.len());
    }
}
