//! Where a path leads when something is to be written there.
//!
//! Links are followed here and not by the kernel. A link in a folder that others may write is refused: it could lead to any file of
//! this user.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::trust::{OTHERS_MAY_WRITE, user};

/// Links that are followed one after the other. Source: `path_resolution(7)`.
const MOST_LINKS: usize = 40;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A descriptor that is open already, as `/dev/stdout` is one.
    Descriptor(RawFd),
    /// A path with no link in it. There may be no such file.
    File(PathBuf),
}

impl Target {
    /// Follows the links of a path.
    ///
    /// # Errors
    /// When a link is in a folder that others may write, or there are too many.
    pub fn of(path: &Path) -> io::Result<Target> {
        let path = std::path::absolute(path)?;
        let mut rest: VecDeque<OsString> = names(&path).collect();
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            if !next.symlink_metadata().is_ok_and(|data| data.is_symlink()) {
                at = next;
                continue;
            }
            if is_of_descriptors(&at) {
                match name.to_str().and_then(|number| number.parse().ok()) {
                    Some(number) if rest.is_empty() && is_own(&at) => return Ok(Target::Descriptor(number)),
                    // The kernel opens what another process has open.
                    _ => at = next,
                }
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            if fs::metadata(&at).is_ok_and(|folder| others_may_write(&folder)) {
                let (link, folder) = (next.display(), at.display());
                return Err(io::Error::other(format!(
                    "{link} is a link in {folder}, which other users may write: it is not followed"
                )));
            }
            let to = fs::read_link(&next)?;
            if to.is_absolute() {
                at = PathBuf::from("/");
            }
            let mut all: VecDeque<OsString> = names(&to).collect();
            all.append(&mut rest);
            rest = all;
        }
        Ok(Target::File(at))
    }
}

fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// True for a folder that anybody but this user and root may write. Where a container shows root as another user, the root folder
/// is that user's, too.
fn others_may_write(folder: &Metadata) -> bool {
    let root = fs::metadata("/").map_or(0, |root| root.uid());
    folder.mode() & OTHERS_MAY_WRITE != 0 || ![user(), 0, root].contains(&folder.uid())
}

/// True for a folder of the descriptors of a process. Source: `proc_pid_fd(5)`.
fn is_of_descriptors(folder: &Path) -> bool {
    folder.starts_with("/proc") && folder.file_name() == Some(OsStr::new("fd"))
}

fn is_own(folder: &Path) -> bool {
    ["/proc/self/fd", "/proc/thread-self/fd"].iter().any(|own| fs::canonicalize(own).is_ok_and(|own| own == folder))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_are_followed_but_in_a_folder_that_others_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let leads = |name: &str| Target::of(&at(name)).map_err(|error| error.to_string());
        fs::create_dir(at("open")).unwrap();
        symlink("open", at("way")).unwrap();
        symlink("../new", at("open/link")).unwrap();
        symlink("loop", at("loop")).unwrap();
        assert_eq!(leads("way/../way/link"), Ok(Target::File(at("new"))));
        assert_eq!(leads("absent/x"), Ok(Target::File(at("absent/x"))));
        assert!(leads("loop").is_err());
        fs::set_permissions(at("open"), Permissions::from_mode(0o1777)).unwrap();
        let refused = leads("way/link").unwrap_err();
        assert!(refused.ends_with("which other users may write: it is not followed"), "{refused}");
        assert_eq!(leads("way/file"), Ok(Target::File(at("open/file"))));
    }

    #[test]
    fn a_descriptor_that_is_open_is_known_by_each_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/dev/stderr", &link).unwrap();
        for (path, number) in [("/dev/stdout", 1), ("/dev/fd/2", 2), ("/proc/self/fd/0", 0)] {
            assert_eq!(Target::of(Path::new(path)).unwrap(), Target::Descriptor(number));
        }
        assert_eq!(Target::of(&link).unwrap(), Target::Descriptor(2));
        assert_eq!(Target::of(Path::new("/dev/null")).unwrap(), Target::File("/dev/null".into()));
    }
}
