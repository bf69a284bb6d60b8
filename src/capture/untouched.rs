//! Finds memory that is unchanged since the newest snapshot, without reading it.
//!
//! Kernels, copies, fills and others with access write the coarse-grained memory of a GPU. The memory is unchanged since a snapshot if
//! each of the following holds at the snapshot and now:
//!
//! * Each queue of the process is watched, and all of its published packets are complete. Since the snapshot, only barriers were
//!   published, which write no memory. The feature sees each packet before it is published ([`Untouched::published`]).
//! * No copy, fill or write of an image is in progress or waits, and none has begun since. None can begin while memory is read.
//! * The host has none of it mapped ([`HostMappings`]): the application could write through the aperture of a GPU's memory.
//! * It is the same allocation. No other process and no other device got it, and `hsa_amd_vmem_map` did not map it, since that call
//!   gives memory several addresses.
//! * The process has no device open, other than the GPUs, that could write it, and no second HSA runtime.
//!
//! All other memory is always read: memory of the host and of other processes, managed memory, variables, signals.
//!
//! # Threads
//! Publishers count packets; the capture thread asks.
//!
//! # Ordering
//! A publisher counts a packet before it publishes it, under its queue's lock. The capture thread has taken that lock since
//! (`Queue::rest`) when it loads the count, and no thread publishes then.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hsa_sys::abi::aql::{Packet, PacketType, vendor};
use logdur_capture::SnapshotId;
use logdur_intercept::Interceptor;
use logdur_intercept::lifetime;
use logdur_settings::Quiesce;
use logdur_system::lock;

use super::Capture;
use super::host_access::{HostMappings, has_only_harmless_devices};
use super::memory::Allocation;

/// What is known of memory that was not touched since the newest snapshot.
#[derive(Default)]
pub(super) struct Untouched {
    /// Packets that were published, or are about to be, and write memory.
    packets: AtomicU64,
    /// A packet was published of which it is not known when it is complete, or may have been.
    odd: AtomicBool,
    latest: Mutex<Option<Moment>>,
}

/// Nothing was under way that writes the memory of a GPU.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Quiet {
    packets: u64,
    copies: u64,
}

/// The memory that a snapshot has, and how it can be known that it is the same.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) snapshot: SnapshotId,
    pub(super) quiet: Quiet,
    /// Allocations that the snapshot has whole, by their serial numbers, and that only GPUs could write.
    pub(super) private: HashSet<u64>,
    pub(super) links: Links,
}

/// Where memory points to, as it was found when it was read: what can be reached need not be read again.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// [`Memory::changes`](super::Memory::changes) at that time: later, other words may be addresses.
    pub(super) changes: u64,
    /// First addresses of allocations, by the serial number of the memory that has their addresses.
    pub(super) of: HashMap<u64, Vec<u64>>,
}

impl Untouched {
    /// A packet is about to be published.
    pub(super) fn published(&self, packet: &Packet) {
        match PacketType::of(packet.header()) {
            PacketType::BarrierAnd | PacketType::BarrierOr => {}
            PacketType::KernelDispatch => _ = self.packets.fetch_add(1, Ordering::AcqRel),
            PacketType::VendorSpecific if packet.is_extended_dispatch() => {
                self.packets.fetch_add(1, Ordering::AcqRel);
            }
            PacketType::VendorSpecific if packet.setup() as u8 == vendor::BARRIER_VALUE => {}
            // Commands that the packet processor runs itself.
            _ => self.odd.store(true, Ordering::Release),
        }
    }

    /// There is a queue whose packets are not seen before they are published.
    pub(super) fn unseen(&self) {
        self.odd.store(true, Ordering::Release);
    }

    /// Takes what is known of the newest snapshot.
    pub(super) fn take(&self) -> Option<Moment> {
        lock(&self.latest).take()
    }

    /// There is a newest snapshot.
    pub(super) fn put(&self, moment: Option<Moment>) {
        *lock(&self.latest) = moment;
    }
}

impl Capture {
    /// How much has been written by now, when nothing is under way that writes the memory of a GPU; `None` if something may be. Queues
    /// and copies must be at rest.
    pub(super) fn quiet(&self, interceptor: &Interceptor) -> Option<Quiet> {
        let api = interceptor.api();
        let is_seen = self.quiesce == Quiesce::Process
            && !self.untouched.odd.load(Ordering::Acquire)
            && !interceptor.unseen.had_queues()
            && !lifetime::had_another_runtime();
        if !is_seen || !interceptor.queues.all().iter().all(|queue| queue.is_idle(api)) {
            return None;
        }
        let copies = self.copies.all_ended()?;
        let packets = self.untouched.packets.load(Ordering::Acquire);
        has_only_harmless_devices().then_some(Quiet { packets, copies })
    }
}

/// Those of some allocations that only GPUs can write, by their serial numbers.
pub(super) fn private<'a>(all: impl Iterator<Item = &'a Allocation>) -> HashSet<u64> {
    let of_gpus: Vec<&Allocation> = all.filter(|a| a.is_of_gpus_only()).collect();
    let Some(mappings) = (!of_gpus.is_empty()).then(HostMappings::now).flatten() else { return HashSet::new() };
    of_gpus.into_iter().filter(|a| !mappings.overlap(a.base, a.end())).map(|a| a.serial).collect()
}
