//! A file that cannot grow. In a process of its own: the limit is the process's.

use std::fs;

use logdur_journal::lines::Format;
use logdur_journal::snapshot::Snapshot;
use logdur_journal::{BLOCK_BYTES, Naming, Origin, Records, RowFilter, State};

#[test]
fn when_the_file_cannot_grow_records_are_in_private_memory_and_the_file_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let origin =
        Origin { format: Format::Csv, log: None, filter: RowFilter::default(), rank: None, naming: Naming::Demangled };
    let (records, _) = Records::create(folder.path(), &origin).unwrap();
    let first = records.blocks(2);
    let path = records.path().unwrap().to_owned();
    let limit = fs::metadata(&path).unwrap().len() + BLOCK_BYTES as u64;
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the limit is read during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    // As in a program that is not Rust's: the signal that comes with the limit would kill.
    // SAFETY: restores the default action.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };

    assert_eq!(records.take_problem(), None);
    let more = records.blocks(4);
    assert_eq!(more.len(), 4);
    assert!(records.header().has_private_blocks());
    assert!(records.take_problem().is_some_and(|p| p.contains(path.to_str().unwrap())), "no problem is reported");
    assert_eq!(records.take_problem(), None, "told twice");

    for block in first.iter().chain(&more) {
        // SAFETY: blocks live as long as the process.
        let block = unsafe { block.as_ref() };
        block.records[0].set_state(State::InFlight);
    }
    records.header().next_id().store(6, std::sync::atomic::Ordering::Relaxed);
    let snapshot = Snapshot::read(&path).unwrap();
    assert_eq!((snapshot.seen, snapshot.dispatches.len(), snapshot.problems.as_slice()), (6, 2, &[][..]));
}
