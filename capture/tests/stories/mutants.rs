//! Files that nobody wrote like that: they are read or refused, and nothing panics.

use logdur_capture::{Compress, Options};

use crate::bed::{self, Numbers};
use crate::exercise::{exercise, seal};

#[test]
fn files_with_anything_changed_are_read_or_refused() {
    let mut numbers = Numbers(0x1234_5678);
    let options = |compress| Options { compress, ..bed::options(2) };
    let seeds = [
        bed::capture(&options(Compress::None), 2, 3000),
        bed::capture(&options(Compress::Lz4), 3, 9000),
        bed::capture(&options(Compress::Auto), 1, 70_000),
        bed::capture(&options(Compress::Zstd), 2, 9000),
    ];
    let (mut opened, mut whole) = (0, 0);
    let count = bed::count(20_000, 1_000_000);
    for _ in 0..count {
        let mut bytes = seeds[numbers.below(100).saturating_sub(96)].clone();
        for _ in 0..1 + numbers.below(4) {
            let at = numbers.below(bytes.len());
            let length = (1 << numbers.below(5)).min(bytes.len() - at);
            match numbers.below(5) {
                0 => bytes[at] ^= 1 << numbers.below(8),
                1 => bytes[at..at + length].fill(numbers.next() as u8),
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let from = numbers.below(bytes.len() - length + 1);
                    bytes.copy_within(from..from + length, at);
                }
                _ => bytes[at..at + length].copy_from_slice(&numbers.bytes(length)),
            }
        }
        // With right checksums, what is behind them is reached.
        if numbers.below(4) > 0 {
            seal(&mut bytes);
        }
        let seen = exercise(bytes);
        (opened, whole) = (opened + usize::from(seen.is_some()), whole + usize::from(seen == Some(0)));
    }
    // Otherwise the mutants are too wild, or too tame, to say anything.
    assert!(opened > count / 2 && whole < count / 2, "{opened} of {count} opened, {whole} with nothing found");
}
