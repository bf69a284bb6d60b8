//! The processes of the checks: started, waited for, ended at their time limit.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::finding::Findings;
use crate::report::{Answer, Report};
use crate::{Check, CheckProcess, HELLO, Site, Way};

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(5);
/// Of what a process says on its standard error, the end is reported.
const SHOWN: usize = 300;

/// What starts the processes of checks.
pub trait Launch {
    /// A command that runs a part in `folder`, or `omniprobe verify` of the capture there; its standard output is JSON.
    ///
    /// # Errors
    /// When there is none.
    fn command(&self, check: &Check, part: &CheckProcess, folder: &Path) -> io::Result<Command>;
}

/// Runs each of some checks whose needs hold. Each check has its own folder in `folder`. Calls `progress` before each check.
///
/// # Errors
/// When files cannot be written, or no process can be started.
pub fn run(
    checks: &[&'static Check],
    launch: &dyn Launch,
    folder: &Path,
    limit: Duration,
    progress: &mut dyn FnMut(&Check),
) -> io::Result<Report> {
    let mut report = Report::default();
    for &check in checks {
        let start = Instant::now();
        let missing = check.needs.iter().copied().find(|need| !report.holds(need));
        if let Some(need) = missing {
            report.not_run(check, need);
            continue;
        }
        progress(check);
        let place = folder.join(check.name);
        fs::create_dir_all(&place)?;
        let mut answers = Vec::new();
        for part in check.parts {
            let answer = answer(launch, check, part, &place, limit)?;
            let goes_on = answer.broken().is_empty();
            answers.push((part.name, answer));
            if !goes_on {
                break;
            }
        }
        report.add(check, answers, start.elapsed());
    }
    Ok(report)
}

fn answer(
    launch: &dyn Launch,
    check: &Check,
    part: &CheckProcess,
    folder: &Path,
    limit: Duration,
) -> io::Result<Answer> {
    // What another part has left would be taken for this one's.
    for left in [HELLO, crate::LOG] {
        match fs::remove_file(folder.join(left)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    if part.way == Way::Captured {
        let _ = fs::remove_file(folder.join(crate::CAPTURE));
    }
    let mut command = launch.command(check, part, folder)?;
    let (out, err) = (folder.join("verify.json"), folder.join("stderr"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = command.spawn()?;
    let Some(status) = wait(&mut child, limit)? else {
        return Ok(Answer::Failed(format!("it did not end within {} s", limit.as_secs())));
    };
    if part.way == Way::Verify {
        return Ok(crate::part(check.name, part.name, &Site::of(folder)).map_or_else(failed, Answer::Found));
    }
    let text = fs::read_to_string(&out)?;
    let findings = text.lines().rev().find_map(|line| serde_json::from_str::<Findings>(line).ok());
    Ok(match findings.filter(|_| status.success()) {
        Some(findings) => Answer::Found(findings),
        None => Answer::Failed(format!("{}{}", ended(status), last_words(&fs::read_to_string(&err)?))),
    })
}

fn failed(error: crate::CheckError) -> Answer {
    Answer::Failed(error.to_string())
}

/// How a process ended; `None` if it was killed at its limit.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("its process was ended by signal {signal}"),
        None => format!("its process ended with status {}", status.code().unwrap_or(-1)),
    }
}

/// The end of what a process wrote to its standard error, on one line.
fn last_words(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or(String::new(), |line| format!(": {}", line.trim().chars().take(SHOWN).collect::<String>()))
}
