//! Writes to pipes, sockets and terminals whose reader may be slow or gone, in bounded time.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::signals::SignalSet;

/// What a pipe that can be written takes without waiting. Source: POSIX `PIPE_BUF`, on Linux.
const PIPE_PIECE: usize = 4096;
/// How often it is looked whether a signal has come.
const LOOK: Duration = Duration::from_millis(100);
/// Signals that end a process which has blocked them: it looks for them itself.
const ENDING: &[i32] = &[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Writes whole lines. Waits for a reader that takes nothing no longer than `stall`.
///
/// # Errors
/// When the time is over, a blocked signal that ends the process has come, or the system refuses.
pub fn write(file: &File, mut lines: &[u8], stall: Duration) -> io::Result<()> {
    let mut last = Instant::now();
    while !lines.is_empty() {
        if is_ended() {
            return Err(io::Error::other("a signal has come that ends this process"));
        }
        if !may_write(file, LOOK.min(stall)) {
            if last.elapsed() >= stall {
                let text = format!("its reader has taken nothing for {} s", stall.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            continue;
        }
        match io::Write::write(&mut &*file, piece(lines)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                lines = lines.get(written..).unwrap_or_default();
                last = Instant::now();
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As many whole lines as a pipe takes at once, or the beginning of a longer one.
fn piece(lines: &[u8]) -> &[u8] {
    let most = lines.get(..PIPE_PIECE).unwrap_or(lines);
    let end = most.iter().rposition(|byte| *byte == b'\n').map_or(most.len(), |at| at + 1);
    most.get(..end).unwrap_or(most)
}

fn may_write(file: &File, time: Duration) -> bool {
    let mut wait = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let milliseconds = time.as_millis().try_into().unwrap_or(libc::c_int::MAX);
    // SAFETY: one `pollfd`, which the kernel writes during the call.
    unsafe { libc::poll(&mut wait, 1, milliseconds) > 0 }
}

fn is_ended() -> bool {
    let pending = SignalSet::pending();
    ENDING.iter().any(|signal| pending.contains(*signal))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use super::*;

    fn pipe() -> (File, File) {
        let (reader, writer) = io::pipe().unwrap();
        let [reader, writer] = [OwnedFd::from(reader), writer.into()].map(File::from);
        (reader, writer)
    }

    #[test]
    fn a_reader_that_takes_nothing_or_is_gone_is_waited_for_in_bounded_time_only() {
        let (reader, writer) = pipe();
        let lines = b"a line\n".repeat(40_000);
        let error = write(&writer, &lines, Duration::from_millis(200)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(reader);
        // Children that other tests start have the reader's descriptor too, until they run their program.
        let mut wait = libc::pollfd { fd: writer.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one `pollfd`, which the kernel writes during the call.
        assert_eq!((unsafe { libc::poll(&mut wait, 1, -1) }, wait.revents), (1, libc::POLLERR));
        assert_eq!(write(&writer, &lines, Duration::from_secs(60)).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_slow_reader_gets_every_line() {
        let (mut reader, writer) = pipe();
        let lines = [b"short\n".repeat(3000), vec![b'x'; 9000], b"\n".to_vec()].concat();
        let expected = lines.clone();
        let thread = std::thread::spawn(move || write(&writer, &lines, Duration::from_secs(60)));
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        thread.join().unwrap().unwrap();
        assert_eq!(found, expected);
    }
}
