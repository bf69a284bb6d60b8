//! Kernels that can call the host: `printf`, failed assertions, allocations on the heap.
//!
//! Such a kernel gets a buffer (`hidden_hostcall_buffer`, AMDGPUUsage, "Kernel Argument Metadata Map") that a thread of the application's
//! HIP polls. A replay restores the buffer, but no thread answers calls: kernels that make no call, as most do, can be replayed.

use amdgpu_code_object::ValueKind;
use logdur_captured::CapturedDispatch;
use logdur_captured::regions::PAGE;

use crate::error::ReplayError;

/// Bytes at the beginning of the buffer that say where its parts are, and which signal wakes the host; and of a signal
/// (`amd_signal_t`).
const HEADER: usize = 64;

/// Says of a failure that it comes of calling the host, if it does.
pub(crate) fn explained(captured: &CapturedDispatch<'_>, error: ReplayError) -> ReplayError {
    let Some(buffer) = buffer(captured) else { return error };
    let how = match &error {
        ReplayError::Timeout { seconds } => format!("waited for it for {seconds} s"),
        ReplayError::Fault(fault) if fault.address.is_some_and(|address| is_part(captured, buffer, address)) => {
            "signalled it".to_owned()
        }
        _ => return error,
    };
    ReplayError::Unsupported(format!(
        "hidden_hostcall_buffer {buffer:#x}: the kernel called the host, as printf and a failed assertion do, and {how}: in a \
         replay no process answers"
    ))
}

/// The buffer that the kernel was given.
fn buffer(captured: &CapturedDispatch<'_>) -> Option<u64> {
    let argument = captured.original.interface.hidden().find(|a| a.kind == ValueKind::HiddenHostcallBuffer)?;
    let bytes = captured.dispatch.kernarg.get(argument.offset as usize..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes)).filter(|address| *address != 0)
}

/// True when the buffer points into the page of an address, or what it points to does: a signal has the address that wakes
/// the host.
fn is_part(captured: &CapturedDispatch<'_>, buffer: u64, address: u64) -> bool {
    let header = words(captured, buffer);
    let of_signals = header.iter().flat_map(|part| words(captured, *part));
    header.iter().copied().chain(of_signals).any(|word| word / PAGE == address / PAGE)
}

/// Captured words at an address.
fn words(captured: &CapturedDispatch<'_>, address: u64) -> Vec<u64> {
    let mut bytes = [0; HEADER];
    match captured.before.read(address, &mut bytes) {
        Ok(()) => bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect(),
        Err(_) => Vec::new(),
    }
}
