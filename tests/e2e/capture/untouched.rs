//! Captures of memory between one captured dispatch and the next one: it is not read where nothing can have written it, and what
//! was written by whatever way is in the file.

use logdur_capture::Reader;

use crate::replay::verify;
use crate::support::harness::{self, Outcome, Run, built};

/// Words of each buffer of the program.
const WORDS: u64 = 1 << 18;

/// What a story leaves.
struct Captured {
    run: Outcome,
    reader: Reader,
    /// Bytes of the second dispatch's memory before it that were not read.
    not_read: u64,
}

fn captured(story: &str, bar: &str) -> Captured {
    let run = Run::hsa("untouched").args([story]).env("KFDEMU_BAR", bar).env("LOGDUR_CAPTURE_DISPATCHES", "every:1");
    let run = run.env("LOGDUR_CAPTURE_KERNELS", "^(increment|meet)$").env("LOGDUR_CAPTURE_MAX_HOLD", "2");
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let reader = Reader::open(&file).unwrap();
    assert!(reader.check().is_clean(), "{story}: {:?}", reader.check());
    assert_eq!(reader.dispatches().len(), 2, "{story}: {:?}", run.log().notices);
    let before = reader.dispatches()[1].before.unwrap();
    let snapshot = reader.records().snapshots.iter().find(|snapshot| snapshot.id == before).unwrap();
    let parent = reader.snapshot(snapshot.parent.unwrap()).unwrap();
    let changes = reader.snapshot(before).unwrap().changed_since(&parent).unwrap();
    let changed: u64 = changes.iter().map(|change| change.length.next_multiple_of(1 << 16) + (1 << 16)).sum();
    let not_read = snapshot.bytes.saturating_sub(snapshot.unchanged + changed);
    Captured { run, reader, not_read }
}

/// The words that the second dispatch's memory had are those that the program has found after it.
fn assert_true(story: &str, captured: &Captured) {
    let line = captured.run.stdout.lines().next().unwrap();
    let mut numbers = line.split(' ');
    let address = u64::from_str_radix(numbers.next().unwrap().trim_start_matches("0x"), 16).unwrap();
    let expected: Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
    let before = captured.reader.snapshot(captured.reader.dispatches()[1].before.unwrap()).unwrap();
    let found = [0, 1, WORDS - 1].map(|word| {
        let mut bytes = [0; 4];
        before.read(address + 4 * word, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    });
    assert_eq!(found.as_slice(), expected, "{story}: {line}");
}

#[test]
fn what_is_written_between_two_captures_is_in_the_second_whatever_wrote_it() {
    let stories = [
        "kernel",
        "other queue",
        "queue that goes",
        "waiting kernel",
        "waiting copy",
        "copy",
        "memory copy",
        "fill",
        "allocated again",
        "failed",
        "process",
    ];
    for story in stories {
        // On hardware, the size of the aperture is what it is.
        let captured = captured(story, "small");
        assert_true(story, &captured);
        assert!(captured.not_read < 4 * WORDS, "{story}: {} bytes were not read", captured.not_read);
    }
}

#[test]
fn what_the_host_writes_through_the_aperture_is_in_the_next_capture() {
    let captured = captured("host", "large");
    assert_true("host", &captured);
    assert_eq!(captured.not_read, 0);
}

#[test]
fn memory_that_nothing_can_have_written_is_not_read_again_and_the_dispatch_verifies() {
    for story in ["nothing", "barrier"] {
        let captured = captured(story, "small");
        assert_true(story, &captured);
        if harness::on_hardware() {
            continue;
        }
        // But for what is counted twice of the changes elsewhere.
        assert!(captured.not_read >= 7 * WORDS, "{story}: only {} bytes were not read", captured.not_read);
        let file = captured.run.folder.path().join("run.ldcap");
        let run = Run::new(built("omniprobe"));
        let verified = verify::on_file(run, "verify", &file, &harness::arch(), &["--backend", "emu"]);
        let passes = verified.stdout.lines().filter(|line| line.contains("PASS")).count();
        assert!(passes >= 2 && verified.status.success(), "{}{}", verified.stdout, verified.stderr);
    }
}
