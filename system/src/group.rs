//! Commands that end in time, with all that they have started.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long is slept between looks at whether a command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Runs a command in a process group of its own, without input, its output in a file. `None` when it took longer than `limit`: then no
/// process of the group is left.
///
/// # Errors
/// When it cannot be started or waited for.
pub fn run_in_group(command: &mut Command, output: File, limit: Duration) -> io::Result<Option<ExitStatus>> {
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
    let mut child = command.spawn()?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            kill_group(&child);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

fn kill_group(child: &Child) {
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: the call touches no memory. The child was not waited for: the number is still its group's.
        unsafe { libc::killpg(group, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_end_is_killed_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let (log, left) = (folder.path().join("log"), folder.path().join("left"));
        let mut command = Command::new("sh");
        command.args(["-c", "echo waiting; (sleep 2; echo alive > \"$0\") & wait"]).arg(&left);
        let output = File::create_new(&log).unwrap();
        assert!(run_in_group(&mut command, output, Duration::from_millis(300)).unwrap().is_none());
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "waiting\n");
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!left.exists());
    }
}
