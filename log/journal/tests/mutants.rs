//! Files of records that no process wrote like that: they are read or refused, and nothing panics.

use logdur_journal::layout::HEADER_BYTES;
use logdur_journal::lines::Format;
use logdur_journal::recover;
use logdur_journal::snapshot::Snapshot;

#[path = "records/whole.rs"]
mod records;

/// Random numbers that are the same in every run: xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn whole() -> Vec<u8> {
    records::whole(tempfile::tempdir().unwrap().path())
}

/// Bytes that say something, and those beside them. The rest is room for more.
fn told(whole: &[u8]) -> Vec<usize> {
    let beside = |at: &usize| whole[at.saturating_sub(8)..(at + 8).min(whole.len())].iter().any(|byte| *byte != 0);
    (0..whole.len()).filter(beside).collect()
}

#[test]
fn every_byte_of_the_records_may_be_any_and_they_are_read_or_refused() {
    let whole = whole();
    let all = records::exercise(&whole).expect("a file that is whole");
    assert!(all > 0);
    let (mut bytes, mut read, mut refused) = (whole.clone(), 0, 0);
    for at in told(&whole) {
        for value in [0, 0xff, whole[at].wrapping_add(1), whole[at] ^ 0x80] {
            bytes[at] = value;
            match records::exercise(&bytes) {
                Some(_) => read += 1,
                None => refused += 1,
            }
        }
        bytes[at] = whole[at];
    }
    assert!(read > 1000 && refused > 10, "{read} were read, {refused} refused");
}

/// The file of a process that has ended: when it was started is not known.
fn of_the_dead() -> Vec<u8> {
    let mut bytes = whole();
    bytes[24..32].fill(0);
    bytes
}

#[test]
fn four_bytes_of_a_chunk_that_are_changed_lose_no_row_in_silence() {
    let whole = of_the_dead();
    let sound = Snapshot::parse(&whole).unwrap();
    assert_eq!((sound.dispatches.len(), sound.without_record(), sound.problems.len()), (6, 0, 0));
    let (mut numbers, mut told) = (Numbers(0x1234_5678), 0);
    for at in self::told(&whole).into_iter().filter(|at| *at >= HEADER_BYTES && at % 4 == 0) {
        for value in [0, u32::MAX, numbers.below(1 << 32) as u32] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let found = Snapshot::parse(&bytes).unwrap();
            let says = !found.problems.is_empty() || found.without_record() > 0;
            assert!(found.dispatches.len() == 6 || says, "{value:#x} at {at}: {} rows", found.dispatches.len());
            told += usize::from(says);
        }
    }
    assert!(told > 20, "{told}");
}

#[test]
fn what_is_behind_a_damaged_chunk_is_read_and_the_damage_is_told() {
    let whole = of_the_dead();
    for field in [0, 4, 8] {
        let mut bytes = whole.clone();
        // The first chunk says where rows go.
        bytes[HEADER_BYTES + field..][..4].fill(0);
        let found = Snapshot::parse(&bytes).unwrap();
        assert!(found.origin.is_none() && found.dispatches.len() == 6, "{field}");
        assert!(found.problems[0].starts_with("at byte 16384: expected a chunk"), "{:?}", found.problems);
        let mut text = Vec::new();
        recover::missing(&found, Format::Csv, None).print(&mut text, true).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("# notice: the records of process ") && text.contains("damaged: at byte 16384"),
            "{text}"
        );
    }
}

#[test]
fn records_with_anything_changed_or_cut_off_are_read_or_refused() {
    let whole = whole();
    let told = told(&whole);
    let count = if std::env::var_os("LOGDUR_TEST_FULL").is_some() { 1_000_000 } else { 5_000 };
    let (mut numbers, mut read) = (Numbers(0x1234_5678), 0);
    for _ in 0..count {
        let mut bytes = whole.clone();
        for _ in 0..1 + numbers.below(6) {
            let at = told[numbers.below(told.len())];
            let length = (1 << numbers.below(5)).min(bytes.len() - at);
            match numbers.below(4) {
                0 => bytes[at] ^= 1 << numbers.below(8),
                1 => bytes[at..at + length].fill(numbers.below(256) as u8),
                2 => {
                    let from = told[numbers.below(told.len())].min(bytes.len() - length);
                    bytes.copy_within(from..from + length, at);
                }
                _ => bytes[at..at + length].iter_mut().for_each(|byte| *byte = numbers.below(256) as u8),
            }
        }
        if numbers.below(8) == 0 {
            bytes.truncate(numbers.below(bytes.len()));
        }
        read += usize::from(records::exercise(&bytes).is_some());
    }
    assert!(read > count / 10 && read < count, "{read} of {count} were read");
}
