//! A descriptor of ours in a process whose application may close any descriptor, and open another file in its place.
//!
//! Device, inode and file type identify the file. They are compared before each batch of writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use logdur_system::signals::Quiet;

/// Descriptors from here on are seldom the application's: `select` cannot use those from 1024 on, and few programs have
/// so many.
const ABOVE_THE_USUAL: libc::rlim_t = 960;

/// How often it is looked whether another process has done with a pipe.
const LOOK: Duration = Duration::from_millis(1);

/// A descriptor that is used only while it refers to the file that it was made for.
#[derive(Debug)]
pub(crate) struct Guarded {
    fd: RawFd,
    identity: Identity,
    /// True for a descriptor of the application's, which is not closed here.
    is_borrowed: bool,
}

/// What a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: libc::dev_t,
    inode: libc::ino_t,
    kind: libc::mode_t,
}

impl Guarded {
    /// A duplicate of a descriptor, above those that applications use where the process's limit allows it.
    ///
    /// # Errors
    /// When the descriptor is not open, or the process has no descriptor left.
    pub(crate) fn duplicate(of: RawFd) -> io::Result<Guarded> {
        let identity = Identity::of(of)?;
        let fd = [floor(), 3].into_iter().map(|floor| {
            // SAFETY: duplicates a descriptor number; no memory is involved.
            unsafe { libc::fcntl(of, libc::F_DUPFD_CLOEXEC, floor) }
        });
        match fd.into_iter().find(|&fd| fd >= 0) {
            Some(fd) => Ok(Guarded { fd, identity, is_borrowed: false }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// Guards a file that was just opened.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn of(file: &File) -> io::Result<Guarded> {
        Guarded::duplicate(file.as_raw_fd())
    }

    /// A descriptor of the application's, as it is now.
    ///
    /// # Errors
    /// When it is not open.
    pub(crate) fn borrow(fd: RawFd) -> io::Result<Guarded> {
        Ok(Guarded { fd, identity: Identity::of(fd)?, is_borrowed: true })
    }

    /// True while the descriptor refers to the file that it was made for.
    pub(crate) fn is_ours(&self) -> bool {
        Identity::of(self.fd).is_ok_and(|now| now == self.identity)
    }

    /// True if another descriptor refers to the same file.
    pub(crate) fn is_same_as(&self, other: RawFd) -> bool {
        Identity::of(other).is_ok_and(|other| other == self.identity)
    }

    /// Opens the file at a path again, unless the descriptor still refers to it.
    ///
    /// # Errors
    /// When it cannot be opened for appending, or another file is in its place.
    pub(crate) fn reopen(&mut self, path: &Path) -> io::Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let file = OpenOptions::new().append(true).custom_flags(flags).open(path)?;
        if !self.is_same_as(file.as_raw_fd()) {
            return Err(io::Error::other("another file is in its place"));
        }
        *self = Guarded::of(&file)?;
        Ok(())
    }

    /// Writes everything to a file that takes it without waiting.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Cuts the file. No signal is raised.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn truncate(&self, length: u64) -> io::Result<()> {
        let _quiet = Quiet::new();
        // SAFETY: no memory is involved.
        let failed = unsafe { libc::ftruncate(self.fd, length as libc::off_t) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns when everything is on the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SAFETY: no memory is involved.
        let failed = unsafe { libc::fdatasync(self.fd) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// True for what can make a writer wait: pipes, sockets, terminals.
    pub(crate) fn may_block(&self) -> bool {
        self.identity.kind != libc::S_IFREG
    }

    /// Waits until no other process writes lines to the same pipe, also one that has inherited the descriptor; false if the time is over
    /// first. What is no pipe is nobody's: a file takes each write whole.
    pub(crate) fn take_turn(&self, until: Instant) -> bool {
        if self.identity.kind != libc::S_IFIFO {
            return true;
        }
        loop {
            match self.set_lock(libc::F_WRLCK) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {}
                // Without locks, lines that are longer than a pipe takes at once may be torn.
                _ => return true,
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Lets others write. The end of the process does so, too.
    pub(crate) fn end_turn(&self) {
        if self.identity.kind == libc::S_IFIFO {
            // What was not locked stays so.
            let _ = self.set_lock(libc::F_UNLCK);
        }
    }

    /// Sets a lock of this process: unlike `flock`, it excludes children that have inherited the descriptor.
    fn set_lock(&self, kind: libc::c_int) -> io::Result<()> {
        let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
        let lock = libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 };
        // SAFETY: the lock is read during the call.
        let failed = unsafe { libc::fcntl(self.fd, libc::F_SETLK, &lock) } != 0;
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// True for a regular file whose last line has no end before the place where the next bytes go.
    pub(crate) fn is_in_line(&self) -> bool {
        if self.may_block() {
            return false;
        }
        // SAFETY: asks about the descriptor; no memory is involved.
        let appends = unsafe { libc::fcntl(self.fd, libc::F_GETFL) } & libc::O_APPEND != 0;
        // SAFETY: as above.
        let now = unsafe { libc::lseek(self.fd, 0, libc::SEEK_CUR) };
        let place = if appends { self.length() } else { u64::try_from(now).unwrap_or(0) };
        let mut last = [b'\n'];
        // The descriptor itself can only be written, mostly.
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(format!("/proc/self/fd/{}", self.fd));
        let read = opened.is_ok_and(|file| place > 0 && file.read_exact_at(&mut last, place - 1).is_ok());
        read && last != [b'\n']
    }

    /// The number, for what is no reading or writing.
    pub(crate) fn number(&self) -> RawFd {
        self.fd
    }

    /// Reads once; says how many bytes there were.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the bytes are writable for their length during the call.
        let read = unsafe { libc::read(self.fd, bytes.as_mut_ptr().cast(), bytes.len()) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// Length of the file in bytes.
    pub(crate) fn length(&self) -> u64 {
        stat(self.fd).map_or(0, |about| about.st_size as u64)
    }

    /// True once the file has no name any more: what is written to it is lost.
    pub(crate) fn is_deleted(&self) -> bool {
        stat(self.fd).is_ok_and(|about| about.st_nlink == 0)
    }

    /// Writes once; says how many bytes were taken. No signal is raised.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let _quiet = Quiet::new();
        // SAFETY: the bytes are readable for their length during the call.
        let written = unsafe { libc::write(self.fd, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    /// Waits until there is room, or the time is over; true when there is.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut wait = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
        let milliseconds = time.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: one `pollfd`, which the kernel writes during the call.
        unsafe { libc::poll(&mut wait, 1, milliseconds) > 0 }
    }

    /// Writes a short text, if the descriptor is what it was and that takes no waiting.
    pub(crate) fn say(&self, text: &str) {
        // What is ready takes this much at once. Source: POSIX `PIPE_BUF`, on Linux.
        let text = &text.as_bytes()[..text.len().min(4096)];
        let ready = !self.may_block() || self.wait(Duration::ZERO);
        if self.is_ours() && ready {
            // If it fails, no place is left for a message.
            let _ = self.write(text);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The number may be the application's by now.
        if !self.is_borrowed && self.is_ours() {
            // SAFETY: the descriptor is ours, and no other code has its number.
            unsafe { libc::close(self.fd) };
        }
    }
}

impl Identity {
    fn of(fd: RawFd) -> io::Result<Identity> {
        let about = stat(fd)?;
        Ok(Identity { device: about.st_dev, inode: about.st_ino, kind: about.st_mode & libc::S_IFMT })
    }
}

fn stat(fd: RawFd) -> io::Result<libc::stat> {
    let mut about = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes the structure.
    if unsafe { libc::fstat(fd, about.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, and wrote the structure.
    Ok(unsafe { about.assume_init() })
}

/// The lowest number for a descriptor of ours.
fn floor() -> RawFd {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let floor = limit.rlim_cur.min(ABOVE_THE_USUAL + 64).saturating_sub(64);
    RawFd::try_from(floor).unwrap_or(3).max(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_whose_number_refers_to_another_file_is_not_written_to_and_not_closed() {
        let [first, second] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let guarded = Guarded::of(&first).unwrap();
        assert!(guarded.is_ours() && guarded.is_same_as(first.as_raw_fd()) && !guarded.is_same_as(second.as_raw_fd()));
        let number = guarded.fd;
        // SAFETY: replaces a descriptor of this test.
        assert_eq!(unsafe { libc::dup2(second.as_raw_fd(), number) }, number);
        assert!(!guarded.is_ours());
        drop(guarded);
        assert!(Identity::of(number).is_ok(), "another file's descriptor was closed");
        // SAFETY: the descriptor was made above.
        unsafe { libc::close(number) };
    }
}
