//! Buffer objects: memory that the runtime allocates through the driver and maps into GPUs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use amdgpu_emu::memory::Backing;

use crate::Errno;
use crate::device::Device;
use crate::dmabuf::{Dmabuf, Record};
use crate::lock;
use crate::memfile::{Mapping, PAGE};
use crate::uapi::kfd;

/// The memory of a buffer.
pub(crate) enum Store {
    /// Part of a device's memory file.
    Memory {
        /// Index of the device.
        device: usize,
        /// Offset in the file.
        offset: u64,
        /// The emulator's own view of it.
        mapping: Arc<Mapping>,
    },
    /// Imported memory: a file describes it. It usually belongs to another process.
    Imported {
        /// The file, which is kept as long as the memory is used.
        file: Dmabuf,
        /// The emulator's own view of it.
        mapping: Arc<Mapping>,
    },
    /// The application's own memory.
    User {
        /// Its host address.
        address: u64,
    },
    /// Part of `/dev/kfd`'s file: doorbells, remapped registers.
    Register,
}

/// A buffer object.
pub(crate) struct Buffer {
    /// GPU address, 0 if it has none yet.
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) flags: u32,
    pub(crate) store: Store,
    /// Indices of the GPUs that it is mapped into.
    pub(crate) mapped: Vec<usize>,
}

/// All buffer objects, by handle.
#[derive(Default)]
pub(crate) struct Buffers {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    buffers: BTreeMap<u64, Buffer>,
}

impl Table {
    fn allocated(&self, device: usize) -> (u64, u64) {
        let of_device = |b: &&Buffer| matches!(b.store, Store::Memory { device: d, .. } if d == device);
        let is_video = |b: &Buffer| b.flags & kfd::KFD_IOC_ALLOC_MEM_FLAGS_VRAM != 0;
        let sum = |(video, system), b: &Buffer| {
            if is_video(b) { (video + b.size, system) } else { (video, system + b.size) }
        };
        self.buffers.values().filter(of_device).fold((0, 0), sum)
    }
}

impl Buffers {
    /// Adds a buffer and returns its handle.
    pub(crate) fn insert(&self, device: usize, buffer: Buffer) -> u64 {
        let mut table = lock(&self.table);
        table.last += 1;
        let handle = (device as u64 + 1) << 32 | table.last;
        table.buffers.insert(handle, buffer);
        handle
    }

    /// Calls `f` with a buffer.
    ///
    /// # Errors
    /// EINVAL for a handle that is none.
    pub(crate) fn with<T>(&self, handle: u64, f: impl FnOnce(&mut Buffer) -> T) -> Result<T, Errno> {
        lock(&self.table).buffers.get_mut(&handle).map(f).ok_or(libc::EINVAL)
    }

    /// Calls `f` with the buffer whose handle has this low half: no two have the same.
    ///
    /// # Errors
    /// EINVAL when there is none.
    pub(crate) fn with_number<T>(&self, number: u32, f: impl FnOnce(&mut Buffer) -> T) -> Result<T, Errno> {
        let mut table = lock(&self.table);
        let found = table.buffers.iter_mut().find(|(handle, _)| **handle as u32 == number);
        found.map(|(_, buffer)| f(buffer)).ok_or(libc::EINVAL)
    }

    /// Takes a buffer out of the table.
    ///
    /// # Errors
    /// EINVAL for a handle that is none.
    pub(crate) fn remove(&self, handle: u64) -> Result<Buffer, Errno> {
        lock(&self.table).buffers.remove(&handle).ok_or(libc::EINVAL)
    }

    /// Bytes that are allocated on a device: of its own memory, and of the host's.
    pub(crate) fn allocated(&self, device: usize) -> (u64, u64) {
        lock(&self.table).allocated(device)
    }

    /// Publishes to other processes how many bytes are allocated on the devices.
    pub(crate) fn publish(&self, devices: &[Device]) {
        let table = lock(&self.table);
        for (index, device) in devices.iter().enumerate() {
            let (video, system) = table.allocated(index);
            device.account.set(video, system);
        }
    }
}

impl Buffer {
    /// The host memory that a GPU shall see behind the buffer.
    pub(crate) fn backing(&self) -> Option<Backing> {
        match &self.store {
            Store::Memory { mapping, .. } | Store::Imported { mapping, .. } => {
                // SAFETY: the mapping has this size and lives as long as its Arc, which the backing keeps.
                Some(unsafe { Backing::new(mapping.base(), self.size, mapping.clone()) })
            }
            // SAFETY: the application, or the runtime for it, registered these whole pages for the GPU. Like the driver,
            // the emulator follows what the application does with them between kernels.
            Store::User { address } => Some(unsafe {
                Backing::registered(std::ptr::with_exposed_provenance_mut(*address as usize), self.size)
            }),
            Store::Register => None,
        }
    }

    /// A part of it, as [`Buffer::backing`]; `None` if it has no such part.
    pub(crate) fn part(&self, from: u64, size: u64) -> Option<Backing> {
        let (Store::Memory { mapping, .. } | Store::Imported { mapping, .. }) = &self.store else { return None };
        if from.checked_add(size)? > self.size {
            return None;
        }
        let base = mapping.base().wrapping_add(from as usize);
        // SAFETY: the part is inside of the mapping, as was just checked, and the backing keeps its Arc.
        Some(unsafe { Backing::new(base, size, mapping.clone()) })
    }

    /// The record by which other processes find its memory; `None` if the driver did not allocate it.
    pub(crate) fn record(&self, devices: &[Device]) -> Option<Record> {
        let Store::Memory { device, offset, .. } = self.store else { return None };
        let device = devices.get(device)?;
        Some(Record::new(&device.memory, offset, self.size, device.gpu_id, self.flags))
    }

    /// True if the GPU may write it.
    pub(crate) fn writable(&self) -> bool {
        self.flags & kfd::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE != 0
    }

    /// Maps it into a GPU at its address.
    pub(crate) fn map(&mut self, devices: &[Device], device: usize) {
        if let Some(backing) = self.backing() {
            devices[device].gpu.space.map(self.address, backing, self.writable());
        }
        if !self.mapped.contains(&device) {
            self.mapped.push(device);
        }
    }

    /// Removes it from a GPU.
    pub(crate) fn unmap(&mut self, devices: &[Device], device: usize) {
        if self.mapped.contains(&device) {
            devices[device].gpu.space.unmap(self.address, self.size);
            self.mapped.retain(|&d| d != device);
        }
    }

    /// Gives its memory back.
    pub(crate) fn free(mut self, devices: &[Device]) {
        for device in std::mem::take(&mut self.mapped) {
            devices[device].gpu.space.unmap(self.address, self.size);
        }
        match self.store {
            Store::Memory { device, offset, mapping } => {
                drop(mapping);
                devices[device].memory.release(offset, self.size);
            }
            Store::Imported { .. } | Store::Register | Store::User { .. } => {}
        }
    }
}

/// Sizes are whole pages.
pub(crate) fn whole_pages(bytes: u64) -> Option<u64> {
    (bytes > 0).then(|| bytes.checked_next_multiple_of(PAGE)).flatten()
}
