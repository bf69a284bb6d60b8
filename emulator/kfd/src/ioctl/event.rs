//! Events: creation, signaling, waiting.

use std::time::Duration;

use crate::Errno;
use crate::buffer::Store;
use crate::event::Wanted;
use crate::state::State;
use crate::uapi::kfd::*;

pub(super) fn create(state: &State, args: &mut kfd_ioctl_create_event_args) -> Result<(), Errno> {
    // The first event brings the buffer that holds the event page.
    if args.event_page_offset != 0 && !state.events.has_page() {
        let page = state.buffers.with(args.event_page_offset, |buffer| match &buffer.store {
            Store::Memory { mapping, .. } if buffer.size >= u64::from(KFD_SIGNAL_EVENT_LIMIT) * 8 => {
                // The page is used until the process ends, also when the buffer is freed.
                let kept = std::sync::Arc::into_raw(mapping.clone());
                // SAFETY: just made from an Arc, whose count is never given back.
                Some(unsafe { &*kept }.base())
            }
            _ => None,
        })?;
        let page = page.ok_or(libc::EINVAL)?;
        // SAFETY: the mapping has room for every slot and was leaked above.
        unsafe { state.events.set_page(page.cast()) };
    }
    let id = state.events.create(args.event_type, args.auto_reset != 0)?;
    args.event_id = id;
    args.event_trigger_data = id;
    if id < KFD_SIGNAL_EVENT_LIMIT {
        args.event_slot_index = id;
        // Any offset but zero says that there is a page.
        args.event_page_offset = args.event_page_offset.max(1);
    }
    Ok(())
}

pub(super) fn destroy(state: &State, args: &mut kfd_ioctl_destroy_event_args) -> Result<(), Errno> {
    state.events.destroy(args.event_id)
}

pub(super) fn set(state: &State, args: &mut kfd_ioctl_set_event_args) -> Result<(), Errno> {
    state.events.set(args.event_id)
}

pub(super) fn reset(state: &State, args: &mut kfd_ioctl_reset_event_args) -> Result<(), Errno> {
    state.events.reset(args.event_id)
}

/// A timeout that never comes.
const FOR_EVER: u32 = u32::MAX;

pub(super) fn wait(state: &State, args: &mut kfd_ioctl_wait_events_args) -> Result<(), Errno> {
    let list: *mut kfd_event_data = std::ptr::with_exposed_provenance_mut(args.events_ptr as usize);
    let count = args.num_events as usize;
    if list.is_null() || count == 0 || count > KFD_SIGNAL_EVENT_LIMIT as usize {
        return Err(libc::EINVAL);
    }
    let entries: Vec<kfd_event_data> = (0..count)
        .map(|n| {
            let place = list.wrapping_add(n);
            // SAFETY: the caller says that its list has `num_events` entries of plain integers.
            unsafe { place.read_unaligned() }
        })
        .collect();
    // Ages count from version 1.14 of the interface on; before, the field is not initialised.
    let ages = state.settings.kfd_minor >= 14;
    let wanted: Vec<Wanted> = entries
        .iter()
        .map(|e| {
            // SAFETY: every member of the union is plain integers; the age is meant for signal events.
            let age = unsafe { e.__bindgen_anon_1.signal_event_data.last_event_age };
            Wanted { event: e.event_id, last_age: if ages { age } else { 0 } }
        })
        .collect();
    if args.timeout != 0 {
        state.wake_engine();
    }
    let timeout = (args.timeout != FOR_EVER).then(|| Duration::from_millis(args.timeout.into()));
    let outcome = state.events.wait(&wanted, args.wait_for_all != 0, timeout)?;
    for (n, (mut entry, activated)) in entries.into_iter().zip(outcome.activated).enumerate() {
        match activated {
            None => continue,
            Some((_, Some(exception))) => {
                entry.__bindgen_anon_1.memory_exception_data = kfd_hsa_memory_exception_data {
                    failure: kfd_memory_exception_failure {
                        NotPresent: (!exception.read_only).into(),
                        ReadOnly: exception.read_only.into(),
                        NoExecute: 0,
                        imprecise: 0,
                    },
                    va: exception.address & !0xfff,
                    gpu_id: exception.gpu_id,
                    ErrorType: 0,
                };
            }
            Some((age, None)) if ages => entry.__bindgen_anon_1.signal_event_data.last_event_age = age,
            Some(_) => continue,
        }
        let place = list.wrapping_add(n);
        // SAFETY: as for reading; the caller expects its list to be written.
        unsafe { place.write_unaligned(entry) };
    }
    args.wait_result = if outcome.complete { KFD_IOC_WAIT_RESULT_COMPLETE } else { KFD_IOC_WAIT_RESULT_TIMEOUT };
    Ok(())
}
