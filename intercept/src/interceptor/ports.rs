//! What features add to the interception of queues: a narrow trait for each way in which one takes part.

use std::ops::Range;

use hsa_sys::abi::aql::Packet;

use crate::backtrace::Stack;
use crate::blocks::RecordRef;
use crate::kernarg_ring::Borrowed;
use crate::queue::{Queue, Ring};
use crate::window::Window;

use super::Interceptor;

/// The features of a process. The order of `follow` is the order in which its members are told.
pub struct Ports {
    /// Chooses other kernels for dispatches.
    pub change: Option<&'static dyn ChangeDispatch>,
    /// Holds queues before dispatches.
    pub hold: Option<&'static dyn HoldQueue>,
    /// Which dispatches are recorded; `None`: all.
    pub window: Option<&'static Window>,
    /// Learns of each dispatch, where the window depends on kernels.
    pub count: Option<&'static dyn CountDispatch>,
    /// Names the places that dispatches are launched from.
    pub sites: Option<&'static dyn NameSite>,
    /// Learn when there are queues and records.
    pub follow: Vec<&'static dyn Follow>,
    /// Takes notices for the user.
    pub report: &'static dyn Report,
}

/// A dispatch that another kernel runs in.
#[must_use]
pub struct Changed {
    /// The packet, with what is other than the application's.
    pub packet: Packet,
    /// The number of the kernel that runs, for the record.
    pub kernel: u32,
    /// The memory of its arguments, which the dispatch has until it is complete; `None` if they are the application's.
    pub kernargs: Option<Borrowed>,
    /// What else it has until it is complete.
    pub resource: Option<Resource>,
    /// Bits of `logdur_journal::flag` for its row.
    pub flags: u8,
}

/// What a dispatch has of a feature until it is complete, as message buffers.
#[derive(Clone, Copy)]
pub struct Resource {
    /// The feature.
    pub owner: &'static dyn OwnResource,
    /// What it is, to the feature.
    pub token: u64,
}

/// Owns resources that dispatches have. Called on the thread that publishes the packet: it may neither wait nor allocate.
pub trait OwnResource: Sync {
    /// The dispatch has this record: it is complete when the record is not in flight any more. `None` if it has none, and runs as
    /// it is.
    fn recorded(&self, token: u64, record: Option<RecordRef>);
}

impl Changed {
    /// A dispatch in which a kernel runs with its own arguments.
    pub fn of(packet: Packet, kernel: u32) -> Changed {
        Changed { packet, kernel, kernargs: None, resource: None, flags: 0 }
    }
}

/// Chooses other kernels for dispatches. Called on the thread that publishes the packet: it may neither wait nor allocate.
pub trait ChangeDispatch: Sync {
    /// What runs instead of a dispatch in the queue whose `amd_queue_t` is at `queue`; `None` if it runs as it is. One that is not
    /// `recorded` may get no resource.
    fn change(&self, packet: &Packet, queue: u64, recorded: bool) -> Option<Changed>;
}

/// Holds queues before dispatches. Called on the thread that publishes the packets.
pub trait HoldQueue: Sync {
    /// Packets of a queue are about to be published. Begins [`Ring::hold`] at the first one that the queue is to be held at, which
    /// is the result: those before it are published. Those behind it are asked for again. The feature releases the queue by [`publish_ready`](crate::watch::inplace::publish_ready).
    fn hold(
        &self,
        interceptor: &'static Interceptor,
        queue: &'static Queue,
        ring: &'static Ring,
        packets: Range<u64>,
    ) -> Option<u64>;

    /// True if [`written`](HoldQueue::written) is to be called.
    fn sees_written(&self) -> bool {
        false
    }

    /// Packets of a queue are written, and the doorbell was rung: each once, also those behind a packet that is held.
    fn written(&self, _queue: &'static Queue, _ring: &'static Ring, _packets: Range<u64>) {}

    /// A queue is watched in a way in which it cannot be held.
    fn cannot_hold(&self, interceptor: &Interceptor, queue: u64);
}

/// Names the places in the application that dispatches are launched from. Called on the thread that launches, which holds no lock of ours.
pub trait NameSite: Sync {
    /// True if the sites of a kernel are wanted, by the address of its descriptor.
    fn wants(&self, kernel_object: u64) -> bool;

    /// The number of the site of such a kernel; 0 if it gets none.
    fn site(&self, kernel_object: u64, stack: &Stack) -> u32;
}

/// Learns when there are queues and records.
pub trait Follow: Sync {
    /// A queue is about to be watched: threads are started with the first.
    fn queue_begins(&'static self, interceptor: &'static Interceptor);

    /// There may be work: dispatches are complete, a block of records is full, or a queue is gone.
    fn records_changed(&self, interceptor: &Interceptor);
}

/// Learns of each dispatch. Called on the thread that publishes the packet.
pub trait CountDispatch: Sync {
    /// A dispatch of the kernel with this number comes: whether it is recorded is looked at next.
    fn comes(&self, kernel: u32);

    /// It has been looked at.
    fn has_come(&self, kernel: u32);
}

/// Takes notices for the user.
pub trait Report: Sync {
    /// A line that is always written.
    fn notice(&self, text: String);

    /// A line that is written at the end of the process, wherever the log goes.
    fn tell(&self, text: &str);

    /// A notice that something which was asked for is off, or ends: it is told wherever the log goes.
    fn off(&self, text: String);
}
