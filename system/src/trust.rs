//! Whether a file can have been written by another user.

use std::fs::Metadata;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

/// Bits of the mode that let others write. Source: POSIX `sys/stat.h`.
pub(crate) const OTHERS_MAY_WRITE: u32 = 0o022;

/// The user whose rights the process has.
pub fn user() -> u32 {
    // SAFETY: the call cannot fail and touches no memory.
    unsafe { libc::geteuid() }
}

/// The process and the user at the other end of a Unix socket: who has connected, or who listens. Source: unix(7), `SO_PEERCRED`.
///
/// # Errors
/// When the descriptor is no such socket.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the structure.
    let failed = unsafe {
        let to = (&raw mut credentials).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut length)
    };
    if failed == 0 { Ok(credentials) } else { Err(io::Error::last_os_error()) }
}

/// Why an open file is not believed, if it is not: it is no regular file, belongs to another user, or others may write it.
pub fn mistrust(file: &Metadata) -> Option<String> {
    let user = user();
    let (owner, mode) = (file.uid(), file.mode() & 0o7777);
    if !file.is_file() {
        Some("expected a regular file, found a folder, a pipe or a device".to_owned())
    } else if owner != user {
        Some(format!(
            "expected a file of user {user}, found one of user {owner}: what it says is not believed; copy it if you trust it"
        ))
    } else if mode & OTHERS_MAY_WRITE != 0 {
        Some(format!(
            "expected a file that only user {user} may write, found mode {mode:04o}: what it says is not believed; `chmod go-w` it if you trust it"
        ))
    } else {
        None
    }
}
