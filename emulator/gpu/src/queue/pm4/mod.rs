//! PM4: the commands of indirect buffers in AQL queues, and of queues that have nothing else.
//!
//! Sources: AMD's published PM4 definitions of gfx9 (`soc15d.h` and `kfd_pm4_headers_ai.h` of the kernel) and its register lists.
//!
//! On hardware each die of a GPU executes the commands of its queue. Here one executor does it for all of them: `PRED_EXEC` leaves out
//! what is for none of the GPU's dies. Registers have the value that was set last, also where each die would have one of its own: that of
//! scratch, which workgroups get from the machine.

mod commands;
mod registers;

use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) use commands::{Commands, Pause};

use super::{Progress, Queue, RingInfo};
use crate::dispatch::{Dispatch, Moment};
use crate::driver::{MemoryFault, PacketError, QueueError};
use crate::engine::{Job, Worker};
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::memory::{Refused, View};
use crate::units::Units;
use commands::Frame;

/// A queue of PM4 commands.
pub(crate) struct Pm4Queue {
    info: RingInfo,
    gpu: Arc<Gpu>,
    view: View,
    commands: Commands,
    running: Vec<Arc<Dispatch>>,
    units: Arc<Units>,
    active: bool,
    failed: bool,
}

impl Pm4Queue {
    /// A queue of a GPU.
    pub(crate) fn new(info: RingInfo, gpu: Arc<Gpu>) -> Pm4Queue {
        let view = View::new(gpu.space.clone());
        let units = Arc::new(Units::all(gpu.shape.dies));
        let commands = Commands::of_ring(Frame::ring(info.ring, info.bytes / 4));
        Pm4Queue { info, gpu, view, commands, running: Vec::new(), units, active: true, failed: false }
    }

    /// Executes what the doorbell covers; what comes of it.
    fn advance(&mut self, worker: &mut Worker) -> Result<Progress, Refused> {
        let mut progress = Progress::Idle;
        let rung = self.info.doorbell.read();
        if let Some(ring) = self.commands.frames.first_mut() {
            ring.end = ring.end.max(rung);
        }
        loop {
            self.failed |= self.running.iter().any(|dispatch| dispatch.has_failed());
            self.running.retain(|dispatch| !dispatch.is_complete());
            let idle = self.running.is_empty();
            if self.failed {
                return Ok(Progress::Done);
            }
            let before = self.position();
            let pause = self.commands.run(&mut self.view, &self.gpu, idle)?;
            if self.position() != before {
                progress = Progress::Done;
                let place = self.position() % (self.info.bytes / 4);
                self.view.word32(self.info.read_pointer, true)?.store(place as u32, Ordering::Release);
            }
            match pause {
                Pause::Done if idle => return Ok(progress),
                Pause::Done | Pause::Wait => return Ok(progress.max(Progress::Waiting)),
                Pause::Slice => return Ok(Progress::Done),
                Pause::Launch(launch) => {
                    self.launch(*launch, worker);
                    if !self.active {
                        return Ok(Progress::Done);
                    }
                }
                Pause::NotImplemented(what) => {
                    self.gpu.driver.log(&format!("queue {}: {what} is not implemented", self.info.id));
                    self.stop(PacketError::Type);
                }
                Pause::Refused(error) => self.stop(error),
            }
            progress = Progress::Done;
        }
    }

    /// How much of the ring has been executed.
    fn position(&self) -> u64 {
        self.commands.frames.first().map_or(0, |ring| ring.at)
    }

    fn launch(&mut self, launch: Launch, worker: &mut Worker) {
        if let Some(die) = self.units.without_unit(launch.total()) {
            self.active = false;
            return self.gpu.driver.log(&format!(
                "queue {}: the mask of the queue has no compute unit of XCC {die}, whose workgroups never run",
                self.info.id
            ));
        }
        let capacity = self.gpu.capacity(&launch, self.units.count());
        let start = self.gpu.clock.ticks();
        let dispatch = Dispatch::new(launch, self.units.clone(), start, capacity, Moment::now(), self.gpu.draw());
        let dispatch = Arc::new(dispatch);
        self.running.push(dispatch.clone());
        let (queue, counted) = (self.info.id, self.commands.counts());
        worker.begin(Job { gpu: self.gpu.clone(), queue, profiling: false, counted, dispatch });
    }

    fn stop(&mut self, error: PacketError) {
        self.failed = true;
        self.gpu.driver.queue_error(self.info.id, &QueueError::Packet(error));
    }
}

impl Queue for Pm4Queue {
    fn id(&self) -> u32 {
        self.info.id
    }

    fn pump(&mut self, worker: &mut Worker) -> Progress {
        if self.failed || !self.active {
            return Progress::Idle;
        }
        self.view.refresh();
        match self.advance(worker) {
            Ok(progress) => progress,
            Err(refused) => {
                self.failed = true;
                let fault = MemoryFault::new(self.info.id, refused, "a PM4 command", &self.gpu.space);
                self.gpu.driver.memory_fault(&fault);
                Progress::Done
            }
        }
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
        let running = std::mem::take(&mut self.running);
        running.iter().for_each(|dispatch| dispatch.cancel());
        running
    }
}
