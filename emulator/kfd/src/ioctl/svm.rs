//! Shared virtual memory. Its request has a list behind its structure, and the list's length in its size.

use logdur_settings::Xnack;

use super::Call;
use crate::Errno;
use crate::memfile::PAGE;
use crate::state::State;
use crate::svm::Attribute;
use crate::uapi::kfd::*;

pub(super) fn attributes(call: &Call<'_>) -> Result<(), Errno> {
    let head = size_of::<kfd_ioctl_svm_args>();
    if call.state.settings.xnack == Xnack::None {
        // As a kernel without the feature.
        return Err(libc::EPERM);
    }
    if call.argument.is_null() || call.size < head {
        return Err(libc::EINVAL);
    }
    let place: *mut kfd_ioctl_svm_args = call.argument.cast();
    // SAFETY: the request's structure, whose size was checked; plain integers, and a list of no length.
    let args = unsafe { place.read_unaligned() };
    let count = args.nattr as usize;
    let whole = |number: u64| number != 0 && number.is_multiple_of(PAGE);
    let end = args.start_addr.checked_add(args.size).ok_or(libc::EINVAL)?;
    if !whole(args.start_addr) || !whole(args.size) || call.size < head + count * size_of::<Attribute>() {
        return Err(libc::EINVAL);
    }
    let list: *mut Attribute = call.argument.wrapping_add(head).cast();
    let mut attributes: Vec<Attribute> = (0..count)
        .map(|n| {
            // SAFETY: the request says that so many attributes are behind the structure, as was checked.
            unsafe { list.wrapping_add(n).read_unaligned() }
        })
        .collect();
    let (svm, devices) = (&call.state.svm, &call.state.devices);
    match kfd_ioctl_svm_op(args.op) {
        KFD_IOCTL_SVM_OP_SET_ATTR => svm.set(devices, args.start_addr, end, &attributes),
        KFD_IOCTL_SVM_OP_GET_ATTR => {
            svm.get(devices, args.start_addr, end, &mut attributes)?;
            for (n, attribute) in attributes.into_iter().enumerate() {
                // SAFETY: as for reading; the caller expects its list to be written.
                unsafe { list.wrapping_add(n).write_unaligned(attribute) };
            }
            Ok(())
        }
        _ => Err(libc::EINVAL),
    }
}

pub(super) fn set_xnack_mode(state: &State, args: &mut kfd_ioctl_set_xnack_mode_args) -> Result<(), Errno> {
    // A negative value asks.
    if args.xnack_enabled >= 0 {
        let retries = args.xnack_enabled > 0;
        if retries && state.settings.xnack != Xnack::On {
            return Err(libc::EPERM);
        }
        state.svm.set_retries(retries, &state.devices);
    }
    args.xnack_enabled = state.svm.retries().into();
    Ok(())
}
