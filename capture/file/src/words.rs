//! Words of memory that may be addresses.

/// Bytes of an address.
pub const WORD: usize = 8;
/// Bytes in which addresses are looked for together.
const LOOKED_AT: usize = 1024;

/// Every word of some bytes, at any of them: structs may be packed.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.array_windows::<WORD>().map(|word| u64::from_le_bytes(*word))
}

/// The same of those that are in a range of addresses, in their order.
pub fn words_in(bytes: &[u8], (first, end): (u64, u64)) -> impl Iterator<Item = u64> {
    // A word in the range has an upper half between the bounds' upper halves, which is looked for in vectors.
    let (lowest, width) = ((first >> 32) as u32, (end >> 32).saturating_sub(first >> 32) as u32);
    let blocks = (0..bytes.len().saturating_sub(WORD - 1)).step_by(LOOKED_AT).filter_map(move |at| {
        let block = bytes.get(at..bytes.len().min(at + LOOKED_AT + WORD - 1))?;
        may_have(block.get(WORD / 2..)?, lowest, width).then_some(block)
    });
    blocks.flat_map(words).filter(move |word| (first..=end).contains(word))
}

/// True if one of the numbers of 32 bits at any of some bytes is `lowest`, or at most `width` higher.
fn may_have(bytes: &[u8], lowest: u32, width: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature, which is all that the function asks for.
        return unsafe { has_near_by_avx2(bytes, lowest, width) };
    }
    has_near(bytes, lowest, width)
}

/// The same by vectors of 32 bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn has_near_by_avx2(bytes: &[u8], lowest: u32, width: u32) -> bool {
    has_near(bytes, lowest, width)
}

#[inline(always)]
fn has_near(bytes: &[u8], lowest: u32, width: u32) -> bool {
    let is_near = |bytes: &[u8; 4]| u32::from(u32::from_le_bytes(*bytes).wrapping_sub(lowest) <= width);
    (0..4).any(|shift| {
        let numbers = bytes.get(shift..).unwrap_or_default().as_chunks::<4>().0;
        // Without an end before the last one: that is what vectors are made of.
        numbers.iter().fold(0, |any, number| any | is_near(number)) != 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_a_range_are_found_at_any_byte_and_in_their_order() {
        for (first, end) in [(0x7f00_1234_5000, 0x7f02_0000_0010), (0x10_0000, 0x20_0000), (0, u64::MAX), (5, 5)] {
            for length in (0..40).chain([LOOKED_AT - 1, LOOKED_AT, LOOKED_AT + 7, 2 * LOOKED_AT + 8, 5000]) {
                let mut bytes: Vec<u8> =
                    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
                let values = [first, end, first.wrapping_sub(1), end.wrapping_add(1), first / 2 + end / 2];
                for (n, value) in values.iter().cycle().take(length / 9).enumerate() {
                    // Each at another distance from the word before it, and across the ends of blocks.
                    let at = n * 9 + usize::from(n % 5 == 0);
                    if let Some(to) = bytes.get_mut(at..at + WORD) {
                        to.copy_from_slice(&value.to_le_bytes());
                    }
                }
                let expected: Vec<u64> = words(&bytes).filter(|word| (first..=end).contains(word)).collect();
                assert_eq!(
                    words_in(&bytes, (first, end)).collect::<Vec<_>>(),
                    expected,
                    "{length} bytes, {first:#x}..={end:#x}"
                );
            }
        }
    }
}
