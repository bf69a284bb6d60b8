//! Many dispatches of many threads on many queues, and an application that runs for long: each dispatch has its row, and the
//! library takes no more memory and descriptors with time.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use logdur_capture::Reader;

use crate::support::harness::{self, Run};

/// What a log has, read line by line: it may be larger than memory.
struct Counted {
    rows: usize,
    flagged: usize,
    /// Rows whose number another row has, or that is beyond what was dispatched.
    foreign: usize,
    account: String,
}

fn count(log: &Path, dispatches: usize) -> Counted {
    let mut counted = Counted { rows: 0, flagged: 0, foreign: 0, account: String::new() };
    let mut seen = vec![false; dispatches];
    let (mut id_column, mut flags_column) = (0, 0);
    for line in BufReader::new(File::open(log).unwrap()).lines() {
        let line = line.unwrap();
        if let Some(account) = line.strip_prefix("# account: ") {
            counted.account = account.to_owned();
        } else if line.starts_with("kernel,") {
            let column = |name| line.split(',').position(|column| column == name).expect(name);
            (id_column, flags_column) = (column("id"), column("flags"));
        } else if !line.starts_with('#') {
            // The kernel's name has no comma.
            let cells: Vec<&str> = line.split(',').collect();
            assert!(cells[0].trim_matches('"').starts_with("tally"), "{line}");
            counted.rows += 1;
            counted.flagged += usize::from(!cells[flags_column].trim_matches('"').is_empty());
            let id: usize = cells[id_column].parse().unwrap_or_else(|e| panic!("{e}: {line}"));
            match seen.get_mut(id) {
                Some(seen) if !*seen => *seen = true,
                _ => counted.foreign += 1,
            }
        }
    }
    counted
}

#[test]
fn each_of_many_dispatches_of_64_threads_on_100_queues_has_its_row() {
    let of_a_thread = harness::count(160, 156_250);
    let dispatches = 64 * of_a_thread;
    let run = Run::hsa("shared_signal")
        .args(["lone", "64", "100", &of_a_thread.to_string(), "blocked"])
        .env("KFDEMU_TRACE", "/dev/null")
        .watched()
        .passed();
    let counted = count(&run.folder.path().join("log.csv"), dispatches);
    assert_eq!((counted.rows, counted.foreign, counted.flagged), (dispatches, 0, 0), "{}", counted.account);
    let says = |what: &str| counted.account.split(' ').any(|word| word == what);
    assert!(says(&format!("seen={dispatches}")) && says(&format!("logged={dispatches}")), "{}", counted.account);
}

/// What the process had at one moment of a soak.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
}

fn samples(stdout: &str) -> Vec<Sample> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("at "));
    let parse = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap_or_else(|e| panic!("{e}: {line}"));
        let seconds = words[0].parse().unwrap();
        Sample { seconds, resident_kib: number(2), descriptors: number(4), threads: number(6) }
    };
    lines.map(parse).collect()
}

/// What happens around the application meanwhile: its log is rotated by copying and truncating it, as `logrotate` does with
/// `copytruncate`, and the replacement of its kernel comes and goes.
fn disturb(log: &Path, replacement: &Path, to: &Path, every: Duration, ended: impl Fn() -> bool) -> Vec<PathBuf> {
    let mut rotated = Vec::new();
    loop {
        let begin = Instant::now();
        while begin.elapsed() < every {
            if ended() {
                return rotated;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        match to.exists() {
            true => fs::remove_file(to).unwrap(),
            false => {
                let new = to.with_extension("new");
                fs::copy(replacement, &new).unwrap();
                fs::rename(&new, to).unwrap();
            }
        }
        if log.exists() {
            let copy = log.with_extension(format!("{}.csv", rotated.len()));
            fs::copy(log, &copy).unwrap();
            OpenOptions::new().write(true).truncate(true).open(log).unwrap();
            rotated.push(copy);
        }
    }
}

#[test]
fn an_application_that_runs_for_long_is_captured_swapped_and_logged_without_growing() {
    /// Kernels come from the cache, from the application, and are captured, all the time.
    const SECONDS: &str = "LOGDUR_TEST_SOAK_SECONDS";
    let asked = std::env::var(SECONDS).ok().map(|text| text.parse().expect("a number of seconds"));
    let seconds = asked.unwrap_or_else(|| harness::count(8, 1800));
    let run = Run::hsa("soak").args([seconds.to_string()]).env("KFDEMU_TRACE", "/dev/null");
    let [cache, indexes, capture, log] = ["cache", "indexes", "run.ldcap", "log.csv"].map(|name| run.file(name));
    fs::create_dir(&cache).unwrap();
    let replacement = harness::hip_object("kernels", &harness::arch(), "-O1");
    let run = run
        .env("LOGDUR_KERNEL_CACHE", &cache)
        .env("XDG_CACHE_HOME", indexes)
        .env("LOGDUR_CAPTURE", &capture)
        .env("LOGDUR_CAPTURE_DISPATCHES", "every:1000")
        .env("LOGDUR_CAPTURE_MAX_SECONDS", "100000");
    let ends = run.file("ends");
    let run = run.env("TEST_SOAK_ENDS", &ends);
    let failed = AtomicBool::new(false);
    // The application waits for the removal: nothing is rotated after it.
    let ended = || failed.load(Ordering::Relaxed) || fs::remove_file(&ends).is_ok();
    let every = Duration::from_millis(if seconds < 60 { 500 } else { 5000 });
    let (outcome, rotated) = std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| disturb(&log, &replacement, &cache.join("kernels.hsaco"), every, ended));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.watched()));
        failed.store(true, Ordering::Relaxed);
        (outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), disturbing.join().unwrap())
    });
    let outcome = outcome.passed();
    let dispatches = outcome.stdout.lines().find_map(|line| line.strip_prefix("dispatches ")).expect("a number");
    let account = fs::read_to_string(&log).unwrap();
    let account = account.lines().rev().find_map(|line| line.strip_prefix("# account: ")).expect("an account");
    for what in [format!("seen={dispatches}"), format!("logged={dispatches}")] {
        assert!(account.split(' ').any(|word| word == what), "{what} expected, found {account}");
    }
    // What is written between the copy and the truncation is lost by this kind of rotation, and only that.
    let rows_of = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().filter(|line| !line.starts_with('#') && line.contains("tally")).count() as u64
    };
    let rows: u64 = rotated.iter().chain([&log]).map(rows_of).sum();
    assert!(rows > 0 && rows <= dispatches.parse().unwrap(), "{rows} rows of {dispatches} dispatches");
    let captured = Reader::open(&capture).unwrap();
    assert!(!captured.dispatches().is_empty() && captured.check().findings.is_empty());

    let samples = samples(&outcome.stdout);
    let end = samples.last().expect("a sample").seconds;
    let most = |from: f64, to: f64, of: fn(&Sample) -> u64| {
        samples.iter().filter(|s| s.seconds >= from * end && s.seconds <= to * end).map(of).max().unwrap_or(0)
    };
    let slack = harness::count(64, 8) as u64 * 1024;
    for (what, of, more) in [
        ("KiB of memory", (|s| s.resident_kib) as fn(&Sample) -> u64, slack),
        ("descriptors", |s| s.descriptors, 4),
        ("threads", |s| s.threads, 4),
    ] {
        let (before, after) = (most(0.0, 0.5, of), most(0.5, 1.0, of));
        assert!(after <= before + more, "{what}: {before} in the first half, {after} in the second: {samples:?}");
    }
    eprintln!("{dispatches} dispatches, {} captured; first, middle and last:", captured.dispatches().len());
    for sample in [samples.first(), samples.get(samples.len() / 2), samples.last()].into_iter().flatten() {
        eprintln!("{sample:?}");
    }
}
