//! The socket that a process listens on: only its own user and root are heard.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use logdur_journal::left;
use logdur_settings::SOCKET_NAME;
use logdur_system::trust::{peer, user};

use crate::guarded::Guarded;

/// How many names are tried in a folder: another container may have a process of the same number.
const MOST_NAMES: u32 = 8;

/// A socket that listens, and its path.
///
/// # Errors
/// Why there is none in any folder.
pub(super) fn listen() -> io::Result<(Guarded, PathBuf)> {
    let mut said = Vec::new();
    for folder in left::default_folders() {
        match listen_in(&folder) {
            Ok(listens) => return Ok(listens),
            Err(error) => said.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(io::Error::other(said.join("; ")))
}

fn listen_in(folder: &Path) -> io::Result<(Guarded, PathBuf)> {
    let (process, (before, behind)) = (std::process::id(), SOCKET_NAME);
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for number in 0..MOST_NAMES {
        let path = match number {
            0 => folder.join(format!("{before}{process}{behind}")),
            _ => folder.join(format!("{before}{process}.{number}{behind}")),
        };
        let bound = UnixListener::bind(&path).or_else(|error| {
            if error.kind() == io::ErrorKind::AddrInUse && is_left(&path) {
                fs::remove_file(&path)?;
                return UnixListener::bind(&path);
            }
            Err(error)
        });
        match bound {
            Ok(listener) => {
                fs::set_permissions(&path, Permissions::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                return Ok((Guarded::duplicate(listener.as_raw_fd())?, path));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// True for a socket of this user on which no process listens: an earlier process with this number has left it.
fn is_left(path: &Path) -> bool {
    let is_ours = path.symlink_metadata().is_ok_and(|about| about.uid() == user() && about.file_type().is_socket());
    is_ours && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Waits until the listener or a client has something; for each, the listener first, whether it has.
pub(super) fn wait<'s>(listener: &'s Guarded, clients: impl Iterator<Item = &'s Guarded>) -> Vec<bool> {
    let polled = |socket: &Guarded| libc::pollfd { fd: socket.number(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<libc::pollfd> = std::iter::once(listener).chain(clients).map(polled).collect();
    // SAFETY: the structures are written during the call, and there are as many as it is told.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
    polled.iter().map(|one| one.revents != 0).collect()
}

/// The next client; `None` if there is none, or it is another user's.
pub(super) fn accept(listener: &Guarded) -> Option<Guarded> {
    if !listener.is_ours() {
        return None;
    }
    let (flags, null) = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, std::ptr::null_mut());
    // SAFETY: no address is asked for.
    let client = unsafe { libc::accept4(listener.number(), null, null.cast(), flags) };
    if client < 0 {
        return None;
    }
    // SAFETY: the descriptor was just made, and no other code has its number.
    let client = unsafe { OwnedFd::from_raw_fd(client) };
    let of_user = peer(client.as_fd()).is_ok_and(|peer| peer.uid == user() || peer.uid == 0);
    of_user.then(|| Guarded::duplicate(client.as_raw_fd()).ok()).flatten()
}
