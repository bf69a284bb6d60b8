//! Files of records that no process wrote like that: they are read or refused, and nothing panics.

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
