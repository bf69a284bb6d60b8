//! One dispatch being observed: which observers look at it, and what they saw together.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use amdgpu_emu::Arch;
use amdgpu_emu::isa::access::{Parts, Space};
use amdgpu_emu::isa::op::{Access, Flags, Flow};
use amdgpu_emu::isa::step::moved;
use amdgpu_emu::launch::Launch;
use amdgpu_emu::observer::{Group, Notes, Observe, Observer, Step};
use logdur_analysis::occupancy::Resources;
use logdur_analysis::processor::processor;

use crate::barrier::Barriers;
use crate::between::{Between, Ordered};
use crate::bounds::{Bounds, Divided, Partly};
use crate::by_pc::ByPc;
use crate::counts::Counts;
use crate::finding::{Findings, Place};
use crate::hazard::{Recent, Resolved};
use crate::heat::Region;
use crate::init::Init;
use crate::lds::LdsConflicts;
use crate::lines::MemoryLines;
use crate::outstanding::Outstanding;
use crate::pages::Pages;
use crate::race::Race;
use crate::registers::Touch;
use crate::seen::Seen;
use crate::{Analysis, Check, Wanted, wait};

/// The page of arguments that a replay gives to a dispatch.
const KERNARG: u32 = 4096;
/// Bytes of the queue's structure, which kernels may read. Source: `amd_queue.h`.
const QUEUE: u64 = 256;

/// Which workgroups are observed. All are run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sample {
    /// All.
    #[default]
    All,
    /// So many, evenly spread.
    Count(u64),
    /// So large a part of them, evenly spread: between 0 and 1.
    Part(f64),
}

impl Sample {
    /// True when workgroup `n` of `total` is one of them.
    pub fn has(self, n: u64, total: u64) -> bool {
        let wanted = match self {
            Sample::All => return true,
            Sample::Count(count) => count,
            Sample::Part(part) => (part * total as f64).ceil() as u64,
        };
        let (n, total, wanted) = (u128::from(n), u128::from(total.max(1)), u128::from(wanted.clamp(1, total.max(1))));
        // The multiples of `total / wanted` lie in so many of the intervals from `n` to `n + 1`.
        (n * wanted).div_ceil(total) < ((n + 1) * wanted).div_ceil(total)
    }
}

/// One dispatch being observed.
#[derive(Debug)]
pub struct Session {
    arch: Arch,
    wanted: Arc<Wanted>,
    sample: Sample,
    regions: Vec<Region>,
    /// Memory without a name of its own that the dispatch may access.
    more: Vec<Range<u64>>,
    divided: Divided,
    seen: Mutex<Seen>,
    /// What the workers of the running dispatch share.
    between: Mutex<Option<Arc<Between>>>,
}

impl Session {
    /// Of a dispatch on a processor. `regions` are sorted by address, and do not overlap; `more` is memory that the dispatch may
    /// access beside them.
    pub fn new(arch: Arch, wanted: Wanted, sample: Sample, regions: Vec<Region>, more: Vec<Range<u64>>) -> Session {
        let (wanted, divided) = (Arc::new(wanted), Divided::default());
        let (seen, between) = (Mutex::default(), Mutex::default());
        Session { arch, wanted, sample, regions, more, divided, seen, between }
    }

    /// The same session, where the dispatch may access only parts of some allocations.
    pub fn divided(mut self, divided: Divided) -> Session {
        self.divided = divided;
        self
    }

    /// What a dispatch may access: what is named, and what its packet leads to.
    fn bounds(&self, launch: &Launch) -> Bounds {
        let mut memory: Vec<Range<u64>> = self.regions.iter().map(|region| region.range.clone()).collect();
        memory.extend(self.more.iter().cloned().chain(implicit(launch)));
        let scratch = (launch.scratch.into(), u64::from(launch.scratch_of_wave()));
        Bounds::new(&memory, &self.divided, launch.lds.into(), scratch.0, scratch.1)
    }

    /// What was seen since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The regions.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
}

/// What the packet of a dispatch leads to: arguments, the packet itself, the queue.
fn implicit(launch: &Launch) -> [Range<u64>; 3] {
    let own = |at: u64, bytes: u64| at..at.saturating_add(bytes);
    [
        own(launch.kernarg_address, launch.descriptor.kernarg_size.max(KERNARG).into()),
        own(launch.packet_address, 64),
        own(launch.queue_address, QUEUE),
    ]
}

impl Observe for Session {
    fn observer(&self, launch: &Launch) -> Box<dyn Observer> {
        let any = |analyses: &[Analysis]| analyses.iter().any(|analysis| self.wanted.analyses(*analysis));
        let sizes = processor(self.arch);
        Box::new(Worker {
            sample: self.sample,
            total: launch.total(),
            counts: any(&[Analysis::Mix, Analysis::Blocks, Analysis::Occupancy]).then(Counts::default),
            lines: any(&[Analysis::Lines, Analysis::Heat])
                .then(|| MemoryLines::new(sizes, &self.regions, implicit(launch))),
            pages: self.wanted.page.map(|page| Pages::new(page, implicit(launch).to_vec())),
            lds: any(&[Analysis::Lds]).then(LdsConflicts::default),
            checks: !self.wanted.checks.is_empty(),
            bounds: self.wanted.checks(Check::Memory).then(|| Arc::new(self.bounds(launch))),
            between: self.wanted.checks(Check::Race).then(|| {
                let mut shared = self.between.lock().unwrap_or_else(PoisonError::into_inner);
                shared.get_or_insert_with(|| Arc::new(Between::new(&self.regions, launch))).clone()
            }),
            not_judged: 0,
            spare: None,
            wanted: self.wanted.clone(),
            touches: ByPc::default(),
            sides: ByPc::default(),
            findings: Findings::default(),
            workgroups: 0,
        })
    }

    fn ended(&self, launch: &Launch, observers: Vec<Box<dyn Observer>>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.total = launch.total();
        seen.resources = Some(Resources {
            vgprs: launch.descriptor.vgpr_count(self.arch.unified_registers()),
            sgprs: launch.descriptor.sgpr_count(),
            lds: launch.lds,
            waves: launch.workgroup.iter().product::<u32>().div_ceil(64),
        });
        for observer in observers {
            let any: Box<dyn Any> = observer;
            if let Ok(worker) = any.downcast::<Worker>() {
                worker.into_seen(&mut seen);
            }
        }
        let between = self.between.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(between) = between {
            let seen = &mut *seen;
            seen.between.get_or_insert_default().share = between.judge(launch, &mut seen.findings);
        }
    }
}

/// A workgroup being observed.
struct Observed {
    place: Place,
    /// Of each wave, what is not done; none where no check asks for it.
    outstanding: Vec<Outstanding>,
    barriers: Option<Barriers>,
    bounds: Option<Arc<Bounds>>,
    init: Option<Init>,
    race: Option<Race>,
    ordered: Ordered,
    /// Reads over the end of an allocation that may be parts of atomics.
    partly: Vec<Partly>,
    /// Of each wave, the last instructions; none where the check is not wanted.
    recent: Vec<Recent>,
}

/// The observers of one worker.
struct Worker {
    wanted: Arc<Wanted>,
    sample: Sample,
    total: u64,
    counts: Option<Counts>,
    lines: Option<MemoryLines>,
    pages: Option<Pages>,
    lds: Option<LdsConflicts>,
    /// Some check is wanted.
    checks: bool,
    bounds: Option<Arc<Bounds>>,
    between: Option<Arc<Between>>,
    /// Accesses that races between workgroups were not looked for at.
    not_judged: u64,
    /// Of a workgroup that has ended.
    spare: Option<Race>,
    touches: ByPc<Option<Box<Touch>>>,
    sides: ByPc<Option<Arc<Resolved>>>,
    findings: Findings,
    workgroups: u64,
}

impl Worker {
    fn into_seen(self, seen: &mut Seen) {
        seen.workgroups += self.workgroups;
        self.counts.into_iter().for_each(|counts| seen.add_counts(counts));
        self.lines.into_iter().for_each(|lines| seen.add_lines(lines));
        self.pages.into_iter().for_each(|pages| seen.add_pages(pages));
        self.lds.into_iter().for_each(|lds| seen.add_lds(lds));
        seen.findings.merge(self.findings);
        if self.between.is_some() {
            seen.between.get_or_insert_default().not_judged += self.not_judged;
        }
    }

    /// The checks look at an instruction.
    fn check(&mut self, observed: &mut Observed, step: &Step<'_>, parts: Option<&Parts>) {
        let place = Place { wave: step.number as u32, ..observed.place };
        let moved = moved(step.wave, step.inst);
        let inst = moved.as_ref().unwrap_or(step.inst);
        let findings = &mut self.findings;
        if let Some(outstanding) = observed.outstanding.get_mut(step.number) {
            let fresh;
            let touch: &Touch = match &moved {
                Some(inst) => {
                    fresh = Touch::of(step.wave, inst);
                    &fresh
                }
                None => self.touches.at(step.pc).get_or_insert_with(|| Box::new(Touch::of(step.wave, step.inst))),
            };
            if step.inst.op.name == "s_waitcnt" {
                outstanding.wait(step.inst);
            } else {
                if touch.touches(outstanding.pending()) && self.wanted.checks(Check::Wait) {
                    wait::hazard(step, touch, outstanding, &place, findings);
                }
                wait::issue(step, touch, outstanding);
            }
        }
        if let Some(recent) = observed.recent.get_mut(step.number) {
            match &moved {
                Some(inst) => recent.executes(step, &Resolved::of(step.wave, inst), &place, findings),
                None => {
                    let sides = self.sides.at(step.pc).get_or_insert_with(|| Resolved::of(step.wave, step.inst));
                    recent.executes(step, sides, &place, findings);
                }
            }
        }
        if let Some(init) = &mut observed.init {
            init.before(step, inst, parts, &place, findings);
        }
        for (n, part) in parts.into_iter().flat_map(Parts::iter).enumerate() {
            if let Some(bounds) = &observed.bounds {
                bounds.access(step, part, &place, &mut observed.partly, findings);
            }
            if let (Some(between), Space::Memory) = (&self.between, part.space) {
                self.not_judged += between.access(step, n, part, &place, &observed.ordered);
            }
            if let (Some(race), Space::Lds) = (&mut observed.race, part.space) {
                race.access(step, n, part, &place, findings);
                if let Some(outstanding) = observed.outstanding.get_mut(step.number) {
                    outstanding.accesses_lds(part);
                }
            }
        }
        observed.ordered.executes(step, parts);
        if let Some(barriers) = &mut observed.barriers
            && step.inst.op.flags.has(Flags::BARRIER)
        {
            barriers.arrive(step, &place, findings);
        }
    }
}

impl Observer for Worker {
    fn begin(&mut self, group: &Group<'_>) -> Option<Notes> {
        if !self.sample.has(group.number, self.total) {
            return None;
        }
        self.workgroups += 1;
        let wants = |check| self.wanted.checks(check);
        let follows = wants(Check::Wait) || wants(Check::Race);
        let count = if follows { group.waves.len() } else { 0 };
        Some(Box::new(Observed {
            place: Place { group: group.number, workgroup: group.at, wave: 0, lane: None },
            outstanding: vec![Outstanding::default(); count],
            barriers: wants(Check::Barrier)
                .then(|| Barriers::new(group.waves.iter().map(|wave| wave.exec()).collect())),
            bounds: self.bounds.clone(),
            init: wants(Check::Init).then(|| Init::new(group)),
            race: wants(Check::Race).then(|| self.spare.take().map_or_else(|| Race::new(group.lds), Race::again)),
            ordered: Ordered::new(if wants(Check::Race) { group.waves.len() } else { 0 }),
            partly: Vec::new(),
            recent: vec![Recent::default(); if wants(Check::Hazard) { group.waves.len() } else { 0 }],
        }))
    }

    #[inline]
    fn before(&mut self, notes: &mut Notes, step: &Step<'_>) {
        if let Some(counts) = &mut self.counts {
            counts.before(step);
        }
        let memory = step.inst.op.access != Access::None;
        let looks_at_memory = self.lines.is_some() || self.lds.is_some() || self.pages.is_some();
        if !(self.checks || memory && looks_at_memory) {
            return;
        }
        let Some(observed) = notes.downcast_mut::<Observed>() else { return };
        let parts = step.accesses();
        for part in parts.iter().flat_map(Parts::iter) {
            if let Some(lines) = &mut self.lines {
                lines.access(step, observed.place.group, part);
            }
            if let Some(pages) = &mut self.pages {
                pages.access(part);
            }
            if let Some(lds) = &mut self.lds {
                lds.access(step, part);
            }
        }
        if self.checks {
            self.check(observed, step, parts.as_ref());
        }
    }

    #[inline]
    fn after(&mut self, _notes: &mut Notes, step: &Step<'_>, _flow: Flow) {
        if let Some(counts) = &mut self.counts {
            counts.after(step);
        }
    }

    fn barrier(&mut self, notes: &mut Notes) {
        let Some(observed) = notes.downcast_mut::<Observed>() else { return };
        if let Some(barriers) = &mut observed.barriers {
            barriers.open(&observed.place, &mut self.findings);
        }
        if let Some(race) = &mut observed.race {
            race.barrier(observed.outstanding.iter());
        }
        observed.ordered.barrier();
    }

    fn end(&mut self, notes: Notes) {
        let Ok(observed) = notes.downcast::<Observed>() else { return };
        if let Some(bounds) = observed.bounds {
            bounds.end(observed.partly, &mut self.findings);
        }
        self.spare = observed.race;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_as_many_workgroups_as_were_asked_for_and_spreads_them() {
        let chosen = |sample: Sample, total: u64| (0..total).filter(|n| sample.has(*n, total)).collect::<Vec<u64>>();
        assert_eq!(chosen(Sample::All, 3), [0, 1, 2]);
        assert_eq!(chosen(Sample::Count(2), 10), [0, 5]);
        assert_eq!(chosen(Sample::Count(20), 3), [0, 1, 2]);
        assert_eq!(chosen(Sample::Part(0.3), 10), [0, 3, 6]);
        for total in [1u64, 7, 100, 1021] {
            for count in 1..=total {
                assert_eq!(chosen(Sample::Count(count), total).len() as u64, count);
            }
        }
    }
}
