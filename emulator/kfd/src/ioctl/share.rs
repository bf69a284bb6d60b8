//! Buffers that the compute driver exports to a render node by descriptor. The render node maps them at addresses that the
//! runtime chooses. `hsa_amd_vmem_*` uses these requests.

use std::io;
use std::os::fd::OwnedFd;

use crate::Errno;
use crate::buffer::{Buffer, Store};
use crate::dmabuf::Dmabuf;
use crate::memfile::PAGE;
use crate::shared::Import;
use crate::state::{NOWHERE, State};
use crate::uapi::drm::*;
use crate::uapi::kfd::*;

use super::{Call, ipc, memory, put};

/// The GPU may write. Source: `AMDGPU_VM_PAGE_WRITEABLE` in `amdgpu_drm.h`.
const WRITEABLE: u32 = 1 << 2;

/// Calls `f` with the file that describes a buffer in every process; `lasting` as for [`Shared::file`].
///
/// [`Shared::file`]: crate::shared::Shared::file
pub(super) fn file<T>(
    state: &State,
    handle: u64,
    lasting: bool,
    f: impl FnOnce(&Dmabuf) -> io::Result<T>,
) -> Result<T, Errno> {
    let done = state.buffers.with(handle, |buffer| match (&buffer.store, buffer.record(&state.devices)) {
        (Store::Imported { file, .. }, _) => Ok(f(file)),
        (_, Some(record)) => Ok(state.shared.file(handle, record, lasting, f)),
        (_, None) => Err(libc::EINVAL),
    })??;
    done.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
}

/// Makes a descriptor for a buffer. Its file has the buffer's size; it can be imported.
fn descriptor(state: &State, handle: u64) -> Result<i32, Errno> {
    file(state, handle, false, Dmabuf::give)
}

pub(super) fn export(state: &State, args: &mut kfd_ioctl_export_dmabuf_args) -> Result<(), Errno> {
    args.dmabuf_fd = descriptor(state, args.handle)? as u32;
    Ok(())
}

pub(super) fn handle_to_fd(state: &State, args: &mut drm_prime_handle) -> Result<(), Errno> {
    let handle = state.shared.import(args.handle, |import| import.buffer)?;
    args.fd = descriptor(state, handle)?;
    Ok(())
}

pub(super) fn fd_to_handle(state: &State, args: &mut drm_prime_handle) -> Result<(), Errno> {
    args.handle = match state.shared.imported(args.fd) {
        Some(handle) => handle,
        None => {
            let file = Dmabuf::behind(args.fd)?;
            let identity = file.identity();
            state.shared.adopt(ipc::insert(state, file, 0)?, identity)
        }
    };
    Ok(())
}

/// Offset in the render node's file at which the host can map a buffer.
pub(super) fn mmap(state: &State, args: &mut drm_amdgpu_gem_mmap) -> Result<(), Errno> {
    // SAFETY: a request's structure, whose caller has written this member of plain integers.
    let gem = unsafe { args.in_.handle };
    let handle = state.shared.import(gem, |import| import.buffer)?;
    let offset = state.buffers.with(handle, |buffer| match buffer.store {
        Store::Memory { offset, .. } => Ok(offset),
        Store::Imported { .. } => Ok(offset_of_imported(handle, buffer)),
        // Values for the host's mapping have no use here.
        Store::User { .. } | Store::Register => Err(libc::EINVAL),
    })??;
    args.out = drm_amdgpu_gem_mmap_out { addr_ptr: offset };
    Ok(())
}

/// Offsets from here on are of host memory that other processes own: no device's file is so long. The number of the buffer
/// follows, in pages.
const OF_OTHERS: u64 = 1 << 46;

/// Offset at which the host can map imported memory. It cannot see the GPU's.
pub(super) fn offset_of_imported(handle: u64, buffer: &Buffer) -> u64 {
    if buffer.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM != 0 { NOWHERE } else { OF_OTHERS + u64::from(handle as u32) * PAGE }
}

/// True for an offset that stands for memory of another process.
pub(crate) fn is_of_another(offset: libc::off_t) -> bool {
    offset >= OF_OTHERS.cast_signed()
}

/// The file that has such memory, and where there.
///
/// # Errors
/// EINVAL when no buffer has the offset, or it is shorter; ENOENT and the like when its owner is gone.
pub(crate) fn of_another(offset: libc::off_t, length: usize) -> Result<(OwnedFd, libc::off_t), Errno> {
    let number = u32::try_from((offset.cast_unsigned() - OF_OTHERS) / PAGE).map_err(|_| libc::EINVAL)?;
    let state = State::get().ok_or(libc::EINVAL)?;
    let opened = state.buffers.with_number(number, |buffer| match &buffer.store {
        Store::Imported { file, .. } if length as u64 <= buffer.size => Some(file.open_memory()),
        _ => None,
    })?;
    let (file, from) = opened.ok_or(libc::EINVAL)?.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
    Ok((file, from.cast_signed()))
}

/// Stores or returns a buffer's metadata, which its users exchange.
pub(super) fn metadata(state: &State, args: &mut drm_amdgpu_gem_metadata) -> Result<(), Errno> {
    let handle = state.shared.import(args.handle, |import| import.buffer)?;
    match args.op {
        AMDGPU_GEM_METADATA_OP_GET_METADATA => args.data = file(state, handle, false, Dmabuf::metadata)?,
        AMDGPU_GEM_METADATA_OP_SET_METADATA if args.data.data_size_bytes as usize <= size_of_val(&args.data.data) => {
            file(state, handle, true, |file| file.set_metadata(&args.data))?;
        }
        _ => return Err(libc::EINVAL),
    }
    Ok(())
}

/// How a buffer was made.
pub(super) fn operation(state: &State, args: &mut drm_amdgpu_gem_op) -> Result<(), Errno> {
    if args.op != AMDGPU_GEM_OP_GET_GEM_CREATE_INFO {
        state.log.once(format_args!("AMDGPU_GEM_OP {:#x} is not implemented", args.op));
        return Err(libc::EINVAL);
    }
    if args.value == 0 {
        return Err(libc::EFAULT);
    }
    let handle = state.shared.import(args.handle, |import| import.buffer)?;
    let (size, flags) = state.buffers.with(handle, |buffer| (buffer.size, buffer.flags))?;
    let video = flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM != 0;
    let visible = flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC != 0;
    let made = drm_amdgpu_gem_create_in {
        bo_size: size,
        alignment: PAGE,
        domains: if video { AMDGPU_GEM_DOMAIN_VRAM } else { AMDGPU_GEM_DOMAIN_GTT }.into(),
        domain_flags: if visible { AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED } else { 0 }.into(),
    };
    put(args.value, size_of_val(&made) as u32, &made);
    Ok(())
}

pub(super) fn map(call: &Call<'_>) -> Result<(), Errno> {
    call.with::<drm_amdgpu_gem_va>(|state, args| {
        let (address, size, device) = (args.va_address, args.map_size, call.device);
        if size == 0 || !address.is_multiple_of(PAGE) || !size.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        let space = &state.devices[device].gpu.space;
        match args.operation {
            AMDGPU_VA_OP_MAP | AMDGPU_VA_OP_REPLACE => {
                let handle = state.shared.import(args.handle, |import| import.buffer)?;
                let part = state.buffers.with(handle, |buffer| buffer.part(args.offset_in_bo, size))?;
                let backing = part.ok_or(libc::EINVAL)?;
                space.unmap(address, size);
                space.map(address, backing, args.flags & WRITEABLE != 0);
                state.shared.import(args.handle, |import| import.mapped.push((device, address, size)))
            }
            AMDGPU_VA_OP_UNMAP | AMDGPU_VA_OP_CLEAR => {
                space.unmap(address, size);
                // A handle has only one of the two.
                let forget = |import: &mut Import| import.mapped.retain(|&m| m != (device, address, size));
                state.shared.import(args.handle, forget).or(Ok(()))
            }
            _ => Err(libc::EINVAL),
        }
    })
}

/// Removes a render node's handle and its mappings. The buffer is freed with its last user.
pub(super) fn close(state: &State, args: &mut drm_gem_close) -> Result<(), Errno> {
    for (device, address, size) in state.shared.close(args.handle)? {
        state.devices[device].gpu.space.unmap(address, size);
    }
    memory::free_abandoned(state);
    Ok(())
}
