//! Running processes that are controlled: rows and features are turned on and off from outside.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use logdur_capture::Reader;

use crate::support::harness::{self, Run, built};
use crate::support::log::Log;

/// How long something may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most launches of a program.
const MOST: usize = 2000;

/// A program that waits for a line before each launch, and says after it whose kernel ran.
struct Steps {
    run: Run,
    child: Child,
    said: BufReader<ChildStdout>,
    launched: usize,
}

impl Steps {
    /// Starts it with the library.
    fn start(run: Run, start: Option<&str>) -> Steps {
        let run = run.args(["-w"]).args(vec!["plain"; MOST]).env("XDG_RUNTIME_DIR", "");
        let run = match start {
            Some(start) => run.env("LOGDUR_START", start),
            None => run,
        };
        let sockets = run.file("sockets");
        fs::create_dir_all(&sockets).unwrap();
        let mut command = run.command();
        command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
        command.env("LOGDUR_LOG_LOCATION", run.file("log.csv")).env("XDG_RUNTIME_DIR", &sockets);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(fs::File::create(run.file("stderr")).unwrap());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut steps = Steps { run, child, said, launched: 0 };
        steps.launch();
        steps
    }

    /// Launches once; whose kernel it was.
    fn launch(&mut self) -> String {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        self.launched += 1;
        assert!(self.launched < MOST && line.starts_with("plain "), "{line}");
        line.trim_start_matches("plain ").trim_end().to_owned()
    }

    /// The rows that are written.
    fn rows(&self) -> usize {
        fs::read_to_string(self.run.file("log.csv")).unwrap_or_default().matches("\n\"plain").count()
    }

    /// Launches until there are more rows than before.
    fn launch_until_there_are_rows(&mut self) {
        let (before, start) = (self.rows(), Instant::now());
        while self.rows() <= before {
            assert!(start.elapsed() < PATIENCE, "no row");
            self.launch();
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn attach(&self, options: &[&str]) -> Command {
        let mut command = Command::new(built("omniprobe"));
        command.arg("attach").arg(self.child.id().to_string()).args(options).stdin(Stdio::null());
        command
    }

    /// What `omniprobe attach` prints.
    fn attached(&self, options: &[&str]) -> String {
        let output = self.attach(options).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
        text(&output.stdout) + &text(&output.stderr)
    }

    /// How it refuses.
    fn refused(&self, options: &[&str]) -> String {
        refusal(&self.attach(options).output().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.run.file("sockets").join(format!("logdur.{}.control", self.child.id()))
    }

    /// Waits until a line of the status has some text.
    fn wait_for_status(&self, text: &str) {
        let start = Instant::now();
        while !self.attached(&["--status"]).contains(text) {
            assert!(start.elapsed() < PATIENCE, "{}", self.attached(&["--status"]));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the program; its log, and its standard error.
    fn end(mut self) -> (Log, String, Run) {
        self.child.stdin.take();
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(!self.socket().exists());
        let read = |name| fs::read_to_string(self.run.file(name)).unwrap();
        (Log::parse(&read("log.csv")), read("stderr"), self.run)
    }
}

fn refusal(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

#[test]
fn rows_are_written_while_they_are_turned_on_and_every_other_dispatch_is_counted() {
    let mut steps = Steps::start(Run::hip("swaps"), Some("off"));
    let status = steps.attached(&["--status"]);
    let log = steps.run.file("log.csv");
    let expected = format!("{} (swaps): rows off, to {}; 1 seen, 1 outside", steps.child.id(), log.display());
    assert_eq!(status.trim(), expected);
    assert!(steps.attached(&["--on"]).contains(": rows on, to "));
    steps.launch_until_there_are_rows();
    assert!(steps.attached(&["--off"]).contains(": rows off, to "));
    let launched = steps.launched;
    for _ in 0..5 {
        steps.launch();
    }
    let seen = steps.launched as u64;
    let (log, stderr, _) = steps.end();
    let (rows, account) = (log.rows_of("plain").len(), log.account());
    assert!(0 < rows && rows < launched, "{rows} of {launched}");
    assert_eq!(account["logged"] + account["outside"], account["seen"], "{account:?}");
    assert_eq!(account["seen"], seen);
    assert_eq!(stderr, "");
}

#[test]
fn what_a_client_has_turned_on_ends_with_it_even_if_it_is_killed() {
    let mut steps = Steps::start(Run::hip("swaps"), Some("off"));
    let mut client = steps.attach(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    steps.wait_for_status(": rows on");
    client.kill().unwrap();
    client.wait().unwrap();
    steps.wait_for_status(": rows off");
    // Two clients: rows are on as long as one of them is there.
    let mut clients = [(); 2].map(|()| {
        let mut command = steps.attach(&["--seconds", "100"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    });
    steps.wait_for_status(": rows on");
    let interrupt = |client: &Child| {
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(client.id() as libc::pid_t, libc::SIGINT) };
    };
    steps.launch_until_there_are_rows();
    let [first, second] = &mut clients;
    interrupt(first);
    first.wait().unwrap();
    steps.launch_until_there_are_rows();
    interrupt(second);
    let mut told = String::new();
    second.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    second.wait().unwrap();
    assert!(told.lines().any(|line| line.ends_with("  plain")), "{told}");
    steps.wait_for_status(": rows off");
    steps.end();
}

#[test]
fn totals_of_the_time_in_which_it_was_attached_are_printed_and_those_of_the_log() {
    let mut steps = Steps::start(Run::hip("swaps"), Some("on"));
    steps.launch_until_there_are_rows();
    let client = steps.attach(&["--seconds", "1.5"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..10 {
        steps.launch();
    }
    let output = client.wait_with_output().unwrap();
    let (table, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(said.starts_with("omniprobe: attached to "), "{said}");
    assert!(table.starts_with("10 dispatches in "), "{table}");
    let row: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!((row[2], row[3], *row.last().unwrap()), ("100.0%", "10", "plain"), "{table}");
    // It was on from the start, and stays so.
    steps.wait_for_status(": rows on");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let status = json(&steps.attached(&["--status", "--json"]));
    assert_eq!((status["rows"].as_bool(), status["features"]["swap"].as_str()), (Some(true), Some("impossible")));
    let totals = steps.attach(&["--seconds", "0.1", "--json"]).output().unwrap();
    assert_eq!(json(&String::from_utf8(totals.stdout).unwrap())["dispatches"], 0);
    let top = Command::new(built("omniprobe"))
        .args(["top", "-n", "2", "-i", "0.2", &steps.child.id().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8(top.stdout).unwrap();
    assert_eq!(text.matches("0 dispatches in 0.2 s, 0/s, busy 0.0%").count(), 2, "{text}");
    let launched = steps.launched;
    let (log, ..) = steps.end();
    assert_eq!(log.rows_of("plain").len(), launched);
}

#[test]
fn the_number_of_omniprobe_stands_for_the_application_that_it_has_started() {
    let run = Run::hip("swaps");
    let log = run.file("log.csv");
    let mut command = run.omniprobe();
    command.args(["--attachable", "-l"]).arg(&log);
    if !harness::on_hardware() {
        command.args(["--emulate", &harness::arch()]);
    }
    command.arg("--").arg(run.command().get_program()).args(["-w", "plain", "plain", "plain", "plain"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let omniprobe = child.id().to_string();
    let mut launch = || {
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "plain original\n");
    };
    launch();
    let on = Command::new(built("omniprobe")).args(["attach", "--on", &omniprobe]).output().unwrap();
    assert!(on.status.success() && on.stdout.windows(8).any(|part| part == b"(swaps):"), "{on:?}");
    (0..3).for_each(|_| launch());
    assert!(child.wait().unwrap().success());
    assert_eq!(Log::parse(&fs::read_to_string(log).unwrap()).rows_of("plain").len(), 3);
}

#[test]
fn kernels_are_swapped_while_swapping_is_on() {
    let run = Run::hip("swaps");
    let cache = run.file("cache");
    fs::create_dir(&cache).unwrap();
    fs::copy(harness::hip_object("swaps", &harness::arch(), "-DOTHER -O3"), cache.join("k.hsaco")).unwrap();
    let indexes = run.file("indexes");
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes);
    let mut steps = Steps::start(run, Some("off,swap"));
    assert_eq!(steps.launch(), "original");
    assert!(steps.attached(&["--on"]).contains("swap off"));
    assert_eq!(steps.launch(), "original");
    assert!(steps.attached(&["--on", "-f", "swap"]).contains("swap on"));
    assert_eq!(steps.launch(), "other");
    assert!(steps.attached(&["--off", "-f", "swap"]).contains(": rows on, to "));
    assert_eq!(steps.launch(), "original");
    let refused = steps.refused(&["--on", "-f", "swap,capture"]);
    let why = "capture cannot be turned on: LOGDUR_START and the feature's own variable allow swap";
    assert!(refused.contains(why), "{refused}");
    assert!(steps.attached(&["--status"]).contains("swap off"), "a refusal turns nothing on");
    steps.end();
}

#[test]
fn dispatches_are_captured_while_capturing_is_on() {
    let run = Run::hip("swaps");
    let file = run.file("a.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_DISPATCHES", "1-9999");
    let mut steps = Steps::start(run, Some("off,capture"));
    steps.launch();
    assert!(steps.attached(&["--on"]).contains("capture off"));
    steps.launch();
    assert!(steps.attached(&["--on", "-f", "capture"]).contains("capture on"));
    steps.launch();
    steps.launch();
    assert!(steps.attached(&["--off"]).contains("capture off"));
    let (log, _, _run) = steps.end();
    let reader = Reader::open(&file).unwrap();
    let captured: Vec<u64> = reader.dispatches().iter().map(|dispatch| dispatch.occurrence).collect();
    assert_eq!(captured, [1, 2], "dispatches while it is off are not counted");
    assert_eq!(log.rows_of("plain").len(), 3);
}

#[test]
fn what_cannot_be_controlled_is_refused_with_what_makes_it_possible() {
    let attach =
        |pid: &str| refusal(&Command::new(built("omniprobe")).args(["attach", "--status", pid]).output().unwrap());
    assert!(attach("999999999").contains("there is no process 999999999"));
    // Not this process, whose other tests have children that listen.
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let without = attach(&other.id().to_string());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(without.contains("it has no liblogdur.so in it") && without.contains("--attachable"), "{without}");
    let mut steps = Steps::start(Run::hip("swaps"), None);
    let not_asked = steps.refused(&["--status"]);
    assert!(not_asked.contains("it was started without LOGDUR_START"), "{not_asked}");
    assert_eq!(
        fs::read_dir(steps.run.file("sockets"))
            .unwrap()
            .filter(|f| f.as_ref().unwrap().path().ends_with("control"))
            .count(),
        0
    );
    assert!(steps.refused(&["-f", "log"]).contains("expected capture, instrument or swap"));
    assert!(steps.refused(&["-s", "0"]).contains("expected a number of seconds above 0"));
    steps.launch();
    steps.end();
}

#[test]
fn a_feature_that_was_set_and_not_named_is_off_and_one_that_was_named_and_not_set_is_told() {
    let run = Run::hip("vectors");
    let file = run.file("a.ldcap");
    let outcome = run.env("LOGDUR_START", "off,swap").env("LOGDUR_CAPTURE", &file).watched().passed();
    assert!(!file.exists());
    let notices = outcome.log().notices;
    let nobody = "LOGDUR_START: no client has turned anything on: all ";
    for expected in [
        "LOGDUR_CAPTURE has no effect: LOGDUR_START does not name capture, so it cannot be turned on",
        "LOGDUR_START: swap cannot be turned on without LOGDUR_KERNEL_CACHE",
        nobody,
    ] {
        assert!(notices.iter().any(|notice| notice.starts_with(expected)), "{expected}: {notices:#?}");
    }
    let by_omniprobe = Run::hip("vectors").probed(&["--attachable=swap"]).passed();
    assert!(by_omniprobe.stderr.contains(nobody), "{}", by_omniprobe.stderr);
    let wrong = Run::hip("vectors").probed(&["--attachable=log"]);
    assert!(
        wrong.stderr.contains("expected on, off or off,FEATURE[,FEATURE] of capture, instrument, swap"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_client_that_reads_nothing_and_one_that_sends_garbage_keep_nobody_waiting() {
    let mut steps = Steps::start(Run::hip("swaps"), Some("off"));
    steps.wait_for_status(": rows off");
    let connect = |path: &Path| {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        stream
    };
    let mut deaf = connect(&steps.socket());
    // It is dropped when its answers fill the socket.
    let sent = (0..1_000_000).find_map(|_| deaf.write_all(b"status\n").err());
    assert!(sent.is_some());
    let mut garbage = connect(&steps.socket());
    garbage.write_all(b"\xff\xff now\n").unwrap();
    let mut answer = String::new();
    let mut answers = BufReader::new(garbage.try_clone().unwrap());
    answers.read_line(&mut answer).unwrap();
    assert_eq!(answer, "error expected a request of text\n");
    garbage.write_all(&[b'x'; 5000]).unwrap_or_default();
    let mut rest = Vec::new();
    // Whether it is closed or reset, nothing more is said.
    let _ = answers.read_to_end(&mut rest);
    assert_eq!(rest, b"\n");
    let many: Vec<UnixStream> = (0..40).map(|_| connect(&steps.socket())).collect();
    assert_eq!(steps.launch(), "original");
    drop(many);
    steps.wait_for_status(": rows off");
    steps.end();
}

#[test]
fn an_application_that_closes_the_socket_can_be_controlled_all_the_same() {
    let run = Run::hsa("descriptors");
    let (own, sockets) = (run.file("own"), run.file("sockets"));
    fs::create_dir(&own).unwrap();
    fs::create_dir(&sockets).unwrap();
    let attach = format!("{} attach --on", built("omniprobe").display());
    let run = run.args(["8".as_ref(), own.as_os_str(), attach.as_ref()]);
    let outcome = run.env("LOGDUR_START", "off").env("XDG_RUNTIME_DIR", &sockets).watched().passed();
    assert!(outcome.stdout.contains(": rows on, to "), "{}", outcome.stdout);
    let log = outcome.log();
    let account = log.account();
    assert_eq!((account["logged"], account["outside"]), (8, 8), "{account:?}");
    for file in fs::read_dir(&own).unwrap() {
        assert_eq!(fs::read_to_string(file.unwrap().path()).unwrap(), "mine\n");
    }
}
