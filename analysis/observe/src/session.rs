//! One dispatch being observed: which observers look at it, and what they saw together.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use amdgpu_emu::Arch;
use amdgpu_emu::isa::access::Parts;
use amdgpu_emu::isa::op::{Access, Flow};
use amdgpu_emu::isa::step::moved;
use amdgpu_emu::launch::Launch;
use amdgpu_emu::observer::{Group, Notes, Observe, Observer, Step};
use logdur_analysis::occupancy::Resources;
use logdur_system::lock;

use crate::allowed::{Divided, implicit};
use crate::by_pc::ByPc;
use crate::check::{Barrier, Dispatch, Look};
use crate::checkers::{Checkers, Groups};
use crate::counts::Counts;
use crate::finding::{Findings, Position};
use crate::heat::Region;
use crate::lds::LdsConflicts;
use crate::lines::MemoryLines;
use crate::outstanding::{Operations, Outstanding};
use crate::pages::Pages;
use crate::registers::Touch;
use crate::seen::Seen;
use crate::{Analysis, Wanted};

/// Which workgroups are observed. All are run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sample {
    /// All.
    #[default]
    All,
    /// So many, evenly spread.
    Count(u64),
    /// So large a part of them, evenly spread: between 0 and 1.
    LaneAccess(f64),
}

impl Sample {
    /// True when workgroup `n` of `total` is one of them.
    pub fn has(self, n: u64, total: u64) -> bool {
        let wanted = match self {
            Sample::All => return true,
            Sample::Count(count) => count,
            Sample::LaneAccess(part) => (part * total as f64).ceil() as u64,
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
    /// The checks of the running dispatch, of which each worker has a clone.
    checks: Mutex<Option<Checkers>>,
}

impl Session {
    /// Of a dispatch on a processor. `regions` are sorted by address, and do not overlap; `more` is memory that the dispatch may
    /// access beside them.
    pub fn new(arch: Arch, wanted: Wanted, sample: Sample, regions: Vec<Region>, more: Vec<Range<u64>>) -> Session {
        let (wanted, divided) = (Arc::new(wanted), Divided::default());
        let (seen, checks) = (Mutex::default(), Mutex::default());
        Session { arch, wanted, sample, regions, more, divided, seen, checks }
    }

    /// The same session, where the dispatch may access only parts of some allocations.
    pub fn divided(mut self, divided: Divided) -> Session {
        self.divided = divided;
        self
    }

    /// The checks that are wanted of a dispatch.
    fn checkers(&self, launch: &Launch) -> Checkers {
        let (regions, more, divided) = (&*self.regions, &*self.more, &self.divided);
        let partial = self.sample != Sample::All;
        Checkers::new(&self.wanted, &Dispatch { launch, regions, more, divided, partial })
    }

    /// What was seen since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut lock(&self.seen))
    }

    /// The regions.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
}

impl Observe for Session {
    fn observer(&self, launch: &Launch) -> Box<dyn Observer> {
        let any = |analyses: &[Analysis]| analyses.iter().any(|analysis| self.wanted.analyses(*analysis));
        Box::new(Worker {
            sample: self.sample,
            total: launch.total(),
            counts: any(&[Analysis::Mix, Analysis::Blocks, Analysis::Occupancy]).then(Counts::default),
            lines: any(&[Analysis::Lines, Analysis::Heat])
                .then(|| MemoryLines::new(self.arch.row(), &self.regions, implicit(launch))),
            pages: self.wanted.page.map(|page| Pages::new(page, implicit(launch).to_vec())),
            lds: any(&[Analysis::Lds]).then(|| LdsConflicts::new(self.arch.row().lds.banks)),
            checks: (!self.wanted.checks.is_empty()).then(|| {
                let mut checks = lock(&self.checks);
                checks.get_or_insert_with(|| self.checkers(launch)).clone()
            }),
            touches: ByPc::default(),
            findings: Findings::default(),
            workgroups: 0,
            waves: BTreeMap::new(),
        })
    }

    fn ended(&self, launch: &Launch, observers: Vec<Box<dyn Observer>>) {
        let mut seen = lock(&self.seen);
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
        if let Some(checks) = lock(&self.checks).take() {
            checks.judge(launch, &mut seen);
        }
    }
}

/// A workgroup being observed.
struct Observed {
    place: Position,
    /// Of each wave, what is not done; none where no check looks at it.
    outstanding: Vec<Outstanding>,
    checks: Option<Groups>,
}

/// The observers of one worker.
struct Worker {
    sample: Sample,
    total: u64,
    counts: Option<Counts>,
    lines: Option<MemoryLines>,
    pages: Option<Pages>,
    lds: Option<LdsConflicts>,
    checks: Option<Checkers>,
    /// By instruction, for checks that look at outstanding operations.
    touches: ByPc<Option<Box<Touch>>>,
    findings: Findings,
    workgroups: u64,
    /// By the work-items of a wave.
    waves: BTreeMap<u32, u64>,
}

impl Worker {
    fn into_seen(self, seen: &mut Seen) {
        seen.workgroups += self.workgroups;
        self.waves.into_iter().for_each(|(items, waves)| *seen.waves.entry(items).or_default() += waves);
        self.counts.into_iter().for_each(|counts| seen.add_counts(counts));
        self.lines.into_iter().for_each(|lines| seen.add_lines(lines));
        self.pages.into_iter().for_each(|pages| seen.add_pages(pages));
        self.lds.into_iter().for_each(|lds| seen.add_lds(lds));
        seen.findings.merge(self.findings);
    }

    /// The checks look at an instruction.
    fn check(&mut self, observed: &mut Observed, step: &Step<'_>, parts: Option<&Parts>) {
        let (Some(checks), Some(groups)) = (&mut self.checks, &mut observed.checks) else { return };
        let place = &Position { wave: step.number as u32, ..observed.place };
        let moved = moved(step.wave, step.inst);
        let (inst, is_moved) = (moved.as_ref().unwrap_or(step.inst), moved.is_some());
        let fresh;
        let operations = match observed.outstanding.get_mut(step.number) {
            Some(outstanding) if is_moved => {
                fresh = Touch::of(step.wave, inst);
                Some(Operations { touch: &fresh, outstanding })
            }
            Some(outstanding) => {
                let touch = self.touches.at(step.pc).get_or_insert_with(|| Box::new(Touch::of(step.wave, inst)));
                Some(Operations { touch, outstanding })
            }
            None => None,
        };
        let mut look = Look { step, inst, is_moved, parts, place, operations, findings: &mut self.findings };
        checks.before(groups, &mut look);
        if let Some(operations) = &mut look.operations {
            operations.issue(step, parts);
            checks.issued(groups, &mut look);
        }
    }
}

impl Observer for Worker {
    fn begin(&mut self, group: &Group<'_>) -> Option<Notes> {
        if !self.sample.has(group.number, self.total) {
            return None;
        }
        self.workgroups += 1;
        for wave in &group.waves {
            *self.waves.entry(wave.exec().count_ones()).or_default() += 1;
        }
        let follows = self.checks.as_ref().is_some_and(Checkers::look_at_operations);
        Some(Box::new(Observed {
            place: Position { group: group.number, workgroup: group.at, wave: 0, lane: None },
            outstanding: vec![Outstanding::default(); if follows { group.waves.len() } else { 0 }],
            checks: self.checks.as_mut().map(|checks| checks.begin(group)),
        }))
    }

    #[inline]
    fn before(&mut self, notes: &mut Notes, step: &Step<'_>) {
        if let Some(counts) = &mut self.counts {
            counts.before(step);
        }
        let memory = step.inst.op.access != Access::None;
        let looks_at_memory = self.lines.is_some() || self.lds.is_some() || self.pages.is_some();
        if !(self.checks.is_some() || memory && looks_at_memory) {
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
        self.check(observed, step, parts.as_ref());
    }

    #[inline]
    fn after(&mut self, notes: &mut Notes, step: &Step<'_>, _flow: Flow) {
        if let Some(counts) = &mut self.counts {
            counts.after(step);
        }
        if let Some(checks) =
            self.checks.as_mut().filter(|checks| checks.look_after() && step.inst.op.access != Access::None)
            && let Some(Observed { checks: Some(groups), outstanding, .. }) = notes.downcast_mut::<Observed>()
        {
            checks.after(groups, step, outstanding.get(step.number));
        }
    }

    fn barrier(&mut self, notes: &mut Notes) {
        if let Some(checks) = &mut self.checks
            && let Some(Observed { checks: Some(groups), outstanding, place }) = notes.downcast_mut::<Observed>()
        {
            checks.barrier(groups, &mut Barrier { place, outstanding, findings: &mut self.findings });
        }
    }

    fn end(&mut self, notes: Notes) {
        if let Some(checks) = &mut self.checks
            && let Ok(observed) = notes.downcast::<Observed>()
            && let Some(groups) = observed.checks
        {
            checks.end(groups, &mut self.findings);
        }
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
        assert_eq!(chosen(Sample::LaneAccess(0.3), 10), [0, 3, 6]);
        for total in [1u64, 7, 100, 1021] {
            for count in 1..=total {
                assert_eq!(chosen(Sample::Count(count), total).len() as u64, count);
            }
        }
    }
}
