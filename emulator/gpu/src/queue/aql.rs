//! The AQL packet processor. Source: HSA Platform System Architecture Specification 1.2, section 2.9.
//!
//! A packet is taken as soon as the doorbell covers it and its header is valid. Packets are launched in order; one with
//! the barrier bit waits until all earlier ones are complete. Slots are released in order: the header becomes INVALID
//! and the read index moves on, so the dispatch packet stays in the ring for as long as its kernel runs.
//!
//! A doorbell that is rung too far executes whatever is in the slots, as on hardware.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa_sys::abi::aql::{INVALID_HEADER, Packet, PacketType, vendor};
use hsa_sys::abi::queue::{Queue as AbiQueue, properties};

use super::pm4::{Commands, Pause};
use super::{Doorbell, Progress, Queue};
use crate::dispatch::{Dispatch, Moment};
use crate::driver::{CompletedPacket, MemoryFault, PacketError, QueueError, ReadIndex, Times};
use crate::engine::{Job, Worker};
use crate::gpu::Gpu;
use crate::inject::{Effect, Injection, NOWHERE};
use crate::launch::Launch;
use crate::memory::{Refusal, Refused, View};
use crate::signal;
use crate::units::Units;

const WRITE_DISPATCH_ID: u64 = offset_of!(AbiQueue, write_dispatch_id) as u64;
const READ_DISPATCH_ID: u64 = offset_of!(AbiQueue, read_dispatch_id) as u64;
const QUEUE_PROPERTIES: u64 = offset_of!(AbiQueue, queue_properties) as u64;

/// A doorbell that has never been rung.
const NEVER_RUNG: u64 = u64::MAX;

/// What the driver tells about a new queue.
pub struct AqlQueueInfo {
    /// The queue's number.
    pub id: u32,
    /// Address of the first slot.
    pub ring: u64,
    /// Slots; a power of two.
    pub slots: u64,
    /// Address of the `amd_queue_t`.
    pub queue: u64,
    /// Where the application rings.
    pub doorbell: Doorbell,
    /// Injected faults.
    pub injections: Vec<Injection>,
}

/// A packet that has been launched and whose slot is not released.
struct Flight {
    /// The kernel; packets without one completed when they were taken.
    kernel: Option<Arc<Dispatch>>,
    /// A completion that is put off.
    late: Option<Late>,
}

impl Flight {
    fn has_ended(&self) -> bool {
        self.kernel.as_ref().is_none_or(|dispatch| dispatch.is_complete())
    }
}

/// A completion signal that is decremented some time after the packet's end.
struct Late {
    signal: u64,
    delay: Duration,
    /// GPU ticks at start and end, if they are wanted; a kernel's end is not known before.
    times: Option<(u64, u64)>,
    /// When it is due, known once the packet has ended.
    due: Option<Instant>,
}

/// An AQL queue.
pub(crate) struct AqlQueue {
    info: AqlQueueInfo,
    gpu: Arc<Gpu>,
    view: View,
    /// The next packet to launch.
    next: u64,
    /// Packets below this may be launched.
    limit: u64,
    /// The doorbell's value at the last look.
    rung: u64,
    /// Packets below `seen.0` had been written at `seen.1`.
    seen: (u64, Moment),
    in_flight: VecDeque<Flight>,
    /// The value of the read index, which may lag behind released slots, and when it last did not.
    reported: (u64, Instant),
    /// Whether completed packets get times, decided at the first packet, as the hardware does; and how often queues had been
    /// mapped then.
    profiling: Option<(bool, u64)>,
    /// The packet that a stall holds up, and until when.
    stalled: Option<(u64, Instant)>,
    /// The compute units that its workgroups run on.
    units: Arc<Units>,
    /// PM4 commands of the packet that is next.
    commands: Commands,
    active: bool,
    failed: bool,
}

/// After this time without a packet, a lazy read index catches up.
const IDLE: Duration = Duration::from_millis(20);

/// Why a packet is not launched now.
enum Hold {
    /// It cannot go yet.
    Wait,
    /// It never will, and nothing says so.
    Stall,
    /// It never will.
    Fail(QueueError),
    /// It touched memory that is not mapped.
    Fault(Refused, &'static str),
}

impl From<PacketError> for Hold {
    fn from(error: PacketError) -> Hold {
        Hold::Fail(QueueError::Packet(error))
    }
}

impl AqlQueue {
    /// A queue of a GPU.
    pub(crate) fn new(info: AqlQueueInfo, gpu: Arc<Gpu>) -> AqlQueue {
        let view = View::new(gpu.space.clone());
        let units = Arc::new(Units::all(gpu.shape.dies));
        AqlQueue {
            info,
            gpu,
            view,
            next: 0,
            limit: 0,
            rung: NEVER_RUNG,
            seen: (0, Moment::default()),
            in_flight: VecDeque::new(),
            reported: (0, Instant::now()),
            profiling: None,
            stalled: None,
            units,
            commands: Commands::default(),
            active: true,
            failed: false,
        }
    }

    fn slot(&self, id: u64) -> u64 {
        self.info.ring + id % self.info.slots * 64
    }

    /// Reads the doorbell. It has the id of the last packet. Two producers may ring in either order, so packets below the write index count
    /// as well.
    fn look_at_doorbell(&mut self) -> Result<(), Refused> {
        let rung = self.info.doorbell.read();
        if rung == self.rung {
            return Ok(());
        }
        self.rung = rung;
        let written = self.view.word64(self.info.queue + WRITE_DISPATCH_ID, false)?.load(Ordering::Acquire);
        self.limit = self.limit.max(rung.wrapping_add(1)).max(written);
        Ok(())
    }

    /// Releases the slots of completed packets, oldest first.
    fn release(&mut self) -> Result<bool, Refused> {
        let mut released = false;
        while let Some(front) = self.in_flight.front() {
            if !front.has_ended() || front.late.is_some() {
                // A kernel that failed has been reported; the queue takes no more packets.
                self.failed |= front.kernel.as_ref().is_some_and(|dispatch| dispatch.has_failed());
                break;
            }
            let oldest = self.next - self.in_flight.len() as u64;
            self.in_flight.pop_front();
            if self.gpu.driver.read_index() != ReadIndex::Valid {
                let slot = self.slot(oldest);
                let header = self.view.word32(slot, true)?;
                let setup = header.load(Ordering::Relaxed) & 0xffff_0000;
                header.store(setup | u32::from(INVALID_HEADER), Ordering::Release);
            }
            released = true;
        }
        self.tell()?;
        Ok(released)
    }

    /// Lets the read index follow what was released.
    fn tell(&mut self) -> Result<(), Refused> {
        let released = self.next - self.in_flight.len() as u64;
        let (reported, since) = self.reported;
        if reported == released {
            self.reported.1 = Instant::now();
            return Ok(());
        }
        let lags = self.gpu.driver.read_index() == ReadIndex::Lazy
            && released - reported < self.info.slots / 4
            && since.elapsed() < IDLE;
        if !lags {
            self.view.word64(self.info.queue + READ_DISPATCH_ID, true)?.store(released, Ordering::Release);
            self.reported = (released, Instant::now());
        }
        Ok(())
    }

    /// The packet in the next slot, when there is one.
    fn fetch(&mut self) -> Result<Option<Packet>, Refused> {
        let ahead = self.gpu.driver.fetches_ahead() && self.rung != NEVER_RUNG;
        if self.next >= self.limit && !ahead {
            return Ok(None);
        }
        let slot = self.slot(self.next);
        let first = self.view.word32(slot, false)?.load(Ordering::Acquire);
        if PacketType::of(first as u16) == PacketType::Invalid {
            // The doorbell was rung before the header was written.
            self.seen.0 = self.seen.0.min(self.next);
            return Ok(None);
        }
        let mut packet = Packet([0; 16]);
        packet.0[0] = first;
        for (n, word) in packet.0.iter_mut().enumerate().skip(1) {
            *word = self.view.word32(slot + 4 * n as u64, false)?.load(Ordering::Relaxed);
        }
        Ok(Some(packet))
    }

    fn profiling(&mut self) -> bool {
        let remaps = self.gpu.remaps.load(Ordering::Relaxed);
        let (profiling, mapped) = *self.profiling.get_or_insert_with(|| {
            let properties = self.view.word32(self.info.queue + QUEUE_PROPERTIES, false);
            (properties.is_ok_and(|p| p.load(Ordering::Relaxed) & properties::ENABLE_PROFILING != 0), remaps)
        });
        profiling && (mapped == remaps || self.gpu.driver.times() != Times::UntilRemap)
    }

    /// Decrements the signals whose time has come.
    fn complete_late(&mut self) -> Result<bool, Refused> {
        let mut completed = false;
        for flight in self.in_flight.iter_mut().filter(|f| f.late.is_some() && f.has_ended()) {
            let Some(late) = &mut flight.late else { continue };
            let now = Instant::now();
            if *late.due.get_or_insert(now + late.delay) > now {
                continue;
            }
            let times = late.times.map(|(start, end)| (start, flight.kernel.as_ref().map_or(end, |d| d.end())));
            signal::complete(&mut self.view, &*self.gpu.driver, late.signal, times)?;
            flight.late = None;
            completed = true;
        }
        Ok(completed)
    }

    /// Injects the fault of the next packet, and returns what happens to its completion.
    fn inject(&mut self) -> Result<Option<Effect>, Hold> {
        let id = self.next;
        let here = self.info.injections.iter().filter(|i| i.packets.contains(&id)).map(|i| i.effect);
        let mut completion = None;
        for effect in here.collect::<Vec<_>>() {
            let said = format!("queue {}, packet {id}: {effect:?}, injected", self.info.id);
            match effect {
                Effect::Delay(_) | Effect::Lose => completion = Some(effect),
                // What was before it is complete when it fails.
                _ if !self.in_flight.is_empty() => return Err(Hold::Wait),
                Effect::Stall(None) => {
                    self.gpu.driver.log(&said);
                    return Err(Hold::Stall);
                }
                Effect::Stall(Some(time)) => {
                    let now = Instant::now();
                    let until = match self.stalled {
                        Some((packet, until)) if packet == id => until,
                        _ => now + time,
                    };
                    self.stalled = Some((id, until));
                    if now < until {
                        self.gpu.driver.log(&said);
                        return Err(Hold::Wait);
                    }
                }
                Effect::MemoryFault => {
                    let refused = Refused { at: NOWHERE, write: false, why: Refusal::NotMapped };
                    return Err(Hold::Fault(refused, "an injected fault"));
                }
                Effect::Wave(_) | Effect::Packet(_) => {
                    self.gpu.driver.log(&said);
                    return effect.error().map_or(Ok(None), |error| Err(Hold::Fail(error)));
                }
            }
            self.gpu.driver.log(&said);
        }
        Ok(completion)
    }

    /// Launches a packet, or says why not.
    fn launch(&mut self, packet: &Packet, worker: &mut Worker) -> Result<Flight, Hold> {
        // One at a time on the deterministic clock: how packets overlap is not a function of what they execute.
        if (packet.has_barrier_bit() || self.gpu.clock.is_deterministic()) && !self.in_flight.is_empty() {
            return Err(Hold::Wait);
        }
        let ordered = if self.info.injections.is_empty() { None } else { self.inject()? };
        self.view.refresh();
        let profiling = self.profiling();
        match packet.packet_type() {
            PacketType::KernelDispatch => return self.dispatch(packet, profiling, ordered, worker),
            PacketType::BarrierAnd => {
                for handle in packet.dependencies().into_iter().filter(|&handle| handle != 0) {
                    if self.dependency(handle)? != 0 {
                        return Err(Hold::Wait);
                    }
                }
            }
            PacketType::BarrierOr => {
                let dependencies = packet.dependencies().into_iter().filter(|&handle| handle != 0);
                let values = dependencies.map(|handle| self.dependency(handle)).collect::<Result<Vec<_>, _>>()?;
                if !values.is_empty() && !values.contains(&0) {
                    return Err(Hold::Wait);
                }
            }
            PacketType::VendorSpecific => match packet.setup() as u8 {
                vendor::EXT_KERNEL_DISPATCH if self.gpu.driver.takes_extended_dispatches() => {
                    if packet.dependency() != 0 && self.dependency(packet.dependency())? != 0 {
                        return Err(Hold::Wait);
                    }
                    return self.dispatch(packet, profiling, ordered, worker);
                }
                vendor::PM4_IB => self.indirect_buffer(packet)?,
                vendor::BARRIER_VALUE => {
                    let (handle, reference, mask, condition) = packet.barrier_value();
                    if handle != 0 && !holds(condition, self.dependency(handle)? & mask, reference) {
                        return Err(Hold::Wait);
                    }
                }
                _ => return Err(PacketError::Type.into()),
            },
            _ => return Err(PacketError::Type.into()),
        }
        let start = self.gpu.clock.ticks();
        let end = self.gpu.clock.end(start, 0);
        if self.gpu.driver.wants_trace() {
            let done =
                CompletedPacket { queue: self.info.id, id: self.next, packet: *packet, start, end, instructions: 0 };
            self.gpu.driver.trace(&done);
        }
        let (signal, times) = (packet.completion_signal(), profiling.then_some((start, end)));
        let late = match ordered.filter(|_| signal != 0) {
            Some(Effect::Delay(delay)) => Some(Late { signal, delay, times, due: None }),
            Some(_) => None,
            None => {
                self.complete(signal, times)?;
                None
            }
        };
        Ok(Flight { kernel: None, late })
    }

    fn dependency(&mut self, handle: u64) -> Result<i64, Hold> {
        signal::value(&mut self.view, handle).map_err(|u| Hold::Fault(u, "a barrier packet's dependency"))
    }

    fn complete(&mut self, handle: u64, times: Option<(u64, u64)>) -> Result<(), Hold> {
        if handle == 0 {
            return Ok(());
        }
        signal::complete(&mut self.view, &*self.gpu.driver, handle, times)
            .map_err(|u| Hold::Fault(u, "a completion signal"))
    }

    fn dispatch(
        &mut self,
        packet: &Packet,
        profiling: bool,
        ordered: Option<Effect>,
        worker: &mut Worker,
    ) -> Result<Flight, Hold> {
        let slot = self.slot(self.next);
        let mut launch = Launch::new(packet, self.next, slot, self.info.queue, self.gpu.shape.arch, &mut self.view)?;
        if let Some(die) = self.units.without_unit(launch.total()) {
            self.gpu.driver.log(&format!(
                "queue {}, packet {}: the mask of the queue has no compute unit of XCC {die}, whose workgroups never run",
                self.info.id, self.next
            ));
            return Err(Hold::Wait);
        }
        let capacity = self.gpu.capacity(&launch, self.units.count());
        let start = self.gpu.clock.ticks();
        let signal = launch.completion_signal;
        let late = match ordered.filter(|_| signal != 0) {
            Some(Effect::Delay(delay)) => {
                Some(Late { signal, delay, times: profiling.then_some((start, 0)), due: None })
            }
            _ => None,
        };
        if ordered.is_some() {
            // Not the workers' business then.
            launch.completion_signal = 0;
        }
        if self.next >= self.seen.0 {
            self.seen = (self.limit, Moment::now());
        }
        let dispatch =
            Arc::new(Dispatch::new(launch, self.units.clone(), start, capacity, self.seen.1, self.gpu.draw()));
        let (queue, counted) = (self.info.id, self.commands.counts());
        let job = Job { gpu: self.gpu.clone(), queue, profiling, counted, dispatch: dispatch.clone() };
        worker.begin(job);
        Ok(Flight { kernel: Some(dispatch), late })
    }

    /// Executes the PM4 commands of a packet; those that wait are gone on with later.
    fn indirect_buffer(&mut self, packet: &Packet) -> Result<(), Hold> {
        if self.commands.is_empty() {
            let (address, dwords) = packet.pm4_indirect_buffer();
            self.commands.begin(address, dwords);
        }
        let idle = self.in_flight.iter().all(Flight::has_ended);
        let pause = self.commands.run(&mut self.view, &self.gpu, idle);
        let what = match pause.map_err(|u| Hold::Fault(u, "a PM4 command"))? {
            Pause::Done => return Ok(()),
            Pause::Wait | Pause::Slice => return Err(Hold::Wait),
            Pause::Launch(_) => "a dispatch by PM4 in an AQL queue".to_owned(),
            Pause::NotImplemented(what) => what,
            Pause::Refused(error) => return Err(error.into()),
        };
        self.gpu.driver.log(&format!("queue {}: {what} is not implemented", self.info.id));
        Err(PacketError::Type.into())
    }

    fn stop(&mut self, error: &QueueError) {
        self.failed = true;
        self.gpu.driver.queue_error(self.info.id, error);
    }

    fn fault(&mut self, at: Refused, what: &str) {
        self.failed = true;
        let doing = format!("{what}, packet {}", self.next);
        self.gpu.driver.memory_fault(&MemoryFault::new(self.info.id, at, &doing, &self.gpu.space));
    }
}

/// Conditions of AMD's barrier packet. Source: `hsa_signal_condition_t`.
fn holds(condition: u32, value: i64, reference: i64) -> bool {
    match condition {
        0 => value == reference,
        1 => value != reference,
        2 => value < reference,
        _ => value >= reference,
    }
}

impl Queue for AqlQueue {
    fn id(&self) -> u32 {
        self.info.id
    }

    fn pump(&mut self, worker: &mut Worker) -> Progress {
        if self.failed || !self.active {
            return Progress::Idle;
        }
        let mut progress = Progress::Idle;
        self.view.refresh();
        loop {
            let step = self.look_at_doorbell().and_then(|()| Ok(self.complete_late()? | self.release()?));
            let released = match step {
                Ok(released) => released,
                Err(at) => {
                    self.fault(at, "the queue itself");
                    return Progress::Done;
                }
            };
            if released {
                progress = Progress::Done;
            }
            if self.failed {
                return Progress::Done;
            }
            let packet = match self.fetch() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(at) => {
                    self.fault(at, "the queue's ring");
                    return Progress::Done;
                }
            };
            match self.launch(&packet, worker) {
                Ok(flight) => {
                    self.in_flight.push_back(flight);
                    self.next += 1;
                    progress = Progress::Done;
                }
                Err(Hold::Wait) => return progress.max(Progress::Waiting),
                Err(Hold::Stall) => {
                    self.active = false;
                    return progress;
                }
                Err(Hold::Fail(error)) => {
                    self.stop(&error);
                    return Progress::Done;
                }
                Err(Hold::Fault(at, what)) => {
                    self.fault(at, what);
                    return Progress::Done;
                }
            }
        }
        // A rung slot whose header is not valid yet, or a kernel that is running, needs no doorbell to go on.
        let expecting = !self.in_flight.is_empty() || self.next < self.limit || self.reported.0 < self.next;
        if expecting { progress.max(Progress::Waiting) } else { progress }
    }

    fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    fn set_compute_units(&mut self, mask: &[u32]) {
        self.units = Arc::new(Units::masked(self.gpu.shape.dies, mask));
    }

    fn abandon(&mut self) -> Vec<Arc<Dispatch>> {
        self.failed = true;
        self.gpu.remaps.fetch_add(1, Ordering::Relaxed);
        let under_way: Vec<_> = self.in_flight.drain(..).filter_map(|flight| flight.kernel).collect();
        under_way.iter().for_each(|dispatch| dispatch.cancel());
        under_way
    }
}
