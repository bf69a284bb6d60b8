//! Which buffers are known to render nodes, and by which handle.
//!
//! # Threads
//! Any; one lock, never held across a call.

use std::collections::{HashMap, HashSet};
use std::os::fd::RawFd;
use std::sync::Mutex;

use crate::buffer::Errno;
use crate::lock;
use crate::memfile::{Identity, identity};

/// A buffer that a render node has a handle of.
pub(crate) struct Import {
    /// The compute driver's handle.
    pub(crate) buffer: u64,
    /// Where it is mapped: device, address, bytes.
    pub(crate) mapped: Vec<(usize, u64, u64)>,
}

#[derive(Default)]
struct Table {
    /// Buffers, by the file that a descriptor was given out for.
    exported: HashMap<Identity, u64>,
    /// By the render node's handle.
    imports: HashMap<u32, Import>,
    /// Buffers that the compute driver has let go of, while a render node has not.
    freed: HashSet<u64>,
}

/// Buffers that two drivers know.
#[derive(Default)]
pub(crate) struct Shared(Mutex<Table>);

impl Shared {
    /// A descriptor of this file stands for a buffer.
    pub(crate) fn exported(&self, file: Identity, buffer: u64) {
        lock(&self.0).exported.insert(file, buffer);
    }

    /// The handle of the buffer that a descriptor stands for: the same one each time.
    pub(crate) fn imported(&self, fd: RawFd) -> Option<u32> {
        let mut table = lock(&self.0);
        let buffer = *table.exported.get(&identity(fd)?)?;
        // Buffers are numbered in the low half.
        let handle = buffer as u32;
        table.imports.entry(handle).or_insert(Import { buffer, mapped: Vec::new() });
        Some(handle)
    }

    /// Does something with what a handle stands for.
    ///
    /// # Errors
    /// EINVAL for a handle that is none.
    pub(crate) fn import<T>(&self, handle: u32, f: impl FnOnce(&mut Import) -> T) -> Result<T, Errno> {
        lock(&self.0).imports.get_mut(&handle).map(f).ok_or(libc::EINVAL)
    }

    /// The compute driver lets go of a buffer: true if a render node still has it.
    pub(crate) fn outlives(&self, buffer: u64) -> bool {
        let mut table = lock(&self.0);
        let held = table.imports.contains_key(&(buffer as u32));
        if held {
            table.freed.insert(buffer);
        } else {
            table.exported.retain(|_, b| *b != buffer);
        }
        held
    }

    /// A render node lets go of a handle: what it was, and whether the compute driver has already.
    ///
    /// # Errors
    /// EINVAL for a handle that is none.
    pub(crate) fn close(&self, handle: u32) -> Result<(Import, bool), Errno> {
        let mut table = lock(&self.0);
        let import = table.imports.remove(&handle).ok_or(libc::EINVAL)?;
        let freed = table.freed.remove(&import.buffer);
        if freed {
            table.exported.retain(|_, b| *b != import.buffer);
        }
        Ok((import, freed))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;
    use crate::memfile::{MemFile, PAGE};

    #[test]
    fn a_descriptor_stands_for_its_buffer_until_both_drivers_let_go() {
        let (shared, buffer) = (Shared::default(), 1 << 32 | 7);
        let file = MemFile::new(c"test", PAGE, PAGE).expect("a file");
        // SAFETY: a descriptor that was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(file.open_to_write(libc::O_CLOEXEC).expect("a descriptor")) };
        assert_eq!(shared.imported(fd.as_raw_fd()), None, "before it was exported");
        shared.exported(file.identity(), buffer);
        assert_eq!([0; 2].map(|_| shared.imported(fd.as_raw_fd())), [Some(7); 2]);
        assert_eq!(shared.import(7, |import| import.buffer), Ok(buffer));
        assert!(shared.outlives(buffer));
        assert!(matches!(shared.close(7), Ok((Import { buffer: 0x1_0000_0007, .. }, true))));
        assert_eq!(shared.imported(fd.as_raw_fd()), None, "a buffer that is gone");
        assert!(shared.close(7).is_err());
        // What it would show is not the buffer's memory.
        // SAFETY: a new mapping wherever there is room, which nobody uses.
        let place = unsafe {
            libc::mmap(std::ptr::null_mut(), PAGE as usize, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        assert_eq!(place, libc::MAP_FAILED);
    }
}
