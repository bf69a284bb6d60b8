//! A process that is killed while it captures: what was committed is there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use logdur_capture::{Begun, Dispatch, End, Note, Options, Reader, UNTAKEN, Writer};

use crate::harness::{self, Numbers};

/// Set in the process that is to be killed: where it captures to.
const ROLE: &str = "LOGDUR_TEST_CAPTURE_TO";
const STORY: &str = "crash::whenever_the_process_is_killed_every_committed_dispatch_is_readable";
const BASE: u64 = 0x7f00_1000_0000;
const BYTES: usize = 600_000;

/// What memory is after a number of dispatches.
fn memory_after(dispatches: u64) -> Vec<u8> {
    let mut memory = Numbers(77).bytes(BYTES);
    let changed = Numbers(dispatches + 1).bytes(10_000);
    let at = (dispatches as usize * 40_000) % (BYTES - changed.len());
    memory[at..at + changed.len()].copy_from_slice(&changed);
    memory
}

/// Captures until it is killed; says on stdout which dispatches are committed.
fn capture_for_ever(path: &Path) -> ! {
    let mut writer = Writer::create(path, &Options::default()).unwrap();
    let code = harness::introduce(&mut writer, &Numbers(5).bytes(100_000));
    let mut parent = None;
    let mut stdout = std::io::stdout().lock();
    for number in 0.. {
        let mut ids = Vec::new();
        for memory in [memory_after(number), memory_after(number + 1)] {
            let mut snapshot = writer.snapshot(parent);
            snapshot.bytes(BASE, &memory).unwrap();
            parent = Some(snapshot.finish().unwrap());
            ids.extend(parent);
        }
        writer.dispatch(&harness::dispatch(number, code, ids[0], ids[1])).unwrap();
        writeln!(stdout, "committed {number}").unwrap();
    }
    unreachable!("there are more numbers than time");
}

#[test]
fn whenever_the_process_is_killed_every_committed_dispatch_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(path) = std::env::var_os(ROLE) {
        capture_for_ever(path.as_ref());
    }
    let mut instants = Numbers(4242);
    let (mut unfinished, mut cut_bytes, mut seen) = (0, 0, 0);
    let runs = harness::count(20, 1000);
    for run in 0..runs {
        let path = folder.path().join(format!("{run}.ldcap"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", STORY, "--nocapture"]).env(ROLE, &path);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("committed 0")), "nothing was captured");
        std::thread::sleep(Duration::from_micros(instants.below(40_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let committed = lines.filter_map(|line| line.strip_prefix("committed ")?.parse().ok()).last().unwrap_or(0_u64);

        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.problems(), []);
        let dispatches = reader.dispatches();
        let count = dispatches.len() as u64;
        assert!(
            count > committed && count <= committed + 2,
            "{count} dispatches are there, {committed} was the last one"
        );
        for dispatch in dispatches.iter().skip(dispatches.len().saturating_sub(3)).chain(dispatches.first()) {
            let states = [(dispatch.before, dispatch.id), (dispatch.after, dispatch.id + 1)];
            for (snapshot, number) in states {
                let mut read = vec![0; BYTES];
                reader.snapshot(snapshot.unwrap()).unwrap().read(BASE, &mut read).unwrap();
                assert!(read == memory_after(number), "run {run}: dispatch {}", dispatch.id);
            }
            assert_eq!(reader.code_object(dispatch.code_object).unwrap().len(), 100_000);
        }
        let report = reader.check();
        let End::Unfinished { whole, cut, .. } = *reader.end() else { panic!("the writer finished it") };
        assert_eq!(whole + cut, std::fs::metadata(&path).unwrap().len());
        // It says that it was not finished, and of a frame that is torn off that it is.
        assert!(report.findings.len() <= 2, "{:?}", report.findings);
        (unfinished, cut_bytes, seen) = (unfinished + usize::from(cut > 0), cut_bytes + cut, seen + count);

        if run % 10 == 0 {
            let repaired = folder.path().join("repaired.ldcap");
            reader.repair(&repaired).unwrap();
            let repaired = Reader::open(&repaired).unwrap();
            assert_eq!((repaired.end(), repaired.check().findings), (&End::Finished, vec![]));
            assert_eq!(repaired.dispatches().len(), dispatches.len());
        }
        std::fs::remove_file(&path).unwrap();
    }
    println!("{runs} kills: {seen} dispatches readable, {unfinished} files with a cut, {cut_bytes} bytes cut");
}

#[test]
fn a_dispatch_that_began_and_never_ended_is_the_last_one_unless_it_was_given_up() {
    let mut writer = Writer::new(Vec::new(), &harness::options(3)).unwrap();
    let code = harness::introduce(&mut writer, &[1; 100]);
    let mut snapshot = writer.snapshot(None);
    let memory: [u8; 100] = std::array::from_fn(|at| at as u8);
    snapshot.bytes(0x1000, &memory).unwrap();
    let before = snapshot.finish().unwrap();
    let ended = harness::dispatch(1, code, before, before);
    let begun = |number| Dispatch { after: None, ..harness::dispatch(number, code, before, before) };
    writer.begun(&Begun { dispatch: begun(1) }).unwrap();
    writer.dispatch(&ended).unwrap();
    writer.begun(&Begun { dispatch: begun(2) }).unwrap();
    let given_up = Note { code: UNTAKEN.to_owned(), ..Note::default() };
    writer.note(&given_up).unwrap();
    writer.begun(&Begun { dispatch: begun(3) }).unwrap();
    let bytes = writer.finish().unwrap();
    let reader = Reader::new(bytes.clone()).unwrap();
    let numbers =
        |reader: &Reader| reader.dispatches().iter().map(|d| (d.id, reader.is_unended(d))).collect::<Vec<_>>();
    assert_eq!(numbers(&reader), [(1, false), (3, true)]);
    assert_eq!(reader.check().findings, []);

    // Of a beginning whose memory is lost nothing stays.
    let folder = tempfile::tempdir().unwrap();
    let (damaged, repaired) = (folder.path().join("damaged"), folder.path().join("repaired"));
    let at = bytes.windows(100).position(|window| window == memory).unwrap();
    let mut bytes = bytes;
    bytes[at] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let lost = Reader::open(&damaged).unwrap().repair(&repaired).unwrap();
    let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
    assert!(lost.iter().any(|what| what.contains("a beginning with snapshot")), "{lost:?}");
    assert_eq!(numbers(&Reader::open(&repaired).unwrap()), [(1, false)]);
}
