//! The files of a folder and of those below it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cache::Problem;
use crate::candidate::Stamp;
use crate::trust::Trust;

/// Folders in folders: a path cannot be long enough for many more.
const DEEPEST: usize = 512;
/// Files and folders of one root: a folder of everything is no cache, and an application that loads code waits.
const MOST: usize = 1 << 18;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Files, sorted by path.
    pub(crate) files: Vec<(PathBuf, Stamp)>,
    /// Folders that were read.
    pub(crate) folders: Vec<PathBuf>,
    /// Files and folders that could not be read.
    pub(crate) problems: Vec<Problem>,
    /// Device and inode of those folders: a folder that two links lead to is read once.
    seen: HashSet<(u64, u64)>,
    /// How many files and folders were looked at.
    entries: usize,
    trust: Trust,
}

impl Walk {
    /// Looks into a folder and those below it; of a file, at itself. Links are followed, but not to a folder above. What is not trusted
    /// is a problem.
    pub(crate) fn of(root: &Path, trust: Trust) -> Walk {
        let mut walk = Walk { trust, ..Walk::default() };
        let whole = fs::canonicalize(root).unwrap_or_default();
        let above = whole.ancestors().skip(1).filter_map(|folder| folder.metadata().ok());
        let mut above: Vec<(u64, u64)> = above.map(|data| (data.dev(), data.ino())).collect();
        walk.entry(root.to_path_buf(), true, &mut above);
        walk.files.sort_by(|a, b| a.0.as_os_str().cmp(b.0.as_os_str()));
        walk
    }

    fn problem(&mut self, path: PathBuf, reason: impl ToString) {
        self.problems.push(Problem { path, reason: reason.to_string() });
    }

    /// One entry; `leads` for one whose path others may let lead elsewhere, as a link.
    fn entry(&mut self, path: PathBuf, leads: bool, above: &mut Vec<(u64, u64)>) {
        self.entries += 1;
        if self.entries > MOST {
            if self.entries == MOST + 1 {
                self.problem(
                    path,
                    format!("expected at most {MOST} files and folders, found more: the others are not looked at"),
                );
            }
            return;
        }
        if let Some(refusal) = Some(&path).filter(|_| leads).and_then(|path| self.trust.refusal_of_path(path)) {
            return self.problem(path, refusal);
        }
        let data = match fs::metadata(&path) {
            Ok(data) => data,
            Err(error) => return self.problem(path, error),
        };
        if (data.is_file() || data.is_dir())
            && let Some(refusal) = self.trust.refusal(&data, &path)
        {
            return self.problem(path, refusal);
        }
        if data.is_file() {
            self.files.push((path, Stamp::of(&data)));
        } else if data.is_dir() {
            let identity = (data.dev(), data.ino());
            if above.contains(&identity) {
                return self.problem(path, "expected a folder below, found a link to one above: a loop");
            }
            if above.len() >= DEEPEST {
                return self.problem(path, format!("expected at most {DEEPEST} folders in folders, found more"));
            }
            if self.seen.insert(identity) {
                above.push(identity);
                self.folder(path, above);
                above.pop();
            }
        }
    }

    fn folder(&mut self, path: PathBuf, above: &mut Vec<(u64, u64)>) {
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) => return self.problem(path, error),
        };
        self.folders.push(path.clone());
        for entry in entries {
            if self.entries > MOST {
                return;
            }
            match entry {
                Ok(entry) => self.entry(entry.path(), entry.file_type().is_ok_and(|kind| kind.is_symlink()), above),
                Err(error) => self.problem(path.clone(), error),
            }
        }
    }
}
