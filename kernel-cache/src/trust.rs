//! Who may have written what is in a cache. A code object is a program: it runs with the rights of the application.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Bits of the mode that let group and others write. Source: POSIX `sys/stat.h`.
const OTHERS_MAY_WRITE: u32 = 0o022;
/// The bit of a folder's mode by which only the owners of what is in it, and its own, may replace that.
const STICKY: u32 = 0o1000;
/// Links that the system follows in one path. Source: Linux, `MAXSYMLINKS`.
const MOST_LINKS: usize = 40;
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
        let remedy = remedy(owner == user);
        Some(format!(
            "expected a {what} that only user {user} and root may write, found one of user {owner} with mode {mode:04o}: it is not used; {remedy}, \
             or {unless}"
        ))
    }

    /// Why a path is not used, if others can let it lead elsewhere: by a link of theirs, or by replacing a folder of it.
    pub(crate) fn refusal_of_path(self, path: &Path) -> Option<String> {
        let Trust::User { user, unless } = self else { return None };
        let (part, data) = replaceable(path, user, OTHERS_MAY_WRITE)?;
        Some(format!(
            "{}: it is not used; {}, or {unless}",
            found_in_path(user, &part, &data),
            remedy(data.uid() == user)
        ))
    }
}

/// How a user gets a file or folder that is used.
fn remedy(is_own: bool) -> &'static str {
    if is_own { "`chmod go-w` it" } else { "copy what you trust into a folder of your own" }
}

fn found_in_path(user: u32, part: &Path, data: &Metadata) -> String {
    let (owner, mode, part) = (data.uid(), data.mode() & 0o7777, part.display());
    if data.is_symlink() {
        format!("expected a path with links of user {user} and root only, found {part} of user {owner}")
    } else {
        format!(
            "expected a path in folders that only user {user} and root may write, found {part} of user {owner} with mode {mode:04o}"
        )
    }
}

/// Why no file is written below a path, if it is not: a part of it is another user's.
pub(crate) fn refusal_to_write(user: u32, path: &Path) -> Option<String> {
    replaceable(path, user, 0).map(|(part, data)| found_in_path(user, &part, &data))
}

/// The first part of a path that others than a user and root can let lead elsewhere: it is theirs, or its mode has one of `bits`. What is
/// behind a private folder cannot be reached by others, and what is not there is nobody's.
fn replaceable(path: &Path, user: u32, bits: u32) -> Option<(PathBuf, Metadata)> {
    let is_ours = |owner: u32| owner == user || owner == ROOT;
    let parts =
        |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<OsString>>();
    let (mut at, mut left, mut links) = (PathBuf::from("/"), parts(path), 0);
    while let Some(part) = left.pop() {
        match Path::new(&part).components().next()? {
            Component::ParentDir => {
                at.pop();
                continue;
            }
            Component::Normal(_) => {}
            _ => continue,
        }
        let folder = fs::metadata(&at).ok()?;
        let next = at.join(&part);
        let data = fs::symlink_metadata(&next).ok()?;
        if !is_behind_a_private_folder(&next, &is_ours) {
            let is_open = folder.mode() & bits != 0 && folder.mode() & STICKY == 0;
            if is_open || !is_ours(folder.uid()) {
                return Some((at, folder));
            }
            if !is_ours(data.uid()) {
                return Some((next, data));
            }
        }
        if data.is_symlink() && links < MOST_LINKS {
            links += 1;
            let target = fs::read_link(&next).ok()?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(parts(&target));
        } else {
            at = next;
        }
    }
    None
}

/// True when other users cannot reach a path: a folder above it has a mode that keeps them out.
fn is_behind_a_private_folder(path: &Path, is_ours: &dyn Fn(u32) -> bool) -> bool {
    let Ok(path) = path.parent().map_or(Ok(PathBuf::from("/")), fs::canonicalize) else { return false };
    let is_private = |data: Metadata| is_ours(data.uid()) && data.mode() & OTHERS_MAY_PASS == 0;
    path.ancestors().any(|folder| fs::metadata(folder).is_ok_and(is_private))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_path_is_refused_where_others_can_let_it_lead_elsewhere() {
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str, mode| fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("ours");
        fs::create_dir_all(at("open/cache")).expect("a folder");
        symlink("open/cache", at("link")).expect("a link");
        mode("", 0o755);
        let user = fs::metadata(folder.path()).expect("it is there").uid();
        let trust = Trust::of(user, false, "X=1 uses it");
        let refused = |name: &str| trust.refusal_of_path(&at(name));
        assert_eq!((refused("open/cache"), refused("link"), refused("nothing/there")), (None, None, None));
        mode("open", 0o775);
        for name in ["open/cache", "link"] {
            let said = refused(name).expect("others may write a folder of it");
            assert!(
                said.contains("open of user")
                    && said.contains("mode 0775")
                    && said.ends_with("`chmod go-w` it, or X=1 uses it"),
                "{said}"
            );
        }
        assert_eq!(refusal_to_write(user, &at("open/cache")), None, "nothing in it is another's");
        // As /tmp.
        mode("open", 0o1777);
        assert_eq!(refused("link"), None);
        // Nobody else can get there.
        mode("open", 0o777);
        mode("", 0o700);
        assert_eq!(refused("link"), None);
        mode("", 0o755);
        // Another user's, seen from a third.
        let foreign = Trust::of(user + 1, false, "X=1 uses it");
        let said = foreign.refusal_of_path(&at("link"));
        assert!(
            user == ROOT || said.expect("the folder is another's").contains(&format!("of user {user} with mode 0755"))
        );
        assert!(user == ROOT || refusal_to_write(user + 1, &at("new")).is_some());
    }

    #[test]
    fn a_path_through_a_link_of_another_user_is_refused() {
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let link = folder.path().join("link");
        symlink("/usr", &link).expect("a link");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("ours");
        // Only root can give a link away.
        if std::os::unix::fs::lchown(&link, Some(1234), None).is_ok() {
            let said = Trust::of(ROOT, false, "X=1 uses it").refusal_of_path(&link.join("lib"));
            let expected = format!("found {} of user 1234", link.display());
            assert!(said.is_some_and(|said| said.contains(&expected)));
            assert!(refusal_to_write(ROOT, &link.join("lib/new")).is_some_and(|said| said.contains(&expected)));
        }
    }
}
