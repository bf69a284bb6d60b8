//! Barriers that not all work-items of a workgroup reach together.
//!
//! The hardware counts waves: those that have ended are not waited for, and a wave arrives whatever lanes are active. What the languages
//! promise is for all work-items alone.

use amdgpu_emu::isa::op::Flags;
use amdgpu_emu::observer::{Group, Step};

use crate::Check;
use crate::check::{Barrier, Checker, Dispatch, Look};
use crate::finding::{Finding, Findings, Key, Other, Position};

/// The check.
#[derive(Clone, Debug)]
pub(crate) struct Barriers;

impl Checker for Barriers {
    type Group = Waiting;

    fn new(_: &Dispatch<'_>) -> Barriers {
        Barriers
    }

    fn begin(&mut self, group: &Group<'_>) -> Waiting {
        let lanes: Vec<u64> = group.waves.iter().map(|wave| wave.exec()).collect();
        Waiting { at: vec![None; lanes.len()], lanes }
    }

    #[inline]
    fn before(&mut self, waiting: &mut Waiting, look: &mut Look<'_>) {
        if look.step.inst.op.flags.has(Flags::BARRIER) {
            waiting.arrive(look.step, look.place, look.findings);
        }
    }

    fn barrier(&mut self, waiting: &mut Waiting, barrier: &mut Barrier<'_>) {
        waiting.open(barrier.place, barrier.findings);
    }
}

/// The waves of a workgroup.
pub(crate) struct Waiting {
    /// Where each wave waits.
    at: Vec<Option<u64>>,
    /// The lanes that each wave began with.
    lanes: Vec<u64>,
}

impl Waiting {
    /// A wave is at a barrier.
    fn arrive(&mut self, step: &Step<'_>, place: &Position, findings: &mut Findings) {
        if let Some(at) = self.at.get_mut(step.number) {
            *at = Some(step.pc);
        }
        let began = self.lanes.get(step.number).copied().unwrap_or(u64::MAX);
        let off = began & !step.wave.exec();
        if off != 0 {
            let place = Position { lane: Some(off.trailing_zeros() as u8), ..*place };
            let what = "a barrier is reached by a part of a wave's lanes";
            let key = Key { check: Check::Barrier, pc: step.pc, what, other: None };
            let detail = format!("{} of {} lanes are active", (began & !off).count_ones(), began.count_ones());
            findings.add(key, place, || Finding { place, other: None, address: None, detail, count: 1 });
        }
    }

    /// The waves that have not ended are all at a barrier.
    fn open(&mut self, place: &Position, findings: &mut Findings) {
        let mut waiting = self.at.iter().enumerate().filter_map(|(wave, at)| Some((wave, (*at)?)));
        if let Some((first, pc)) = waiting.next()
            && let Some((other, elsewhere)) = waiting.find(|(_, at)| *at != pc)
        {
            let place = Position { wave: other as u32, lane: None, ..*place };
            let key = Key {
                check: Check::Barrier,
                pc: elsewhere,
                what: "waves of a workgroup meet at different barriers",
                other: Some(pc),
            };
            let other = Some(Other { pc, workgroup: None, wave: first as u32, lane: None });
            findings.add(key, place, || Finding { place, other, address: None, detail: String::new(), count: 1 });
        }
        let ended = self.at.iter().position(Option::is_none);
        let waiting = self.at.iter().flatten().next();
        if let (Some(ended), Some(pc)) = (ended, waiting) {
            let place = Position { wave: ended as u32, lane: None, ..*place };
            let key = Key {
                check: Check::Barrier,
                pc: *pc,
                what: "a wave has ended while others wait at a barrier",
                other: None,
            };
            findings.add(key, place, || Finding { place, other: None, address: None, detail: String::new(), count: 1 });
        }
        self.at.fill(None);
    }
}
