//! How the packets of a queue can be seen: the decision of the interceptor, which `doctor --self-test` reports.

use hsa_sys::abi::signal::{Signal, kind};
use hsa_sys::raw::hsa_queue_t;
use std::sync::atomic::Ordering;

use crate::{Api, HsaError};

/// How the packets of a queue are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In the ring of the application's own queue.
    InPlace,
    /// Through one of the runtime's intercept queues.
    Intercept,
    /// Not at all.
    Unseen,
}

impl Way {
    /// Its word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Way::InPlace => "in place",
            Way::Intercept => "fallback",
            Way::Unseen => "off",
        }
    }
}

/// Which ways are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// In place, else intercept queues.
    Either,
    /// In place only.
    InPlace,
    /// Intercept queues, where they are not known to fail.
    Intercept,
}

/// The way to see a queue's packets: `refused` if it cannot be watched in place, `intercept_works` as
/// [`Api::intercept_queues_work`] says.
pub const fn way(wanted: Wanted, refused: bool, intercept_works: bool) -> Way {
    match (wanted, refused, intercept_works) {
        (Wanted::Intercept, _, true) | (Wanted::Either, true, true) => Way::Intercept,
        (_, false, _) => Way::InPlace,
        (_, true, _) => Way::Unseen,
    }
}

/// Why a queue cannot be watched in place.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The runtime does not stamp its packets.
    #[error(transparent)]
    Runtime(#[from] HsaError),
    /// Hardware before gfx9.
    #[error("its doorbell is of a kind whose values are not packet numbers")]
    Doorbell,
    /// The system has no memory left.
    #[error("there is no memory for its records")]
    Memory,
}

/// Which memory a ring is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingMemory {
    /// The host's.
    Host,
    /// The GPU's: the host writes it, and does not read it.
    Device,
}

impl Api {
    /// Prepares a queue to be watched in place: its completed packets carry times from now on. Returns where its ring is.
    ///
    /// # Errors
    /// Why it cannot be watched; it is as it was.
    ///
    /// # Safety
    /// `queue` must be a queue of this runtime that is not destroyed and has no packet yet.
    pub unsafe fn watch_in_place(&self, queue: *mut hsa_queue_t) -> Result<RingMemory, Refusal> {
        // SAFETY: the caller's promise; the first fields of a queue never change.
        let fields = unsafe { queue.read() };
        // SAFETY: a doorbell lives as long as its queue.
        let doorbell = unsafe { Signal::from_handle(fields.doorbell_signal.handle) };
        if doorbell.kind.load(Ordering::Relaxed) == kind::LEGACY_DOORBELL {
            return Err(Refusal::Doorbell);
        }
        // SAFETY: the caller's promise.
        unsafe { self.enable_profiling(queue) }?;
        let is_device = self.is_device_memory(fields.base_address.addr());
        Ok(if is_device { RingMemory::Device } else { RingMemory::Host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intercept_queues_are_used_only_where_they_are_wanted_or_needed_and_do_not_fail() {
        for (wanted, refused, works, expected) in [
            (Wanted::Either, false, true, Way::InPlace),
            (Wanted::Either, false, false, Way::InPlace),
            (Wanted::Either, true, true, Way::Intercept),
            (Wanted::Either, true, false, Way::Unseen),
            (Wanted::InPlace, false, true, Way::InPlace),
            (Wanted::InPlace, true, true, Way::Unseen),
            (Wanted::Intercept, false, true, Way::Intercept),
            (Wanted::Intercept, false, false, Way::InPlace),
            (Wanted::Intercept, true, false, Way::Unseen),
        ] {
            assert_eq!(way(wanted, refused, works), expected, "{wanted:?} {refused} {works}");
        }
    }
}
