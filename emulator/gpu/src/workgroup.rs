//! A workgroup: its waves, its LDS and scratch, its barrier; and running it for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::Flow;
use amdgpu_isa::step::execute;
use amdgpu_isa::wave::{LANES, Trap, VgprFile, Wave, vgpr_file};

use crate::clock::Clock;
use crate::code::{Fetch, PAGE};
use crate::counters::Counters;
use crate::driver::{Driver, WaveError};
use crate::fill::{Fill, Seat};
use crate::gws::{Gws, Ticket};
use crate::launch::Launch;
use crate::machine::Machine;
use crate::memory::View;
use crate::observer::{Group, Notes, Observer, Step};
use crate::registers::{self, initial_wave};
use crate::schedule::Slices;
use crate::shape::Shape;
use crate::symbol;
use crate::units::Units;
use crate::watch::{Observed, StalledWave, StalledWaves, Verdict, Watch};

/// So many instructions after the beginning, and after each barrier, a slice also ends where hardware may hold the wave for
/// its memory accesses: what hardware hides by the time that these take stays hidden.
const CLOSE: u64 = 64;
/// Rounds in a row in which every wave that can run only looked for what others write, after which the thread turns to
/// another workgroup: the one that is waited for may be there.
const LOOKING_ROUNDS: u32 = 4;

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
    /// Up to this count of executed instructions the wave is close to where it began with the others.
    close: u64,
}

/// A workgroup that has been started.
pub(crate) struct Workgroup {
    at: [u32; 3],
    slots: Vec<Slot>,
    lds: Vec<u8>,
    scratch: Vec<u8>,
    executed: u64,
    ended: u64,
    watch: Option<Box<Watch>>,
    slices: Slices,
    /// What observers keep for it, if it is observed.
    notes: Option<Notes>,
}

/// How a slice of a workgroup ended.
pub(crate) enum SliceOutcome {
    /// Every wave has ended.
    Finished,
    /// There is more to do.
    Preempted,
    /// A wave cannot go on.
    Failed(WaveError),
}

/// So many waves' register files are kept at most, and so many workgroups' buffers: a thread may retire what others have started, and
/// would keep more of them for ever.
const SPARE_WAVES: usize = 64;

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

/// What a worker brings to a workgroup's slice.
pub(crate) struct ExecContext<'a> {
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
    /// See [`crate::watch::Watchdog::epoch`].
    pub(crate) watched: u64,
    /// Who sees what is executed.
    pub(crate) observer: Option<&'a mut dyn Observer>,
    /// What counts its waves.
    pub(crate) counters: Option<&'a Counters>,
}

impl Workgroup {
    /// Workgroup `n` of a dispatch, about to begin. `fill` gives unwritten data its contents; the second one says where the
    /// workgroup runs, and in which slices its waves do.
    pub(crate) fn start(
        launch: &Launch,
        n: u64,
        units: &Units,
        fill: Option<[Fill; 2]>,
        context: &mut ExecContext<'_>,
    ) -> Workgroup {
        let (mut fill, mut place) = fill.map_or((None, None), |[fill, place]| (Some(fill), Some(place)));
        let at = launch.coordinates(n);
        let extent = launch.extent(at);
        let waves = extent.iter().product::<u32>().div_ceil(LANES as u32);
        let seat = place.as_mut().map(|fill| fill.seat(launch.lds, context.shape.arch));
        let unit = units.of_workgroup(n, seat.map(Seat::drawn));
        if let Some(counters) = context.counters {
            counters.started(unit, extent.iter().product());
        }
        let slots: Vec<Slot> = (0..waves)
            .map(|wave| {
                let registers = context.spares.registers.pop().unwrap_or_else(vgpr_file);
                let place = registers::WavePosition { workgroup: at, extent, wave, waves, unit, seat };
                Slot {
                    wave: initial_wave(context.shape, launch, &place, registers, fill.as_mut()),
                    state: State::Running,
                    ticket: None,
                    reading: 0,
                    close: CLOSE,
                }
            })
            .collect();
        // Waves reach all of the last unit.
        let unit = context.shape.arch.row().lds.granule;
        let mut lds = context.spares.buffer(launch.lds.next_multiple_of(unit) as usize);
        let scratch = launch.scratch_of_wave() * waves;
        let scratch = if context.driver.halves_scratch() { scratch / 2 } else { scratch };
        let mut scratch = context.spares.buffer(scratch as usize);
        if let Some(fill) = &mut fill {
            fill.bytes(&mut lds);
            fill.bytes(&mut scratch);
        }
        let slices = place.as_mut().map_or_else(Slices::default, |place| Slices::drawn(place, waves));
        let notes = context.observer.as_mut().and_then(|observer| {
            let waves = slots.iter().map(|slot| &slot.wave).collect();
            observer.begin(&Group { number: n, at, waves, lds: launch.lds as usize, launch })
        });
        Workgroup { at, slots, lds, scratch, executed: 0, ended: 0, watch: None, slices, notes }
    }

    /// Gives registers and buffers back.
    pub(crate) fn retire(mut self, spares: &mut Spares, observer: Option<&mut dyn Observer>) {
        if let (Some(notes), Some(observer)) = (self.notes.take(), observer) {
            observer.end(notes);
        }
        let room = SPARE_WAVES.saturating_sub(spares.registers.len());
        spares.registers.extend(self.slots.into_iter().take(room).map(|slot| slot.wave.vgpr));
        if spares.buffers.len() < 2 * SPARE_WAVES {
            // `start` takes the LDS first: each finds a buffer of its own size, and nothing is filled anew.
            spares.buffers.extend([self.scratch, self.lds]);
        }
    }

    /// Wave instructions executed since the last call.
    pub(crate) fn take_executed(&mut self) -> u64 {
        std::mem::take(&mut self.executed)
    }

    /// Waves that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> u64 {
        std::mem::take(&mut self.ended)
    }

    /// What the watch over the workgroup has found.
    pub(crate) fn verdict(&mut self) -> Verdict {
        let running = self.slots.iter().map(|slot| slot.state == State::Running);
        self.watch.as_mut().map_or(Verdict::Open, |watch| watch.verdict(running))
    }

    /// Where the waves are that have not ended.
    pub(crate) fn places(&self, context: &mut ExecContext<'_>) -> StalledWaves {
        let alive = self.slots.iter().enumerate().filter(|(_, slot)| slot.state != State::Ended);
        let places = alive.map(|(n, Slot { wave, state, .. })| {
            let instruction = instruction_at(wave, context);
            (n as u32, StalledWave { pc: wave.pc, instruction, at_barrier: *state == State::AtBarrier })
        });
        (self.at, places.collect())
    }

    /// Runs until every wave has ended, or about `budget` instructions have been executed, or every wave that could run
    /// asks for a pause, or the dispatch is given up.
    pub(crate) fn run(&mut self, launch: &Launch, context: &mut ExecContext<'_>, budget: u64) -> SliceOutcome {
        let mut left = budget;
        let mut looking_rounds = 0;
        if context.watched != self.watch.as_ref().map_or(0, |watch| watch.epoch) {
            let watch = || Box::new(Watch::new(context.watched, self.slots.len(), &self.lds));
            self.watch = (context.watched != 0).then(watch);
        }
        loop {
            let (mut progress, mut looking) = (false, true);
            for n in self.slices.order(self.slots.len()) {
                if self.slots[n].state != State::Running {
                    continue;
                }
                let wave = &self.slots[n].wave;
                let (executed, coherent) = (wave.executed, wave.coherent);
                let flow = self.run_slice(n, context);
                let wave = &self.slots[n].wave;
                let executed = wave.executed - executed;
                looking &= wave.coherent != coherent;
                self.executed += executed;
                left = left.saturating_sub(executed.max(1));
                if context.cancelled.load(Ordering::Relaxed) {
                    return SliceOutcome::Preempted;
                }
                match flow {
                    // A pause lets the others run; so does a slice that was used up.
                    Flow::Yield => {}
                    Flow::Next | Flow::Wait => progress = true,
                    Flow::Barrier => {
                        self.slots[n].state = State::AtBarrier;
                        progress = true;
                    }
                    Flow::End => {
                        self.slots[n].state = State::Ended;
                        self.ended += 1;
                        progress = true;
                    }
                    Flow::Trap => return SliceOutcome::Failed(self.wave_error(n, launch, context)),
                }
            }
            if self.slots.iter().all(|s| s.state == State::Ended) {
                return SliceOutcome::Finished;
            }
            // Waves that have ended do not hold up the barrier.
            if self.slots.iter().all(|s| s.state != State::Running) {
                for slot in self.slots.iter_mut().filter(|s| s.state == State::AtBarrier) {
                    slot.state = State::Running;
                    slot.close = slot.wave.executed + CLOSE;
                }
                if let (Some(notes), Some(observer)) = (&mut self.notes, &mut context.observer) {
                    observer.barrier(notes);
                }
                looking = false;
            }
            looking_rounds = if looking { looking_rounds + 1 } else { 0 };
            if left == 0 || !progress || looking_rounds == LOOKING_ROUNDS {
                return SliceOutcome::Preempted;
            }
        }
    }

    /// One wave's slice: until it ends, waits, or has executed the instructions of a slice ([`Flow::Next`]).
    fn run_slice(&mut self, n: usize, context: &mut ExecContext<'_>) -> Flow {
        let slot = &mut self.slots[n];
        let wave = &mut slot.wave;
        let limit = wave.executed + self.slices.instructions;
        let close = wave.executed < slot.close;
        slot.reading = slot.reading.max(context.start + wave.executed);
        let mut machine = Machine {
            view: context.view,
            lds: &mut self.lds,
            scratch: &mut self.scratch,
            gws: context.gws,
            ticket: &mut slot.ticket,
            driver: context.driver,
            clock: context.clock,
            reading: &mut slot.reading,
        };
        if let (Some(notes), Some(observer)) = (&mut self.notes, &mut context.observer) {
            return run_wave::<false>(wave, context.fetch, &mut machine, limit, close, |wave, inst, machine| {
                let pc = wave.pc;
                let space = machine.view.space();
                observer.before(notes, &Step { number: n, wave, inst, pc, lds: machine.lds, space });
                let flow = execute(wave, inst, machine);
                let space = machine.view.space();
                observer.after(notes, &Step { number: n, wave, inst, pc, lds: machine.lds, space }, flow);
                flow
            });
        }
        match &mut self.watch {
            None => run_wave::<true>(wave, context.fetch, &mut machine, limit, close, |wave, inst, machine| {
                execute(wave, inst, machine)
            }),
            Some(watch) => run_wave::<false>(wave, context.fetch, &mut machine, limit, close, |wave, inst, machine| {
                let pc = wave.pc;
                let flow = execute(wave, inst, &mut Observed { machine, watch, wave: n, pc });
                watch.executed(n, wave, inst, flow, machine.lds);
                flow
            }),
        }
    }

    fn wave_error(&self, n: usize, launch: &Launch, context: &mut ExecContext<'_>) -> WaveError {
        let wave = &self.slots[n].wave;
        let pc = wave.pc;
        let instruction = instruction_at(wave, context);
        let trap = wave.trap.unwrap_or(Trap::Illegal);
        let refused = match trap {
            Trap::Memory(fault) => Some(context.view.explain(fault.address, 1, fault.write)),
            Trap::Fetch => Some(context.view.explain(pc, 4, false)),
            _ => None,
        };
        let kernel = symbol::kernel(launch.kernel_object, context.view);
        WaveError { trap, pc, instruction, kernel, workgroup: self.at, wave: n as u32, refused }
    }
}

/// Executes a wave's instructions by `step` until one of them asks for something else, or `limit` of them have been executed
/// ([`Flow::Next`]). Where hardware may hold the wave for its memory accesses, this returns only if the wave is `close` to
/// others. With `BLOCKS`, blocks are executed as such, not by `step`: nothing but the time that it takes depends on it.
#[inline(always)]
fn run_wave<'m, const BLOCKS: bool>(
    wave: &mut Wave,
    fetch: &mut Fetch,
    machine: &mut Machine<'m>,
    limit: u64,
    close: bool,
    mut step: impl FnMut(&mut Wave, &Inst, &mut Machine<'m>) -> Flow,
) -> Flow {
    // Kept beside the wave's own: a processor looks the next instruction up while it executes this one, since neither the
    // address nor the count comes from memory that was just written.
    let (mut pc, mut executed) = (wave.pc, wave.executed);
    while executed < limit {
        let Some((page, decoder)) = fetch.page(pc, machine.view) else {
            wave.trap = Some(Trap::Fetch);
            return Flow::Trap;
        };
        let base = pc & !(PAGE - 1);
        while pc & !(PAGE - 1) == base && executed < limit {
            if BLOCKS && let Some(block) = page.block(pc - base, decoder) {
                let done = block.execute(wave, machine, limit - executed, close);
                executed += done.instructions;
                pc = pc.wrapping_add_signed(done.bytes);
                (wave.pc, wave.executed) = (pc, executed);
                if done.flow == Flow::Next {
                    continue;
                }
                return done.flow;
            }
            let Ok(inst) = page.inst(pc - base, decoder) else {
                wave.trap = Some(Trap::Illegal);
                return Flow::Trap;
            };
            let next = pc.wrapping_add(if inst.size == 4 { 4 } else { not_awaited(inst.size.into()) });
            (wave.pc, wave.executed) = (pc, executed);
            let flow = step(wave, inst, machine);
            executed += 1;
            pc = if wave.pc == next { next } else { not_awaited(wave.pc) };
            match flow {
                Flow::Next => {}
                Flow::Wait if !close => {}
                Flow::Trap => {
                    // The report names the instruction, not the one after it.
                    wave.pc = wave.pc.wrapping_sub(inst.size.into());
                    return Flow::Trap;
                }
                flow => return flow,
            }
        }
    }
    Flow::Next
}

/// A value that a branch leads to: the processor predicts the branch. Without this, compilers choose between two values
/// without a branch, and the processor waits for both.
#[inline(always)]
fn not_awaited(value: u64) -> u64 {
    std::hint::cold_path();
    value
}

/// The instruction that a wave is at, or its words.
fn instruction_at(wave: &Wave, context: &mut ExecContext<'_>) -> String {
    let pc = wave.pc;
    let Some((page, decoder)) = context.fetch.page(pc, context.view) else {
        return "nothing is mapped there".to_owned();
    };
    match page.inst(pc % PAGE, decoder) {
        Ok(inst) => Disassembly { inst, arch: wave.arch }.to_string(),
        Err(error) => {
            let words: Vec<_> = page.words(pc % PAGE).iter().map(|w| format!("{w:08x}")).collect();
            format!("{} ({error})", words.join(" "))
        }
    }
}
