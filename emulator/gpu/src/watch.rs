//! Whether a kernel gets on in which no wave has ended for long.
//!
//! A kernel that computes for long gets on; one whose waves only wait for each other, or for something that never comes,
//! does not. After a time in which no wave of a dispatch has ended, its waves are *watched* for some ten thousand
//! instructions. The dispatch gets on if, while it is watched,
//! * a store or an atomic changed memory or LDS, or a wave sent a message; or
//! * loads went on finding what had not been found before: other addresses, or other values; or
//! * a wave computed without looking at memory, and its registers did not become what they had been.
//!
//! Otherwise no wave does anything that it has not done before: it is told to the driver, once.
//!
//! Scratch and scalar loads count as computing: no other wave writes scratch, and the scalar cache is not coherent, so that
//! compilers do not poll through it. Reading a clock is nothing new.
//!
//! # Threads
//! The thread that looks after the queues decides when a dispatch is watched. Each workgroup's watch belongs to the
//! worker that runs it; what it found goes to the dispatch's [`Watchdog`].

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use amdgpu_isa::atomic::AtomicOp;
use amdgpu_isa::env::{Addresses, Env, Fault, GwsOp};
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::{Family, Flow};
use amdgpu_isa::wave::{LANES, Vgpr, Wave};

use crate::lock;
use crate::machine::{Machine, SCRATCH_WINDOW};

/// Watched instructions of a workgroup after which it is first asked whether there was something new.
const FIRST_CHECK: u64 = 1 << 14;
/// A workgroup that still finds something new after so many gets on.
const LAST_CHECK: u64 = 1 << 20;
/// How often the registers of a wave are compared with what they were at the same instruction.
const COMPARISONS: u32 = 8;
/// Distinct places of waves that a report names.
const PLACES: usize = 16;

/// What became of a watched workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is not known yet.
    Open,
    /// It gets on.
    Progress,
    /// Its waves do nothing new.
    Quiet,
}

/// One wave while it is watched.
#[derive(Default)]
struct Watched {
    /// It looked at memory that others can write, or slept.
    looked: bool,
    /// A program counter and the registers when it was there.
    anchor: Option<(u64, u64)>,
    compared: u32,
    /// Its registers became what they had been, without a look at memory in between.
    repeats: bool,
}

/// The watch over one workgroup.
pub(crate) struct Watch {
    /// See [`Watchdog::epoch`].
    pub(crate) epoch: u64,
    /// What loads have found: place in the program, addresses and values, hashed.
    found: HashSet<u64>,
    steps: u64,
    /// The step that last found something new.
    newest: u64,
    check_at: u64,
    changed: bool,
    lds: Vec<u8>,
    waves: Vec<Watched>,
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The active lanes of registers.
fn active(words: &[Vgpr], mask: u64) -> Vec<u32> {
    let lanes = (0..LANES).filter(|l| mask >> l & 1 == 1);
    lanes.flat_map(|l| words.iter().map(move |word| word[l])).collect()
}

impl Watch {
    /// Of a workgroup with so many waves, whose LDS holds `lds`.
    pub(crate) fn new(epoch: u64, waves: usize, lds: &[u8]) -> Watch {
        Watch {
            epoch,
            found: HashSet::new(),
            steps: 0,
            newest: 0,
            check_at: FIRST_CHECK,
            changed: false,
            lds: lds.to_vec(),
            waves: std::iter::repeat_with(Watched::default).take(waves).collect(),
        }
    }

    fn finds(&mut self, what: impl Hash) {
        if self.found.insert(hash(what)) {
            self.newest = self.steps;
        }
    }

    /// What is known after a slice; `running` says which waves are neither at the barrier nor at their end.
    pub(crate) fn verdict(&mut self, running: impl Iterator<Item = bool>) -> Verdict {
        if self.changed {
            return Verdict::Progress;
        }
        if self.steps < self.check_at {
            return Verdict::Open;
        }
        let computes = self.waves.iter().zip(running).any(|(w, runs)| runs && !w.looked && !w.repeats);
        if !computes && self.newest <= self.steps / 2 {
            return Verdict::Quiet;
        }
        if self.check_at >= LAST_CHECK {
            return Verdict::Progress;
        }
        self.check_at *= 2;
        Verdict::Open
    }

    /// Wave `n` has executed `inst`, with what came of it.
    pub(crate) fn executed(&mut self, n: usize, wave: &Wave, inst: &Inst, flow: Flow, lds: &[u8]) {
        self.steps += 1;
        let mask = wave.exec();
        if inst.op.family == Family::Ds {
            self.waves[n].looked = true;
            let address = inst.src[0].is_vector().then(|| active(w_slice(wave, inst, 0), mask));
            let result = inst.dst.is_vector().then(|| active(wave.vectors(inst.dst, 1), mask));
            self.finds((wave.pc, address, result));
        }
        if self.lds != lds {
            self.lds.copy_from_slice(lds);
            self.changed = true;
        }
        let watched = &mut self.waves[n];
        watched.looked |= flow == Flow::Yield;
        if watched.looked || watched.repeats {
            return;
        }
        match watched.anchor {
            Some((pc, registers)) if pc == wave.pc && watched.compared < COMPARISONS => {
                watched.compared += 1;
                watched.repeats = registers == hash((&wave.sgpr, wave.scc, &wave.vgpr[..]));
            }
            Some((pc, _)) if pc == wave.pc || !self.steps.is_multiple_of(FIRST_CHECK / 4) => {}
            _ => {
                watched.anchor = Some((wave.pc, hash((&wave.sgpr, wave.scc, &wave.vgpr[..]))));
                watched.compared = 0;
            }
        }
    }
}

/// The first word of a vector source.
fn w_slice<'w>(wave: &'w Wave, inst: &Inst, source: usize) -> &'w [Vgpr] {
    wave.vectors(inst.src[source], 1)
}

/// The machine of a wave that is watched.
pub(crate) struct Observed<'a, 'm> {
    pub(crate) machine: &'a mut Machine<'m>,
    pub(crate) watch: &'a mut Watch,
    /// The wave's number, and where it is.
    pub(crate) wave: usize,
    pub(crate) pc: u64,
}

impl Observed<'_, '_> {
    /// The lanes that others can see the accesses of.
    fn shared(at: &Addresses, mask: u64) -> u64 {
        (0..LANES).filter(|&l| mask >> l & 1 == 1 && at[l] < SCRATCH_WINDOW).fold(0, |shared, l| shared | 1 << l)
    }

    /// Does what may change memory, and looks whether it did.
    fn changes<T>(
        &mut self,
        at: &Addresses,
        mask: u64,
        bytes: u8,
        what: impl FnOnce(&mut Machine<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let shared = Self::shared(at, mask);
        if shared == 0 {
            return what(self.machine);
        }
        self.watch.waves[self.wave].looked = true;
        let mut words = [[[0; LANES]; 4]; 2];
        let [before, after] = &mut words;
        let count = usize::from(bytes).div_ceil(4);
        self.machine.load(at, shared, bytes, &mut before[..count])?;
        let result = what(self.machine)?;
        self.machine.load(at, shared, bytes, &mut after[..count])?;
        self.watch.changed |= before != after;
        Ok(result)
    }
}

impl Env for Observed<'_, '_> {
    fn load(&mut self, at: &Addresses, mask: u64, bytes: u8, out: &mut [Vgpr]) -> Result<(), Fault> {
        self.machine.load(at, mask, bytes, out)?;
        let shared = Self::shared(at, mask);
        if shared != 0 {
            self.watch.waves[self.wave].looked = true;
            let addresses: Vec<u64> = (0..LANES).filter(|l| shared >> l & 1 == 1).map(|l| at[l]).collect();
            self.watch.finds((self.pc, addresses, active(out, shared)));
        }
        Ok(())
    }

    fn store(&mut self, at: &Addresses, mask: u64, bytes: u8, data: &[Vgpr]) -> Result<(), Fault> {
        self.changes(at, mask, bytes, |machine| machine.store(at, mask, bytes, data))
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        at: &Addresses,
        mask: u64,
        bytes: u8,
        data: &[Vgpr],
        old: &mut [Vgpr],
    ) -> Result<(), Fault> {
        self.changes(at, mask, bytes, |machine| machine.atomic(op, at, mask, bytes, data, old))
    }

    fn scalar_load(&mut self, at: u64, out: &mut [u32]) -> Result<(), Fault> {
        self.machine.scalar_load(at, out)
    }

    fn scalar_store(&mut self, at: u64, data: &[u32]) -> Result<(), Fault> {
        self.watch.changed = true;
        self.machine.scalar_store(at, data)
    }

    fn lds(&mut self) -> &mut [u8] {
        // What is done with it is seen in `Watch::executed`.
        self.machine.lds()
    }

    fn message(&mut self, id: u32, m0: u32) {
        self.watch.changed = true;
        self.machine.message(id, m0);
    }

    fn cycles(&mut self) -> u64 {
        self.machine.cycles()
    }

    fn ticks(&mut self) -> u64 {
        self.machine.ticks()
    }

    fn fence(&mut self) {
        self.machine.fence();
    }

    fn gws(&mut self, op: GwsOp, resource: u32, value: u32) -> bool {
        self.machine.gws(op, resource, value)
    }
}

/// Where a wave is that does nothing new.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StalledWave {
    /// Address of the next instruction.
    pub(crate) pc: u64,
    /// Its disassembly.
    pub(crate) instruction: String,
    /// It waits at the workgroup's barrier.
    pub(crate) at_barrier: bool,
}

/// A workgroup and the places of its waves that have not ended, by number.
pub(crate) type StalledWaves = ([u32; 3], Vec<(u32, StalledWave)>);

/// What is known of a dispatch.
pub(crate) struct Watchdog {
    /// Waves that have ended.
    ended: AtomicU64,
    /// Different for each time that the dispatch is watched; 0 when it is not.
    epoch: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// When something was last known to get on, and how many waves had ended then.
    since: Instant,
    ended: u64,
    epochs: u64,
    /// Workgroups that do nothing new in this epoch.
    quiet: BTreeMap<[u32; 3], Vec<(u32, StalledWave)>>,
    reported: bool,
}

impl Watchdog {
    /// Of a dispatch that begins now.
    pub(crate) fn new() -> Watchdog {
        let state = State { since: Instant::now(), ended: 0, epochs: 0, quiet: BTreeMap::new(), reported: false };
        Watchdog { ended: AtomicU64::new(0), epoch: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Counts ended waves.
    pub(crate) fn ended(&self, waves: u64) {
        self.ended.fetch_add(waves, Ordering::Relaxed);
    }

    /// The number under which workgroups are watched now; 0 when they are not.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Has the dispatch watched if no wave has ended for `limit`.
    pub(crate) fn look(&self, limit: Duration) {
        let mut state = lock(&self.state);
        let ended = self.ended.load(Ordering::Relaxed);
        if ended != state.ended {
            state.ended = ended;
            self.gets_on(&mut state);
        } else if !state.reported && self.epoch() == 0 && state.since.elapsed() >= limit {
            state.epochs += 1;
            self.epoch.store(state.epochs, Ordering::Relaxed);
        }
    }

    fn gets_on(&self, state: &mut State) {
        state.since = Instant::now();
        state.quiet.clear();
        self.epoch.store(0, Ordering::Relaxed);
    }

    /// A workgroup that was watched in `epoch` gets on.
    pub(crate) fn progress(&self, epoch: u64) {
        let mut state = lock(&self.state);
        if self.epoch() == epoch {
            self.gets_on(&mut state);
        }
    }

    /// A workgroup that was watched in `epoch` does nothing new. When that makes all `resident` workgroups: where their
    /// waves are, as lines for people.
    pub(crate) fn quiet(&self, epoch: u64, (workgroup, waves): StalledWaves, resident: u64) -> Option<Vec<String>> {
        let mut state = lock(&self.state);
        if self.epoch() != epoch || state.reported {
            return None;
        }
        state.quiet.insert(workgroup, waves);
        if (state.quiet.len() as u64) < resident {
            return None;
        }
        state.reported = true;
        self.epoch.store(0, Ordering::Relaxed);
        Some(lines(&state.quiet))
    }
}

/// One line for each place, with the first wave that is there.
fn lines(quiet: &BTreeMap<[u32; 3], Vec<(u32, StalledWave)>>) -> Vec<String> {
    let mut places: BTreeMap<&StalledWave, (usize, [u32; 3], u32)> = BTreeMap::new();
    for (workgroup, waves) in quiet {
        for (wave, place) in waves {
            places.entry(place).or_insert((0, *workgroup, *wave)).0 += 1;
        }
    }
    let line = |(place, (count, [x, y, z], wave)): (&&StalledWave, &(usize, [u32; 3], u32))| {
        let StalledWave { pc, instruction, at_barrier } = place;
        let barrier = if *at_barrier { ", waits at the barrier before it" } else { "" };
        let others = match count - 1 {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            n => format!(" and {n} others"),
        };
        format!("pc {pc:#x}: {instruction}{barrier}; workgroup {x},{y},{z}, wave {wave}{others}")
    };
    let mut lines: Vec<String> = places.iter().take(PLACES).map(line).collect();
    if places.len() > PLACES {
        lines.push(format!("and waves at {} other places", places.len() - PLACES));
    }
    lines
}
