//! `omniprobe -- APP`: runs an application with the library in it, and says if the library was not loaded.

mod captures;
mod check;
mod database;
mod files;
mod options;
mod when;

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use logdur_report::LastRun;
use logdur_settings::{Interceptor, LogLocation, Value};
use logdur_system::path::Target;
use logdur_system::signals::{Blocked, SignalSet};

use super::analyze::Exact;
use super::{cache, log, summary, trace};
use crate::environment::Environment;
use crate::hello::{Channel, Hello};
use crate::input::{self, Position};
use crate::output::{aside, bytes, tell};
use crate::program;

pub(crate) use check::behind_the_application;
use database::Database;
use options::ROCPD;
use when::Toggle;

pub(crate) use options::{CaptureOptions, RunOptions, with_variables};

/// What `--stats` and `--trace` need.
const EXPECTED: &str = "--stats and --trace read the rows from a file: expected -l FILE or no -l";

/// Signals to `omniprobe` that are meant for the application.
const FORWARDED: &[i32] = &[
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
];

/// Runs the application; its status is the result.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn run(options: &RunOptions, app: &[OsString]) -> Result<ExitCode> {
    let mut environment = options.environment()?;
    if options.env_dump {
        if options.log_format.as_deref() == Some(ROCPD) {
            bail!("-t {ROCPD} has no variable, since omniprobe writes the database: expected another format with -e");
        }
        return bytes(environment.shell().as_bytes()).map(|()| ExitCode::SUCCESS);
    }
    let Some((name, arguments)) = app.split_first() else {
        let taken = options
            .analyzers
            .last()
            .map(|last| format!("; -a takes the words up to the next option or --, and has taken {}", last.display()));
        bail!("expected an application: omniprobe [OPTIONS] [--] APP [ARGS]...{}", taken.unwrap_or_default());
    };
    let program = program::find(name)?;
    environment.start_sanitized(&program);
    let exact = Exact::of(options, &mut environment)?;
    let filter = environment.value(Interceptor::library_filter).map(PathBuf::from);
    let inputs: Vec<&Path> = std::iter::once(program.as_path()).chain(filter.as_deref()).collect();
    files::check(&environment, options.trace.as_deref(), &inputs)?;
    let database = Database::of(options, &mut environment)?;
    let toggle = Toggle::of(&mut environment)?;
    check::check(&environment, options.capture.force)?;
    options.trace.as_deref().map_or(Ok(()), |output| check::has_folder("--trace", output))?;
    let lines = check::without_effect(options, &environment).into_iter().chain(check::unexpected(&environment));
    lines.for_each(tell);
    let logs = if database.is_some() {
        Some(Logs { shared: None })
    } else if options.stats || options.trace.is_some() {
        Some(Logs::of(options, &mut environment)?)
    } else {
        None
    };
    if options.verbose {
        aside(environment.shell().as_bytes());
    }
    environment.set(Interceptor::run, this_run());
    let mut command = Command::new(&program);
    command.arg0(name).args(arguments).envs(environment.iter());
    cache::prepare(&environment);
    let signals = awaited();
    let blocked = Blocked::these(&signals);
    blocked.unblock_in(&mut command);
    // Their threads take no signals.
    let channel = Channel::open(&mut environment)?;
    command.env(Interceptor::hello, channel.name());
    let capture = environment.value(Interceptor::capture).map(PathBuf::from);
    let start = SystemTime::now();
    let watch = capture.clone().map(captures::Watch::begin);
    let mut child =
        command.spawn().with_context(|| format!("the application {} could not be started", program.display()))?;
    let status = wait(&signals, &mut child, toggle.as_ref())?;
    drop(watch);
    let hello = channel.finish();
    hello.check(&environment, exact.as_ref().map(Exact::folder));
    for left in hello.records() {
        if let Err(error) = log::finish(&left, child.id(), status) {
            tell(format_args!("{error:#}"));
        }
    }
    hello.tell_missing_logs();
    // An exact analysis says it of captures that are removed afterwards.
    if let Some(capture) = capture.as_ref().filter(|_| exact.is_none()) {
        captures::tell_unfinished(capture, start);
    }
    // What follows may wait for a reader.
    drop(blocked);
    if let Some(logs) = logs {
        let logs = logs.of_processes(&hello);
        if options.stats
            && let Err(error) = summary::after_run(&logs)
        {
            tell(format_args!("the totals: {error:#}"));
        }
        if let Some(output) = &options.trace
            && let Err(error) = trace::write(&logs, output, trace::Clock::Gpu)
        {
            tell(format_args!("the timeline: {error:#}"));
        }
        if let Some(database) = &database
            && let Err(error) = database.write(&logs)
        {
            let kept = environment.keep_large_folder().map(|rows| format!("; the rows are in {}", rows.display()));
            tell(format_args!("the database: {error:#}{}", kept.unwrap_or_default()));
        }
    }
    if let Some(exact) = exact {
        let end = exact.finish()?;
        if status.success() {
            return Ok(ExitCode::from(end));
        }
    }
    drop(environment);
    Ok(pass_on(status))
}

/// A name for this run, which no other run has.
fn this_run() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", now.as_nanos(), std::process::id())
}

/// The logs of a run whose totals or timeline are made at its end.
struct Logs {
    /// Its length before the run, if it is one file that each process appends to.
    shared: Option<Position>,
}

impl Logs {
    /// Where the options say, or in files that are removed after the run.
    fn of(options: &RunOptions, environment: &mut Environment) -> Result<Logs> {
        let from_outside = || std::env::var_os(Interceptor::log_location);
        let Some(given) = options.log_location.clone().or_else(from_outside) else {
            let folder = environment.large_folder()?.join("rows-%p");
            environment.set(Interceptor::log_location, &folder);
            return Ok(Logs { shared: None });
        };
        match LogLocation::parse(&given) {
            Ok(LogLocation::File(path)) if input::has_marks(&path) => Ok(Logs { shared: None }),
            Ok(LogLocation::File(path)) => {
                let path = std::path::absolute(path)?;
                // A pipe has no end that could be read, and an open descriptor may have any bytes before the rows.
                let is_open_already = matches!(Target::of(&path), Ok(Target::Descriptor(_)));
                let before = std::fs::metadata(&path).ok();
                if is_open_already || before.as_ref().is_some_and(|data| !data.is_file()) {
                    bail!("{EXPECTED}, found {}", given.display());
                }
                let from = before.map_or(0, |data| data.len());
                Ok(Logs { shared: Some(Position { path, run: LastRun { from, pids: Vec::new() } }) })
            }
            _ => bail!("{EXPECTED}, found {}", given.display()),
        }
    }

    /// What the processes that loaded the library wrote. One that dispatched nothing made no log.
    fn of_processes(self, hello: &Hello) -> Vec<Position> {
        let mut logs = self.shared.map_or_else(|| hello.logs(), |log| vec![log]);
        // Another run may write into the same log.
        logs.iter_mut().for_each(|log| log.run.pids = hello.pids());
        // One that is shorter than before has begun anew.
        let begin = |mut log: Position| {
            let length = log.path.metadata().ok()?.len();
            log.run.from = if length < log.run.from { 0 } else { log.run.from };
            Some(log)
        };
        logs.into_iter().filter_map(begin).collect()
    }
}

/// The signals that are passed on, and the child's end: taken one by one instead of by handlers.
fn awaited() -> SignalSet {
    FORWARDED.iter().copied().chain([libc::SIGCHLD]).collect()
}

/// Waits for the end of the child, passing blocked signals on; SIGUSR2 not if it turns something here.
fn wait(signals: &SignalSet, child: &mut Child, toggle: Option<&Toggle>) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("waiting for the application")? {
            // Signals that come from now on are for this program, not for the application.
            signals.take_pending();
            return Ok(status);
        }
        let (signal, is_by_kernel) = signals.wait();
        if let Some(toggle) = toggle.filter(|_| signal == libc::SIGUSR2) {
            toggle.turn();
            continue;
        }
        // What the terminal sends goes to the whole foreground group, the application included.
        if FORWARDED.contains(&signal) && !is_by_kernel {
            // SAFETY: the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        }
    }
}

/// Ends as the application ended: with its status, or by the signal that killed it.
fn pass_on(status: ExitStatus) -> ExitCode {
    let Some(signal) = status.signal() else {
        return ExitCode::from(status.code().unwrap_or(1) as u8);
    };
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // The application has left its core already.
    // SAFETY: the limit is read during the call.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    // SAFETY: restores the default action.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: no memory is involved.
    unsafe { libc::raise(signal) };
    // A signal that does not kill, or that our parent has blocked: as a shell would say it.
    ExitCode::from((128 + signal) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_another_run_writes_into_the_same_log_are_not_of_this_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log.csv");
        std::fs::write(&log, "header").expect("it can be written");
        let shared = Some(Position { path: log, run: LastRun { from: 5, pids: Vec::new() } });
        let hello = Hello::of(b"17 ok\n17 log 5 /log.csv\n4 ok\nno number\n");
        let logs = Logs { shared }.of_processes(&hello);
        assert_eq!(logs.len(), 1);
        assert_eq!(logs[0].run, LastRun { from: 5, pids: vec![17, 17, 4] });
    }
}
