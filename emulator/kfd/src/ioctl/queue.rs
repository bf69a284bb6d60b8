//! Queues: creation, update, end.

use amdgpu_emu::Trap;
use amdgpu_emu::driver::PacketError;
use amdgpu_emu::inject::{Effect, Injection, NOWHERE};
use amdgpu_emu::queue::RingInfo;
use amdgpu_emu::queue::aql::AqlQueueInfo;
use hsa_sys::abi::queue::READ_DISPATCH_ID_OFFSET;
use logdur_settings as settings;

use crate::Errno;
use crate::queue::{Entry, doorbell_offset};
use crate::state::State;
use crate::uapi::kfd::*;

pub(super) fn create(state: &State, args: &mut kfd_ioctl_create_queue_args) -> Result<(), Errno> {
    let device = state.devices.iter().position(|d| d.gpu_id == args.gpu_id).ok_or(libc::EINVAL)?;
    let engine = state.engine().map_err(|_| libc::ENOMEM)?;
    let gpu = state.devices[device].gpu.clone();
    if !args.ring_size.is_power_of_two() || args.ring_base_address == 0 {
        return Err(libc::EINVAL);
    }
    let id = state.queues.new_id();
    let queue = match args.queue_type {
        KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => {
            let queue = args.read_pointer_address.checked_sub(READ_DISPATCH_ID_OFFSET).ok_or(libc::EINVAL)?;
            // A doorbell that has never been rung holds all ones, for packet 0 is rung as 0.
            let (slot, doorbell) = state.queues.doorbell(&state.kfd, device, u64::MAX)?;
            let info = AqlQueueInfo {
                id,
                ring: args.ring_base_address,
                slots: u64::from(args.ring_size) / 64,
                queue,
                doorbell,
                injections: injections(state, device, id),
            };
            state.queues.insert(id, Entry { device, slot, queue, save_area: args.ctx_save_restore_address });
            args.doorbell_offset = doorbell_offset(device) + 8 * slot;
            engine.add_aql(info, gpu);
            queue
        }
        KFD_IOC_QUEUE_TYPE_COMPUTE
        | KFD_IOC_QUEUE_TYPE_SDMA
        | KFD_IOC_QUEUE_TYPE_SDMA_XGMI
        | KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => {
            let (slot, doorbell) = state.queues.doorbell(&state.kfd, device, 0)?;
            let info = RingInfo {
                id,
                ring: args.ring_base_address,
                bytes: args.ring_size.into(),
                read_pointer: args.read_pointer_address,
                doorbell,
            };
            state.queues.insert(id, Entry { device, slot, queue: 0, save_area: args.ctx_save_restore_address });
            args.doorbell_offset = doorbell_offset(device) + 8 * slot;
            if args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE {
                engine.add_pm4(info, gpu);
            } else {
                engine.add_sdma(info, gpu);
            }
            0
        }
        other => {
            state.log.once(format_args!("queues of type {other} are not implemented"));
            return Err(libc::EINVAL);
        }
    };
    debug_assert!(state.queues.contains(id) && queue != 1);
    args.queue_id = id;
    Ok(())
}

/// The injected faults of a queue, from the settings.
fn injections(state: &State, device: usize, id: u32) -> Vec<Injection> {
    let here = |o: &&settings::Injection| o.gpu.is_none_or(|g| g == device) && o.queue.is_none_or(|q| q == id);
    let ordered = state.settings.inject.0.iter().filter(here);
    ordered.map(|o| Injection { packets: o.packets.clone(), effect: effect(o) }).collect()
}

fn effect(order: &settings::Injection) -> Effect {
    use settings::InjectionKind as Kind;
    match order.kind {
        Kind::MemoryFault => Effect::MemoryFault,
        Kind::IllegalInstruction => Effect::Wave(Trap::Illegal),
        Kind::ApertureViolation => Effect::Wave(Trap::Aperture { address: NOWHERE }),
        Kind::WaveAbort => Effect::Wave(Trap::Trap(2)),
        Kind::InvalidPacket => Effect::Packet(PacketError::Type),
        Kind::Stall => Effect::Stall(order.time),
        Kind::Delay => Effect::Delay(order.time.unwrap_or_default()),
        Kind::Lose => Effect::Lose,
    }
}

pub(super) fn destroy(state: &State, args: &mut kfd_ioctl_destroy_queue_args) -> Result<(), Errno> {
    // The engine first: when it has let go of the queue, its doorbell can be given to another.
    if !state.queues.contains(args.queue_id) {
        return Err(libc::EINVAL);
    }
    state.engine().map_err(|_| libc::ENOMEM)?.remove(args.queue_id);
    state.queues.remove(args.queue_id).map(|_| ())
}

pub(super) fn update(state: &State, args: &mut kfd_ioctl_update_queue_args) -> Result<(), Errno> {
    if !state.queues.contains(args.queue_id) {
        return Err(libc::EINVAL);
    }
    // A queue with no share of the GPU, or no ring, is suspended.
    let active = args.queue_percentage & 0xff != 0 && args.ring_base_address != 0;
    state.engine().map_err(|_| libc::ENOMEM)?.set_active(args.queue_id, active);
    Ok(())
}

pub(super) fn set_cu_mask(state: &State, args: &mut kfd_ioctl_set_cu_mask_args) -> Result<(), Errno> {
    /// The driver looks at no more bits. Source: `kfd_ioctl_set_cu_mask`.
    const MOST_BITS: u32 = 1024;
    if args.num_cu_mask == 0 || !args.num_cu_mask.is_multiple_of(32) {
        return Err(libc::EINVAL);
    }
    if args.cu_mask_ptr == 0 {
        return Err(libc::EFAULT);
    }
    if !state.queues.contains(args.queue_id) {
        return Err(libc::EFAULT);
    }
    let list: *const u32 = std::ptr::with_exposed_provenance(args.cu_mask_ptr as usize);
    let words = args.num_cu_mask.min(MOST_BITS) / 32;
    // SAFETY: the caller says that its mask has so many bits.
    let mask: Vec<u32> = (0..words as usize).map(|n| unsafe { list.wrapping_add(n).read_unaligned() }).collect();
    state.engine().map_err(|_| libc::ENOMEM)?.set_compute_units(args.queue_id, &mask);
    Ok(())
}

pub(super) fn allocate_gws(state: &State, args: &mut kfd_ioctl_alloc_queue_gws_args) -> Result<(), Errno> {
    if !state.queues.contains(args.queue_id) {
        return Err(libc::EINVAL);
    }
    args.first_gws = 0;
    Ok(())
}
