//! What a process leaves, however it ended, and what is made of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use logdur_journal::clock::Line;
use logdur_journal::lines::Format;
use logdur_journal::recover::{self, Written};
use logdur_journal::snapshot::Snapshot;
use logdur_journal::{Block, Fate, Kernel, Naming, Origin, Records, RowFilter, Shape, State};

/// A process that has dispatched ten kernels: 0 to 2 are in the log and marked, 3 filtered, 4 to 6 were being written, 7
/// is done, 8 and 9 in flight; one more has a number and no packet.
struct DeadProcess {
    folder: tempfile::TempDir,
    records: Records,
    path: PathBuf,
}

impl DeadProcess {
    fn new() -> DeadProcess {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.csv");
        let origin = Origin {
            format: Format::Csv,
            log: Some(log),
            filter: RowFilter { only: Some("^(add|sub)".to_owned()), ..RowFilter::default() },
            rank: Some(3),
            naming: Naming::Demangled,
        };
        let (records, earlier) = Records::create(folder.path(), &origin).unwrap();
        assert_eq!(earlier, [] as [PathBuf; 0]);
        records.agent(0, "gfx90a", "A GPU");
        let kernel = |symbol: &str, kernarg_size, replaced: &str| logdur_journal::Kernel {
            symbol: symbol.to_owned(),
            kernarg_size,
            registers: logdur_journal::Registers { vgprs: kernarg_size, ..Default::default() },
            replaced: replaced.to_owned(),
            code: format!("lib.so#{symbol}"),
            ..Default::default()
        };
        let kernels = [(1, &kernel("_Z3addPf", Some(24), "1a2b3c4d5e6f")), (2, &kernel("other", None, ""))];
        records.kernels(kernels.into_iter());
        Line { tick: 1000, ns: 50_000, ns_per_tick: 10.0 }.store(records.header().clock(0).unwrap());
        Line { tick: 400, ns: 40_000, ns_per_tick: 0.5 }.store(records.header().host_clock());
        let blocks = records.blocks(2);
        // SAFETY: blocks live as long as the process.
        let block: &'static Block = unsafe { blocks[1].as_ref() };
        block.assign(7, 0);
        for (i, record) in block.records.iter().enumerate().take(10) {
            record.id.store(i as u64, Ordering::Relaxed);
            record.dispatch.store(400 + 2 * i as u64, Ordering::Relaxed);
            record.set_shape(Shape { kernel: if i == 3 { 2 } else { 1 }, ..Shape::default() });
            block.times[i].start.store(2000 + i as u64, Ordering::Relaxed);
            block.times[i].end.store(3000 + i as u64, Ordering::Relaxed);
            record.set_state(State::InFlight);
            match i {
                0..=2 => record.set_fate(Fate::Written),
                3 => record.set_fate(Fate::Filtered),
                4..=6 => record.set_fate(Fate::Writing),
                7 => record.set_state(State::Done),
                _ => {}
            }
        }
        records.header().next_id().store(11, Ordering::Relaxed);
        let path = records.path().unwrap().to_owned();
        DeadProcess { folder, records, path }
    }

    /// The file as it would be when the process has ended: of a number that no process has.
    fn of_the_dead(&self) -> Vec<u8> {
        let mut bytes = fs::read(&self.path).unwrap();
        let pid = std::process::id().to_ne_bytes();
        let at = bytes[..64].windows(4).position(|w| w == pid).unwrap();
        bytes[at..at + 4].copy_from_slice(&(i32::MAX as u32).to_ne_bytes());
        bytes
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log.csv")
    }
}

#[test]
fn a_recovered_row_names_its_process_and_the_registers_of_its_kernel() {
    let left = DeadProcess::new();
    let snapshot = Snapshot::parse(&left.of_the_dead()).unwrap();
    recover::missing(&snapshot, Format::Csv, None).append(&left.log(), true).unwrap();
    let rows = rows(&left.log());
    assert!(!rows.is_empty());
    for row in rows {
        let end = format!(",\"1a2b3c4d5e6f\",dispatch,,{},3,24,,,,\"lib.so#", i32::MAX);
        assert!(row.contains(&end), "{row}");
    }
}

fn rows(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    text.lines().filter(|l| l.starts_with('"')).map(str::to_owned).collect()
}

#[test]
fn rows_that_the_log_has_are_not_doubled_wherever_the_process_was_stopped_in_writing_them() {
    let left = DeadProcess::new();
    let snapshot = Snapshot::parse(&left.of_the_dead()).unwrap();
    let missing = recover::missing(&snapshot, Format::Csv, None);
    let mut whole = Vec::new();
    missing.print(&mut whole, true).unwrap();
    let whole = String::from_utf8(whole).unwrap();
    let (account, _) = (whole.lines().last().unwrap(), assert_eq!(missing.rows(), 6));
    assert!(account.ends_with("seen=11 logged=9 filtered=1 not-submitted=1 times-lost=2"), "{account}");
    assert!(whole.contains("\"add(float*)\",40004,60040,70040,10000,4,0,7,"), "{whole}");
    // The writer was stopped after any number of bytes of rows 4 to 6.
    let begun: String = whole.lines().filter(|l| l.starts_with('"')).take(3).map(|l| format!("{l}\n")).collect();
    let head = "kernel\n\"add(float*)\",0,before\n";
    for stop in 0..=begun.len() {
        fs::write(left.log(), format!("{head}{}", &begun[..stop])).unwrap();
        let written = missing.append(&left.log(), false).unwrap();
        let all = rows(&left.log());
        assert_eq!(all.len(), 7, "stopped after {stop} bytes");
        let ids: std::collections::BTreeSet<&str> = all[1..].iter().map(|r| r.split(',').nth(5).unwrap()).collect();
        assert_eq!(ids.len(), 6, "stopped after {stop} bytes: {all:?}");
        let ends_whole = stop == 0 || begun[..stop].ends_with('\n');
        assert_eq!((written.completed, written.rows + written.there), (!ends_whole, 6));
        // And once more: nothing.
        let once = fs::read(left.log()).unwrap();
        assert_eq!(missing.append(&left.log(), false).unwrap(), Written { rows: 0, there: 6, completed: false });
        assert_eq!(fs::read(left.log()).unwrap(), once);
    }
}

#[test]
fn a_torn_line_that_is_no_row_of_ours_is_ended_and_noted() {
    let left = DeadProcess::new();
    let snapshot = Snapshot::parse(&left.of_the_dead()).unwrap();
    fs::write(left.log(), "kernel\n\"somebody else's").unwrap();
    recover::missing(&snapshot, Format::Csv, Some("was killed")).append(&left.log(), false).unwrap();
    let text = fs::read_to_string(left.log()).unwrap();
    assert!(text.contains("somebody else's\n# notice: the line before is not whole\n"), "{text}");
    assert!(text.contains(" was killed\n# notice: in flight: add(float*): 2 dispatches, id 8, 9\n"), "{text}");
}

#[test]
fn a_process_that_runs_is_shown_as_it_is_now() {
    let left = DeadProcess::new();
    let snapshot = Snapshot::read(&left.path).unwrap();
    assert!(snapshot.is_alive());
    let mut text = Vec::new();
    recover::missing(&snapshot, Format::Json, None).print(&mut text, true).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!((text.matches("[\"in-flight\"]").count(), text.matches("times-lost").count()), (2, 0), "{text}");
}

#[test]
fn a_block_that_is_being_emptied_counts_once_wherever_that_stops() {
    let left = DeadProcess::new();
    let count = || {
        let snapshot = Snapshot::read(&left.path).unwrap();
        let mut text = Vec::new();
        recover::missing(&snapshot, Format::Csv, None).print(&mut text, false).unwrap();
        String::from_utf8(text).unwrap().lines().last().unwrap().split_once(" seen").unwrap().1.to_owned()
    };
    let blocks = left.records.blocks(1);
    // SAFETY: blocks live as long as the process.
    let block = unsafe { blocks[0].as_ref() };
    block.records.iter().for_each(|r| r.set_fate(Fate::Written));
    left.records.header().next_id().store(11 + 511, Ordering::Relaxed);
    let before = count();
    left.records.header().count_emptied(block);
    assert_eq!(count(), before, "counted, not yet emptied");
    block.records[3].set_state(State::Free);
    assert_eq!(count(), before, "emptied in part");
    block.clear();
    assert_eq!(count(), before, "emptied");
}

#[test]
fn the_filters_of_the_dead_process_choose_the_rows_of_recovery() {
    let folder = tempfile::tempdir().unwrap();
    let rows_with = |filter: RowFilter| {
        let origin =
            Origin { format: Format::Csv, log: None, filter: filter.clone(), rank: None, naming: Naming::Demangled };
        let (records, _) = Records::create(folder.path(), &origin).unwrap();
        let kernel = |symbol: &str| Kernel { symbol: symbol.to_owned(), ..Kernel::default() };
        records.kernels([(1, &kernel("add")), (2, &kernel("sub"))].into_iter());
        for (agent, block) in (0..).zip(records.blocks(2)) {
            // SAFETY: blocks live as long as the process.
            let block: &'static Block = unsafe { block.as_ref() };
            block.assign(1, agent);
            for (i, record) in block.records.iter().enumerate().take(2) {
                record.id.store((2 * agent + i) as u64, Ordering::Relaxed);
                record.set_shape(Shape { kernel: 1 + i as u32, ..Shape::default() });
                record.set_state(State::InFlight);
            }
        }
        let snapshot = Snapshot::read(records.path().unwrap()).unwrap();
        records.remove();
        assert_eq!(snapshot.origin.as_ref().unwrap().filter, filter);
        let mut out = Vec::new();
        recover::missing(&snapshot, Format::Csv, None).print(&mut out, true).unwrap();
        String::from_utf8(out).unwrap().lines().filter(|line| line.starts_with('"')).count()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(rows_with(RowFilter::default()), 4);
    assert_eq!(rows_with(RowFilter { except: text("^sub$"), ..RowFilter::default() }), 2);
    assert_eq!(rows_with(RowFilter { agents: vec![1..=1, 3..=9], ..RowFilter::default() }), 2);
    assert_eq!(rows_with(RowFilter { only: text("a"), except: text("u"), agents: vec![0..=0] }), 1);
    assert_eq!(rows_with(RowFilter { only: text("a"), except: text("."), agents: Vec::new() }), 0);
}

#[test]
fn a_name_that_is_taken_is_left_alone_and_told() {
    let left = DeadProcess::new();
    let origin =
        Origin { format: Format::Csv, log: None, filter: RowFilter::default(), rank: None, naming: Naming::Demangled };
    let before = fs::read(&left.path).unwrap();
    let (second, earlier) = Records::create(left.folder.path(), &origin).unwrap();
    assert_eq!(earlier, std::slice::from_ref(&left.path));
    assert_eq!(fs::read(&left.path).unwrap(), before);
    let path = second.path().unwrap().to_owned();
    second.remove();
    assert!(!path.exists() && left.path.exists());
}

#[test]
fn whatever_the_bytes_are_the_reader_says_what_it_makes_of_them() {
    let bytes = DeadProcess::new().of_the_dead();
    // Seeded, so that a failure can be repeated: xorshift.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1500 {
        let mut mutant = bytes.clone();
        for _ in 0..=next(8) {
            // Mostly where the structure is: the header, and what follows it.
            let reach = [256, 8192 + 512, mutant.len()][next(3)].min(mutant.len());
            let at = if reach > 0 { next(reach) } else { continue };
            match next(4) {
                0 => mutant.truncate(at),
                1 => mutant[at] = next(256) as u8,
                2 => mutant[at] ^= 1 << next(8),
                _ => {
                    let end = (at + 8).min(mutant.len());
                    mutant[at..end].fill([0, 0xff, 0x7f][next(3)]);
                }
            }
        }
        match Snapshot::parse(&mutant) {
            Ok(snapshot) => {
                recover::missing(&snapshot, Format::Csv, None).print(&mut Vec::new(), true).unwrap();
                read += 1;
            }
            Err(error) => {
                assert!(error.to_string().starts_with("expected "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}
