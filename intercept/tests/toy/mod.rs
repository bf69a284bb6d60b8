//! A runtime with one queue processor, in a few functions: what the interception needs of a runtime, and no more. Its packet
//! processor runs when a test says so, on the test's thread.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use hsa::Api;
use hsa_sys::abi::aql::{Packet, PacketType, Slot};
use hsa_sys::abi::queue::Queue as AmdQueue;
use hsa_sys::abi::signal::{Signal, kind};
use hsa_sys::raw::{self, AmdExtTable, CoreApiTable, ImageExtTable, hsa_queue_t, hsa_signal_t, hsa_status_t};
use logdur_intercept::address_map::AddressMap;
use logdur_intercept::blocks::RecordRef;
use logdur_intercept::ports::{ChangeDispatch, Changed, Follow, HoldQueue, OwnResource, Report, Resource};
use logdur_intercept::queue::{Lease, Queue, Ring};
use logdur_intercept::watch::inplace::{self, ring_of};
use logdur_intercept::watch::{self, Request};
use logdur_intercept::{Interceptor, Ports, calls, interceptor};
use logdur_journal::Records;
use logdur_settings::QueueMode;

/// The kernel that the feature lets another one run in the place of, and that one.
pub(crate) const CHANGED: [u64; 2] = [0x1000, 0x2000];
/// The kernel whose dispatches have a resource of the feature.
pub(crate) const WITH_RESOURCE: u64 = 0x4000;
/// The kernel that the feature holds its queue before.
pub(crate) const HELD: u64 = 0x3000;
/// Packets of a queue.
const SIZE: u32 = 16;
/// `HSA_PACKET_TYPE_KERNEL_DISPATCH`, with the barrier bit. Source: HSA runtime specification 1.2, section 2.9.
const DISPATCH: u16 = 2 | 1 << 8;

/// A feature on every port: changes one kernel, holds its queue before another, and counts.
#[derive(Default)]
pub(crate) struct Toy {
    pub(crate) queues: AtomicU64,
    pub(crate) changes: AtomicU64,
    /// Which resources were had, by a dispatch with which number.
    pub(crate) resources: Mutex<Vec<(u64, Option<u64>)>>,
    notices: Mutex<Vec<String>>,
}

impl ChangeDispatch for Toy {
    fn change(&self, packet: &Packet, _queue: u64, _recorded: bool) -> Option<Changed> {
        if packet.kernel_object() == WITH_RESOURCE {
            let (owner, token) = (intercepted().1, u64::from(packet.grid_size()[0]));
            return Some(Changed { resource: Some(Resource { owner, token }), ..Changed::of(*packet, 3) });
        }
        (packet.kernel_object() == CHANGED[0]).then(|| {
            let mut packet = *packet;
            packet.set_kernel(CHANGED[1], 0, 0);
            Changed::of(packet, 2)
        })
    }
}

impl OwnResource for Toy {
    fn recorded(&self, token: u64, record: Option<RecordRef>) {
        let id = record.map(|record| record.record().id.load(Ordering::Relaxed));
        self.resources.lock().unwrap().push((token, id));
    }
}

impl HoldQueue for Toy {
    fn hold(
        &self,
        _interceptor: &'static Interceptor,
        _queue: &'static Queue,
        ring: &'static Ring,
        packets: std::ops::Range<u64>,
    ) -> Option<u64> {
        let wanted = |&index: &u64| !ring.hold.has_passed(index) && ring.slot(index).read().kernel_object() == HELD;
        let first = packets.into_iter().find(wanted);
        first.inspect(|&index| ring.hold.begin(index))
    }

    fn cannot_hold(&self, _interceptor: &Interceptor, _queue: u64) {}
}

impl Follow for Toy {
    fn queue_begins(&'static self, _interceptor: &'static Interceptor) {
        self.queues.fetch_add(1, Ordering::Relaxed);
    }

    fn records_changed(&self, _interceptor: &Interceptor) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Report for Toy {
    fn notice(&self, text: String) {
        self.notices.lock().unwrap().push(text);
    }

    fn off(&self, text: String) {
        self.notice(text);
    }

    fn tell(&self, _text: &str) {}
}

/// The interceptor of the process, on the toy runtime, with the toy feature on its ports.
pub(crate) fn intercepted() -> (&'static Interceptor, &'static Toy) {
    static BOTH: OnceLock<(&Interceptor, &Toy)> = OnceLock::new();
    *BOTH.get_or_init(|| {
        let toy: &'static Toy = Box::leak(Box::default());
        let records: &'static Records = Box::leak(Box::new(Records::private()));
        let numbers: &'static AddressMap = Box::leak(Box::new(AddressMap::new()));
        let ports = Ports {
            change: Some(toy),
            hold: Some(toy),
            window: None,
            count: None,
            sites: None,
            follow: vec![toy],
            report: toy,
        };
        let interceptor: &'static Interceptor =
            Box::leak(Box::new(Interceptor::new(records, 1 << 20, numbers, QueueMode::Inplace, ports).unwrap()));
        let api: &'static Api = Box::leak(Box::new(api()));
        calls::set(api);
        interceptor::install(Some(interceptor));
        interceptor.attach(api, |_, _| {}).expect("the toy runtime tells the time");
        interceptor.use_runtime(true);
        (interceptor, toy)
    })
}

fn api() -> Api {
    unsafe extern "C" fn info(_: raw::hsa_system_info_t, to: *mut c_void) -> hsa_status_t {
        // SAFETY: the two attributes that are asked for are numbers of 64 bits.
        unsafe { to.cast::<u64>().write(1_000_000_000) };
        raw::HSA_STATUS_SUCCESS
    }
    unsafe extern "C" fn no_agents(
        _: Option<unsafe extern "C" fn(raw::hsa_agent_t, *mut c_void) -> hsa_status_t>,
        _: *mut c_void,
    ) -> hsa_status_t {
        raw::HSA_STATUS_SUCCESS
    }
    unsafe extern "C" fn profile(_: *mut hsa_queue_t, _: i32) -> hsa_status_t {
        raw::HSA_STATUS_SUCCESS
    }
    unsafe extern "C" fn make(
        value: i64,
        _: u32,
        _: *const raw::hsa_agent_t,
        _: u64,
        to: *mut hsa_signal_t,
    ) -> hsa_status_t {
        // SAFETY: the caller gives room for a handle.
        unsafe { to.write(hsa_signal_t { handle: signal(value) }) };
        raw::HSA_STATUS_SUCCESS
    }
    unsafe extern "C" fn destroy(_: hsa_signal_t) -> hsa_status_t {
        raw::HSA_STATUS_SUCCESS
    }
    unsafe extern "C" fn subtract(signal: hsa_signal_t, value: i64) {
        // SAFETY: signals of the toy runtime are never freed.
        unsafe { Signal::from_handle(signal.handle) }.value.fetch_sub(value, Ordering::AcqRel);
    }
    unsafe extern "C" fn ring(_: hsa_signal_t, _: i64) {}
    Api {
        core: CoreApiTable {
            hsa_system_get_info_fn: Some(info),
            hsa_iterate_agents_fn: Some(no_agents),
            hsa_signal_destroy_fn: Some(destroy),
            hsa_signal_subtract_screlease_fn: Some(subtract),
            hsa_signal_store_screlease_fn: Some(ring),
            ..CoreApiTable::default()
        },
        amd: AmdExtTable {
            hsa_amd_signal_create_fn: Some(make),
            hsa_amd_profiling_set_profiler_enabled_fn: Some(profile),
            ..AmdExtTable::default()
        },
        image: ImageExtTable::default(),
    }
}

fn zeroed<T>() -> &'static T {
    // SAFETY: used for structures of atomic integers only, of which zeros are a value.
    Box::leak(Box::new(unsafe { MaybeUninit::<T>::zeroed().assume_init() }))
}

/// A signal that is never freed.
pub(crate) fn signal(value: i64) -> u64 {
    let memory: &'static Signal = zeroed();
    memory.kind.store(kind::USER, Ordering::Relaxed);
    memory.value.store(value, Ordering::Relaxed);
    std::ptr::from_ref(memory).expose_provenance() as u64
}

/// Value, start and end of a signal.
pub(crate) fn state(signal: u64) -> (i64, u64, u64) {
    // SAFETY: signals of the toy runtime are never freed.
    let memory = unsafe { Signal::from_handle(signal) };
    let value = memory.value.load(Ordering::Acquire);
    (value, memory.start_ts.load(Ordering::Relaxed), memory.end_ts.load(Ordering::Relaxed))
}

/// A queue of the toy runtime, which the interceptor watches.
pub(crate) struct ToyQueue {
    amd: &'static AmdQueue,
    slots: &'static [Slot],
    doorbell: u64,
    clock: AtomicI64,
    pub(crate) watched: &'static Queue,
    _lease: Lease,
}

impl ToyQueue {
    pub(crate) fn new() -> ToyQueue {
        let (interceptor, _) = intercepted();
        assert!(interceptor.start(), "the reaper starts");
        let slots: Vec<Slot> = (0..SIZE).map(|_| Slot::new(Packet::INVALID)).collect();
        let slots: &'static [Slot] = Box::leak(slots.into_boxed_slice());
        let (amd, doorbell): (&'static AmdQueue, &'static Signal) = (zeroed(), zeroed());
        doorbell.kind.store(kind::DOORBELL, Ordering::Relaxed);
        let doorbell = std::ptr::from_ref(doorbell).expose_provenance() as u64;
        let handle = std::ptr::from_ref(amd).cast_mut().cast::<hsa_queue_t>();
        let fields = hsa_queue_t {
            base_address: slots.as_ptr().cast_mut().cast(),
            doorbell_signal: hsa_signal_t { handle: doorbell },
            size: SIZE,
            ..hsa_queue_t::default()
        };
        // SAFETY: the queue begins with these fields, and no other thread has it.
        unsafe { handle.write(fields) };
        let request = Request {
            agent: raw::hsa_agent_t { handle: 0 },
            size: SIZE,
            kind: 0,
            callback: None,
            data: std::ptr::null_mut(),
            private_segment_size: 0,
            group_segment_size: 0,
        };
        // SAFETY: the request and the queue are those of a caller of the toy runtime.
        let seen = unsafe { watch::created(interceptor, interceptor.api(), 0, request, handle) };
        assert_eq!(seen, handle, "the queue is watched in place");
        let (watched, lease) = interceptor.queues.find(handle).expect("the queue is watched");
        ToyQueue { amd, slots, doorbell, clock: AtomicI64::new(1000), watched, _lease: lease }
    }

    fn handle(&self) -> *mut hsa_queue_t {
        std::ptr::from_ref(self.amd).cast_mut().cast()
    }

    /// What an application does: reserves a slot, writes the packet, its header last, and rings the doorbell.
    pub(crate) fn dispatch(&self, kernel: u64, completion: u64) -> u64 {
        let index = self.write(kernel, completion);
        assert!(
            inplace::rang(hsa_signal_t { handle: self.doorbell }, index as i64),
            "the doorbell is of a watched queue"
        );
        self.await_published();
        index
    }

    /// Waits until all packets are published, or all before the one that the feature holds: a thread that finds another one
    /// publishing leaves its packets to it.
    fn await_published(&self) {
        let ring = self.watched.ring.as_ref().expect("the queue is watched in place");
        let is_held = |index| ring.slot(index).read().kernel_object() == HELD && !ring.hold.has_passed(index);
        loop {
            let published = self.amd.write_dispatch_id.load(Ordering::Acquire);
            if published == ring.write_index.load(Ordering::Acquire) || is_held(published) {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// The same without the doorbell.
    pub(crate) fn write(&self, kernel: u64, completion: u64) -> u64 {
        let index = match ring_of(self.handle()) {
            Some(ring) => ring.reserve(1),
            None => self.amd.write_dispatch_id.fetch_add(1, Ordering::AcqRel),
        };
        let mut words = [0u32; 16];
        words[4..8].copy_from_slice(&[64, 1, 1, 0]);
        words[8..10].copy_from_slice(&[kernel as u32, (kernel >> 32) as u32]);
        let mut packet = Packet(words);
        packet.set_completion_signal(completion);
        let slot = &self.slots[index as usize % self.slots.len()];
        let to = std::ptr::from_ref(slot).cast_mut().cast::<Packet>();
        let mut invalid = packet;
        invalid.0[0] = Packet::INVALID.0[0];
        // SAFETY: the slot is this thread's until its header says so; its fields are atomics.
        unsafe { to.write(invalid) };
        self.header(index).store(DISPATCH, Ordering::Release);
        index
    }

    fn header(&self, index: u64) -> &AtomicU16 {
        let slot = &self.slots[index as usize % self.slots.len()];
        // SAFETY: the header is the first half-word of a slot, which is aligned and never freed.
        unsafe { AtomicU16::from_ptr(std::ptr::from_ref(slot).cast_mut().cast()) }
    }

    /// The packet processor: takes what is published, and completes it. Returns the kernels that ran.
    pub(crate) fn run(&self) -> Vec<u64> {
        self.take().into_iter().inspect(|packet| self.complete(packet)).map(|p| p.kernel_object()).collect()
    }

    /// The packets that are published; their slots are free afterwards.
    pub(crate) fn take(&self) -> Vec<Packet> {
        let published = self.amd.write_dispatch_id.load(Ordering::Acquire);
        let first = self.amd.read_dispatch_id.load(Ordering::Relaxed);
        let take = |index: u64| {
            let packet = self.slots[index as usize % self.slots.len()].read();
            assert_eq!(
                packet.packet_type(),
                PacketType::KernelDispatch,
                "packet {index} is published before it is written"
            );
            self.header(index).store(Packet::INVALID.header(), Ordering::Relaxed);
            self.amd.read_dispatch_id.store(index + 1, Ordering::Release);
            packet
        };
        (first..published).map(take).collect()
    }

    /// A kernel of 10 ticks ends.
    pub(crate) fn complete(&self, packet: &Packet) {
        let start = self.clock.fetch_add(20, Ordering::Relaxed) as u64;
        if packet.completion_signal() == 0 {
            return;
        }
        // SAFETY: signals of the toy runtime are never freed.
        let signal = unsafe { Signal::from_handle(packet.completion_signal()) };
        signal.start_ts.store(start, Ordering::Relaxed);
        signal.end_ts.store(start + 10, Ordering::Relaxed);
        signal.value.fetch_sub(1, Ordering::AcqRel);
    }

    /// Lets the queue go that the feature holds, past the packet that it is held at.
    pub(crate) fn release(&self) {
        let (interceptor, _) = intercepted();
        let ring = self.watched.ring.as_ref().expect("the queue is watched in place");
        ring.hold.pass(ring.hold.step());
        ring.hold.end();
        inplace::publish_ready(interceptor, self.watched);
        self.await_published();
    }

    /// Waits for the reaper to finish with every dispatch; then their times in ticks, by the order of the queue.
    pub(crate) fn times(&self, count: usize) -> Vec<(u64, u64)> {
        let first = *self.watched.logged.lock().unwrap();
        let all = || {
            let mut at = first;
            let mut next = move || {
                let record = at.record()?;
                at.advance();
                (record.state() == logdur_journal::State::Done).then(|| {
                    let times = record.times();
                    (times.start.load(Ordering::Relaxed), times.end.load(Ordering::Relaxed))
                })
            };
            std::iter::from_fn(&mut next).take(count).collect::<Vec<_>>()
        };
        loop {
            let done = all();
            if done.len() == count {
                return done;
            }
            intercepted().0.reaper.look_now();
            std::thread::yield_now();
        }
    }
}
