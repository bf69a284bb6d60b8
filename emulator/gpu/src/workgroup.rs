//! A workgroup: its waves, its LDS and scratch, its barrier; and running it for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::op::Flow;
use amdgpu_isa::step::execute;
use amdgpu_isa::wave::{LANES, Trap, VgprFile, Wave, vgpr_file};

use crate::clock::Clock;
use crate::code::{Fetch, PAGE};
use crate::dispatch::Launch;
use crate::driver::{Driver, WaveError};
use crate::fill::Fill;
use crate::gpu::Shape;
use crate::gws::{Gws, Ticket};
use crate::machine::Machine;
use crate::memory::View;
use crate::registers::{Place, initial_wave, scratch_bytes_per_wave};

/// Instructions that a wave executes before the next one of its workgroup has its turn. Long, because waves seldom
/// wait for each other but at barriers; finite, because they may.
const WAVE_TURN: u64 = 1 << 14;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    AtBarrier,
    Ended,
}

struct Slot {
    wave: Wave,
    state: State,
    ticket: Option<Ticket>,
    /// See [`Machine::reading`].
    reading: u64,
}

/// A workgroup that has been started.
pub(crate) struct Workgroup {
    at: [u32; 3],
    slots: Vec<Slot>,
    lds: Vec<u8>,
    scratch: Vec<u8>,
    executed: u64,
}

/// How a turn of a workgroup ended.
pub(crate) enum Turn {
    /// Every wave has ended.
    Finished,
    /// There is more to do.
    Preempted,
    /// A wave cannot go on.
    Failed(WaveError),
}

/// Register files, LDS and scratch buffers that are used again.
#[derive(Default)]
pub(crate) struct Spares {
    registers: Vec<VgprFile>,
    buffers: Vec<Vec<u8>>,
}

impl Spares {
    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(bytes, 0);
        buffer
    }
}

/// What a worker brings to a workgroup's turn.
pub(crate) struct Bench<'a> {
    pub(crate) view: &'a mut View,
    pub(crate) fetch: &'a mut Fetch,
    pub(crate) spares: &'a mut Spares,
    pub(crate) shape: Shape,
    pub(crate) gws: &'a Gws,
    pub(crate) driver: &'a Arc<dyn Driver>,
    pub(crate) clock: &'a Clock,
    /// GPU ticks at the dispatch's start.
    pub(crate) start: u64,
    /// The dispatch is given up.
    pub(crate) cancelled: &'a AtomicBool,
}

impl Workgroup {
    /// Workgroup `n` of a dispatch, about to begin; `fill` is for what nobody has written.
    pub(crate) fn start(launch: &Launch, n: u64, mut fill: Option<Fill>, bench: &mut Bench<'_>) -> Workgroup {
        let at = launch.coordinates(n);
        let extent = launch.extent(at);
        let waves = extent.iter().product::<u32>().div_ceil(LANES as u32);
        let slots = (0..waves)
            .map(|wave| {
                let registers = bench.spares.registers.pop().unwrap_or_else(vgpr_file);
                let place = Place { workgroup: at, extent, wave, waves };
                Slot {
                    wave: initial_wave(bench.shape, launch, &place, registers, fill.as_mut()),
                    state: State::Running,
                    ticket: None,
                    reading: 0,
                }
            })
            .collect();
        let mut lds = bench.spares.buffer(launch.lds as usize);
        let mut scratch = bench.spares.buffer((scratch_bytes_per_wave(launch) * waves) as usize);
        if let Some(fill) = &mut fill {
            fill.bytes(&mut lds);
            fill.bytes(&mut scratch);
        }
        Workgroup { at, slots, lds, scratch, executed: 0 }
    }

    /// Gives registers and buffers back.
    pub(crate) fn retire(self, spares: &mut Spares) {
        spares.registers.extend(self.slots.into_iter().map(|slot| slot.wave.vgpr));
        // `start` takes the LDS first: each finds a buffer of its own size, and nothing is filled anew.
        spares.buffers.extend([self.scratch, self.lds]);
    }

    /// Wave instructions executed since the last call.
    pub(crate) fn take_executed(&mut self) -> u64 {
        std::mem::take(&mut self.executed)
    }

    /// Runs until every wave has ended, or about `budget` instructions have been executed, or every wave that could run
    /// asks for a pause, or the dispatch is given up.
    pub(crate) fn run(&mut self, launch: &Launch, bench: &mut Bench<'_>, budget: u64) -> Turn {
        let mut left = budget;
        loop {
            let mut progress = false;
            for n in 0..self.slots.len() {
                if self.slots[n].state != State::Running {
                    continue;
                }
                let before = self.slots[n].wave.executed;
                let flow = self.run_wave(n, bench);
                let executed = self.slots[n].wave.executed - before;
                self.executed += executed;
                left = left.saturating_sub(executed.max(1));
                if bench.cancelled.load(Ordering::Relaxed) {
                    return Turn::Preempted;
                }
                match flow {
                    // A pause lets the others run; so does a turn that was used up.
                    Flow::Yield => {}
                    Flow::Next => progress = true,
                    Flow::Barrier => {
                        self.slots[n].state = State::AtBarrier;
                        progress = true;
                    }
                    Flow::End => {
                        self.slots[n].state = State::Ended;
                        progress = true;
                    }
                    Flow::Trap => return Turn::Failed(self.wave_error(n, launch, bench)),
                }
            }
            if self.slots.iter().all(|s| s.state == State::Ended) {
                return Turn::Finished;
            }
            // Waves that have ended do not hold up the barrier.
            if self.slots.iter().all(|s| s.state != State::Running) {
                for slot in self.slots.iter_mut().filter(|s| s.state == State::AtBarrier) {
                    slot.state = State::Running;
                }
            }
            if left == 0 || !progress {
                return Turn::Preempted;
            }
        }
    }

    /// Runs one wave until it ends, waits or has used up its turn ([`Flow::Next`]).
    fn run_wave(&mut self, n: usize, bench: &mut Bench<'_>) -> Flow {
        let slot = &mut self.slots[n];
        let wave = &mut slot.wave;
        let limit = wave.executed + WAVE_TURN;
        slot.reading = slot.reading.max(bench.start + wave.executed);
        while wave.executed < limit {
            let Some(page) = bench.fetch.page(wave.pc, bench.view) else {
                wave.trap = Some(Trap::Fetch);
                return Flow::Trap;
            };
            let base = wave.pc & !(PAGE - 1);
            let mut machine = Machine {
                view: bench.view,
                lds: &mut self.lds,
                scratch: &mut self.scratch,
                gws: bench.gws,
                ticket: &mut slot.ticket,
                driver: bench.driver,
                clock: bench.clock,
                reading: &mut slot.reading,
            };
            while wave.pc & !(PAGE - 1) == base && wave.executed < limit {
                let Ok(inst) = page.inst(wave.pc - base, bench.fetch.decoder()) else {
                    wave.trap = Some(Trap::Illegal);
                    return Flow::Trap;
                };
                let flow = execute(wave, inst, &mut machine);
                if flow != Flow::Next {
                    if flow == Flow::Trap {
                        // The report names the instruction, not the one after it.
                        wave.pc = wave.pc.wrapping_sub(inst.size.into());
                    }
                    return flow;
                }
            }
        }
        Flow::Next
    }

    fn wave_error(&self, n: usize, launch: &Launch, bench: &mut Bench<'_>) -> WaveError {
        let wave = &self.slots[n].wave;
        let pc = wave.pc;
        let instruction = match bench.fetch.page(pc, bench.view) {
            None => "nothing is mapped there".to_owned(),
            Some(page) => match page.inst(pc % PAGE, bench.fetch.decoder()) {
                Ok(inst) => Disassembly { inst, arch: wave.arch }.to_string(),
                Err(error) => {
                    let words: Vec<_> = page.words(pc % PAGE).iter().map(|w| format!("{w:08x}")).collect();
                    format!("{} ({error})", words.join(" "))
                }
            },
        };
        let trap = wave.trap.unwrap_or(Trap::Illegal);
        let refused = match trap {
            Trap::Memory(fault) => Some(bench.view.explain(fault.address, 1, fault.write)),
            Trap::Fetch => Some(bench.view.explain(pc, 4, false)),
            _ => None,
        };
        let (kernel_object, workgroup) = (launch.kernel_object, self.at);
        WaveError { trap, pc, instruction, kernel_object, workgroup, wave: n as u32, refused }
    }
}
