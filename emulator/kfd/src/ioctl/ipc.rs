//! GPU memory that one process shares with another: by a descriptor, or, as in ROCm's own driver, by four words that the
//! application sends. `hsa_amd_ipc_memory_*` uses one or the other; the runtime's version decides.
//!
//! Both lead to a file that describes the memory ([`Dmabuf`]). The memory exists as long as one process uses it. After the
//! owner has ended, only processes that have mapped it keep it.

use crate::Errno;
use crate::buffer::{Buffer, Store};
use crate::dmabuf::{Dmabuf, Record};
use crate::state::State;
use crate::uapi::kfd::*;

use super::{put, share};

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

/// The words are: the process, its descriptor, the low half of the inode (a reused descriptor has another), and flags.
pub(super) fn export_words(state: &State, args: &mut Export) -> Result<(), Errno> {
    let (number, inode) = share::file(state, args.handle, true, |file| Ok((file.number(), inode(file))))?;
    args.share_handle = [std::process::id(), number.cast_unsigned(), inode, args.flags];
    Ok(())
}

fn inode(file: &Dmabuf) -> u32 {
    file.identity().1 as u32
}

pub(super) fn import_words(state: &State, args: &mut Import) -> Result<(), Errno> {
    let [process, number, word, flags] = args.share_handle;
    let file = Dmabuf::of_other(process, number)?;
    if inode(&file) != word || file.record.gpu_id != args.gpu_id {
        return Err(libc::EINVAL);
    }
    args.handle = insert(state, file, args.va_addr)?;
    // The exporter's library's own.
    args.flags = flags;
    // Libraries ask for the node of what hosts can map only.
    args.mmap_offset = state.buffers.with(args.handle, |buffer| share::offset_of_imported(args.handle, buffer))?;
    Ok(())
}

/// What is behind a descriptor.
pub(super) fn info(_: &State, args: &mut kfd_ioctl_get_dmabuf_info_args) -> Result<(), Errno> {
    let file = Dmabuf::behind(args.dmabuf_fd.cast_signed())?;
    let Record { size, gpu_id, flags, .. } = file.record;
    if args.metadata_ptr != 0 {
        let metadata = file.metadata().map_err(|_| libc::EINVAL)?;
        let room = std::mem::replace(&mut args.metadata_size, metadata.data_size_bytes);
        // The caller gets the size, and asks again.
        if room < metadata.data_size_bytes {
            return Err(libc::EINVAL);
        }
        put(args.metadata_ptr, metadata.data_size_bytes, &metadata.data);
    }
    args.size = size;
    args.gpu_id = gpu_id;
    args.flags = flags & (DOMAIN | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
    Ok(())
}

pub(super) fn import_descriptor(state: &State, args: &mut kfd_ioctl_import_dmabuf_args) -> Result<(), Errno> {
    let file = Dmabuf::behind(args.dmabuf_fd.cast_signed())?;
    state.device(args.gpu_id).ok_or(libc::EINVAL)?;
    args.handle = insert(state, file, args.va_addr)?;
    Ok(())
}

/// The kind of a buffer's memory.
const DOMAIN: u32 = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT;

/// The handle of a new buffer at this address, with the memory that a file describes. Source of its flags: the driver's
/// `import_obj_create`.
pub(super) fn insert(state: &State, file: Dmabuf, address: u64) -> Result<u64, Errno> {
    let device = state.devices.iter().position(|d| d.gpu_id == file.record.gpu_id).ok_or(libc::EINVAL)?;
    let mapping = file.map().map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL))?;
    let flags = file.record.flags & DOMAIN | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
    let size = file.record.size;
    let store = Store::Imported { file, mapping };
    Ok(state.buffers.insert(device, Buffer { address, size, flags, store, mapped: Vec::new() }))
}
