//! Packets that run beside each other: those that were published and are not known to be complete.

use hsa::sys::abi::signal::Signal;

use super::completion::Completion;
use crate::error::Result;

/// Packets of one queue that may be published and not complete: fewer than a ring has.
pub(crate) const IN_FLIGHT: usize = 16;

/// A packet that was published.
pub(super) struct Flight {
    /// What the caller calls it.
    pub(super) ticket: usize,
    /// Its completion signal, among those of the device.
    pub(super) signal: usize,
    /// Kind and pointers of the signal, as [`Completion::of`] takes them.
    constants: [u64; 5],
}

impl Flight {
    /// A packet is about to be published with a signal.
    pub(super) fn begin(ticket: usize, signal: usize, memory: &Signal) -> Flight {
        Flight { ticket, signal, constants: Completion::new(memory).constants() }
    }

    /// True once the packet is complete. `memory` is that of its signal.
    ///
    /// # Errors
    /// A fault, if a kernel wrote to the signal.
    pub(super) fn is_complete(&self, memory: &Signal) -> Result<bool> {
        let completion = Completion::of(memory, self.constants);
        let is_complete = completion.is_complete()?;
        if is_complete {
            completion.check()?;
        }
        Ok(is_complete)
    }
}
