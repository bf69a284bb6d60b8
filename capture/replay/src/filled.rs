//! Bytes that take the place of others in captured memory: each is another one than the application's kernel found and left there.

use std::collections::BTreeMap;

use crate::contents::pattern;

/// What makes the pattern another than that around captured memory.
pub(crate) const OTHER: u64 = 0x5a5a << 48;
/// The most bytes that are filled.
const MOST: u64 = 1 << 30;

/// Bytes that take the place of others, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filled(BTreeMap<u64, Vec<u8>>);

impl Filled {
    /// Adds bytes that differ from those before and after the application's kernel. Zero is no such byte: most memory is zeroed.
    pub(crate) fn add(&mut self, start: u64, before: &[u8], after: &[u8]) {
        let bytes = before.iter().zip(after).zip(start..).map(|((before, after), at)| {
            let first = pattern(at ^ OTHER);
            let mut all = (0..3).map(|n: u8| first.wrapping_add(2 * n));
            all.find(|byte| byte != before && byte != after).unwrap_or(first)
        });
        self.0.insert(start, bytes.collect());
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// True when no more are to be added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= MOST
    }

    /// Puts them over the memory from an address on.
    pub(crate) fn lay(&self, address: u64, to: &mut [u8]) {
        let end = address.saturating_add(to.len() as u64);
        let before = self.0.range(..address).next_back();
        for (start, bytes) in before.into_iter().chain(self.0.range(address..end)) {
            let (skipped, from) = (address.saturating_sub(*start) as usize, start.saturating_sub(address) as usize);
            let to = to.get_mut(from..).unwrap_or_default();
            to.iter_mut().zip(bytes.get(skipped..).unwrap_or_default()).for_each(|(to, byte)| *to = *byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_bytes_differ_from_those_before_and_after_and_lie_over_memory() {
        let mut filled = Filled::default();
        let before: Vec<u8> = (0..=255).collect();
        let after: Vec<u8> = (0x1000..0x1100u64).map(|at| pattern(at ^ OTHER)).collect();
        filled.add(0x1000, &before, &after);
        filled.add(0x2000, &[0; 4], &[0; 4]);
        let mut bytes = vec![7; 0x1010];
        filled.lay(0x0ff8, &mut bytes);
        assert!(bytes[..8].iter().all(|byte| *byte == 7) && bytes[0x108..0x1008].iter().all(|byte| *byte == 7));
        assert!(bytes[8..0x108].iter().zip(before.iter().zip(&after)).all(|(b, (x, y))| b != x && b != y && *b != 0));
        assert!(bytes[0x1008..0x100c].iter().all(|byte| *byte != 0) && bytes[0x100c..] == [7; 4]);
        let mut inner = [0; 4];
        filled.lay(0x10fe, &mut inner);
        assert_eq!(inner, [bytes[0x106], bytes[0x107], 0, 0]);
        assert_eq!(filled.bytes(), 260);
    }
}
