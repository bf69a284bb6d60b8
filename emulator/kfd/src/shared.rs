//! Buffers that are known outside of the compute driver: to render nodes by a handle, to other processes by a descriptor.
//!
//! # Threads
//! Any; one lock, under which nothing is called but the kernel.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;

use crate::Errno;
use crate::dmabuf::{Dmabuf, Record};
use crate::lock;
use crate::memfile::{Identity, identity};

/// A buffer that a render node has a handle of.
pub(crate) struct Import {
    /// The compute driver's handle.
    pub(crate) buffer: u64,
    /// Its mappings: device, address, bytes.
    pub(crate) mapped: Vec<(usize, u64, u64)>,
    /// The file of an imported buffer; `None` if this process exported it.
    foreign: Option<Identity>,
}

/// The file that describes a buffer.
struct Exported {
    file: Dmabuf,
    /// The file stays as long as the buffer, also without other holders.
    lasting: bool,
}

#[derive(Default)]
struct Table {
    /// By the compute driver's handle.
    exported: HashMap<u64, Exported>,
    /// By the render node's handle.
    imports: HashMap<u32, Import>,
    /// Buffers that the compute driver has freed and that have other users.
    freed: HashSet<u64>,
}

/// A render node's handle: buffers are numbered in the low half.
fn render_handle(buffer: u64) -> u32 {
    buffer as u32
}

impl Table {
    /// True if a render node, another process or a descriptor refers to a buffer. If not, its file is emptied, so that no
    /// new user can appear.
    fn held(&mut self, buffer: u64) -> bool {
        if self.imports.contains_key(&render_handle(buffer)) {
            return true;
        }
        let held = self.exported.get(&buffer).is_some_and(|e| !e.file.take_back());
        if !held {
            self.exported.remove(&buffer);
        }
        held
    }
}

/// Buffers that are known outside of the compute driver.
#[derive(Default)]
pub(crate) struct Shared(Mutex<Table>);

impl Shared {
    /// Calls `f` with the file that describes a buffer of this process. `lasting` keeps the file as long as the buffer:
    /// another process may know its number, or it has metadata.
    ///
    /// # Errors
    /// If the file cannot be made, and those of `f`.
    pub(crate) fn file<T>(
        &self,
        buffer: u64,
        record: Record,
        lasting: bool,
        f: impl FnOnce(&Dmabuf) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut table = lock(&self.0);
        // Unused files are dropped, so that there are only as many as there are users.
        table.exported.retain(|&b, e| b == buffer || e.lasting || !e.file.take_back());
        let exported = match table.exported.entry(buffer) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Exported { file: Dmabuf::new(record)?, lasting }),
        };
        exported.lasting |= lasting;
        f(&exported.file)
    }

    /// The handle of the buffer behind a descriptor, the same one each time; `None` if it has none yet.
    pub(crate) fn imported(&self, fd: RawFd) -> Option<u32> {
        let file = identity(fd)?;
        let mut table = lock(&self.0);
        if let Some((&handle, _)) = table.imports.iter().find(|(_, import)| import.foreign == Some(file)) {
            return Some(handle);
        }
        let (&buffer, _) = table.exported.iter().find(|(_, e)| e.file.identity() == file)?;
        let import = Import { buffer, mapped: Vec::new(), foreign: None };
        table.imports.entry(render_handle(buffer)).or_insert(import);
        Some(render_handle(buffer))
    }

    /// Gives a render node's handle to a buffer of another process. The file is closed with the handle.
    pub(crate) fn adopt(&self, buffer: u64, file: Identity) -> u32 {
        let mut table = lock(&self.0);
        table.freed.insert(buffer);
        table.imports.insert(render_handle(buffer), Import { buffer, mapped: Vec::new(), foreign: Some(file) });
        render_handle(buffer)
    }

    /// Calls `f` with the buffer of a handle.
    ///
    /// # Errors
    /// EINVAL for a handle that is none.
    pub(crate) fn import<T>(&self, handle: u32, f: impl FnOnce(&mut Import) -> T) -> Result<T, Errno> {
        lock(&self.0).imports.get_mut(&handle).map(f).ok_or(libc::EINVAL)
    }

    /// Marks a buffer as freed by the compute driver. Returns true if it has other users.
    ///
    /// # Errors
    /// EINVAL if the compute driver has done so before.
    pub(crate) fn outlives(&self, buffer: u64) -> Result<bool, Errno> {
        let mut table = lock(&self.0);
        if table.freed.contains(&buffer) {
            return Err(libc::EINVAL);
        }
        let held = table.held(buffer);
        if held {
            table.freed.insert(buffer);
        }
        Ok(held)
    }

    /// Removes a render node's handle. Returns the mappings of its buffer.
    ///
    /// # Errors
    /// EINVAL for a handle that is none.
    pub(crate) fn close(&self, handle: u32) -> Result<Vec<(usize, u64, u64)>, Errno> {
        lock(&self.0).imports.remove(&handle).map(|import| import.mapped).ok_or(libc::EINVAL)
    }

    /// Takes the buffers that the compute driver has freed and that have no other user any more.
    pub(crate) fn abandoned(&self) -> HashSet<u64> {
        let mut table = lock(&self.0);
        let freed = std::mem::take(&mut table.freed);
        let (held, abandoned) = freed.into_iter().partition(|&buffer| table.held(buffer));
        table.freed = held;
        abandoned
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;
    use crate::memfile::{MEMORY, MemFile, PAGE};

    const BUFFER: u64 = 1 << 32 | 7;

    fn record() -> Record {
        let memory = MemFile::new(MEMORY, PAGE, 0).expect("a file");
        Record::new(&memory, 0, PAGE, 1, 0)
    }

    fn exported(shared: &Shared) -> OwnedFd {
        let fd = shared.file(BUFFER, record(), false, Dmabuf::give).expect("a descriptor");
        // SAFETY: a descriptor that was just made and belongs to no other code.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    #[test]
    fn a_descriptor_stands_for_its_buffer_until_both_drivers_and_who_has_it_let_go() {
        let shared = Shared::default();
        let fd = exported(&shared);
        assert_eq!([0; 2].map(|_| shared.imported(fd.as_raw_fd())), [Some(7); 2]);
        assert_eq!(shared.import(7, |import| import.buffer), Ok(BUFFER));
        assert_eq!(shared.outlives(BUFFER), Ok(true));
        assert!(shared.outlives(BUFFER).is_err(), "it was freed before");
        assert!(shared.close(7).is_ok() && shared.close(7).is_err());
        assert!(shared.abandoned().is_empty(), "a descriptor is left");
        let copy = fd.try_clone().expect("a descriptor");
        drop(fd);
        assert!(shared.abandoned().is_empty(), "a copy is left");
        drop(copy);
        assert_eq!(shared.abandoned(), HashSet::from([BUFFER]));
        assert!(shared.abandoned().is_empty(), "once");
    }

    #[test]
    fn who_imports_a_buffer_keeps_it_though_every_descriptor_is_closed() {
        let shared = Shared::default();
        let fd = exported(&shared);
        let user = Dmabuf::behind(fd.as_raw_fd()).expect("a buffer");
        drop(fd);
        assert_eq!(shared.outlives(BUFFER), Ok(true));
        assert!(shared.abandoned().is_empty());
        drop(user);
        assert_eq!(shared.abandoned(), HashSet::from([BUFFER]));
    }

    #[test]
    fn a_lasting_file_can_be_found_until_its_buffer_is_freed_and_another_until_its_last_user_closes_it() {
        let shared = Shared::default();
        let place = |buffer, lasting| {
            let tell = |file: &Dmabuf| Ok((file.number().cast_unsigned(), file.identity()));
            shared.file(buffer, record(), lasting, tell).expect("a file")
        };
        let files = [place(BUFFER, true), place(BUFFER + 1, false)];
        let found = || {
            files.map(|(number, identity)| {
                Dmabuf::of_other(std::process::id(), number).is_ok_and(|file| file.identity() == identity)
            })
        };
        assert_eq!(found(), [true, true]);
        // A new file drops the unused ones.
        place(BUFFER + 2, true);
        assert_eq!(found(), [true, false]);
        assert_eq!(shared.outlives(BUFFER), Ok(false));
        assert_eq!(found(), [false, false]);
    }

    #[test]
    fn a_buffer_of_another_process_goes_with_its_handle() {
        let (owner, other) = (Shared::default(), Shared::default());
        let fd = exported(&owner);
        assert_eq!(other.imported(fd.as_raw_fd()), None, "it is not this one's");
        let file = Dmabuf::behind(fd.as_raw_fd()).expect("a buffer");
        assert_eq!(other.adopt(BUFFER, file.identity()), 7);
        assert_eq!(other.imported(fd.as_raw_fd()), Some(7));
        assert!(other.abandoned().is_empty());
        assert!(other.close(7).is_ok());
        assert_eq!(other.abandoned(), HashSet::from([BUFFER]));
    }
}
