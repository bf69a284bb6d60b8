//! What concerns the process as a whole: version, apertures, clocks, modes.

use std::sync::atomic::Ordering;

use amdgpu_emu::{PRIVATE_APERTURE_HI, SHARED_APERTURE_HI};

use crate::Errno;
use crate::state::State;
use crate::uapi::kfd::*;

/// A request that needs nothing done, because the emulated GPU has nothing that it could change.
pub(super) fn accept<T>(_: &State, _: &mut T) -> Result<(), Errno> {
    Ok(())
}

pub(super) fn get_version(state: &State, args: &mut kfd_ioctl_get_version_args) -> Result<(), Errno> {
    args.major_version = 1;
    args.minor_version = state.settings.kfd_minor;
    Ok(())
}

fn raw_monotonic_nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(super) fn get_clock_counters(state: &State, args: &mut kfd_ioctl_get_clock_counters_args) -> Result<(), Errno> {
    let counters = state.clock.counters();
    // Asked for a node that is no GPU, the driver still tells the other clocks.
    args.gpu_clock_counter = state.device(args.gpu_id).map_or(0, |_| counters.ticks);
    args.cpu_clock_counter = raw_monotonic_nanoseconds();
    args.system_clock_counter = counters.system;
    args.system_clock_freq = 1_000_000_000;
    Ok(())
}

/// The end of user addresses: GPU and host addresses are the same.
const ADDRESS_LIMIT: u64 = (1 << 47) - 1;

pub(super) fn get_apertures(state: &State, args: &mut kfd_ioctl_get_process_apertures_new_args) -> Result<(), Errno> {
    let count = state.devices.len() as u32;
    if args.num_of_nodes == 0 {
        args.num_of_nodes = count;
        return Ok(());
    }
    let room = args.num_of_nodes.min(count);
    let list: *mut kfd_process_device_apertures =
        std::ptr::with_exposed_provenance_mut(args.kfd_process_device_apertures_ptr as usize);
    for (n, device) in state.devices.iter().take(room as usize).enumerate() {
        let (shared, private) = (u64::from(SHARED_APERTURE_HI) << 32, u64::from(PRIVATE_APERTURE_HI) << 32);
        let apertures = kfd_process_device_apertures {
            lds_base: shared,
            lds_limit: shared | 0xffff_ffff,
            scratch_base: private,
            scratch_limit: private | 0xffff_ffff,
            gpuvm_base: 1 << 16,
            gpuvm_limit: ADDRESS_LIMIT,
            gpu_id: device.gpu_id,
            pad: 0,
        };
        let place = list.wrapping_add(n);
        // SAFETY: the caller says that its list has `num_of_nodes` entries, and `n` is below that.
        unsafe { place.write_unaligned(apertures) };
    }
    args.num_of_nodes = room;
    Ok(())
}

pub(super) fn acquire_vm(state: &State, args: &mut kfd_ioctl_acquire_vm_args) -> Result<(), Errno> {
    state.device(args.gpu_id).map(|_| ()).ok_or(libc::EINVAL)
}

pub(super) fn get_tile_config(state: &State, args: &mut kfd_ioctl_get_tile_config_args) -> Result<(), Errno> {
    // Compute GPUs have no tiled surfaces: the tables are empty.
    state.device(args.gpu_id).ok_or(libc::EINVAL)?;
    args.num_tile_configs = 0;
    args.num_macro_tile_configs = 0;
    args.gb_addr_config = 0;
    args.num_banks = 0;
    args.num_ranks = 0;
    Ok(())
}

pub(super) fn runtime_enable(state: &State, args: &mut kfd_ioctl_runtime_enable_args) -> Result<(), Errno> {
    let enabled = args.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK != 0;
    state.exceptions.store(enabled, Ordering::Release);
    Ok(())
}
