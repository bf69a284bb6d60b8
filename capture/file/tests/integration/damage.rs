//! Bytes that change after they were written: every change is seen, and what is whole is still read.

use std::io;
use std::sync::Arc;

use logdur_capture::{Compress, Difference, End, MINOR, Options, Reader, Severity, Source};

use crate::harness;

/// A file in which one bit is another.
#[derive(Clone)]
struct Flipped {
    bytes: Arc<Vec<u8>>,
    bit: usize,
}

impl Source for Flipped {
    fn length(&self) -> io::Result<u64> {
        self.bytes.length()
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.bytes.read_at(offset, to)?;
        if let Some(byte) = (self.bit / 8).checked_sub(offset as usize).and_then(|at| to.get_mut(at)) {
            *byte ^= 1 << (self.bit % 8);
        }
        Ok(())
    }
}

/// True when a file is taken for one that is as it was written.
fn passes(file: impl Source + 'static) -> bool {
    let whole =
        |reader: Reader| *reader.end() == End::Finished && reader.problems().is_empty() && reader.verify().is_ok();
    Reader::new(file).is_ok_and(whole)
}

#[test]
fn every_bit_that_flips_is_seen() {
    // 100,000 bits, or every one of a capture of 1 MiB, for which four times as much memory is needed.
    let (dispatches, memory, least) = (2, harness::count(11_500, 4_200_000), harness::count(100_000, 8 << 20));
    let bytes = harness::capture(&Options { compress: Compress::Auto, ..harness::options(3) }, dispatches, memory);
    let bits = bytes.len() * 8;
    assert!(bits >= least, "{bits} bits");
    assert!(passes(bytes.clone()));
    let bytes = Arc::new(bytes);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut file = Flipped { bytes: bytes.clone(), bit: 0 };
            scope.spawn(move || {
                for bit in (thread..bits).step_by(threads) {
                    file.bit = bit;
                    assert!(!passes(file.clone()), "bit {} of byte {} can flip", bit % 8, bit / 8);
                }
            });
        }
    });
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_read_up_to_its_last_commit() {
    let whole = harness::capture(&harness::options(4), 4, 5000);
    let all = Reader::new(whole.clone()).unwrap();
    let ends: Vec<u64> = all.dispatches().iter().map(|d| d.place.offset).collect();
    for length in 0..whole.len() {
        let cut = Reader::new(whole[..length].to_vec());
        if length < 128 {
            assert!(cut.is_err());
            continue;
        }
        let cut = cut.unwrap();
        assert_eq!(cut.problems(), []);
        let count = cut.dispatches().len();
        assert!(count >= ends.iter().filter(|end| **end + 600 < length as u64).count(), "{count} at {length}");
        for dispatch in cut.dispatches() {
            let before = cut.snapshot(dispatch.before.unwrap()).unwrap();
            let after = cut.snapshot(dispatch.after.unwrap()).unwrap();
            assert!(after.changed_since(&before).unwrap().iter().all(|c| c.what == Difference::Changed));
        }
        let End::Unfinished { whole, cut: lost, .. } = cut.end() else { panic!("finished at {length}") };
        assert_eq!(whole + lost, length as u64);
    }
}

#[test]
fn what_is_damaged_is_taken_out_by_a_repair_and_the_rest_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let whole = harness::capture(&Options { compress: Compress::None, ..harness::options(5) }, 6, 200_000);
    let all = Reader::new(whole.clone()).unwrap();
    let third = &all.dispatches()[2];
    // A record, the head of a record, and noise over several frames.
    for (from, to) in [(60, 61), (4, 5), (0, 3000)] {
        let mut bytes = whole.clone();
        let at = third.place.offset as usize;
        bytes[at + from..at + to].iter_mut().for_each(|byte| *byte ^= 0x5a);
        let reader = Reader::new(bytes).unwrap();
        assert_eq!(reader.problems().len(), if to == 3000 { reader.problems().len().max(1) } else { 1 });
        assert!(!reader.check().is_clean());
        let path = folder.path().join("repaired.ldcap");
        let lost = reader.repair(&path).unwrap();
        assert!(lost.iter().any(|l| l.offset == third.place.offset), "{lost:?}");
        let repaired = Reader::open(&path).unwrap();
        assert_eq!(*repaired.end(), End::Finished);
        let ids: Vec<u64> = repaired.dispatches().iter().map(|d| d.id).collect();
        assert!(ids.starts_with(&[0, 1]) && !ids.contains(&2) && ids.len() >= 4, "{ids:?}");
        let note = repaired.notes().last().unwrap();
        assert_eq!((note.code.as_str(), note.severity), ("repaired", Severity::Loss));
        assert!(note.text.contains(&third.place.offset.to_string()), "{}", note.text);
        assert_eq!(repaired.verify(), Ok(()));
        for dispatch in repaired.dispatches().iter().take(2) {
            let (mut ours, mut theirs) = (vec![0; 200_000], vec![0; 200_000]);
            let id = dispatch.after.unwrap();
            repaired.snapshot(id).unwrap().read(0x7f12_3456_7000, &mut ours).unwrap();
            all.snapshot(id).unwrap().read(0x7f12_3456_7000, &mut theirs).unwrap();
            assert!(ours == theirs);
        }
        // What was repaired is repaired again to the same.
        let again = folder.path().join("again.ldcap");
        assert_eq!(repaired.repair(&again).unwrap(), []);
        assert_eq!(Reader::open(&again).unwrap().records().shown(), repaired.records().shown());
    }
}

#[test]
fn what_a_repair_writes_has_nothing_that_is_damaged_wherever_the_file_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repaired.ldcap");
    let whole = harness::capture(&Options { compress: Compress::Auto, ..harness::options(8) }, 5, 20_000);
    let mut numbers = harness::Numbers(0x77);
    let (mut repaired, mut lacking) = (0, 0);
    for turn in 0..harness::count(900, 20_000) {
        let mut bytes = whole.clone();
        for _ in 0..1 + turn % 3 {
            // Every other one in the header or in a head, where the least bytes are.
            let at = if turn % 2 == 0 { numbers.below(bytes.len()) } else { numbers.below(4000) };
            bytes[at] ^= 1 << numbers.below(8);
        }
        if turn % 5 == 0 {
            bytes.truncate(bytes.len() - numbers.below(bytes.len() / 2));
        }
        let is_cut = turn % 5 == 0;
        // Several bytes of the magic are another file.
        let Ok(reader) = Reader::new(bytes) else { continue };
        assert!(is_cut || !reader.check().is_clean(), "turn {turn}: a change is not seen");
        let lost = reader.repair(&path).unwrap();
        assert!(!lost.is_empty(), "turn {turn}");
        let other = Reader::open(&path).unwrap();
        assert_eq!((other.end(), other.problems()), (&End::Finished, &[][..]), "turn {turn}: {lost:?}");
        assert_eq!(other.check().findings, [], "turn {turn}: {lost:?}");
        for dispatch in other.dispatches() {
            let noted = other.notes().iter().any(|note| note.dispatch == Some(dispatch.id));
            assert!(noted || (dispatch.before.is_some() && dispatch.after.is_some()), "turn {turn}: {lost:?}");
            lacking += usize::from(noted);
        }
        repaired += 1;
    }
    assert!(repaired > 800 && lacking > 100, "{repaired} repaired, {lacking} dispatches lack something");
}

#[test]
fn a_file_with_a_damaged_header_is_read_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repaired.ldcap");
    let whole = harness::capture(&harness::options(7), 2, 3000);
    let all = Reader::new(whole.clone()).unwrap();
    for at in 0..128 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let reader = Reader::new(bytes).unwrap();
        assert_eq!(reader.problems().len(), 1, "byte {at}: {:?}", reader.problems());
        assert_eq!((reader.header(), reader.records().shown()), (all.header(), all.records().shown()));
        assert!(!reader.check().is_clean() && reader.verify().is_err());
        assert_eq!(reader.repair(&path).unwrap().len(), 1);
        assert_eq!(std::fs::read(&path).unwrap()[..128], whole[..128]);
    }
    let mut bytes = whole.clone();
    bytes[..100].fill(0);
    assert_eq!(Reader::new(bytes).unwrap().records().shown(), all.records().shown());
    // Its checksum is right: it is of a later version.
    let mut bytes = whole;
    bytes[8] = 2;
    let crc = crc32fast::hash(&bytes[..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    assert!(Reader::new(bytes).unwrap_err().to_string().contains(&format!("version 2.{MINOR}")));
}

#[test]
fn frames_behind_damage_are_read_without_an_index_too() {
    let whole = harness::capture(&harness::options(6), 4, 5000);
    let all = Reader::new(whole.clone()).unwrap();
    let mut bytes = whole[..whole.len() - 8].to_vec();
    let first = all.dispatches()[0].place.offset as usize;
    bytes[first + 3] ^= 1;
    let reader = Reader::new(bytes.clone()).unwrap();
    assert_eq!((reader.dispatches().len(), reader.problems().len()), (3, 1));
    bytes[first + 3] ^= 1;
    bytes[first + 60] ^= 1;
    let reader = Reader::new(bytes).unwrap();
    assert_eq!((reader.dispatches().len(), reader.problems().len(), reader.lost_dispatches()), (3, 1, 1));
}

#[test]
fn a_file_without_its_footer_says_the_same() {
    let whole = harness::capture(&harness::options(6), 3, 5000);
    let reader = Reader::new(whole.clone()).unwrap();
    assert_eq!(*reader.end(), End::Finished);
    let mut bytes = whole;
    let last = bytes.len() - 1;
    bytes[last] = b'?';
    let scanned = Reader::new(bytes).unwrap();
    assert!(matches!(scanned.end(), End::Unfinished { cut: 0, why: None, .. }));
    assert!(scanned.problems()[0].text.contains("checksum"), "{:?}", scanned.problems());
    assert_eq!(scanned.records().shown(), reader.records().shown());
    assert!(scanned.check().findings.iter().any(|f| f.text.contains("checksum")), "{:?}", scanned.check());
}

#[test]
fn what_is_no_capture_is_refused_by_name() {
    let error = |bytes: &[u8]| Reader::new(bytes.to_vec()).unwrap_err().to_string();
    assert!(error(b"").contains("of 128 bytes at least, found 0 bytes"));
    assert!(error(&[b'x'; 200]).contains("begins with LDCAP"));
    // A transfer that takes the file for text.
    let whole = harness::capture(&harness::options(1), 1, 100);
    let text: Vec<u8> = whole.iter().copied().filter(|byte| *byte != b'\r').collect();
    assert!(error(&text).contains("begins with LDCAP"));
    let missing = Reader::open(std::path::Path::new("/no/such/file.ldcap")).unwrap_err();
    assert!(missing.to_string().contains("/no/such/file.ldcap"));
}
