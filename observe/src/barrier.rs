//! Barriers that not all work-items of a workgroup reach together.
//!
//! The hardware counts waves: those that have ended are not waited for, and a wave arrives whatever lanes are active. What the languages
//! promise is for all work-items alone.

use amdgpu_emu::observer::Step;

use crate::Check;
use crate::finding::{Finding, Findings, Key, Other, Place};

/// The barriers of a workgroup.
#[derive(Default)]
pub(crate) struct Barriers {
    /// Where each wave waits.
    at: Vec<Option<u64>>,
    /// The lanes that each wave began with.
    lanes: Vec<u64>,
}

impl Barriers {
    pub(crate) fn new(lanes: Vec<u64>) -> Barriers {
        Barriers { at: vec![None; lanes.len()], lanes }
    }

    /// A wave is at a barrier.
    pub(crate) fn arrive(&mut self, step: &Step<'_>, place: &Place, findings: &mut Findings) {
        if let Some(at) = self.at.get_mut(step.number) {
            *at = Some(step.pc);
        }
        let began = self.lanes.get(step.number).copied().unwrap_or(u64::MAX);
        let off = began & !step.wave.exec();
        if off != 0 {
            let place = Place { lane: Some(off.trailing_zeros() as u8), ..*place };
            let what = "a barrier is reached by a part of a wave's lanes";
            let key = Key { check: Check::Barrier, pc: step.pc, what, other: None };
            let detail = format!("{} of {} lanes are active", (began & !off).count_ones(), began.count_ones());
            findings.add(key, place, || Finding { place, other: None, address: None, detail, count: 1 });
        }
    }

    /// The waves that have not ended are all at a barrier.
    pub(crate) fn open(&mut self, place: &Place, findings: &mut Findings) {
        let mut waiting = self.at.iter().enumerate().filter_map(|(wave, at)| Some((wave, (*at)?)));
        if let Some((first, pc)) = waiting.next()
            && let Some((other, elsewhere)) = waiting.find(|(_, at)| *at != pc)
        {
            let place = Place { wave: other as u32, lane: None, ..*place };
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
            let place = Place { wave: ended as u32, lane: None, ..*place };
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
