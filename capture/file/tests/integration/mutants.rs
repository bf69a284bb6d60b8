//! Damaged files: each is read or refused, and nothing panics.

use logdur_capture::{Compress, Options, Reader};

use crate::exercise::{exercise, seal};
use crate::harness::{self, Numbers};

#[test]
fn files_with_anything_changed_are_read_or_refused() {
    let mut numbers = Numbers(0x1234_5678);
    let options = |compress| Options { compress, ..harness::options(2) };
    let folder = tempfile::tempdir().unwrap();
    let seeds = [
        harness::capture(&options(Compress::None), 2, 3000),
        harness::capture(&options(Compress::Lz4), 3, 9000),
        harness::capture(&options(Compress::Auto), 1, 70_000),
        harness::capture(&options(Compress::Zstd), 2, 9000),
        harness::region(&options(Compress::None)),
        harness::shared(&options(Compress::Auto), 2, 20_000, folder.path()),
    ];
    let (mut opened, mut whole) = (0, 0);
    let count = harness::count(20_000, 1_000_000);
    for _ in 0..count {
        let mut bytes = seeds[numbers.below(100).saturating_sub(94)].clone();
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
        let seen = exercise(bytes, &folder.path().join("store"));
        (opened, whole) = (opened + usize::from(seen.is_some()), whole + usize::from(seen == Some(0)));
    }
    // Otherwise the mutants are too wild, or too tame, to say anything.
    assert!(opened > count / 2 && whole < count / 2, "{opened} of {count} opened, {whole} with nothing found");
}

/// A byte of memory and one of the code: checksums that are made right are those of the contents as well.
#[test]
fn contents_that_were_changed_are_read_once_the_file_is_sealed_again() {
    let whole = harness::capture(&Options { compress: Compress::None, ..harness::options(2) }, 2, 3000);
    let reader = Reader::new(whole.clone()).unwrap();
    let id = reader.records().code_objects[0].id;
    let code = reader.code_object(id).unwrap();
    let at = whole.windows(code.len()).position(|window| window == code).expect("code that is stored as it is");
    let mut damaged = whole.clone();
    damaged[at + 3] ^= 0x40;
    let findings = Reader::new(damaged.clone()).unwrap().check().findings;
    assert!(!findings.is_empty(), "a byte of the code was changed");
    seal(&mut damaged);
    assert_ne!(damaged, whole);
    let reader = Reader::new(damaged).unwrap();
    assert!(reader.check().findings.is_empty(), "{:?}", reader.check().findings);
    let of_changed = reader.records().code_objects[0].id;
    assert_ne!(of_changed, id);
    let mut expected = code.to_vec();
    expected[3] ^= 0x40;
    assert!(reader.code_object(of_changed).unwrap()[..] == expected[..]);
}
