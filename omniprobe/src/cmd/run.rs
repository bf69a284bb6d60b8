//! `omniprobe -- APP`: runs an application with the library in it, and says if the library was not loaded.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use logdur_settings::{ENDED, Interceptor, LOG_AT, LogLocation, NO_RECORDS, NOT_LOADED, RECORDS_AT, Value, from_line};

use super::analyze::Exact;
use super::input::{self, Position};
use crate::cmd::tell;
use crate::environment::Environment;
use crate::{RunOptions, find, private_folder};

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
    let mut environment = Environment::of(options)?;
    if options.env_dump {
        print!("{}", environment.shell());
        return Ok(ExitCode::SUCCESS);
    }
    let Some((name, arguments)) = app.split_first() else {
        let taken = options
            .analyzers
            .last()
            .map(|last| format!("; -a takes the words up to the next option or --, and has taken {}", last.display()));
        bail!("expected an application: omniprobe [OPTIONS] [--] APP [ARGS]...{}", taken.unwrap_or_default());
    };
    let program = find::program(name)?;
    let exact = Exact::of(options, &mut environment)?;
    super::check::check(&environment, options.capture.force)?;
    options.trace.as_deref().map_or(Ok(()), |output| super::check::has_folder("--trace", output))?;
    let lines = super::check::without_effect(options, &environment).into_iter().chain(super::check::unexpected());
    lines.for_each(tell);
    let logs = if options.stats || options.trace.is_some() { Some(Logs::of(options, &mut environment)?) } else { None };
    let hello = environment.folder()?.hello()?;
    environment.set(Interceptor::hello, &hello);
    if options.verbose {
        eprint!("{}", environment.shell());
    }
    let mut command = Command::new(&program);
    command.arg0(name).args(arguments).envs(environment.iter());
    super::cache::prepare(&environment);
    let signals = Signals::block();
    signals.unblock_in(&mut command);
    // Its thread takes no signals.
    let capture = environment.value(Interceptor::capture).map(PathBuf::from);
    let start = SystemTime::now();
    let watch = capture.clone().map(super::captures::Watch::begin);
    let mut child =
        command.spawn().with_context(|| format!("the application {} could not be started", program.display()))?;
    let status = signals.wait(&mut child)?;
    drop(watch);
    let hello = Hello::read(&hello);
    hello.check(&environment, exact.as_ref().map(Exact::folder));
    for records in hello.records() {
        if let Err(error) = super::log::finish(&records, child.id(), status) {
            tell(format_args!("{error:#}"));
        }
    }
    if let Some(capture) = &capture {
        super::captures::tell_unfinished(capture, start);
    }
    if let Some(logs) = logs {
        let logs = logs.of_processes(&hello);
        if options.stats
            && let Err(error) = super::summary::after_run(&logs)
        {
            tell(format_args!("the totals: {error:#}"));
        }
        if let Some(output) = &options.trace
            && let Err(error) = super::trace::write(&logs, output)
        {
            tell(format_args!("the timeline: {error:#}"));
        }
    }
    drop(signals);
    if let Some(exact) = exact {
        let end = exact.finish()?;
        if status.success() {
            return Ok(ExitCode::from(end));
        }
    }
    drop(environment);
    Ok(pass_on(status))
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
                let from = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
                Ok(Logs { shared: Some(Position { path, from }) })
            }
            _ => bail!(
                "--stats and --trace read the rows from a file: expected -l FILE or no -l, found {}",
                given.display()
            ),
        }
    }

    /// What the processes that loaded the library wrote. One that dispatched nothing made no log.
    fn of_processes(self, hello: &Hello) -> Vec<Position> {
        let logs = self.shared.map_or_else(|| hello.logs(), |log| vec![log]);
        logs.into_iter().filter(|log| log.path.exists()).collect()
    }
}

/// The file to which the library writes a line when it is loaded.
struct Hello(Vec<u8>);

impl Hello {
    /// Reads it, after the application has ended.
    fn read(path: &Path) -> Hello {
        Hello(private_folder::read(path).unwrap_or_else(|error| {
            tell(format_args!("{error:#}"));
            Vec::new()
        }))
    }

    /// The files of records of the processes that loaded the library.
    fn records(&self) -> Vec<PathBuf> {
        let path = |line: &[u8]| {
            let at = line.iter().position(|&b| b == b' ')?;
            from_line(line[at + 1..].strip_prefix(RECORDS_AT.as_bytes())?.strip_prefix(b" ")?)
        };
        self.0.split(|&b| b == b'\n').filter_map(path).collect()
    }

    /// The logs of those processes. Several may have the same, for example those of one rank: the first found it shortest.
    fn logs(&self) -> Vec<Position> {
        let log = |line: &[u8]| {
            let mut words = line.splitn(4, |&b| b == b' ').skip(1);
            let known = words.next()? == LOG_AT.as_bytes();
            let from: u64 = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
            from_line(words.next()?).filter(|_| known).map(|path| (path, from))
        };
        let mut logs = BTreeMap::new();
        for (path, from) in self.0.split(|&b| b == b'\n').filter_map(log) {
            let shortest = logs.entry(path).or_insert(from);
            *shortest = from.min(*shortest);
        }
        logs.into_iter().map(|(path, from)| Position { path, from }).collect()
    }

    /// Says on stderr what the user has to know: a library that was not loaded cannot complain itself.
    /// What is captured into `analysed` is told by its analysis.
    fn check(&self, environment: &Environment, analysed: Option<&Path>) {
        let text = String::from_utf8_lossy(&self.0);
        let lines = || text.lines().filter_map(|line| line.split_once(' '));
        let not_loaded: Vec<_> = lines().filter(|(_, said)| said.starts_with(NOT_LOADED)).collect();
        if lines().count() == not_loaded.len() {
            tell(nothing_logged(&not_loaded, no_gpu(environment).as_deref()));
        }
        let mut without_records = BTreeMap::new();
        for (pid, said) in lines() {
            match said.split_once(' ').map_or(said, |(word, _)| word) {
                "ok" | LOG_AT | RECORDS_AT | NOT_LOADED => {}
                NO_RECORDS => {
                    let reason = said.trim_start_matches(NO_RECORDS).trim_start();
                    // It may have replaced itself by another program.
                    without_records.insert(pid, reason).into_iter().for_each(|reason| tell_abrupt_end(pid, reason));
                }
                ENDED => _ = without_records.remove(pid),
                _ if analysed.is_some_and(|folder| is_captured_whole(said, folder)) => {}
                _ => tell(said),
            }
        }
        for (pid, reason) in without_records {
            // One that still runs may yet end in order.
            if !Path::new("/proc").join(pid).exists() {
                tell_abrupt_end(pid, reason);
            }
        }
    }
}

/// True for the line of a capture in a folder, if it has all that was chosen.
fn is_captured_whole(said: &str, folder: &Path) -> bool {
    said.starts_with(&*folder.to_string_lossy()) && said.ends_with(" 0 not captured")
}

/// The device of the driver, which the runtime opens. Source: the kernel's `drivers/gpu/drm/amd/amdkfd/kfd_chardev.c`.
const DRIVER: &str = "/dev/kfd";

/// Why the runtime cannot have started, if this user cannot open the driver and no other one is in its place.
fn no_gpu(environment: &Environment) -> Option<String> {
    // The device of Windows' subsystem for Linux, and the emulated driver.
    let preloaded = environment.value("LD_PRELOAD").unwrap_or_default();
    if Path::new("/dev/dxg").exists() || preloaded.to_string_lossy().contains("libkfdemu.so") {
        return None;
    }
    let error = File::options().read(true).write(true).open(DRIVER).err()?;
    Some(format!(
        "no GPU can be used: {DRIVER}: {error}; is the driver loaded, and may this user open it? `--emulate gfx90a` needs no GPU"
    ))
}

/// Why nothing was logged, told by processes that had a runtime which did not load the library.
fn nothing_logged(not_loaded: &[(&str, &str)], no_gpu: Option<&str>) -> String {
    let Some(((pid, said), others)) = not_loaded.split_first() else {
        return "liblogdur.so was not loaded, nothing was logged: no process that ended in order had ROCm's HSA runtime; see \
                `omniprobe doctor`"
            .to_owned();
    };
    let others = if others.is_empty() { String::new() } else { format!(" and {} others", others.len()) };
    let said = said.trim_start_matches(NOT_LOADED).trim_start();
    if let Some(no_gpu) = no_gpu {
        let said = said.split(". ").next().unwrap_or(said);
        return format!("nothing was logged: in process {pid}{others}, {said}; {no_gpu}");
    }
    format!(
        "nothing was logged: in process {pid}{others}, {said}. Either the application has not started the runtime, as one that uses no \
         GPU, or something in it decides which tools are loaded: `omniprobe -e` prints what the variables have to be, and \
         ROCPROFILER_REGISTER_ENABLED=0 turns other tools off"
    )
}

fn tell_abrupt_end(pid: &str, reason: &str) {
    tell(format_args!(
        "process {pid} ended abruptly and had no file of records ({reason}): rows that were not in its log are lost"
    ));
}

/// The signals that are passed on, and the child's end: taken one by one instead of by handlers.
struct Signals {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    fn block() -> Signals {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the set is written whole.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        for &signal in FORWARDED.iter().chain(&[libc::SIGCHLD]) {
            // SAFETY: the set is initialised.
            unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
        }
        // SAFETY: the first set is initialised, the second is written whole.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: the set was emptied, then filled.
        let set = unsafe { set.assume_init() };
        // SAFETY: the call above wrote the mask; it cannot fail with these arguments.
        let before = unsafe { before.assume_init() };
        Signals { set, before }
    }

    /// The application starts with the mask that we were started with.
    fn unblock_in(&self, command: &mut Command) {
        let before = self.before;
        let restore = move || {
            // SAFETY: the mask is one that the kernel gave; the call is safe after a fork.
            unsafe { libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: the closure allocates nothing and only makes a call that is safe after a fork.
        unsafe { command.pre_exec(restore) };
    }

    /// Waits for the end of the child, passing signals on.
    fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait().context("waiting for the application")? {
                return Ok(status);
            }
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: the set is initialised; the kernel writes the information.
            let signal = unsafe { libc::sigwaitinfo(&self.set, info.as_mut_ptr()) };
            // SAFETY: all zeroes is a value of the struct, should the call have failed.
            let info = unsafe { info.assume_init() };
            // What the terminal sends goes to the whole foreground group, the application included.
            if FORWARDED.contains(&signal) && info.si_code != libc::SI_KERNEL {
                // SAFETY: the child has not been waited for, so the number is still its own.
                unsafe { libc::kill(child.id() as libc::pid_t, signal) };
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the mask is one that the kernel gave.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
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
