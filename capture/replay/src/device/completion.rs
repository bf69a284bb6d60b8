//! The completion signal of a packet: complete, or written to by the kernel itself.
//!
//! Kernels find the signal by the packet. What they write to it is no result that memory shows.

use std::sync::atomic::Ordering;

use hsa::sys::abi::signal::Signal;

use crate::error::{Fault, ReplayError, Result};

/// The value before a packet completes: no number that kernels write.
const PENDING: i64 = 0x5e1f_0c2a_7d93;
/// The value afterwards.
const COMPLETE: i64 = PENDING - 1;

/// A signal before a packet completes on it.
pub(super) struct Completion<'a> {
    signal: &'a Signal,
    /// Kind and pointers of the signal: they stay as they are until the packet is complete.
    constants: [u64; 5],
}

impl<'a> Completion<'a> {
    /// Sets a signal for a packet that is going to be published.
    pub(super) fn new(signal: &'a Signal) -> Completion<'a> {
        signal.clear_ticks();
        signal.value.store(PENDING, Ordering::Release);
        Completion { signal, constants: signal.constants() }
    }

    /// A signal whose value was set before, and its kind and pointers.
    pub(super) fn of(signal: &'a Signal, constants: [u64; 5]) -> Completion<'a> {
        Completion { signal, constants }
    }

    /// Kind and pointers of the signal, as [`Completion::of`] takes them.
    pub(super) fn constants(&self) -> [u64; 5] {
        self.constants
    }

    /// True once the packet is complete.
    ///
    /// # Errors
    /// A fault, if the kernel wrote to the value.
    pub(super) fn is_complete(&self) -> Result<bool> {
        match self.signal.value.load(Ordering::Acquire) {
            PENDING => Ok(false),
            COMPLETE => Ok(true),
            value => Err(written(&format!("its value is {value:#x}"))),
        }
    }

    /// Checks that nothing but the packet processor has written to the signal. The packet is complete.
    ///
    /// # Errors
    /// A fault, if the kernel did.
    pub(super) fn check(&self) -> Result<()> {
        if !self.is_complete()? {
            return Err(written("its value was set again"));
        }
        if self.signal.constants() != self.constants {
            return Err(written("its kind, its event or a reserved field changed"));
        }
        Ok(())
    }
}

/// The fault of a kernel that writes to its signal.
pub(super) fn written(how: &str) -> ReplayError {
    let what = format!("the kernel writes to its completion signal: {how}");
    ReplayError::Fault(Fault { what, address: None, nearest: None })
}

/// The fault of a kernel that writes to its queue.
pub(super) fn queue_written(at: &str) -> ReplayError {
    let what = format!("the kernel writes to its queue, {at}");
    ReplayError::Fault(Fault { what, address: None, nearest: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    #[derive(Default)]
    struct Memory([std::sync::atomic::AtomicU64; size_of::<Signal>() / 8]);

    #[test]
    fn a_kernel_that_writes_to_its_signal_is_told_from_a_packet_that_completes() {
        let memory = Memory::default();
        // SAFETY: so many bytes that live as long as the test, aligned, all atomic.
        let signal = unsafe { &*memory.0.as_ptr().cast::<Signal>() };
        let completion = Completion::new(signal);
        assert!(!completion.is_complete().unwrap());
        signal.value.fetch_sub(1, Ordering::Release);
        assert!(completion.is_complete().unwrap());
        completion.check().unwrap();
        for value in [0, 1, -1, PENDING - 2, PENDING + 1] {
            signal.value.store(value, Ordering::Release);
            assert!(completion.is_complete().unwrap_err().to_string().contains("writes to its completion signal"));
        }
        signal.value.store(COMPLETE, Ordering::Release);
        signal.event_id.store(7, Ordering::Relaxed);
        completion.check().unwrap_err();
    }
}
