//! Memory: allocation, mapping into GPUs.

use crate::Errno;
use crate::buffer::{Buffer, Store, whole_pages};
use crate::memfile::PAGE;
use crate::queue::{DOORBELL_PAGE, doorbell_offset, register_offset};
use crate::state::State;
use crate::uapi::kfd::*;

/// Large buffers begin at large pages, as the driver's do.
const LARGE_PAGE: u64 = 2 << 20;

pub(super) fn allocate(state: &State, args: &mut kfd_ioctl_alloc_memory_of_gpu_args) -> Result<(), Errno> {
    let device = state.devices.iter().position(|d| d.gpu_id == args.gpu_id).ok_or(libc::EINVAL)?;
    let size = whole_pages(args.size).ok_or(libc::EINVAL)?;
    let flags = args.flags;
    let (store, mmap_offset) = if flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL != 0 {
        if size != DOORBELL_PAGE {
            return Err(libc::EINVAL);
        }
        (Store::Register, doorbell_offset(device))
    } else if flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP != 0 {
        if size != PAGE {
            return Err(libc::EINVAL);
        }
        (Store::Register, register_offset(device))
    } else if flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR != 0 {
        (Store::User { address: args.mmap_offset }, args.mmap_offset)
    } else if flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT) != 0 {
        free_abandoned(state);
        let limit = state.devices[device].node.memory(state.settings);
        if flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM != 0 && state.buffers.allocated(device).0.saturating_add(size) > limit {
            return Err(libc::ENOMEM);
        }
        let memory = &state.devices[device].memory;
        let alignment = if size >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
        let offset = memory.allocate(size, alignment).ok_or(libc::ENOMEM)?;
        let mapping = memory.map(offset, size).map_err(|_| libc::ENOMEM)?;
        (Store::Memory { device, offset, mapping }, offset)
    } else {
        return Err(libc::EINVAL);
    };
    args.mmap_offset = mmap_offset;
    args.handle =
        state.buffers.insert(device, Buffer { address: args.va_addr, size, flags, store, mapped: Vec::new() });
    state.buffers.publish(&state.devices);
    Ok(())
}

pub(super) fn free(state: &State, args: &mut kfd_ioctl_free_memory_of_gpu_args) -> Result<(), Errno> {
    free_abandoned(state);
    if state.shared.outlives(args.handle)? {
        return Ok(());
    }
    state.buffers.remove(args.handle)?.free(&state.devices);
    state.buffers.publish(&state.devices);
    Ok(())
}

/// Frees the buffers that this driver has freed before and whose other users have ended since.
pub(super) fn free_abandoned(state: &State) {
    for buffer in state.shared.abandoned() {
        if let Ok(buffer) = state.buffers.remove(buffer) {
            buffer.free(&state.devices);
            state.buffers.publish(&state.devices);
        }
    }
}

/// The devices of a list of numbers.
fn devices(state: &State, list: u64, count: u32) -> Result<Vec<usize>, Errno> {
    if list == 0 || count == 0 || count > 1024 {
        return Err(libc::EINVAL);
    }
    let list: *const u32 = std::ptr::with_exposed_provenance(list as usize);
    (0..count as usize)
        .map(|n| {
            let place = list.wrapping_add(n);
            // SAFETY: the caller says that its list has `count` entries.
            let gpu_id = unsafe { place.read_unaligned() };
            state.devices.iter().position(|d| d.gpu_id == gpu_id).ok_or(libc::EINVAL)
        })
        .collect()
}

pub(super) fn map(state: &State, args: &mut kfd_ioctl_map_memory_to_gpu_args) -> Result<(), Errno> {
    let devices = devices(state, args.device_ids_array_ptr, args.n_devices)?;
    state.buffers.with(args.handle, |buffer| {
        for device in devices {
            buffer.map(&state.devices, device);
        }
    })?;
    args.n_success = args.n_devices;
    Ok(())
}

pub(super) fn unmap(state: &State, args: &mut kfd_ioctl_unmap_memory_from_gpu_args) -> Result<(), Errno> {
    let devices = devices(state, args.device_ids_array_ptr, args.n_devices)?;
    state.buffers.with(args.handle, |buffer| {
        for device in devices {
            buffer.unmap(&state.devices, device);
        }
    })?;
    args.n_success = args.n_devices;
    Ok(())
}

pub(super) fn available(state: &State, args: &mut kfd_ioctl_get_available_memory_args) -> Result<(), Errno> {
    let device = state.devices.iter().position(|d| d.gpu_id == args.gpu_id).ok_or(libc::EINVAL)?;
    free_abandoned(state);
    let node = state.devices[device].node;
    let (video, system) = state.buffers.allocated(device);
    // Memory that is also the host's is used by both.
    let used = if node.product().apu { video + system } else { video };
    args.available = node.memory(state.settings).saturating_sub(used);
    Ok(())
}
