//! Processes that can be controlled: the socket of each, and what is asked through it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use logdur_journal::left;
use logdur_settings::{Answer, Interceptor, Request, SOCKET_NAME};
use logdur_system::trust::{peer, user};

use crate::output::{file, tell};

/// How long an answer may take: the process may be stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a socket is tried, and the time in between.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Which processes.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProcessArgs {
    /// The processes.
    #[arg(value_name = "PID", required_unless_present = "all", conflicts_with = "all")]
    pids: Vec<u32>,
    /// Every process of this user on this machine that can be controlled.
    #[arg(long)]
    all: bool,
}

impl ProcessArgs {
    /// Connects to them.
    ///
    /// # Errors
    /// When there are none, or one cannot be controlled.
    pub(crate) fn connect(&self) -> Result<Vec<Attached>> {
        let mut chosen = if self.all { Attached::listening(&folders(None)) } else { Vec::new() };
        for pid in &self.pids {
            chosen.extend(Attached::to(*pid)?);
        }
        if chosen.is_empty() {
            bail!("no process of this user can be controlled: omniprobe --attachable -- APP starts one that can");
        }
        Ok(chosen)
    }
}

/// Asks every process. One that has ended, or refuses, or does not answer is told of and taken out of the list.
///
/// # Errors
/// When the only one refuses or does not answer, or what `answered` says.
pub(crate) fn ask_each(
    processes: &mut Vec<Attached>,
    request: &Request,
    mut answered: impl FnMut(u32, Vec<Answer>) -> Result<()>,
) -> Result<()> {
    let is_only_one = processes.len() == 1;
    for mut process in std::mem::take(processes) {
        match process.ask(request) {
            Ok(Some(answers)) => {
                answered(process.pid, answers)?;
                processes.push(process);
            }
            Ok(None) => tell(format_args!("process {} has ended: its log has what it dispatched last", process.pid)),
            Err(error) if is_only_one => return Err(error),
            Err(error) => tell(format_args!("{error:#}")),
        }
    }
    Ok(())
}

/// A process that listens.
pub(crate) struct Attached {
    /// The number of the process.
    pid: u32,
    stream: BufReader<UnixStream>,
}

impl Attached {
    /// Connects to a process, or to those that it has started if it does not listen itself, as `omniprobe` does not.
    ///
    /// # Errors
    /// Why that is impossible, and what makes it possible.
    fn to(pid: u32) -> Result<Vec<Attached>> {
        let mut reasons = Vec::new();
        for attempt in 0..ATTEMPTS {
            for path in sockets(&folders(Some(pid))) {
                if number_of(&path) != Some(pid) {
                    continue;
                }
                match connect(&path) {
                    // If there is no answer, the application has closed the socket: the library makes another one.
                    Ok(mut attached) if attached.pid == pid => match attached.ask(&Request::Status)? {
                        Some(_) => return Ok(vec![attached]),
                        None => reasons.push(format!("{}: no process answers", file(&path))),
                    },
                    // Of a process of this number in another container.
                    Ok(_) => {}
                    Err(error) => reasons.push(format!("{}: {error:#}", file(&path))),
                }
            }
            if reasons.is_empty() {
                break;
            }
            if attempt + 1 < ATTEMPTS {
                std::thread::sleep(PAUSE);
            }
        }
        let started: Vec<Attached> =
            Attached::listening(&folders(Some(pid))).into_iter().filter(|one| descends(one.pid, pid)).collect();
        if started.is_empty() {
            bail!("{}", unreachable(pid, &reasons));
        }
        Ok(started)
    }

    /// Connects to every process that listens in these folders.
    fn listening(folders: &[PathBuf]) -> Vec<Attached> {
        let mut all: Vec<Attached> = Vec::new();
        for path in sockets(folders) {
            // Others, and those that have ended, do not listen to us.
            if let Ok(attached) = connect(&path)
                && number_of(&path) == Some(attached.pid)
                && all.iter().all(|known| known.pid != attached.pid)
            {
                all.push(attached);
            }
        }
        all.sort_by_key(|attached| attached.pid);
        all
    }

    /// Asks the process, and takes its answer; `None` if the process has ended.
    ///
    /// # Errors
    /// What the process says against it, or that it does not answer.
    fn ask(&mut self, request: &Request) -> Result<Option<Vec<Answer>>> {
        let pid = self.pid;
        let mut answers = Vec::new();
        let asked = self.stream.get_mut().write_all(request.to_line().as_bytes());
        let taken = || -> io::Result<bool> {
            asked?;
            loop {
                let mut line = Vec::new();
                match self.stream.read_until(b'\n', &mut line)? {
                    0 => return Ok(false),
                    1 => return Ok(true),
                    _ => answers.extend(Answer::read(line.trim_ascii_end())),
                }
            }
        };
        match taken() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return Ok(None);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                bail!("process {pid} has not answered for {} seconds: it may be stopped", PATIENCE.as_secs())
            }
            Err(error) => return Err(error).with_context(|| format!("asking process {pid}")),
        }
        match answers.first() {
            Some(Answer::Error(text)) => bail!("process {pid}: {text}"),
            _ => Ok(Some(answers)),
        }
    }
}

/// Connects to the socket at a path, if it is this user's, or this user is root.
fn connect(path: &Path) -> Result<Attached> {
    let about = path.symlink_metadata().context("looking at it")?;
    if !about.file_type().is_socket() {
        bail!("expected a socket");
    }
    let trusted = |uid: u32| uid == user() || user() == 0;
    if !trusted(about.uid()) {
        bail!("it is of user {}", about.uid());
    }
    let stream = UnixStream::connect(path).context("no process listens")?;
    let peer = peer(stream.as_fd()).context("asking who listens")?;
    if !trusted(peer.uid) {
        bail!("user {} listens there", peer.uid);
    }
    // A child that was forked holds the socket of a process that is dead.
    if !Path::new(&format!("/proc/{}", peer.pid)).exists() {
        bail!("process {} has ended", peer.pid);
    }
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)))?;
    Ok(Attached { pid: peer.pid.unsigned_abs(), stream: BufReader::new(stream) })
}

/// True if a process was started by another one, or by one that it has started.
fn descends(mut pid: u32, ancestor: u32) -> bool {
    // A chain of parents is finite; numbers that are given anew meanwhile could close it.
    for _ in 0..1000 {
        let Some(parent) = parent(pid).filter(|parent| *parent > 0) else { return false };
        if parent == ancestor {
            return true;
        }
        pid = parent;
    }
    false
}

/// The parent of a process. Source: proc(5), `/proc/PID/stat`: its fourth field, behind a name that may have spaces.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = String::from_utf8_lossy(stat.get(behind + 1..)?).into_owned();
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// The folders in which processes listen: those of this environment, of the process's, and what a login gives.
fn folders(pid: Option<u32>) -> Vec<PathBuf> {
    let mut all = left::default_folders();
    all.push(PathBuf::from(format!("/run/user/{}", user())));
    all.push(PathBuf::from("/tmp"));
    let environment = pid.and_then(|pid| fs::read(format!("/proc/{pid}/environ")).ok()).unwrap_or_default();
    let variables = environment.split(|&byte| byte == 0);
    let of_process = variables
        .filter_map(|variable| variable.strip_prefix(b"XDG_RUNTIME_DIR=").or(variable.strip_prefix(b"TMPDIR=")));
    all.extend(of_process.map(|folder| PathBuf::from(OsStr::from_bytes(folder))));
    all.retain(|folder| folder.is_absolute());
    all
}

/// The files in these folders that are named like sockets of processes.
fn sockets(folders: &[PathBuf]) -> Vec<PathBuf> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| number_of(path).is_some()).collect();
    found.sort();
    found.dedup();
    found
}

/// The process that a socket's name is of.
fn number_of(path: &Path) -> Option<u32> {
    let (before, behind) = SOCKET_NAME;
    let number = path.file_name()?.to_str()?.strip_prefix(before)?.strip_suffix(behind)?;
    number.split('.').next()?.parse().ok()
}

/// Why a process cannot be controlled.
fn unreachable(pid: u32, reasons: &[String]) -> String {
    let (start, of_process) = (Interceptor::start, PathBuf::from(format!("/proc/{pid}")));
    let Ok(about) = of_process.metadata() else { return format!("there is no process {pid}") };
    if let Some(reason) = reasons.last() {
        return format!("process {pid} cannot be controlled: {reason}");
    }
    if about.uid() != user() && user() != 0 {
        return format!("process {pid} is of user {}: only its own user and root can control it", about.uid());
    }
    let maps = fs::read(of_process.join("maps")).unwrap_or_default();
    let has_library = maps.windows(12).any(|part| part == b"liblogdur.so");
    if has_library {
        return format!(
            "process {pid} has the library, but cannot be controlled: it was started without {start}; \
             omniprobe --attachable -- APP starts one that can"
        );
    }
    format!(
        "process {pid} cannot be controlled: it has no liblogdur.so in it, or has not started the runtime yet; \
         omniprobe --attachable -- APP starts one that can"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_descends_from_this_process_and_this_process_not_from_it() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let this = std::process::id();
        assert!(descends(child.id(), this) && !descends(this, child.id()) && !descends(child.id(), 0));
        child.kill().and_then(|()| child.wait()).expect("it can be ended");
    }

    #[test]
    fn the_number_of_a_process_is_in_its_sockets_name() {
        for (name, number) in [
            ("logdur.17.control", Some(17)),
            ("logdur.17.3.control", Some(17)),
            ("logdur.x.control", None),
            ("logdur.17.records", None),
            ("17.control", None),
        ] {
            assert_eq!(number_of(&Path::new("/dev/shm").join(name)), number, "{name}");
        }
    }
}
