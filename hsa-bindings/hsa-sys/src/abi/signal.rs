//! The part of a signal that the GPU writes. Source: `amd_hsa_signal.h`.

use core::mem::offset_of;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::raw;

/// Kinds of signals.
pub mod kind {
    /// An ordinary signal with a value.
    pub const USER: i64 = 1;
    /// The doorbell of a queue: a store goes to hardware.
    pub const DOORBELL: i64 = -1;
    /// The doorbell of a queue of old hardware.
    pub const LEGACY_DOORBELL: i64 = -2;
}

/// `amd_signal_t`, each field an atomic: application, runtime and GPU write it at any time.
///
/// # Threads
/// Any thread may read. Who may write follows the runtime's rules: the packet processor writes the timestamps, then
/// decrements the value.
///
/// # Ordering
/// A value that was read with acquire makes the timestamps before its decrement visible.
#[repr(C, align(64))]
pub struct Signal {
    /// See [`kind`].
    pub kind: AtomicI64,
    /// The value; of a doorbell, the address of the doorbell itself.
    pub value: AtomicI64,
    /// Where the event id is stored when an interrupt is wanted, or 0.
    pub event_mailbox_ptr: AtomicU64,
    /// The event to raise.
    pub event_id: AtomicU32,
    reserved1: AtomicU32,
    /// GPU ticks at the start of the last packet that completed on this signal.
    pub start_ts: AtomicU64,
    /// GPU ticks at its end.
    pub end_ts: AtomicU64,
    /// Of a doorbell: its queue.
    pub queue_ptr: AtomicU64,
    reserved3: [AtomicU32; 2],
}

const _: () = {
    assert!(size_of::<Signal>() == size_of::<raw::amd_signal_t>());
    assert!(offset_of!(Signal, kind) == offset_of!(raw::amd_signal_t, kind));
    assert!(offset_of!(Signal, value) == 8);
    assert!(offset_of!(Signal, event_mailbox_ptr) == offset_of!(raw::amd_signal_t, event_mailbox_ptr));
    assert!(offset_of!(Signal, event_id) == offset_of!(raw::amd_signal_t, event_id));
    assert!(offset_of!(Signal, start_ts) == offset_of!(raw::amd_signal_t, start_ts));
    assert!(offset_of!(Signal, end_ts) == offset_of!(raw::amd_signal_t, end_ts));
    assert!(offset_of!(Signal, queue_ptr) == 48);
};

impl Signal {
    /// The signal behind a handle.
    ///
    /// # Safety
    /// `handle` must be that of a signal (or the address of an `amd_signal_t`) that stays mapped for `'a`.
    #[inline]
    pub unsafe fn from_handle<'a>(handle: u64) -> &'a Signal {
        // SAFETY: the caller promises that an `amd_signal_t` is mapped there; every field is atomic, so that others may
        // write it meanwhile.
        unsafe { &*core::ptr::with_exposed_provenance(handle as usize) }
    }

    /// What stays while packets complete on the signal: its kind, its event and reserved fields.
    pub fn constants(&self) -> [u64; 5] {
        let [reserved3, reserved4] = &self.reserved3;
        let both = |low: &AtomicU32, high: &AtomicU32| {
            u64::from(low.load(Ordering::Relaxed)) | u64::from(high.load(Ordering::Relaxed)) << 32
        };
        [
            self.kind.load(Ordering::Relaxed) as u64,
            self.event_mailbox_ptr.load(Ordering::Relaxed),
            both(&self.event_id, &self.reserved1),
            self.queue_ptr.load(Ordering::Relaxed),
            both(reserved3, reserved4),
        ]
    }

    /// Sets start and end to zero, as they are before any packet has completed.
    pub fn clear_ticks(&self) {
        self.start_ts.store(0, Ordering::Relaxed);
        self.end_ts.store(0, Ordering::Relaxed);
    }

    /// Start and end in GPU ticks, as they are now.
    #[inline]
    pub fn ticks(&self) -> (u64, u64) {
        (self.start_ts.load(Ordering::Relaxed), self.end_ts.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Memory([AtomicU64; size_of::<Signal>() / 8]);

    #[test]
    fn the_signal_behind_a_handle_is_that_of_the_runtime_also_while_others_write_it() {
        let memory = Memory([const { AtomicU64::new(0) }; _]);
        let handle = memory.0.as_ptr().expose_provenance() as u64;
        // SAFETY: the memory has the size of a signal, and lives to the end of the test.
        let signal = unsafe { Signal::from_handle(handle) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                memory.0[offset_of!(Signal, start_ts) / 8].store(5, Ordering::Relaxed);
                memory.0[offset_of!(Signal, end_ts) / 8].store(9, Ordering::Relaxed);
            });
            let (start, end) = signal.ticks();
            assert!([0, 5].contains(&start) && [0, 9].contains(&end));
        });
        assert_eq!(signal.ticks(), (5, 9));
    }
}
