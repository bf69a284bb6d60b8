//! What the library in applications tells `omniprobe`: lines through a pipe, which no full disk and no limit of files stops.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use logdur_report::LastRun;
use logdur_settings::HelloLine;

use super::environment::Environment;
use super::input::Position;
use super::output::tell;

/// What ends the lines: none of them has this byte.
const END: u8 = 0;
/// Bytes that are read at once: what a pipe holds.
const PIECE: usize = 64 << 10;

/// A pipe that the library opens by its name.
pub(crate) struct Channel {
    name: PathBuf,
    /// Keeps the pipe open while no application has it.
    end: File,
    reader: JoinHandle<Vec<u8>>,
}

impl Channel {
    /// In a folder of this run's own, which a process in a container may have too. Where none can be made, the name is that of a
    /// descriptor of this process.
    ///
    /// # Errors
    /// When neither can be made.
    pub(crate) fn open(environment: &mut Environment) -> Result<Channel> {
        let named = environment.folder().ok().map(|folder| folder.path().join("hello"));
        let (name, read, end) = match named.and_then(|name| Some((fifo(&name).ok()?, name))) {
            Some((both, name)) => (name, both.try_clone().context("a descriptor")?, both),
            None => {
                let (read, end) = io::pipe().context("making a pipe")?;
                let [read, end] = [OwnedFd::from(read), OwnedFd::from(end)].map(File::from);
                (format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd()).into(), read, end)
            }
        };
        let reader = std::thread::Builder::new().spawn(move || lines(read)).context("starting a thread")?;
        Ok(Channel { name, end, reader })
    }

    /// What the library has to open.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// What was said until now.
    pub(crate) fn finish(mut self) -> Hello {
        let said = match self.end.write_all(&[END]) {
            Ok(()) => self.reader.join().unwrap_or_default(),
            // Its thread would read for ever.
            Err(error) => {
                tell(format_args!("{}: {error}", self.name.display()));
                Vec::new()
            }
        };
        Hello::of(&said)
    }
}

/// A new named pipe, open for both ends.
fn fifo(name: &Path) -> io::Result<File> {
    use std::os::unix::ffi::OsStrExt;
    let text = std::ffi::CString::new(name.as_os_str().as_bytes())?;
    // SAFETY: the name ends with a zero, and is read during the call.
    if unsafe { libc::mkfifo(text.as_ptr(), 0o600) } != 0 {
        return Err(io::Error::last_os_error());
    }
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(name)
}

fn lines(mut from: File) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => return all,
            Ok(read) => piece.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return all,
        };
        let end = read.iter().position(|&byte| byte == END);
        all.extend_from_slice(&read[..end.unwrap_or(read.len())]);
        if end.is_some() {
            return all;
        }
    }
}

/// What the library said in the processes of a run, with the number of each process.
pub(crate) struct Hello(Vec<(u32, HelloLine)>);

/// A file of records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The number of its process.
    pub(crate) process: u32,
    pub(crate) path: PathBuf,
    /// The process ended in order, so that the library could say what is lost.
    pub(crate) in_order: bool,
    /// The process has said that the file is gone.
    pub(crate) is_told: bool,
}

impl Hello {
    /// Reads lines. What is none is left out.
    pub(crate) fn of(said: &[u8]) -> Hello {
        Hello(said.split(|&byte| byte == b'\n').filter_map(HelloLine::read).collect())
    }

    /// True if no process has said anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the runtime of some process has loaded the library.
    pub(crate) fn is_loaded(&self) -> bool {
        self.0.iter().any(|(_, line)| !matches!(line, HelloLine::NotLoaded(_)))
    }

    /// The processes that loaded the library.
    pub(crate) fn pids(&self) -> Vec<u64> {
        self.0.iter().map(|(process, _)| u64::from(*process)).collect()
    }

    /// The files of records of the processes that loaded the library.
    pub(crate) fn records(&self) -> Vec<Left> {
        let mut all: Vec<Left> = Vec::new();
        for &(process, ref line) in &self.0 {
            // It may have replaced itself by another program: the last one is meant.
            let last = all.iter_mut().rfind(|left| left.process == process);
            match (line, last) {
                (HelloLine::Records(path), _) => {
                    all.push(Left { process, path: path.clone(), in_order: false, is_told: false });
                }
                (HelloLine::Ended, Some(last)) => last.in_order = true,
                (HelloLine::NoRecords(_), Some(last)) => last.is_told = true,
                _ => {}
            }
        }
        all
    }

    /// Names logs that are not there any more.
    pub(crate) fn tell_missing_logs(&self) {
        for log in self.logs().iter().filter(|log| log.path.symlink_metadata().is_err()) {
            tell(format_args!("the log {} is not there: it was removed, or its folder was", log.path.display()));
        }
    }

    /// The logs of those processes. Several may have the same, for example those of one rank: the first found it shortest.
    pub(crate) fn logs(&self) -> Vec<Position> {
        let mut logs = BTreeMap::new();
        for (_, line) in &self.0 {
            if let HelloLine::Log { length, path } = line {
                let shortest = logs.entry(path.clone()).or_insert(*length);
                *shortest = (*length).min(*shortest);
            }
        }
        logs.into_iter().map(|(path, from)| Position { path, run: LastRun { from, pids: Vec::new() } }).collect()
    }

    /// Says on stderr what the user has to know: a library that was not loaded cannot complain itself.
    /// What is captured into `analysed` is told by its analysis.
    pub(crate) fn check(&self, environment: &Environment, analysed: Option<&Path>) {
        let not_loaded: Vec<(u32, &str)> = self
            .0
            .iter()
            .filter_map(|(process, line)| match line {
                HelloLine::NotLoaded(reason) => Some((*process, reason.as_str())),
                _ => None,
            })
            .collect();
        if !self.is_loaded() {
            tell(nothing_logged(&not_loaded, no_gpu(environment).as_deref()));
        }
        let mut without_records = BTreeMap::new();
        let mut told = BTreeSet::new();
        for (process, line) in &self.0 {
            match line {
                HelloLine::Loaded | HelloLine::Log { .. } | HelloLine::Records(_) | HelloLine::NotLoaded(_) => {}
                HelloLine::NoRecords(reason) => {
                    // It may have replaced itself by another program.
                    let before = without_records.insert(*process, reason);
                    before.into_iter().for_each(|reason| tell_abrupt_end(*process, reason));
                }
                HelloLine::Ended => _ = without_records.remove(process),
                HelloLine::Notice(text) if analysed.is_some_and(|folder| is_captured_whole(text, folder)) => {}
                // The processes of a job have the same to say.
                HelloLine::Notice(text) => _ = told.insert(text).then(|| tell(text)),
            }
        }
        for (process, reason) in without_records {
            // One that still runs may yet end in order.
            if !Path::new("/proc").join(process.to_string()).exists() {
                tell_abrupt_end(process, reason);
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
fn nothing_logged(not_loaded: &[(u32, &str)], no_gpu: Option<&str>) -> String {
    let Some(((pid, said), others)) = not_loaded.split_first() else {
        return "liblogdur.so was not loaded, nothing was logged: no process that ended in order had ROCm's HSA runtime; see \
                `omniprobe doctor`"
            .to_owned();
    };
    let others = if others.is_empty() { String::new() } else { format!(" and {} others", others.len()) };
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

fn tell_abrupt_end(pid: u32, reason: &str) {
    tell(format_args!(
        "process {pid} ended abruptly and had no file of records ({reason}): rows that were not in its log are lost"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_of_its_end_is_of_its_last_image() {
        let said = "7 ok\n7 records-at /a%25\n8 records-at /b\n7 records-at /c\n7 ended\n8 no-records gone\n9 ended\nx ended\n";
        let left = |process, path: &str, in_order, is_told| Left { process, path: path.into(), in_order, is_told };
        let expected = [left(7, "/a%", false, false), left(8, "/b", false, true), left(7, "/c", true, false)];
        assert_eq!(Hello::of(said.as_bytes()).records(), expected);
    }

    #[test]
    fn a_pipe_without_a_folder_has_a_name_that_other_processes_open() {
        let (read, end) = io::pipe().unwrap();
        let name = format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd());
        let status = std::process::Command::new("sh").args(["-c", "echo 7 ok >>\"$0\"", &name]).status().unwrap();
        assert!(status.success());
        let [read, mut end] = [OwnedFd::from(read), OwnedFd::from(end)].map(File::from);
        end.write_all(&[END]).unwrap();
        assert_eq!(lines(read), b"7 ok\n");
    }
}
