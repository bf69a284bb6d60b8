//! Instructions that follow another one too early: wait states that the program has to insert, and that are missing.
//!
//! Exact for the path that was executed, by the rules of `logdur_analysis::hazards`.

use std::sync::Arc;

use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::uses::Registers;
use amdgpu_emu::isa::wave::{VGPRS, Wave};
use amdgpu_emu::observer::{Group, Step};
use logdur_analysis::hazards::{About, MOST, Meets, RULES, Sides};

use crate::Check;
use crate::by_pc::ByPc;
use crate::check::{Checker, Dispatch, Look};
use crate::finding::{Finding, Findings, Key, Other, Position};
use crate::registers::{SCALARS, name};

/// The most wait states of rules that are not about matrix instructions.
const NEAR: u64 = 5;
/// Instructions that are remembered: as many as can lie within the most wait states.
const KEPT: usize = 32;

/// The check.
#[derive(Clone, Debug)]
pub(crate) struct Hazards {
    /// By instruction.
    sides: ByPc<Option<Arc<Resolved>>>,
}

impl Checker for Hazards {
    /// Of each wave.
    type Group = Vec<Recent>;

    fn new(_: &Dispatch<'_>) -> Hazards {
        Hazards { sides: ByPc::default() }
    }

    fn begin(&mut self, group: &Group<'_>) -> Vec<Recent> {
        vec![Recent::default(); group.waves.len()]
    }

    #[inline]
    fn before(&mut self, waves: &mut Vec<Recent>, look: &mut Look<'_>) {
        let Some(recent) = waves.get_mut(look.step.number) else { return };
        let resolved = || Resolved::of(look.step.wave, look.inst);
        if look.is_moved {
            recent.executes(look.step, &resolved(), look.place, look.findings);
        } else {
            let sides = self.sides.at(look.step.pc).get_or_insert_with(resolved);
            recent.executes(look.step, sides, look.place, look.findings);
        }
    }
}

/// What of an instruction a rule is about, by numbers of registers: first, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spans {
    Registers(Box<[(u16, u16)]>),
    Hardware(u32),
    Itself,
}

impl Spans {
    fn of(wave: &Wave, about: &About) -> Spans {
        let number = |range: &Registers| match range.first.is_vector() {
            true => wave.vgpr_index(range.first, 0),
            false => VGPRS + usize::from(range.first.0) % SCALARS,
        };
        match about {
            About::Registers(ranges) => {
                Spans::Registers(ranges.iter().map(|range| (number(range) as u16, range.count as u16)).collect())
            }
            About::Hardware(number) => Spans::Hardware(*number),
            About::Itself => Spans::Itself,
        }
    }

    /// The number of the first register of both; `None` where they have nothing in common.
    fn common(&self, other: &Spans) -> Option<Option<usize>> {
        match (self, other) {
            (Spans::Registers(mine), Spans::Registers(others)) => {
                let pairs = mine.iter().flat_map(|mine| others.iter().map(move |other| (mine, other)));
                let of_pair = |((a, m), (b, n)): (&(u16, u16), &(u16, u16))| {
                    let (start, end) = (*a.max(b), (a + m).min(b + n));
                    (start < end).then_some(start)
                };
                pairs.filter_map(of_pair).min().map(|first| Some(first.into()))
            }
            (mine, other) => (mine == other).then_some(None),
        }
    }
}

/// An instruction as a side of a rule.
#[derive(Clone, Debug)]
struct RuleSide {
    rule: u8,
    states: u32,
    about: Spans,
}

/// What the rules say of an instruction of a kernel's waves.
#[derive(Debug)]
pub(crate) struct Resolved {
    name: &'static str,
    states: u64,
    /// Rules by number: those in which it is first, later, or what lies between.
    offered: u128,
    needed: u128,
    between: u128,
    /// Some rule in which it is first asks for more than [`NEAR`].
    far: bool,
    offers: Box<[RuleSide]>,
    needs: Box<[RuleSide]>,
}

impl Resolved {
    /// Of an instruction of a wave: of all waves of its kernel.
    fn of(wave: &Wave, inst: &Inst) -> Arc<Resolved> {
        let sides = Sides::of(wave.arch, inst);
        let part =
            |rule: usize, states, about: &About| RuleSide { rule: rule as u8, states, about: Spans::of(wave, about) };
        let bits = |rules: &mut dyn Iterator<Item = usize>| rules.fold(0u128, |all, rule| all | 1 << rule);
        Arc::new(Resolved {
            name: sides.name,
            states: sides.states.into(),
            offered: bits(&mut sides.offers.iter().map(|offer| offer.rule)),
            needed: bits(&mut sides.needs.iter().map(|need| need.rule)),
            between: sides.between,
            far: sides.offers.iter().any(|offer| u64::from(offer.states) > NEAR),
            offers: sides.offers.iter().map(|offer| part(offer.rule, offer.states, &offer.about)).collect(),
            needs: sides.needs.iter().map(|need| part(need.rule, 0, &need.about)).collect(),
        })
    }
}

/// An instruction that was executed.
#[derive(Clone, Debug)]
struct Executed {
    /// Wait states of the wave until it was done.
    at: u64,
    pc: u64,
    sides: Arc<Resolved>,
}

/// The last instructions of a wave that rules are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// Wait states so far.
    now: u64,
    /// Of the last instruction that asks for more than [`NEAR`].
    far: Option<u64>,
    /// The last in any order; where the next one goes.
    kept: Vec<Executed>,
    next: usize,
}

impl Recent {
    /// A wave executes an instruction.
    #[inline]
    fn executes(&mut self, step: &Step<'_>, sides: &Arc<Resolved>, place: &Position, findings: &mut Findings) {
        if sides.needed != 0 {
            let far = self.far.is_some_and(|far| self.now - far < MOST.into());
            self.look(step, sides, if far { MOST.into() } else { NEAR }, place, findings);
        }
        self.now += sides.states;
        if sides.offered | sides.between == 0 {
            return;
        }
        if sides.far {
            self.far = Some(self.now);
        }
        let executed = Executed { at: self.now, pc: step.pc, sides: sides.clone() };
        match self.kept.get_mut(self.next) {
            Some(oldest) => *oldest = executed,
            None => self.kept.push(executed),
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// The last instructions, youngest first.
    fn last(&self) -> impl Iterator<Item = &Executed> {
        let (older, younger) = (self.kept.get(self.next..).unwrap_or_default(), self.kept.get(..self.next));
        younger.unwrap_or(&self.kept).iter().rev().chain(older.iter().rev())
    }

    #[inline]
    fn look(&self, step: &Step<'_>, sides: &Arc<Resolved>, depth: u64, place: &Position, findings: &mut Findings) {
        let mut between = 0;
        for first in self.last() {
            let since = self.now - first.at;
            if since >= depth {
                break;
            }
            let both = first.sides.offered & sides.needed;
            if both != 0 {
                pair(step, first, sides, (both, since, between), place, findings);
            }
            between |= first.sides.between;
        }
    }
}

/// Two instructions that some rules name.
fn pair(
    step: &Step<'_>,
    first: &Executed,
    second: &Resolved,
    (both, since, between): (u128, u64, u128),
    place: &Position,
    findings: &mut Findings,
) {
    for offer in first.sides.offers.iter().filter(|offer| both >> offer.rule & 1 == 1) {
        let rule = &RULES[usize::from(offer.rule)];
        if since >= offer.states.into() || rule.between.is_some() && between >> offer.rule & 1 == 0 {
            continue;
        }
        for need in second.needs.iter().filter(|need| need.rule == offer.rule) {
            let Some(common) = offer.about.common(&need.about) else { continue };
            let exactly = offer.about == need.about;
            let lies = match rule.meets {
                Meets::Anywhere => true,
                Meets::Exactly => exactly,
                Meets::Partly => !exactly,
            };
            if !lies || !(rule.pairs)(first.sides.name, second.name) {
                continue;
            }
            let missing = u64::from(offer.states) - since;
            let key = Key { check: Check::Hazard, pc: step.pc, what: rule.says, other: Some(first.pc) };
            findings.add(key, *place, || {
                let register = common.map_or_else(String::new, |n| format!("{}: ", name(step.wave, n)));
                Finding {
                    place: *place,
                    other: Some(Other { pc: first.pc, workgroup: None, wave: place.wave, lane: None }),
                    address: None,
                    detail: format!(
                        "{register}{since} of {} wait states; s_nop {} is missing",
                        offer.states,
                        missing - 1
                    ),
                    count: 1,
                }
            });
        }
    }
}
