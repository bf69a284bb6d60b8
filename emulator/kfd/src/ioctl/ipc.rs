//! Memory of a GPU that one process gives to another, by four words that it may pass on in any way: what
//! `hsa_amd_ipc_memory_*` is made of where the driver is ROCm's own.
//!
//! The words say where the memory is: whose, in which file, from which page on. Who frees memory that others still have
//! takes its contents from them; the driver would keep it.

use crate::buffer::{Buffer, Errno, Store};
use crate::device::State;
use crate::memfile::{PAGE, map_of_other};
use crate::uapi::kfd::{KFD_IOC_ALLOC_MEM_FLAGS_VRAM, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE};

/// Source: `struct kfd_ioctl_ipc_export_handle_args` of ROCm's `kfd_ioctl.h`, which is not in the kernel's.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Export {
    handle: u64,
    share_handle: [u32; 4],
    gpu_id: u32,
    flags: u32,
}

/// Source: `struct kfd_ioctl_ipc_import_handle_args`, ibidem.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Import {
    handle: u64,
    va_addr: u64,
    mmap_offset: u64,
    share_handle: [u32; 4],
    gpu_id: u32,
    flags: u32,
}

pub(super) fn export(state: &State, args: &mut Export) -> Result<(), Errno> {
    let (device, offset, size) = state.buffers.with(args.handle, |buffer| match buffer.store {
        Store::Memory { device, offset, .. } if buffer.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM != 0 => {
            Ok((device, offset, buffer.size))
        }
        // Hosts do not see what they import.
        _ => Err(libc::EINVAL),
    })??;
    let pages = |bytes: u64| u32::try_from(bytes / PAGE).map_err(|_| libc::EINVAL);
    let file = state.devices[device].memory.number().cast_unsigned();
    args.share_handle = [std::process::id(), file, pages(offset)?, pages(size)?];
    Ok(())
}

pub(super) fn import(state: &State, args: &mut Import) -> Result<(), Errno> {
    let device = state.devices.iter().position(|d| d.gpu_id == args.gpu_id).ok_or(libc::EINVAL)?;
    let [process, file, page, pages] = args.share_handle;
    let (offset, size) = (u64::from(page) * PAGE, u64::from(pages) * PAGE);
    if size == 0 {
        return Err(libc::EINVAL);
    }
    let mapping = map_of_other(process, file, offset, size).map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL))?;
    args.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
    let store = Store::Imported { mapping };
    let buffer = Buffer { address: args.va_addr, size, flags: args.flags, store, mapped: Vec::new() };
    args.handle = state.buffers.insert(device, buffer);
    // Nothing for the host to map.
    args.mmap_offset = 0;
    Ok(())
}
