//! Which process it was, and whether it still runs.

use std::fs;
use std::time::SystemTime;

/// The process of a row, and its place in a parallel job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its rank; `None` outside of a parallel job.
    pub rank: Option<u32>,
}

/// When a process was started, in clock ticks since boot; `None` if there is none, or only what is left of it.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may have any characters. Source: proc(5): state is field 3, starttime field 22.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A number that no other process and no other program of this process has, for all practical purposes.
pub(crate) fn unique() -> u64 {
    let mut random = [0_u8; 8];
    // SAFETY: the kernel writes at most so many bytes. It does not wait for randomness.
    let got = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), libc::GRND_NONBLOCK) };
    if got == random.len() as isize {
        return u64::from_le_bytes(random).max(1);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_has_no_start_time_even_before_its_parent_takes_note() {
        assert!(start_time(std::process::id()).is_some_and(|t| t > 0));
        let mut child = std::process::Command::new("true").stdout(std::process::Stdio::piped()).spawn().unwrap();
        // The end of its output is the end of the program; the process goes a moment later.
        std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut Vec::new()).unwrap();
        let id = child.id();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while start_time(id).is_some() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(start_time(id), None);
        child.wait().unwrap();
    }
}
