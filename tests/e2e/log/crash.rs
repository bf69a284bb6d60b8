//! Processes that die: every dispatch has its row all the same, once, and the log stays a log.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use logdur_capture::{End, Reader};

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::log::Log;

/// A run of `endless` whose records are in the run's folder.
pub(super) fn endless(mode: &str, count: usize) -> Run {
    with_records(Run::hsa("endless").args([mode, &count.to_string()]))
}

/// A run whose records are in its folder.
fn with_records(run: Run) -> Run {
    let folder = run.file("records");
    fs::create_dir(&folder).unwrap();
    run.env("LOGDUR_RECORDS", folder)
}

pub(super) fn records_in(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    all.sort();
    all
}

/// `omniprobe log`, which has to work; what it prints.
pub(super) fn omniprobe_log(files: &[PathBuf], to: Option<&Path>) -> String {
    let mut command = Command::new(built("omniprobe"));
    command.arg("log").args(files);
    if let Some(to) = to {
        command.arg("-l").arg(to);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What tells the dispatches of `endless` apart, of those that the GPU has completed.
pub(super) fn completed(trace: &str) -> BTreeSet<String> {
    // The last line may be torn.
    let lines = trace.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines
        .filter(|p| p["type"] == "KernelDispatch" && p["workgroup"][0] == 64 && p["grid"][0] == 64)
        .map(|p| p["ldsBytes"].to_string())
        .collect()
}

pub(super) fn assert_no_row_is_missing(log: &Log, trace: &str) {
    log.account();
    let rows: BTreeSet<String> = log.rows_of("increment").iter().map(|r| r.text("ldsBytes").to_owned()).collect();
    assert_eq!(rows.len(), log.rows.len(), "rows are doubled");
    let missing: Vec<String> = completed(trace).difference(&rows).cloned().collect();
    assert!(missing.is_empty(), "no row of {missing:?}");
    for row in &log.rows {
        let lost = row.flags().contains("times-lost");
        assert_eq!(row.text("durationNs").is_empty(), lost || row.flags().contains("no-times"), "{row:?}");
    }
}

/// Numbers that are the same in every run: xorshift.
pub(super) struct Instants(pub(super) u64);

impl Instants {
    pub(super) fn next(&mut self, below: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_nanos(self.0 % below.as_nanos() as u64)
    }
}

/// Starts a run with the library, kills it some time after its first dispatch, and returns its folder.
pub(super) fn killed(run: Run, after: Duration) -> Outcome {
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.env("LOGDUR_LOG_LOCATION", run.file("log.csv"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while completed(&fs::read_to_string(run.file("trace.json")).unwrap_or_default()).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing was dispatched");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    let mut ended = Command::new("true");
    ended.stdout(Stdio::null());
    run.finish(ended)
}

#[test]
fn a_process_that_is_killed_at_any_moment_leaves_a_row_for_every_dispatch() {
    if harness::on_hardware() {
        return;
    }
    let mut instants = Instants(0x9e37_79b9_7f4a_7c15);
    for _ in 0..harness::count(20, 200) {
        let outcome = killed(endless("kill", 64), instants.next(Duration::from_millis(80)));
        let (folder, log) = (outcome.folder.path().join("records"), outcome.folder.path().join("log.csv"));
        let records = records_in(&folder);
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let begun = outcome.read("log.csv");
        assert!(begun.contains(&format!("# records: {}\n", records[0].display())), "{begun}");
        omniprobe_log(&records, Some(&log));
        let trace = outcome.read("trace.json");
        assert_no_row_is_missing(&outcome.log(), &trace);
        // Nothing is written twice.
        let whole = outcome.read("log.csv");
        omniprobe_log(&records, Some(&log));
        assert_eq!(outcome.read("log.csv"), whole);
    }
}

#[test]
fn files_of_records_are_listed_and_removed_once_no_row_is_owed() {
    let outcome = killed(endless("kill", 64), Duration::ZERO);
    let (folder, log) = (outcome.folder.path().join("records"), outcome.folder.path().join("log.csv"));
    let records = records_in(&folder);
    fs::write(folder.join("logdur.7.records"), "another program's").unwrap();
    let tool = |option: &str| {
        let output =
            Command::new(built("omniprobe")).args(["log", option]).env("LOGDUR_RECORDS", &folder).output().unwrap();
        assert!(output.status.success());
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(texts[1].contains("logdur.7.records: "), "a file that cannot be read is named: {}", texts[1]);
        texts
    };
    let [listed, _] = tool("--list");
    let line = listed.lines().find(|line| line.contains(records[0].to_str().unwrap())).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let owed: u64 = words[2].parse().unwrap();
    assert!(words[1] == "ended" && owed > 0 && line.contains(log.to_str().unwrap()), "{line}");
    let [removed, said] = tool("--clean");
    assert_eq!(removed, "");
    assert!(said.contains(&format!("lacks {owed} rows")), "{said}");
    assert!(records[0].exists());
    omniprobe_log(&records, Some(&log));
    // They are in the log now; the file does not know, and is compared with it.
    let [removed, _] = tool("--clean");
    assert!(removed.contains(records[0].to_str().unwrap()) && !records[0].exists(), "{removed}");
}

/// Names of folders and files: what ends lines, what commands terminals, no text, what programs replace, what shells divide, and
/// as long as names may be.
fn unusual_names() -> [Vec<u8>; 6] {
    let names: [&[u8]; 5] = [
        b"new\nline\n17 records-at no",
        b"\x1b[2J\t\r\x7f",
        b"\xff\xfe text",
        b"100% %0a %d%",
        b"it's  $(a) `b` \\ \"",
    ];
    let [a, b, c, d, e] = names.map(<[u8]>::to_vec);
    [a, b, c, d, e, vec![b'l'; 255]]
}

#[test]
fn rows_of_processes_that_die_are_found_in_folders_of_any_name() {
    for name in unusual_names() {
        let name = OsStr::from_bytes(&name);
        // What is held for a capture when the process dies was not dispatched.
        for (mode, signal) in [("abort", Some(libc::SIGABRT)), ("again", None)] {
            let run = Run::hsa("endless").args([mode, "40"]);
            let [records, caches] = ["records", "caches"].map(|folder| run.file(folder).join(name));
            [&records, &caches].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
            fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), caches.join("kernels.hsaco")).unwrap();
            let [logs, captures] = ["logs", "captures"].map(|folder| run.file(folder));
            [&logs, &captures].iter().for_each(|folder| fs::create_dir(folder).unwrap());
            let (log, capture) = (logs.join(name), captures.join(name));
            let indexes = run.file("indexes").join(name);
            let run = run.env("LOGDUR_RECORDS", &records).env("XDG_CACHE_HOME", indexes).env("XDG_RUNTIME_DIR", "");
            let mut options = vec![OsStr::new("-l"), log.as_os_str(), OsStr::new("-c"), caches.as_os_str()];
            if signal.is_none() {
                options.extend([OsStr::new("--capture"), capture.as_os_str()]);
            }
            let outcome = run.probed(&options);
            let what = format!("{name:?}, {mode}: {}", outcome.stderr);
            assert_eq!((outcome.status.signal(), outcome.stdout.as_str()), (signal, "PASS\n"), "{what}");
            assert_eq!(records_in(&records), [] as [PathBuf; 0], "{what}");
            let rows = Log::parse(&String::from_utf8(fs::read(&log).unwrap()).unwrap());
            assert_eq!((rows.account()["seen"], rows.rows.len()), (40, 40), "{what}");
            assert!(rows.rows.iter().all(|row| !row.text("replaced").is_empty()), "{what}: {:?}", rows.notices);
            if signal.is_none() {
                assert_eq!(Reader::open(&capture).unwrap().dispatches().len(), 1, "{what}");
            }
        }
    }
}

#[test]
fn records_in_folders_of_any_name_are_listed_and_the_command_that_is_shown_writes_their_rows() {
    if harness::on_hardware() {
        return;
    }
    for name in unusual_names() {
        let tool = |folder: &Path, option: &str| {
            let mut command = Command::new(built("omniprobe"));
            let output = command.args(["log", option]).env("LOGDUR_RECORDS", folder).output().unwrap();
            assert!(output.status.success(), "{folder:?}: {output:?}");
            let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
            assert!(!texts.concat().contains(|c: char| c.is_control() && c != '\n'), "{texts:?}");
            texts
        };
        // A process that is killed at a moment when all rows are written leaves nothing to do.
        let left = (0..20).find_map(|_| {
            let run = Run::hsa("endless").args(["kill", "64"]);
            let folder = run.file("records").join(OsStr::from_bytes(&name));
            fs::create_dir_all(&folder).unwrap();
            let outcome = killed(run.env("LOGDUR_RECORDS", &folder), Duration::ZERO);
            assert_eq!(records_in(&folder).len(), 1, "{folder:?}");
            let [listed, _] = tool(&folder, "--list");
            assert_eq!(listed.lines().filter(|line| line.contains(" ended ")).count(), 1, "{listed}");
            assert_eq!(listed.lines().count(), 2, "{listed}");
            let [_, said] = tool(&folder, "--clean");
            let (_, command) = said.split_once("`omniprobe log ")?;
            Some((outcome, folder, command.to_owned()))
        });
        let (outcome, folder, command) = left.expect("a process that has rows to write");
        let (word, _) = command.rsplit_once(" -l LOG` writes").expect("a command with a file");
        let script = format!("omniprobe log {word} -l \"$1\"");
        let program = built("omniprobe");
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let mut shell = Command::new("bash");
        let log = outcome.folder.path().join("log.csv");
        // The log names the file by the same word.
        let begun = outcome.read("log.csv");
        assert!(begun.contains(&format!("# records: {word}\n")), "{begun}");
        let ran = shell.args(["-c", &script, "bash"]).arg(&log).env("PATH", path).output().unwrap();
        assert!(ran.status.success(), "{script}: {ran:?}");
        assert_no_row_is_missing(&outcome.log(), &outcome.read("trace.json"));
        let [_, said] = tool(&folder, "--clean");
        assert_eq!((said.as_str(), records_in(&folder).len()), ("", 0));
    }
}

#[test]
fn omniprobe_writes_what_an_application_that_dies_could_not_and_names_what_was_in_flight() {
    for (mode, signal) in [("_exit", None), ("abort", Some(libc::SIGABRT)), ("segv", Some(libc::SIGSEGV))] {
        let run = endless(mode, 200);
        let (log, folder) = (run.file("log.csv"), run.file("records"));
        let run = run.probed(&["-l", log.to_str().unwrap()]);
        assert_eq!((run.status.signal(), run.stdout.as_str()), (signal, "PASS\n"), "{mode}: {}", run.stderr);
        assert_eq!(records_in(&folder), [] as [PathBuf; 0], "{mode}");
        let log = run.log();
        assert_eq!((log.account()["seen"], log.rows.len()), (200, 200), "{mode}");
        if !harness::on_hardware() {
            assert_no_row_is_missing(&log, &run.read("trace.json"));
        }
        if let Some(signal) = signal {
            assert!(log.notices.iter().any(|n| n.ends_with(&format!("was killed by signal {signal}"))), "{mode}");
        }
        let lost = log.rows.iter().filter(|r| r.flags().contains("times-lost")).count();
        let named = log.notices.iter().any(|n| n.starts_with("in flight: increment: "));
        assert_eq!(log.account().get("times-lost").copied().unwrap_or(0), lost as u64, "{mode}");
        // A process that dies before its GPU's clock was read has lost all times, also of complete dispatches.
        assert!(lost == 200 || named == (lost > 0), "{mode}: {lost} {:?}", log.notices);
    }
}

#[test]
fn captures_of_processes_that_die_are_named_with_what_is_whole_of_them() {
    let two = ["-c", "\"$0\" again 40; \"$0\" abort 40"].map(OsStr::new);
    let run = Run::new("sh".into()).args(two).args([harness::hsa("endless")]);
    let run = with_records(run);
    let [first, second, older] = ["a.ldcap", "a.1.ldcap", "a.2.ldcap"].map(|name| run.file(name));
    // An older one, of another run, that nobody finished.
    let before = endless("abort", 40);
    let left = before.file("left.ldcap");
    let before = before.probed(&["--capture", left.to_str().unwrap()]);
    assert!(before.stderr.contains("left.ldcap: not finished, "), "{}", before.stderr);
    fs::copy(&left, &older).unwrap();
    let hour = Duration::from_secs(3600);
    fs::File::options().append(true).open(&older).unwrap().set_modified(SystemTime::now() - hour).unwrap();
    let outcome = run.probed(&[OsStr::new("--capture"), first.as_os_str()]);
    let named: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains(": not finished, ")).collect();
    let expected = format!("omniprobe: {}: not finished, ", second.display());
    assert!(matches!(named[..], [line] if line.starts_with(&expected)), "{}", outcome.stderr);
    let reader = Reader::open(&second).unwrap();
    let whole = reader.dispatches().iter().filter(|dispatch| !reader.is_unended(dispatch)).count();
    assert!(named[0].contains(&format!(": {whole} dispatches are whole so far")), "{named:?}");
    assert_eq!((whole, Reader::open(&first).unwrap().end() == &End::Finished), (1, true));
}

#[test]
fn rows_that_others_write_say_which_kernels_were_swapped() {
    let run = endless("abort", 200);
    let (log, cache) = (run.file("log.csv"), run.file("cache"));
    fs::create_dir(&cache).unwrap();
    fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), cache.join("kernels.hsaco")).unwrap();
    let indexes = run.file("indexes");
    let run = run.env("XDG_CACHE_HOME", indexes);
    let run = run.probed(&["-l", log.to_str().unwrap(), "-c", cache.to_str().unwrap(), "-k", "^increment$"]);
    let log = run.log();
    assert_eq!((log.account()["seen"], log.rows.len()), (200, 200));
    let hashes: BTreeSet<&str> = log.rows.iter().map(|row| row.text("replaced")).collect();
    assert_eq!(hashes.len(), 1, "{hashes:?}");
    let hash = hashes.first().unwrap();
    let said = log.notices.iter().filter(|n| n.contains("active:") && n.ends_with(hash)).collect::<Vec<_>>();
    assert!(!hash.is_empty() && said.len() == 1 && said[0].contains("active: increment"), "{hash}: {:?}", log.notices);
}

#[test]
fn a_process_that_ends_in_order_leaves_no_records() {
    let run = endless("again", 40);
    let folder = run.file("records");
    let run = run.watched().passed();
    assert_eq!(run.log().account()["logged"], 40);
    assert_eq!(records_in(&folder), [] as [PathBuf; 0]);
}

#[test]
fn a_process_that_replaces_itself_leaves_the_records_of_its_first_image_for_omniprobe() {
    let run = endless("exec", 40);
    let (log, folder) = (run.file("log.csv"), run.file("records"));
    let run = run.watched();
    let left = records_in(&folder);
    assert_eq!(left.len(), 1, "{left:?}");
    let text = run.read("log.csv");
    assert!(text.contains(&format!("`omniprobe log {}`", left[0].display())), "{text}");
    omniprobe_log(&left, Some(&log));
    let log = Log::parse(&run.read("log.csv"));
    assert_eq!((log.rows.len(), log.accounts.len()), (80, 2));
    assert!(log.accounts.iter().all(|a| a["seen"] == 40 && a["logged"] == 40));
}

#[test]
fn several_processes_that_are_killed_in_one_log_have_each_their_rows() {
    if harness::on_hardware() {
        return;
    }
    let shared = tempfile::tempdir().unwrap();
    let log = shared.path().join("log.csv");
    let runs: Vec<Outcome> = std::thread::scope(|scope| {
        let start = |i: u64| {
            let log = &log;
            scope.spawn(move || {
                let run = endless("kill", 64);
                let link = run.file("log.csv");
                std::os::unix::fs::symlink(log, link).unwrap();
                killed(run, Duration::from_millis(20 * i))
            })
        };
        [0, 1, 2].map(start).map(|t| t.join().unwrap()).into()
    });
    for run in &runs {
        omniprobe_log(&records_in(&run.folder.path().join("records")), Some(&log));
    }
    let log = Log::parse(&fs::read_to_string(&log).unwrap());
    assert_eq!(log.accounts.len(), 3);
    assert_eq!(log.rows.len() as u64, log.accounts.iter().map(|a| a["logged"]).sum::<u64>());
    let completed: usize = runs.iter().map(|r| completed(&r.read("trace.json")).len()).sum();
    assert!(log.rows.len() >= completed, "{} rows of {completed} dispatches", log.rows.len());
}

#[test]
fn where_no_file_can_be_made_rows_are_logged_all_the_same_and_a_notice_says_so() {
    for folder in ["/proc", "/nonexistent/folder", "/dev/full"] {
        let run = Run::hsa("endless").args(["again", "40"]).env("LOGDUR_RECORDS", folder).watched().passed();
        let log = run.log();
        assert_eq!((log.account()["logged"], run.stderr.as_str()), (40, ""), "{folder}");
        let said = |n: &&String| n.contains("would not survive a crash") && n.contains(folder);
        assert_eq!(log.notices.iter().filter(said).count(), 1, "{folder}: {:?}", log.notices);
    }
}

#[test]
fn a_file_that_is_none_of_records_is_named_with_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "kernel,dispatch\n").unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    for (file, said) in [
        (text.as_path(), "which begins with \"LDRECORD\", found \"kernel,d\""),
        (&empty, "found 0 bytes"),
        (folder.path(), "found a folder or a device"),
        (Path::new("/nonexistent"), "No such file"),
    ] {
        let output = Command::new(built("omniprobe")).arg("log").arg(file).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(if said.contains("No such file") { 1 } else { 2 }), "{stderr}");
        assert!(stderr.contains(said) && stderr.contains(file.to_str().unwrap()), "{stderr}");
    }
}

#[test]
fn every_packet_that_the_gpu_takes_has_a_row_and_every_launch_that_returned_is_counted_however_the_process_ends() {
    if harness::on_hardware() {
        return;
    }
    for end in ["segv", "exit"] {
        let plan = ["threads=8", "packets=400", "slots=1024", &format!("end={end}")];
        let run = with_records(Run::hsa("producers").args(plan));
        let (count, log) = (run.file("count"), run.file("log.csv"));
        let run = run.args([format!("count={}", count.display())]);
        let run = run.probed(&["-l", log.to_str().unwrap()]);
        let ended = if end == "segv" { (Some(libc::SIGSEGV), None) } else { (None, Some(0)) };
        assert_eq!((run.status.signal(), run.status.code()), ended, "{}", run.stderr);
        // The application's own count: a thread adds one after each doorbell.
        let rung = u64::from_ne_bytes(fs::read(&count).unwrap()[..].try_into().unwrap());
        // The emulated driver's. The runtime has packets of its own, and the last line may be torn.
        let trace = run.read("trace.json");
        let packets = trace.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let taken = packets.filter(|p| p["grid"][0] == 64 && p["workgroup"][0] == 64).count() as u64;
        let log = run.log();
        let (account, rows) = (log.account(), log.rows.len() as u64);
        let left = account.get("not-submitted").copied().unwrap_or(0);
        let what = format!("{end}: {rung} rung for, {taken} taken, {rows} rows: {account:?}");
        assert!(rows == account["logged"] && rows >= taken && rows + left >= rung, "{what}");
        // Nothing is counted that was not launched: each of the 8 threads was in one call at most.
        assert!(rung > 0 && rows + left <= rung + 8, "{what}");
    }
}
