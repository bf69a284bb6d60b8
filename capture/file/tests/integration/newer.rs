//! Files of writers that know more: what may be skipped is skipped, what may not is refused by name.

use logdur_capture::{End, Options, Reader, Writer};

use crate::exercise::seal;
use crate::harness;

/// Offset of the first frame of a type, going from head to head.
fn frame_of(bytes: &[u8], kind: u16) -> usize {
    let mut at = 128;
    while bytes[at + 4..at + 6] != kind.to_le_bytes() {
        let stored = u64::from_le_bytes(bytes[at + 16..at + 24].try_into().unwrap());
        at += 48 + stored.next_multiple_of(8) as usize;
    }
    at
}

/// A capture one of whose frames has another type, with its index or without.
fn with_type(kind: u16, to: u16, optional: bool, index: bool) -> Vec<u8> {
    let mut bytes = harness::capture(&Options { ..harness::options(9) }, 2, 3000);
    let at = frame_of(&bytes, kind);
    bytes[at + 4..at + 6].copy_from_slice(&to.to_le_bytes());
    bytes[at + 6] = bytes[at + 6] & !1 | u8::from(optional);
    if !index {
        let last = bytes.len() - 1;
        bytes[last] = 0;
    }
    seal(&mut bytes);
    bytes
}

#[test]
fn frames_that_are_not_known_are_skipped_if_they_are_optional_and_refused_otherwise() {
    const QUEUE: u16 = 24;
    for index in [true, false] {
        let reader = Reader::new(with_type(QUEUE, 900, true, index)).unwrap();
        assert_eq!(*reader.end() == End::Finished, index);
        assert_eq!((reader.records().queues.len(), reader.dispatches().len()), (0, 2));
        let error = Reader::new(with_type(QUEUE, 900, false, index)).unwrap_err().to_string();
        assert!(error.contains("type 900") && error.contains("a newer reader is needed"), "{error}");
    }
}

#[test]
fn a_field_that_is_not_known_is_ignored_and_one_of_another_kind_is_named() {
    const NOTE: u16 = 27;
    let whole = harness::capture(&harness::options(9), 2, 3000);
    let field = frame_of(&whole, NOTE) + 48;
    let mut bytes = whole.clone();
    bytes[field..field + 2].copy_from_slice(&900_u16.to_le_bytes());
    seal(&mut bytes);
    let reader = Reader::new(bytes).unwrap();
    assert_eq!(reader.problems(), []);
    assert_eq!(reader.notes()[0].severity.number(), 0);
    assert_eq!(reader.notes()[0].code, "dangling-pointer");
    let mut bytes = whole;
    bytes[field + 2] = 3;
    seal(&mut bytes);
    let reader = Reader::new(bytes).unwrap();
    let [problem] = reader.problems() else { panic!("{:?}", reader.problems()) };
    assert!(problem.text.contains("Note.severity: expected a number, found kind 3"), "{problem}");
    assert_eq!((reader.notes().len(), reader.dispatches().len()), (0, 2));
}

#[test]
fn a_codec_that_is_not_known_is_named_where_its_contents_are_asked_for() {
    const PACK: u16 = 2;
    let mut bytes = harness::capture(&harness::options(9), 1, 3000);
    let at = frame_of(&bytes, PACK);
    bytes[at + 32] = 3;
    seal(&mut bytes);
    let reader = Reader::new(bytes).unwrap();
    let id = reader.records().code_objects[0].id;
    let error = reader.code_object(id).unwrap_err().to_string();
    assert!(error.contains("codec 3") && error.contains("a newer reader is needed"), "{error}");
    assert!(!reader.check().is_clean());
}

#[test]
fn a_numbers_meaning_that_is_not_known_is_kept() {
    let mut writer = Writer::new(Vec::new(), &harness::options(1)).unwrap();
    let kind = logdur_capture::AllocationKind::of(900);
    writer.allocation(&logdur_capture::Allocation { kind, ..harness::allocation(1, 2) }).unwrap();
    let reader = Reader::new(writer.finish().unwrap()).unwrap();
    assert_eq!(reader.records().allocations[0].kind.number(), 900);
    assert_eq!(reader.records().allocations[0].kind.to_string(), "900");
}

#[test]
fn a_file_with_more_frames_than_an_index_holds_has_several_and_opens_alike_without_them() {
    let mut writer = Writer::new(Vec::new(), &harness::options(1)).unwrap();
    let count = 150_000;
    for base in 1..=count {
        writer.freed(base).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let reader = Reader::new(bytes.clone()).unwrap();
    assert_eq!(reader.check().findings, []);
    let bases = |reader: &Reader| reader.records().freed.iter().map(|f| f.base).collect::<Vec<_>>();
    assert_eq!(bases(&reader), (1..=count).collect::<Vec<_>>());
    let cut = Reader::new(bytes[..bytes.len() - 8].to_vec()).unwrap();
    assert_eq!(bases(&cut), bases(&reader));
}

#[test]
fn a_parent_with_the_number_0_is_no_parent() {
    const PARENT: [u8; 8] = [2, 0, 1, 0, 8, 0, 0, 0];
    let whole = harness::capture(&harness::options(9), 2, 3000);
    let parents = |reader: &Reader| reader.records().snapshots.iter().map(|s| s.parent).collect::<Vec<_>>();
    let reader = Reader::new(whole.clone()).unwrap();
    let before = parents(&reader);
    let with_parent = before.iter().position(Option::is_some).expect("a snapshot with a parent");
    let at = reader.records().snapshots[with_parent].place.offset as usize;
    let mut bytes = whole;
    let field = at + bytes[at..].windows(8).position(|head| head == PARENT).expect("the field");
    bytes[field + 8..field + 16].fill(0);
    seal(&mut bytes);
    let reader = Reader::new(bytes).unwrap();
    assert_eq!(reader.problems(), []);
    let mut expected = before;
    expected[with_parent] = None;
    assert_eq!(parents(&reader), expected);
    // What it says itself is all that it says: nothing is missing.
    assert!(reader.snapshot(reader.records().snapshots[with_parent].id).is_ok());
}
