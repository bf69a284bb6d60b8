//! Where a capture says that its store is.

use std::path::{Component, Path, PathBuf};

use super::{Store, Stores};
use crate::records::StorePath;

impl StorePath {
    /// Of a store, in a capture of this path: as seen from the capture's folder, and from the root.
    pub fn of(store: &Store, capture: &Path) -> StorePath {
        let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_default();
        let folder = real(store.folder());
        let from = capture.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A path that is no UTF-8 is in no record: a reader has to be told it.
        let text = |path: &Path| path.to_str().unwrap_or_default().to_owned();
        StorePath { relative: text(&relative(&real(from), &folder)), absolute: text(&folder) }
    }

    /// With a folder in place of another one that the absolute path begins with; `None` if it does not.
    pub fn remapped(&self, old: &Path, new: &Path, capture: &Path) -> Option<StorePath> {
        let rest = Path::new(&self.absolute).strip_prefix(old).ok()?;
        let folder = if rest.as_os_str().is_empty() { new.to_owned() } else { new.join(rest) };
        Some(StorePath::of(&Store::open(&folder), capture))
    }
}

impl Stores {
    /// The folders of the stores that a capture names. Relative names begin at the capture's folder, which a pipe does not have.
    pub(crate) fn named<'p>(paths: impl DoubleEndedIterator<Item = &'p StorePath>, capture: Option<&Path>) -> Stores {
        let mut stores = Stores { capture: capture.unwrap_or(Path::new("")).to_owned(), ..Stores::default() };
        for path in paths.rev() {
            let beside = capture.map(|capture| capture.parent().unwrap_or(Path::new("")));
            if let Some(folder) = beside.filter(|_| !path.relative.is_empty()) {
                stores.last(&folder.join(&path.relative));
            }
            if !path.absolute.is_empty() {
                stores.last(Path::new(&path.absolute));
            }
        }
        stores
    }
}

/// A path as seen from a folder, both from the root.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let (mut from, mut to) = (from.components().peekable(), to.components().peekable());
    while from.peek().is_some() && from.peek() == to.peek() {
        from.next();
        to.next();
    }
    let up = from.map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to).collect();
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_seen_from_a_folder() {
        let seen = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).display().to_string();
        assert_eq!(seen("/a/b", "/a/b/store"), "store");
        assert_eq!(seen("/a/b", "/a/store"), "../store");
        assert_eq!(seen("/a/b", "/c"), "../../c");
        assert_eq!(seen("/a", "/a"), ".");
        assert_eq!(Path::new("/a").join(seen("/a", "/b/c")), Path::new("/a/../b/c"));
    }
}
