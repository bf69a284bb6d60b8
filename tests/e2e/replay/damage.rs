//! Captures with damage, and captures whose end is missing: each reader says so, and none ends as if nothing were wrong.

use std::fs;
use std::path::Path;

use logdur_capture::Reader;

use crate::replay::verify::{increment, on_file};
use crate::support::harness::{self, Run, built};

/// Each tool that reads captures, with the status that it ends with.
fn ends_of_readers(file: &Path, options: &[&str]) -> Vec<(&'static str, Option<i32>, String)> {
    let arch = harness::arch();
    let tools: [(&str, &[&str]); 9] = [
        ("info", &[]),
        ("dump", &[]),
        ("verify", &["--backend", "emu"]),
        ("verify", &["--backend", "emu", "--strict"]),
        ("bench", &["--backend", "emu", "--repetitions", "2"]),
        ("analyze", &["--what", "lines"]),
        ("extract", &["--output", "out"]),
        ("report", &["--output", "page.html"]),
        ("fsck", &["--repair", "whole.ldcap"]),
    ];
    let of_file = |name: &str| ["dump", "report", "fsck"].contains(&name);
    let tools = tools.iter().filter(|(name, _)| options.is_empty() || !of_file(name));
    tools
        .map(|(name, more)| {
            let outcome = on_file(Run::new(built("omniprobe")), name, file, &arch, &[*more, options].concat());
            if *name == "fsck" {
                let whole = outcome.folder.path().join("whole.ldcap");
                let again = on_file(Run::new(built("omniprobe")), "fsck", &whole, "", &[]);
                assert!(matches!(again.status.code(), Some(0 | 9)), "{}{}", again.stdout, again.stderr);
                assert!(again.stdout.contains(", finished, 0 findings"), "{}", again.stdout);
            }
            (*name, outcome.status.code(), outcome.stderr)
        })
        .collect()
}

/// The statuses of those that take the number of a dispatch, of the one in the file.
fn chosen(file: &Path) -> Vec<(&'static str, Option<i32>)> {
    ends_of_readers(file, &["--dispatch", "7"]).into_iter().map(|(tool, status, _)| (tool, status)).collect()
}

#[test]
fn damage_and_a_missing_end_are_told_by_every_reader_and_are_no_success() {
    let run = Run::new(built("omniprobe"));
    let file = increment(&harness::arch()).write(&run.file("a.ldcap"));
    let whole = fs::read(&file).unwrap();
    let reader = Reader::open(&file).unwrap();
    let records = reader.records();
    let (allocation, dispatch) = (records.allocations[0].place.offset, reader.dispatches()[0].place.offset);
    let flipped = |at: u64| {
        let mut bytes = whole.clone();
        bytes[at as usize] ^= 1;
        fs::write(&file, &bytes).unwrap();
    };
    // The header, the head of a record, a record, the dispatch's own, the index.
    for at in [9, allocation + 3, allocation + 50, dispatch + 60, whole.len() as u64 - 30] {
        flipped(at);
        for (tool, status, said) in ends_of_readers(&file, &[]) {
            // What is missing may be what the dispatch needs.
            let is_told = tool == "fsck" || said.matches("a.ldcap: damaged: offset").count() == 1;
            assert!(matches!(status, Some(2 | 9)) && is_told, "byte {at}: {tool}: {status:?}, {said}");
            assert!(status == Some(2) || tool == "verify", "byte {at}: {tool}: {status:?}, {said}");
        }
    }
    // A dispatch that is whole, by its number: with the damage told, and the result qualified.
    let asked = [("info", 0), ("verify", 0), ("verify", 9), ("bench", 0), ("analyze", 0), ("extract", 0)];
    let asked = asked.map(|(tool, status)| (tool, Some(status)));
    flipped(9);
    assert_eq!(chosen(&file), asked);
    flipped(dispatch + 60);
    assert!(ends_of_readers(&file, &["--dispatch", "7"]).iter().all(|end| end.1 == Some(2)));
    // Never finished: the index is missing.
    fs::write(&file, &whole[..whole.len() - 40]).unwrap();
    for (tool, status, said) in ends_of_readers(&file, &[]) {
        assert_eq!(status, Some(9), "{tool}: {said}");
        assert!(tool == "fsck" || said.matches("a.ldcap: not finished: ").count() == 1, "{tool}: {said}");
    }
    assert_eq!(chosen(&file), asked);
}
