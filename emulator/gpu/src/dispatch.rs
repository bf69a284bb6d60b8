//! A kernel dispatch: what the packet and the kernel descriptor ask for, and how far it has come.
//!
//! # Threads
//! Workers take workgroups from a dispatch and put preempted ones back. The worker that finishes the last workgroup
//! completes the dispatch.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use amdgpu_isa::Arch;
use hsa_sys::abi::aql::Packet;
use hsa_sys::abi::kernel_descriptor::{self, KernelDescriptor};

use crate::driver::{PacketError, QueueError};
use crate::fill::Fill;
use crate::lock;
use crate::memory::View;
use crate::observer::{Observe, Observer};
use crate::registers::scratch_bytes_per_wave;
use crate::schedule::Order;
use crate::watch::Watchdog;
use crate::workgroup::Workgroup;

/// LDS of a compute unit in bytes.
pub const LDS_BYTES: u32 = 64 << 10;

/// Work-items of a workgroup at most.
pub const MAX_WORKGROUP: u32 = 1024;

/// What a dispatch runs, constant from its launch on.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The packet.
    pub packet: Packet,
    /// The packet's id in its queue.
    pub packet_id: u64,
    /// Address of the packet in the queue's ring.
    pub packet_address: u64,
    /// Address of the queue.
    pub queue_address: u64,
    /// Address of the kernel descriptor.
    pub kernel_object: u64,
    /// Address of the kernel arguments.
    pub kernarg_address: u64,
    /// Handle of the completion signal, or 0.
    pub completion_signal: u64,
    /// The kernel descriptor.
    pub descriptor: KernelDescriptor,
    /// Address of the first instruction.
    pub entry: u64,
    /// Work-items of the grid.
    pub grid: [u32; 3],
    /// Work-items of a whole workgroup.
    pub workgroup: [u32; 3],
    /// Workgroups of the grid.
    pub workgroups: [u32; 3],
    /// Bytes of LDS for each workgroup.
    pub lds: u32,
    /// Bytes of scratch for each work-item.
    pub scratch: u32,
}

impl Launch {
    /// Reads what a dispatch packet asks for and checks it as the packet processor does.
    ///
    /// # Errors
    /// What is wrong with the packet.
    pub fn new(
        packet: &Packet,
        packet_id: u64,
        packet_address: u64,
        queue_address: u64,
        arch: Arch,
        view: &mut View,
    ) -> Result<Launch, PacketError> {
        let dimensions = usize::from(packet.dimensions());
        let [wx, wy, wz] = packet.workgroup_size().map(u32::from);
        let [gx, gy, gz] = packet.grid_size();
        let mut grid = [1; 3];
        let mut workgroup = [1; 3];
        grid[..dimensions].copy_from_slice(&[gx, gy, gz][..dimensions]);
        workgroup[..dimensions].copy_from_slice(&[wx, wy, wz][..dimensions]);
        let items: u64 = workgroup.iter().map(|&w| u64::from(w)).product();
        if dimensions == 0 || grid.contains(&0) || workgroup.contains(&0) || items > u64::from(MAX_WORKGROUP) {
            return Err(PacketError::Dimensions);
        }
        let lds = packet.group_segment_size();
        if lds > LDS_BYTES {
            return Err(PacketError::GroupSegment);
        }
        let kernel_object = packet.kernel_object();
        let mut bytes = [0; kernel_descriptor::SIZE];
        if kernel_object == 0 || view.read(kernel_object, &mut bytes).is_err() {
            return Err(PacketError::CodeObject);
        }
        let descriptor = KernelDescriptor::parse(&bytes);
        let entry = kernel_object.wrapping_add_signed(descriptor.entry_offset);
        if !entry.is_multiple_of(4) || view.translate(entry, 4, false).is_none() {
            return Err(PacketError::CodeObject);
        }
        if arch.unified_registers() && descriptor.accum_offset() > 256 {
            return Err(PacketError::Resources);
        }
        Ok(Launch {
            packet: *packet,
            packet_id,
            packet_address,
            queue_address,
            kernel_object,
            kernarg_address: packet.kernarg_address(),
            completion_signal: packet.completion_signal(),
            descriptor,
            entry,
            grid,
            workgroup,
            workgroups: std::array::from_fn(|d| grid[d].div_ceil(workgroup[d])),
            lds,
            scratch: packet.private_segment_size(),
        })
    }

    /// Bytes of scratch of a wave, all lanes together.
    pub fn scratch_of_wave(&self) -> u32 {
        scratch_bytes_per_wave(self)
    }

    /// Workgroups in all.
    pub fn total(&self) -> u64 {
        self.workgroups.iter().map(|&n| u64::from(n)).product()
    }

    /// Coordinates of workgroup `n`, x fastest.
    pub fn coordinates(&self, n: u64) -> [u32; 3] {
        let [x, y, _] = self.workgroups.map(u64::from);
        [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
    }

    /// Work-items of the workgroup at these coordinates: fewer at the edge of the grid.
    pub fn extent(&self, at: [u32; 3]) -> [u32; 3] {
        std::array::from_fn(|d| self.workgroup[d].min(self.grid[d] - at[d] * self.workgroup[d]))
    }
}

/// What a worker shall do for a dispatch.
pub(crate) enum Work {
    /// Run this workgroup from its beginning.
    Start(u64),
    /// Run this workgroup on.
    Resume(Box<Workgroup>),
    /// Nothing for now: all workgroups are running or finished.
    Nothing,
}

/// A point in time of the process, in an order with all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than all that were made before.
    pub(crate) fn now() -> Moment {
        static LATEST: AtomicU64 = AtomicU64::new(0);
        Moment(LATEST.fetch_add(1, Ordering::AcqRel) + 1)
    }
}

/// A dispatch that has been launched.
pub struct Dispatch {
    /// What it runs.
    pub launch: Launch,
    /// GPU ticks at its start.
    pub start: u64,
    /// Different for every dispatch of the process.
    pub(crate) serial: u64,
    /// When its packet had been written: later than this, what a worker knows of the host's memory is good for it.
    pub(crate) published: Moment,
    /// GPU ticks at its end, 0 before.
    end: AtomicU64,
    total: u64,
    order: Order,
    next: AtomicU64,
    finished: AtomicU64,
    resident: AtomicU64,
    /// Workers that are about to run a workgroup, or do.
    running: AtomicUsize,
    capacity: u64,
    suspended: Mutex<VecDeque<Box<Workgroup>>>,
    instructions: AtomicU64,
    /// Whether it gets on.
    pub(crate) watchdog: Watchdog,
    failed: AtomicBool,
    error: Mutex<Option<QueueError>>,
    /// Observers that no worker uses at the moment.
    observers: Mutex<Vec<Box<dyn Observer>>>,
    /// The completion signal has been decremented, or the queue has been told of the error.
    complete: AtomicBool,
}

/// A worker that is at a dispatch.
pub(crate) struct Running<'a>(&'a Dispatch);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Dispatch {
    /// A dispatch of which at most `capacity` workgroups are resident at a time. With a seed, their order is drawn.
    pub(crate) fn new(launch: Launch, start: u64, capacity: u64, published: Moment, seed: Option<u32>) -> Dispatch {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let (serial, total) = (SERIAL.fetch_add(1, Ordering::Relaxed), launch.total());
        let drawn = |seed| Order::drawn(&mut Fill::new(seed, serial, total), total, capacity);
        Dispatch {
            serial,
            published,
            total,
            order: seed.map_or(Order::by_number(total), drawn),
            launch,
            start,
            end: AtomicU64::new(0),
            next: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            capacity,
            suspended: Mutex::new(VecDeque::new()),
            instructions: AtomicU64::new(0),
            watchdog: Watchdog::new(),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            observers: Mutex::new(Vec::new()),
            complete: AtomicBool::new(false),
        }
    }

    /// True when some workgroup is neither running nor finished.
    pub(crate) fn has_work(&self) -> bool {
        let fresh =
            self.next.load(Ordering::Relaxed) < self.total && self.resident.load(Ordering::Relaxed) < self.capacity;
        !self.has_failed() && (fresh || !lock(&self.suspended).is_empty())
    }

    /// Workgroups that have not been started.
    pub(crate) fn fresh(&self) -> u64 {
        self.total.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Workgroups that have not finished.
    pub(crate) fn unfinished(&self) -> u64 {
        self.total - self.finished.load(Ordering::Relaxed)
    }

    /// Takes a workgroup. Fresh ones go first as long as there is room, so that workgroups that wait for each other are
    /// all resident.
    pub(crate) fn take(&self) -> Work {
        if self.has_failed() {
            return Work::Nothing;
        }
        if self.resident.fetch_add(1, Ordering::Relaxed) < self.capacity {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n < self.total {
                return Work::Start(self.order.nth(n));
            }
            self.next.store(self.total, Ordering::Relaxed);
        }
        self.resident.fetch_sub(1, Ordering::Relaxed);
        lock(&self.suspended).pop_front().map_or(Work::Nothing, Work::Resume)
    }

    /// Workgroups that have been started and not finished.
    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Puts back a workgroup that has used up its turn.
    pub(crate) fn suspend(&self, workgroup: Box<Workgroup>) {
        lock(&self.suspended).push_back(workgroup);
    }

    /// Counts a finished workgroup; true for the last one.
    pub(crate) fn finish(&self) -> bool {
        self.resident.fetch_sub(1, Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.total
    }

    /// Counts executed instructions.
    pub(crate) fn executed(&self, instructions: u64) {
        self.instructions.fetch_add(instructions, Ordering::Relaxed);
    }

    /// Wave instructions executed so far.
    pub fn instructions(&self) -> u64 {
        self.instructions.load(Ordering::Relaxed)
    }

    /// Takes an observer for a turn.
    pub(crate) fn observer(&self, observe: &dyn Observe) -> Box<dyn Observer> {
        let spare = lock(&self.observers).pop();
        spare.unwrap_or_else(|| observe.observer(&self.launch))
    }

    /// Takes an observer back after a turn.
    pub(crate) fn give_back(&self, observer: Option<Box<dyn Observer>>) {
        if let Some(observer) = observer {
            lock(&self.observers).push(observer);
        }
    }

    /// All observers that were given back: what they saw is complete once the last workgroup has finished.
    pub(crate) fn observers(&self) -> Vec<Box<dyn Observer>> {
        std::mem::take(&mut lock(&self.observers))
    }

    /// Records the first error; true for the worker that reports it.
    pub(crate) fn fail(&self, error: QueueError) -> bool {
        let first = !self.failed.swap(true, Ordering::AcqRel);
        if first {
            *lock(&self.error) = Some(error);
        }
        first
    }

    /// Gives it up: running workgroups stop after their wave's turn, nothing is completed.
    pub(crate) fn cancel(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    /// Set when it was given up or failed.
    pub(crate) fn cancelled(&self) -> &AtomicBool {
        &self.failed
    }

    /// Says that a worker is at it, until what is returned is dropped.
    pub(crate) fn run(&self) -> Running<'_> {
        // Sequentially consistent with `cancel` and `is_running`: of a worker that begins and a thread that cancels, one
        // sees the other.
        self.running.fetch_add(1, Ordering::SeqCst);
        Running(self)
    }

    /// True while a worker is at it.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }

    /// True when an error ended it, or it was given up.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Records GPU ticks at its end.
    pub(crate) fn set_end(&self, ticks: u64) {
        self.end.store(ticks, Ordering::Release);
    }

    /// GPU ticks at its end, 0 before.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Marks it as done with.
    pub(crate) fn set_complete(&self) {
        self.complete.store(true, Ordering::Release);
    }

    /// True when the completion signal has been decremented.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }
}
