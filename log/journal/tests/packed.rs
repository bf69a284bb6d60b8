//! Logs in records: they say what logs in text say, for ever, and what is damaged is told.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use logdur_journal::lines::{Format, Lines};
use logdur_journal::packed;

#[path = "packed/whole.rs"]
mod chunks;
#[path = "packed/exercise.rs"]
mod exercise;

use chunks::{EACH, whole};
use exercise::exercise;

/// A log in records as text.
fn printed(mut bytes: &[u8], format: Format) -> (String, Vec<String>) {
    let (mut text, mut damage) = (Lines::of(format).header().into_bytes(), Vec::new());
    packed::print(&mut bytes, Lines::of(format), &mut text, |told| damage.push(told.to_owned())).unwrap();
    (String::from_utf8(text).unwrap(), damage)
}

#[test]
fn a_log_in_records_is_the_same_text_that_a_log_in_text_is() {
    for format in [Format::Csv, Format::CsvSafe, Format::Json] {
        let (chunks, lines) = whole(format);
        let (text, damage) = printed(&chunks, format);
        let expected = String::from_utf8(lines).unwrap();
        for (found, expected) in text.lines().zip(expected.lines()) {
            assert_eq!(found, expected, "{format:?}");
        }
        assert_eq!((text.lines().count(), damage.len()), (expected.lines().count(), 0), "{format:?}");
    }
}

#[test]
fn logs_that_are_put_together_are_one_log() {
    let (chunks, _) = whole(Format::Csv);
    let twice = exercise(&[&chunks[..], &chunks[..]].concat());
    let once = exercise(&chunks);
    assert_eq!(once.rows.len() as u64, 2 * EACH);
    // The second copy has no more rows than the first: its processes count anew.
    assert_eq!((twice.rows.len(), twice.lines), (2 * once.rows.len(), 2 * once.lines));
    assert_eq!(twice.damage, [] as [&str; 0]);
}

#[test]
fn of_a_log_that_is_cut_anywhere_all_rows_before_are_read() {
    let (chunks, _) = whole(Format::Csv);
    let all = exercise(&chunks).rows;
    let mut most = 0;
    for length in (0..chunks.len()).step_by(31).chain([chunks.len() - 1]) {
        let read = exercise(&chunks[..length]);
        assert!(all.starts_with(&read.rows), "{length}");
        assert!(read.rows.len() >= most, "{length}");
        most = read.rows.len();
        assert!(read.damage.len() <= 1, "{:?}", read.damage);
        // It ends between two chunks, or that is told.
        let is_between = packed::begins_at(&chunks, length);
        assert_eq!(read.damage.is_empty(), is_between || length == 0, "{length}: {:?}", read.damage);
    }
}

#[test]
fn a_byte_that_is_changed_loses_the_rows_of_its_chunk_and_that_is_told() {
    let (chunks, _) = whole(Format::Csv);
    let all = exercise(&chunks);
    let known: HashSet<&String> = all.rows.iter().collect();
    let mut counted = 0;
    for at in (0..chunks.len()).step_by(37) {
        let mut bytes = chunks.clone();
        bytes[at] ^= 1 << (at % 8);
        let read = exercise(&bytes);
        // Nobody reads the four bytes behind the checksum.
        assert!(read != all || read.damage.is_empty(), "{at}");
        assert!(read == all || !read.damage.is_empty(), "{at}");
        // Without names, rows are the same but for them.
        let unknown = read.rows.iter().filter(|row| !known.contains(row)).count();
        assert!(unknown == 0 || read.rows.iter().any(|row| row.contains("unknown") || row.starts_with("\"\"")), "{at}");
        counted += usize::from(read.damage.iter().any(|text| text.contains(" rows of process 1")));
    }
    assert!(counted > 10, "{counted}");
}

#[test]
fn rows_that_are_missing_between_two_chunks_are_counted() {
    let (mut chunks, _) = whole(Format::Csv);
    let all = exercise(&chunks).rows.len();
    let mut begins = vec![0];
    while let Some(rest) = chunks.get(begins[begins.len() - 1]..).filter(|rest| !rest.is_empty()) {
        begins.push(begins[begins.len() - 1] + packed::piece(rest, 0));
    }
    let kind = |at: usize| chunks[at + 8];
    let of_rows: Vec<usize> = (0..begins.len() - 1).filter(|n| kind(begins[*n]) == 3).collect();
    let second = of_rows[1];
    chunks.drain(begins[second]..begins[second + 1]);
    let read = exercise(&chunks);
    let [told] = &read.damage[..] else { panic!("{:?}", read.damage) };
    assert!(told.ends_with(&format!(": {} rows of process 17 are missing", all - read.rows.len())), "{told}");
}

#[test]
fn what_a_later_version_adds_is_skipped_and_another_major_version_is_told() {
    let (chunks, _) = whole(Format::Csv);
    let mut unknown = chunks.clone();
    // The first chunk begins a process.
    unknown[8] = 200;
    let first = packed::piece(&chunks, 0);
    seal(&mut unknown[..first]);
    let (all, read) = (exercise(&chunks), exercise(&unknown));
    assert_eq!((read.rows.len(), read.damage.len()), (all.rows.len(), 0));
    let mut later = chunks.clone();
    later[32] = 2;
    seal(&mut later[..first]);
    let read = exercise(&later);
    assert_eq!(read.rows.len() as u64, EACH);
    assert!(read.damage[0].starts_with("expected version 1 of the format, found 2.0: "), "{:?}", read.damage);
}

/// Makes the checksum of a chunk right.
fn seal(chunk: &mut [u8]) {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&chunk[8..24]);
    sum.update(&chunk[32..]);
    chunk[24..28].copy_from_slice(&sum.finalize().to_le_bytes());
}

#[test]
fn a_chunk_that_its_process_gave_up_is_no_damage() {
    let (chunks, _) = whole(Format::Csv);
    let mut bytes = chunks.clone();
    bytes.extend_from_slice(&chunks[..packed::piece(&chunks, 0) - 1]);
    assert_eq!(exercise(&bytes).damage.len(), 1);
    bytes.extend_from_slice(&Lines::of(Format::Records).give_up());
    bytes.extend_from_slice(&chunks);
    let read = exercise(&bytes);
    assert_eq!((read.rows.len() as u64, read.damage.len()), (4 * EACH, 0), "{:?}", read.damage);
}

#[test]
fn pieces_are_whole_chunks_and_may_begin_with_the_rest_of_one() {
    let (chunks, _) = whole(Format::Csv);
    for (start, size) in [(0, 0), (0, 4096), (5, 4096), (40, 100), (0, 1 << 30)] {
        let (mut left, mut all) = (&chunks[start..], 0);
        while !left.is_empty() {
            let piece = packed::piece(left, size);
            assert!(piece > 0 && packed::begins_at(left, piece), "{start} {size}");
            all += piece;
            left = &left[piece..];
        }
        assert_eq!(all, chunks.len() - start);
    }
}

/// A file of each version that was ever written, and what it says. With `LOGDUR_TEST_BLESS`, that of this version is made.
#[test]
fn files_of_every_version_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let now = format!("{}.{}", packed::MAJOR, packed::MINOR);
    let of_now = folder.join(format!("{now}.ldrows"));
    if std::env::var_os("LOGDUR_TEST_BLESS").is_some() && !of_now.exists() {
        let (chunks, text) = whole(Format::Csv);
        fs::write(&of_now, chunks).unwrap();
        fs::write(of_now.with_extension("csv"), text).unwrap();
    }
    assert!(of_now.exists(), "no file of version {now}");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "ldrows") {
            let (text, damage) = printed(&fs::read(&path).unwrap(), Format::Csv);
            // Columns are only added at the end.
            let expected = fs::read_to_string(path.with_extension("csv")).unwrap();
            for (found, expected) in text.lines().zip(expected.lines()) {
                assert!(found.starts_with(expected), "{}: {found}", path.display());
            }
            assert_eq!((text.lines().count(), damage.len()), (expected.lines().count(), 0));
        }
    }
}
