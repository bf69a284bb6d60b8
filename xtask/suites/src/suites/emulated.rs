//! One test's process under the emulated GPU: logged, then captured and verified.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::shell;

use super::forms::{Judged, Test};
use super::place::InstalledSuite;
use super::regions::{self, Stretch, Stretched};

/// The processor that is emulated for most: what Debian's packages and AMD's libraries have code for.
pub(crate) const ARCH: &str = "gfx90a";

/// How far one test goes.
pub(crate) struct Limits {
    /// Seconds that a process may take.
    pub(crate) seconds: u64,
    /// Dispatches that are captured; 0 for none.
    pub(crate) captures: u32,
    /// The stretch that is captured as a region.
    pub(crate) stretch: Stretch,
}

/// A capture may be so large: more is a sign of a test that the disk was not meant for.
pub(super) const CAPTURE_BYTES: &str = "1G";
/// Begins lines of tests with figures.
const MEASURED: &str = "measured ";
/// Tells scripts where the programs of their suite are.
const PLACE: &str = "SUITE_FOLDER";
/// What `timeout` ends with when the time was over.
pub(super) const TIMED_OUT: i32 = 124;
/// The notice of a capture that has enough names the variable that says so.
const ENOUGH: &str = "LOGDUR_CAPTURE_QUIT=";
/// The checks of `omniprobe analyze` that are done.
const CHECKS: &str = "memory,init,race,wait,barrier";
/// Statuses of `omniprobe verify` that are no error: right, not to be told, and nothing to compare.
pub(super) const FINE: [u64; 3] = [0, 10, 11];

/// What became of a test.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) test: String,
    pub(crate) judged: Judged,
    /// Dispatches that the log has, or has counted.
    pub(crate) dispatches: u64,
    /// Of the run that was only logged.
    pub(crate) seconds: f64,
    /// Seconds of all processors together in that run: what a busy machine does not change.
    pub(crate) processor: f64,
    pub(crate) captured: u64,
    /// Captured dispatches by what `verify` says of them.
    pub(crate) verified: BTreeMap<String, u64>,
    /// Captured dispatches that were analysed, and what checks found in them: the check, the kernel and the finding, and how many.
    pub(crate) analyzed: u64,
    pub(crate) found: BTreeMap<String, u64>,
    /// What was wrong with the capture or its replays, one line each.
    pub(crate) complaints: Vec<String>,
    /// What came of a stretch of it, if one was captured.
    pub(crate) stretched: Option<Stretched>,
    /// What the test has measured itself: lines that begin with `measured`.
    pub(crate) measured: Vec<String>,
}

/// What a process did.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) output: String,
    pub(super) seconds: f64,
    processor: f64,
}

/// `omniprobe`, in a process that is ended with all its children when the time is over.
pub(super) fn limited(seconds: u64) -> Command {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=10").arg(seconds.to_string()).arg(shell::built("omniprobe"));
    command.stdin(Stdio::null());
    command
}

/// Runs a command with its output in a file, which a child that outlives it cannot keep us waiting for.
pub(super) fn run(mut command: Command, output: &Path) -> Result<Ran> {
    let file = File::create(output).with_context(|| format!("creating {}", output.display()))?;
    command.stdout(file.try_clone()?).stderr(file);
    let (start, before) = (Instant::now(), processor());
    let status = command.status().with_context(|| format!("could not start {command:?}"))?;
    let (seconds, processor) = (start.elapsed().as_secs_f64(), processor() - before);
    let output = String::from_utf8_lossy(&fs::read(output)?).into_owned();
    Ok(Ran { status, output, seconds, processor })
}

/// Seconds of processors that children and their children have used which have ended.
fn processor() -> f64 {
    // SAFETY: the structure is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the type that the function fills.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// What a program prints that is asked for its tests. Some ask for a GPU before they answer.
///
/// # Errors
/// When it does not end well, or not in time.
pub(crate) fn listing(words: &[String], folder: &Path) -> Result<String> {
    let mut command = limited(60);
    command.args(["--emulate", ARCH, "-l", "/dev/null", "--"]).args(words).current_dir(folder);
    let output = command.output().with_context(|| format!("could not start {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Some end with an error although they have listed everything, and some programs have no tests.
    if text.trim().is_empty() && !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: no test is listed ({}): {}", shell::shown(&command), output.status, last_line(&said));
    }
    Ok(text)
}

/// The last line that the application printed: `omniprobe` may say below it that nothing was logged.
pub(super) fn last_line(text: &str) -> &str {
    let is_said = |line: &&str| !line.trim().is_empty() && !line.starts_with("omniprobe: liblogdur.so was not loaded");
    text.lines().rfind(is_said).unwrap_or("no output").trim()
}

/// A folder for what one test writes.
fn folder(suite: &str, test: &Test) -> Result<PathBuf> {
    let name: String = test.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(120).collect();
    let folder = shell::cache().join("suites-runs").join(suite).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// Runs a test with a log, then with a capture, and verifies that.
///
/// # Errors
/// When a process cannot be started or a file cannot be written. What the test does wrong is in the outcome.
pub(crate) fn test(
    suite: &str,
    place: &InstalledSuite,
    (arch, variables): (&str, &[(&str, &str)]),
    test: &Test,
    judge: fn(&str) -> Judged,
    limits: &Limits,
) -> Result<Outcome> {
    let folder = folder(suite, test)?;
    let start = |log: &Path, options: &[&str]| {
        let mut command = limited(limits.seconds);
        command.args(["--emulate", arch, "-t", "json", "-l"]).arg(log).args(options);
        test.cache.iter().for_each(|cache| _ = command.arg("-c").arg(cache));
        command.arg("--").args(&test.words);
        command.envs(place.filled(variables)).env(PLACE, &place.folder).current_dir(&test.folder);
        if let Some(rocm) = &place.rocm {
            command.env("ROCM_PATH", rocm);
        }
        command
    };
    let log = folder.join("log.json");
    let ran = run(start(&log, &[]), &folder.join("output"))?;
    let account = Account::read(&log);
    let mut judged = judgement(&ran, judge, limits);
    if account.logged + account.filtered < account.seen {
        judged.failed.push(format!("{} dispatches were seen, {} logged", account.seen, account.logged));
    }
    if test.cache.is_some() && account.replaced != account.logged {
        judged.failed.push(format!("{} of {} dispatches ran a kernel of the cache", account.replaced, account.logged));
    }
    let mut outcome = Outcome {
        test: test.name.clone(),
        judged,
        dispatches: account.seen,
        seconds: ran.seconds,
        processor: ran.processor,
        captured: 0,
        verified: BTreeMap::new(),
        analyzed: 0,
        found: BTreeMap::new(),
        complaints: Vec::new(),
        stretched: None,
        measured: ran.output.lines().filter_map(|line| line.strip_prefix(MEASURED)).map(str::to_owned).collect(),
    };
    let is_right = outcome.judged.failed.is_empty();
    // Dispatches that are refused have no durations, and nothing to replay.
    if limits.captures == 0 || !is_right || account.durations.is_empty() {
        if is_right {
            fs::remove_dir_all(&folder).ok();
        }
        return Ok(outcome);
    }
    let of_device = (place, arch);
    outcome.stretched = regions::stretched(limits.stretch, &regions::rows(&log), &start, of_device, &folder, limits)?;
    let capture = folder.join("test.ldcap");
    let path = capture.display().to_string();
    let enough = limits.captures.to_string();
    let busiest = account.busiest(limits.captures);
    let options = [
        ["--capture", &path],
        ["--capture-kernels", &busiest],
        ["--capture-quit", &enough],
        ["--capture-max-bytes", CAPTURE_BYTES],
    ]
    .concat();
    let ran = run(start(&folder.join("log-captured.json"), &options), &folder.join("output-captured"))?;
    // A capture that has enough ends its process, which may be a child of the test's.
    let said = fs::read_to_string(folder.join("log-captured.json")).unwrap_or_default();
    let has_enough = said.contains(ENOUGH);
    if !has_enough {
        let judged = judgement(&ran, judge, limits);
        outcome.complaints.extend(judged.failed.iter().map(|reason| format!("when it is captured: {reason}")));
    }
    verify(&mut outcome, &capture, &folder, limits)?;
    check(&mut outcome, &capture, &folder, limits)?;
    fs::remove_file(&capture).ok();
    outcome.complaints.extend(outcome.stretched.iter().flat_map(|stretched| stretched.complaints.clone()));
    if outcome.complaints.is_empty() {
        fs::remove_dir_all(&folder).ok();
    }
    Ok(outcome)
}

/// What a process's end and output say.
fn judgement(ran: &Ran, judge: fn(&str) -> Judged, limits: &Limits) -> Judged {
    let mut judged = judge(&ran.output);
    if !ran.status.success() && judged.failed.is_empty() {
        // It may say that it passed before it dies.
        judged.passed = judged.passed.saturating_sub(1);
    }
    if ran.status.code() == Some(TIMED_OUT) {
        judged.failed.push(format!("it had not ended after {} s", limits.seconds));
    } else if !ran.status.success() && judged.failed.is_empty() {
        judged.failed.push(format!("{}: {}", ran.status, last_line(&ran.output)));
    } else if judged == Judged::default() {
        judged.failed.push(format!("nothing was tested: {}", last_line(&ran.output)));
    }
    judged
}

/// Replays every captured dispatch without a runtime.
fn verify(outcome: &mut Outcome, capture: &Path, folder: &Path, limits: &Limits) -> Result<()> {
    let mut command = limited(limits.seconds);
    command.args(["verify", "--backend", "emu", "--repetitions", "1", "--json"]).arg(capture);
    let ran = run(command, &folder.join("output-verify"))?;
    for line in ran.output.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(result), Some(status)) = (value["result"].as_str(), value["status"].as_u64()) else { continue };
        outcome.captured += 1;
        *outcome.verified.entry(result.to_owned()).or_default() += 1;
        if !FINE.contains(&status) {
            let kernel = value["demangled"].as_str().or(value["kernel"].as_str()).unwrap_or("");
            let error = value["error"].as_str().unwrap_or("");
            outcome.complaints.push(format!("dispatch {} {kernel}: {result} {error}", value["dispatch"]));
        }
    }
    if ran.status.code() == Some(TIMED_OUT) {
        outcome.complaints.push(format!("verify had not ended after {} s", limits.seconds));
    } else if outcome.captured == 0 {
        outcome.complaints.push(format!("nothing is verified: {}", last_line(&ran.output)));
    }
    Ok(())
}

/// Checks every captured dispatch.
fn check(outcome: &mut Outcome, capture: &Path, folder: &Path, limits: &Limits) -> Result<()> {
    let mut command = limited(limits.seconds);
    command.args(["analyze", "--check", CHECKS, "--json"]).arg(capture);
    let ran = run(command, &folder.join("output-analyze"))?;
    for line in ran.output.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let Some(findings) = value["findings"].as_array() else { continue };
        outcome.analyzed += 1;
        for finding in findings {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (check, what) = (word(&finding["check"]), word(&finding["what"]));
            let (kernel, text) = (word(&value["kernel"]), word(&finding["instruction"]["text"]));
            *outcome.found.entry(format!("{check}: {what}: {kernel}: {text}")).or_default() += 1;
        }
    }
    if ran.status.code() == Some(TIMED_OUT) {
        outcome.complaints.push(format!("analyze had not ended after {} s", limits.seconds));
    }
    Ok(())
}

/// What a log says: its last line for each process, and how long each kernel ran.
#[derive(Default)]
struct Account {
    seen: u64,
    logged: u64,
    filtered: u64,
    /// Dispatches that ran another kernel than the application's.
    replaced: u64,
    /// Nanoseconds of all dispatches of a kernel, by its name.
    durations: BTreeMap<String, u64>,
}

impl Account {
    fn read(log: &Path) -> Account {
        let mut all = Account::default();
        for line in fs::read_to_string(log).unwrap_or_default().lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            if let (Some(kernel), Some(nanoseconds)) = (value["kernel"].as_str(), value["durationNs"].as_u64()) {
                *all.durations.entry(kernel.to_owned()).or_default() += nanoseconds;
                all.replaced += u64::from(value["replaced"].as_str().is_some_and(|replaced| !replaced.is_empty()));
            }
            let account = &value["account"];
            all.seen += account["seen"].as_u64().unwrap_or(0);
            all.logged += account["logged"].as_u64().unwrap_or(0);
            all.filtered += account["filtered"].as_u64().unwrap_or(0);
        }
        all
    }

    /// A regular expression for the kernels that ran longest. The first dispatches of a test often only fill its
    /// memory with zeros, which tells a replay nothing.
    fn busiest(&self, number: u32) -> String {
        let mut kernels: Vec<(&str, u64)> = self.durations.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
        kernels.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        let names: Vec<String> = kernels.iter().take(number as usize).map(|(name, _)| regex::escape(name)).collect();
        format!("^(?:{})$", names.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_that_ran_longest_are_captured_by_their_whole_names() {
        let durations = [("fill", 5), ("void scan<int*>(int)", 900), ("void scan<int*>(int) [clone]", 90)];
        let durations = durations.map(|(name, sum)| (name.to_owned(), sum)).into();
        let busiest = regex::Regex::new(&Account { durations, ..Account::default() }.busiest(1)).unwrap();
        assert!(busiest.is_match("void scan<int*>(int)"));
        assert!(!busiest.is_match("fill") && !busiest.is_match("void scan<int*>(int) [clone]"));
    }
}
