//! The requests of the render nodes. Source: `drm.h`, `amdgpu_drm.h`.

use super::{Call, Request, put, share};
use crate::Errno;
use crate::host;
use crate::readings;
use crate::state::State;
use crate::sysfs::{self, Reading};
use crate::uapi::drm::*;

/// Answered requests, by number; AMD's own begin at 0x40.
pub(super) const TABLE: &[Request] = &[
    Request { number: 0x00, name: "VERSION", answer: version },
    Request { number: 0x09, name: "GEM_CLOSE", answer: |call| call.with::<drm_gem_close>(share::close) },
    Request { number: 0x2d, name: "PRIME_HANDLE_TO_FD", answer: |call| call.with(share::handle_to_fd) },
    Request { number: 0x2e, name: "PRIME_FD_TO_HANDLE", answer: |call| call.with(share::fd_to_handle) },
    Request { number: 0x41, name: "AMDGPU_GEM_MMAP", answer: |call| call.with(share::mmap) },
    Request { number: 0x45, name: "AMDGPU_INFO", answer: info },
    Request { number: 0x46, name: "AMDGPU_GEM_METADATA", answer: |call| call.with(share::metadata) },
    Request { number: 0x48, name: "AMDGPU_GEM_VA", answer: share::map },
    Request { number: 0x50, name: "AMDGPU_GEM_OP", answer: |call| call.with(share::operation) },
];

/// Copies text into a buffer of the caller's that may be too short, and tells the whole length.
fn put_text(place: *mut libc::c_char, room: &mut usize, text: &str) {
    let bytes = text.len().min(*room);
    if !place.is_null() && bytes > 0 {
        // SAFETY: the caller says that its buffer has `room` bytes; at most that many are written.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), bytes) };
    }
    *room = text.len();
}

fn version(call: &Call<'_>) -> Result<(), Errno> {
    if call.size < size_of::<drm_version>() || call.argument.is_null() {
        return Err(libc::EINVAL);
    }
    let place: *mut drm_version = call.argument.cast();
    // SAFETY: the request's structure, whose size was checked.
    let mut v = unsafe { place.read_unaligned() };
    v.version_major = 3;
    v.version_minor = 57;
    v.version_patchlevel = 0;
    let mut room = [v.name_len as usize, v.date_len as usize, v.desc_len as usize];
    put_text(v.name, &mut room[0], "amdgpu");
    put_text(v.date, &mut room[1], "20150101");
    put_text(v.desc, &mut room[2], "AMD GPU");
    [v.name_len, v.date_len, v.desc_len] = room.map(|n| n as _);
    // SAFETY: as for reading.
    unsafe { place.write_unaligned(v) };
    Ok(())
}

fn info(call: &Call<'_>) -> Result<(), Errno> {
    let bytes = call.size.min(size_of::<drm_amdgpu_info>());
    let mut args = std::mem::MaybeUninit::<drm_amdgpu_info>::zeroed();
    // SAFETY: the request's structure, by its own size.
    unsafe { std::ptr::copy_nonoverlapping(call.argument, args.as_mut_ptr().cast(), bytes) };
    // SAFETY: plain integers, zeroed first.
    let args = unsafe { args.assume_init() };
    if args.return_pointer == 0 {
        return Err(libc::EFAULT);
    }
    match args.query {
        AMDGPU_INFO_ACCEL_WORKING => put(args.return_pointer, args.return_size, &1u32),
        AMDGPU_INFO_DEV_INFO => put(args.return_pointer, args.return_size, &device_info(call.state, call.device)),
        AMDGPU_INFO_MEMORY => put(args.return_pointer, args.return_size, &memory_info(call.state, call.device)),
        AMDGPU_INFO_VRAM_GTT => {
            let info = memory_info(call.state, call.device);
            // `struct drm_amdgpu_info_vram_gtt`: bytes of the board's memory, of what the host can reach, of the host's.
            let sizes = [&info.vram, &info.cpu_accessible_vram, &info.gtt].map(|heap| heap.total_heap_size);
            put(args.return_pointer, args.return_size, &sizes);
        }
        AMDGPU_INFO_VRAM_USAGE | AMDGPU_INFO_VIS_VRAM_USAGE | AMDGPU_INFO_GTT_USAGE => {
            let info = memory_info(call.state, call.device);
            let heap = match args.query {
                AMDGPU_INFO_VRAM_USAGE => &info.vram,
                AMDGPU_INFO_VIS_VRAM_USAGE => &info.cpu_accessible_vram,
                _ => &info.gtt,
            };
            put(args.return_pointer, args.return_size, &heap.heap_usage);
        }
        AMDGPU_INFO_FW_VERSION => put(args.return_pointer, args.return_size, &[0u32; 2]),
        // Registers that describe tiling, and counts that only graphics uses.
        AMDGPU_INFO_READ_MMR_REG | AMDGPU_INFO_HW_IP_COUNT | AMDGPU_INFO_HW_IP_INFO => {
            let zeros = vec![0u8; args.return_size as usize];
            let place: *mut u8 = std::ptr::with_exposed_provenance_mut(args.return_pointer as usize);
            // SAFETY: the caller says that its buffer has `return_size` bytes.
            unsafe { std::ptr::copy_nonoverlapping(zeros.as_ptr(), place, zeros.len()) };
        }
        other => {
            call.state.log.once(format_args!("AMDGPU_INFO query {other:#x} is not implemented"));
            return Err(libc::EINVAL);
        }
    }
    Ok(())
}

/// What there is of each kind of memory, and what all processes have of it.
fn memory_info(state: &State, device: usize) -> drm_amdgpu_memory_info {
    let heap = |total: u64, reading| {
        let used = readings::value(device, reading);
        drm_amdgpu_heap_info {
            total_heap_size: total,
            usable_heap_size: total,
            heap_usage: used,
            max_allocation: total.saturating_sub(used) / 4 * 3,
        }
    };
    let board = &state.devices[device].node.board;
    drm_amdgpu_memory_info {
        vram: heap(board.memory(state.settings), Reading::Video),
        cpu_accessible_vram: heap(sysfs::visible_memory(board, state.settings), Reading::Visible),
        gtt: heap(host::memory_for_gpus(), Reading::System),
    }
}

fn device_info(state: &State, device: usize) -> drm_amdgpu_info_device {
    let product = state.devices[device].node.product();
    let shape = state.devices[device].gpu.shape;
    let flags = if product.apu { AMDGPU_IDS_FLAGS_FUSION } else { 0 };
    drm_amdgpu_info_device {
        device_id: product.device_id,
        chip_rev: 1,
        external_rev: 1,
        pci_rev: product.revision,
        family: product.family(),
        num_shader_engines: shape.dies.engines,
        ids_flags: flags.into(),
        num_shader_arrays_per_engine: 1,
        gpu_counter_freq: (state.clock.hertz() / 1000) as u32,
        max_engine_clock: u64::from(product.engine_clock_mhz) * 1000,
        max_memory_clock: u64::from(product.memory_clock_mhz) * 1000,
        cu_active_number: shape.compute_units,
        virtual_address_offset: 1 << 21,
        virtual_address_max: 1 << 47,
        virtual_address_alignment: 4096,
        pte_fragment_size: 2 << 20,
        gart_page_size: 4096,
        vram_bit_width: product.memory_width_bits,
        gc_double_offchip_lds_buf: 0,
        wave_front_size: product.arch.row().wave_size().lanes(),
        num_cu_per_sh: shape.dies.units.div_ceil(shape.dies.engines),
        high_va_offset: 0xffff_8000_0000_0000,
        high_va_max: 0xffff_ffff_ffe0_0000,
        ..drm_amdgpu_info_device::default()
    }
}
