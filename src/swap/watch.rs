//! The thread that watches the cache's folders.
//!
//! # Threads
//! One, started with the first code object that is loaded while there is a cache. It sleeps in `read` until the system
//! tells of a change.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use logdur_intercept::Interceptor;
use logdur_system::lock;

use super::{Swapper, clones};
use crate::guarded::Guarded;

/// What tells that a file is complete, or gone. Source: `inotify(7)`.
const EVENTS: u32 = libc::IN_CLOSE_WRITE
    | libc::IN_MOVED_TO
    | libc::IN_MOVED_FROM
    | libc::IN_DELETE
    | libc::IN_CREATE
    | libc::IN_DELETE_SELF
    | libc::IN_MOVE_SELF;

/// `struct inotify_event` without its name: watch, mask, cookie, length of the name.
const EVENT_BYTES: usize = 16;

/// Folders that the system watches.
struct Watcher {
    events: Guarded,
    folders: HashMap<i32, PathBuf>,
}

/// A change: a folder and what is in it, or the folder itself.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Of(PathBuf),
    /// More has changed than the system could tell.
    Everything,
}

impl Swapper {
    /// Watches the cache's folders from now on.
    pub(crate) fn watch(&'static self, interceptor: &'static Interceptor) {
        if !self.roots.is_empty() && !self.watched.swap(true, Ordering::AcqRel) {
            let without = "later changes of the cache are not seen";
            interceptor.spawn("logdur-cache", without, move || self.watch_for_ever(interceptor));
        }
    }

    fn watch_for_ever(&self, interceptor: &'static Interceptor) {
        let said = |error: io::Error| interceptor.off(format!("cache: later changes are not seen: {error}"));
        let mut watcher = match Watcher::new() {
            Ok(watcher) => watcher,
            Err(error) => return said(error),
        };
        // What changed between the first look and the watch.
        let mut changes = vec![Change::Everything];
        loop {
            self.take_in(interceptor, &mut watcher, &changes);
            changes = match watcher.wait() {
                Ok(changes) => changes,
                Err(error) => return said(error),
            };
        }
    }

    /// Watches what is to be watched, looks at what has changed, and decides anew about its kernels.
    fn take_in(&self, interceptor: &'static Interceptor, watcher: &mut Watcher, changes: &[Change]) {
        // Never while the runtime is being shut down.
        let may = interceptor.may_use_runtime();
        // A thread that looks at all executables finds none of ours that is half loaded.
        let _leaving = lock(&self.code.leaving);
        let mut state = lock(&self.state);
        self.watch_folders(interceptor, watcher, state.cache.folders());
        let mut names = Vec::new();
        for change in changes {
            match change {
                Change::Of(path) => names.extend(state.cache.update(path)),
                Change::Everything => self.roots.iter().for_each(|root| names.extend(state.cache.update(root))),
            }
        }
        // No event tells what happened in a new folder between the look and the watch.
        loop {
            let new = self.watch_folders(interceptor, watcher, state.cache.folders());
            if new.is_empty() {
                break;
            }
            new.iter().for_each(|folder| names.extend(state.cache.update(folder)));
        }
        let originals: Vec<String> = names.iter().filter_map(|name| clones::of_clone(name)).collect();
        names.extend(originals);
        names.sort_unstable();
        names.dedup();
        for name in names.iter().filter(|_| *may) {
            self.choose_replacement(interceptor, &mut state, name);
        }
    }

    /// Watches folders, and says which of them were not watched before.
    fn watch_folders<'a>(
        &self,
        interceptor: &Interceptor,
        watcher: &mut Watcher,
        folders: impl Iterator<Item = &'a Path>,
    ) -> Vec<PathBuf> {
        let mut new = Vec::new();
        for folder in folders {
            match watcher.add(folder) {
                Ok(true) => new.push(folder.to_owned()),
                Ok(false) => {}
                Err(error) => {
                    let text = format!("cache: later changes in {} may not be seen: {error}", folder.display());
                    interceptor.notice_once("watch", text);
                }
            }
        }
        new
    }
}

impl Watcher {
    fn new() -> io::Result<Watcher> {
        // SAFETY: takes a number, and touches no memory.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and no other code has it.
        let events = unsafe { File::from_raw_fd(descriptor) };
        Ok(Watcher { events: Guarded::of(&events)?, folders: HashMap::new() })
    }

    /// False once the application has closed the descriptor: another file may have its number. Device and inode do not suffice, since
    /// all anonymous files (`anon_inode`) share them.
    fn is_ours(&self) -> bool {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", self.events.number()));
        self.events.is_ours() && kind.map_or(true, |kind| kind.as_os_str() == "anon_inode:inotify")
    }

    /// Watches a folder; true if it was not watched yet.
    fn add(&mut self, folder: &Path) -> io::Result<bool> {
        if !self.is_ours() {
            // All folders are watched anew by `wait`.
            return Ok(false);
        }
        let path = CString::new(folder.as_os_str().as_bytes())?;
        // SAFETY: the path ends with a zero.
        let watch = unsafe { libc::inotify_add_watch(self.events.number(), path.as_ptr(), EVENTS | libc::IN_ONLYDIR) };
        if watch < 0 {
            let error = io::Error::last_os_error();
            // Single files are watched with their folder.
            return if error.raw_os_error() == Some(libc::ENOTDIR) { Ok(false) } else { Err(error) };
        }
        Ok(self.folders.insert(watch, folder.to_owned()).is_none())
    }

    /// Sleeps until something has changed.
    fn wait(&mut self) -> io::Result<Vec<Change>> {
        if !self.is_ours() {
            *self = Watcher::new()?;
            return Ok(vec![Change::Everything]);
        }
        let mut buffer = [0u8; 16 << 10];
        let length = loop {
            match self.events.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        Ok(changes(buffer.get(..length).unwrap_or(&[]), &mut self.folders))
    }
}

/// What events tell. Source: `inotify(7)`.
fn changes(mut events: &[u8], folders: &mut HashMap<i32, PathBuf>) -> Vec<Change> {
    let mut changes = Vec::new();
    while let Some((head, rest)) = events.split_at_checked(EVENT_BYTES) {
        let word = |n: usize| head.get(4 * n..4 * n + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let (watch, mask, length) = (word(0) as i32, word(1), word(3) as usize);
        let Some((name, rest)) = rest.split_at_checked(length) else { break };
        events = rest;
        if mask & libc::IN_Q_OVERFLOW != 0 {
            changes.push(Change::Everything);
            continue;
        }
        if let Some(folder) = folders.get(&watch) {
            let end = name.iter().position(|&b| b == 0).unwrap_or(length);
            let name = OsStr::from_bytes(&name[..end]);
            let path = if name.is_empty() { folder.clone() } else { folder.join(name) };
            // A file that was only created is still to be written.
            let begun = mask & libc::IN_CREATE != 0 && mask & libc::IN_ISDIR == 0 && !path.is_symlink();
            if !begun && mask & libc::IN_IGNORED == 0 {
                changes.push(Change::Of(path));
            }
        }
        if mask & libc::IN_IGNORED != 0 {
            folders.remove(&watch);
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn files_that_are_complete_or_gone_and_new_folders_are_told_files_that_are_begun_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut watcher = Watcher::new().unwrap();
        watcher.add(folder.path()).unwrap();
        let at = |name: &str| folder.path().join(name);
        let file = File::create(at("begun")).unwrap();
        fs::create_dir(at("new")).unwrap();
        assert_eq!(watcher.wait().unwrap(), [Change::Of(at("new"))]);
        drop(file);
        assert_eq!(watcher.wait().unwrap(), [Change::Of(at("begun"))]);
        fs::rename(at("begun"), at("renamed")).unwrap();
        assert_eq!(watcher.wait().unwrap(), [Change::Of(at("begun")), Change::Of(at("renamed"))]);
        fs::remove_file(at("renamed")).unwrap();
        assert_eq!(watcher.wait().unwrap(), [Change::Of(at("renamed"))]);
    }

    #[test]
    fn a_watch_whose_descriptor_the_application_has_taken_is_made_anew_and_the_descriptor_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut watcher = Watcher::new().unwrap();
        watcher.add(folder.path()).unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"theirs").unwrap();
        let number = watcher.events.number();
        // SAFETY: replaces a descriptor of this test.
        assert_eq!(unsafe { libc::dup2(reader.as_raw_fd(), number) }, number);
        assert!(!watcher.add(folder.path()).unwrap());
        assert_eq!(watcher.wait().unwrap(), [Change::Everything]);
        assert!(watcher.events.number() != number && watcher.add(folder.path()).unwrap());
        fs::write(folder.path().join("new"), "").unwrap();
        assert_eq!(watcher.wait().unwrap(), [Change::Of(folder.path().join("new"))]);
        // SAFETY: the number is the pipe's, and no other code closes it.
        let mut theirs = unsafe { File::from_raw_fd(number) };
        let mut bytes = [0; 6];
        theirs.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"theirs");
    }

    #[test]
    fn events_that_are_cut_off_or_of_unknown_folders_are_left_out() {
        let mut folders = HashMap::from([(1, PathBuf::from("/cache"))]);
        let event = |watch: i32, mask: u32, name: &[u8]| {
            let words = [watch as u32, mask, 0, name.len() as u32];
            [words.iter().flat_map(|w| w.to_ne_bytes()).collect(), name.to_vec()].concat()
        };
        let bytes: Vec<u8> = [
            event(1, libc::IN_CLOSE_WRITE, b"a.hsaco\0\0\0\0\0"),
            event(2, libc::IN_CLOSE_WRITE, b"b\0\0\0"),
            event(-1, libc::IN_Q_OVERFLOW, b""),
            event(1, libc::IN_CLOSE_WRITE, b"c\0\0\0"),
        ]
        .concat();
        let cut = &bytes[..bytes.len() - 2];
        assert_eq!(changes(cut, &mut folders), [Change::Of("/cache/a.hsaco".into()), Change::Everything]);
    }
}
