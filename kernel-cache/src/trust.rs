//! Who may have written what is in a cache. A code object is a program: it runs with the rights of the application.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bits of the mode that let group and others write. Source: POSIX `sys/stat.h`.
const OTHERS_MAY_WRITE: u32 = 0o022;
/// Bits of a folder's mode that let group and others reach what is in it.
const OTHERS_MAY_PASS: u32 = 0o011;
/// The superuser may write everything anyway.
const ROOT: u32 = 0;

/// Whose folders and files are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Everybody's: the user has named a file for this one use.
    #[default]
    Everybody,
    /// Those that only this user and root may write. `unless` says how a user lifts that, as a phrase like "`X=1` uses it".
    User {
        /// The number of the user.
        user: u32,
        /// What the refusal ends with.
        unless: &'static str,
    },
}

impl Trust {
    /// Of a user; of everybody if `all` are trusted.
    pub fn of(user: u32, all: bool, unless: &'static str) -> Trust {
        if all { Trust::Everybody } else { Trust::User { user, unless } }
    }

    /// Why a folder or file is not used, if it is not. `data` is of the open file, or of the folder.
    pub(crate) fn refusal(self, data: &Metadata, path: &Path) -> Option<String> {
        let Trust::User { user, unless } = self else { return None };
        let (owner, mode) = (data.uid(), data.mode() & 0o7777);
        let is_ours = |owner: u32| owner == user || owner == ROOT;
        if is_ours(owner) && (mode & OTHERS_MAY_WRITE == 0 || is_behind_a_private_folder(path, &is_ours)) {
            return None;
        }
        let what = if data.is_dir() { "folder" } else { "file" };
        Some(format!(
            "expected a {what} that only user {user} and root may write, found one of user {owner} with mode {mode:04o}: it is not used; {unless}"
        ))
    }
}

/// True when other users cannot reach a path: a folder above it has a mode that keeps them out.
fn is_behind_a_private_folder(path: &Path, is_ours: &dyn Fn(u32) -> bool) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return false };
    let is_private = |data: Metadata| is_ours(data.uid()) && data.mode() & OTHERS_MAY_PASS == 0;
    path.ancestors().skip(1).any(|folder| fs::metadata(folder).is_ok_and(is_private))
}
