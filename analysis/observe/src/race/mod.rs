//! Races in memory and in LDS: two waves access the same bytes, one of them writes, and nothing orders the two.
//!
//! What orders accesses is a barrier of a workgroup, and what a wave releases by an atomic and another one gets by reading its value
//! ([`clocks`]). Plain accesses are compared with each other and with atomics; atomics, and loads that are coherent, are not compared
//! with each other. Before gfx942, a plain store may be an atomic one: a coherent load gets what it releases, and stores to memory that
//! coherent loads access are not compared. Loops that load the same again until its value changes are coherent loads, too.
//!
//! Stores of the same value are no race: compilers let several waves do a store.
//!
//! # Threads
//! A release is noted before the wave's access is executed, and what an access gets is looked for behind it. So whoever reads a value
//! finds what was released with it.

mod cell;
mod clocks;
mod kinds;
mod lanes;
mod order;
mod poll;
mod shadow;
mod stored;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use amdgpu_emu::isa::access::{Does, LaneAccess, Parts, Space};
use amdgpu_emu::isa::atomic::AtomicOp;
use amdgpu_emu::isa::inst::{Inst, control};
use amdgpu_emu::isa::op::{Access as Op, Family, Flags};
use amdgpu_emu::launch::Launch;
use amdgpu_emu::observer::{self, SCRATCH_WINDOW, Step};
use logdur_system::lock;

use crate::Check;
use crate::by_pc::ByPc;
use crate::check::{Barrier, Checker, Dispatch, Look};
use crate::finding::{Finding, Findings, Key, Other, Position};
use crate::outstanding::{Operations, Outstanding, counts, is_wait};
use crate::seen::{Looked, Seen};

use cell::{By, Write, flag};
use clocks::{Clocks, Me};
use kinds::Kind;
use order::{Order, Source};
use poll::is_poll;
use shadow::{Access, PAGE, Shadow, Slot, What};
use stored::Stored;

/// Bytes that the shadow of memory takes at most.
const LIMIT: usize = 1 << 30;
/// In a dispatch of no more waves, each access is kept.
const SMALL: u64 = 64;

/// The check.
#[derive(Clone, Debug)]
pub(crate) struct Races {
    between: Arc<Between>,
    /// By instruction, whether it is a load that a loop does again until its value changes.
    polls: ByPc<Option<bool>>,
    /// LDS of a workgroup that has ended.
    spare: Option<Lds>,
}

impl Checker for Races {
    type Group = Group;

    const OUTSTANDING: bool = true;
    const AFTER: bool = true;

    fn new(dispatch: &Dispatch<'_>) -> Races {
        Races { between: Arc::new(Between::new(dispatch)), polls: ByPc::default(), spare: None }
    }

    fn begin(&mut self, group: &observer::Group<'_>) -> Group {
        let lds = self.spare.take().unwrap_or_else(|| Lds::new(group.lds));
        Group::new(group.number, group.at, group.waves.len(), lds)
    }

    #[inline]
    fn issued(&mut self, group: &mut Group, look: &mut Look<'_>) {
        let Some(Operations { outstanding, .. }) = &look.operations else { return };
        let step = look.step;
        if is_wait(step.inst) {
            group.waits(&self.between, step, outstanding);
        } else if look.parts.is_some() || matches!(step.inst.op.family, Family::Mubuf | Family::Ds) {
            let polls = *self.polls.at(step.pc).get_or_insert_with(|| is_poll(step));
            group.executes(&self.between, step, look.parts, outstanding, polls, look.findings);
        }
    }

    #[inline]
    fn after(&mut self, group: &mut Group, step: &Step<'_>, outstanding: Option<&Outstanding>) {
        if let Some(outstanding) = outstanding {
            group.executed(&self.between, step, outstanding);
        }
    }

    fn barrier(&mut self, group: &mut Group, barrier: &mut Barrier<'_>) {
        group.barrier(&self.between, barrier.outstanding);
    }

    fn end(&mut self, group: Group, findings: &mut Findings) {
        self.spare = Some(group.end(&self.between, findings));
    }

    fn judge(&self, launch: &Launch, seen: &mut Seen) {
        let looked = self.between.judge(launch, &mut seen.findings);
        let all = seen.between.get_or_insert_default();
        (all.not_judged, all.share) = (all.not_judged + looked.not_judged, looked.share);
    }
}

/// The memory of a dispatch.
#[derive(Debug)]
struct Between {
    shadow: Shadow,
    order: Order,
    /// What waves brought to meetings of workgroups (GWS).
    met: Mutex<Vec<Source>>,
    not_judged: AtomicU64,
    entry: u64,
    small: bool,
    /// Not all workgroups are observed.
    partial: bool,
}

impl Between {
    fn new(&Dispatch { launch, regions, partial, .. }: &Dispatch<'_>) -> Between {
        let waves = u64::from(launch.workgroup.iter().product::<u32>().div_ceil(64));
        Between {
            shadow: Shadow::new(regions, LIMIT),
            order: Order::default(),
            met: Mutex::default(),
            not_judged: AtomicU64::new(0),
            entry: launch.entry,
            small: launch.total().saturating_mul(waves) <= SMALL,
            partial,
        }
    }

    /// What came of all accesses to memory.
    fn judge(&self, launch: &Launch, findings: &mut Findings) -> Looked {
        self.shadow.each_race(|address, kind, first, second| {
            let groups = [first, second].map(|by| clocks::group(by.wave));
            let other = (groups[0] != groups[1]).then(|| launch.coordinates(groups[1]));
            let place = place(groups[0], launch.coordinates(groups[0]), first);
            self.add(findings, (kind, first, second), place, other, Some(address), String::new());
        });
        Looked { not_judged: self.not_judged.load(Ordering::Relaxed), share: self.shadow.share() }
    }

    fn add(
        &self,
        findings: &mut Findings,
        (kind, first, second): (Kind, By, By),
        place: Position,
        workgroup: Option<[u32; 3]>,
        address: Option<u64>,
        detail: String,
    ) {
        let other = second.pc(self.entry);
        let key = Key { check: Check::Race, pc: first.pc(self.entry), what: kind.says(), other: Some(other) };
        let other =
            Some(Other { pc: other, workgroup, wave: clocks::in_group(second.wave), lane: Some(second.lane()) });
        findings.add(key, place, || Finding { place, other, address, detail, count: 1 });
    }
}

fn place(group: u64, workgroup: [u32; 3], by: By) -> Position {
    Position { group, workgroup, wave: clocks::in_group(by.wave), lane: Some(by.lane()) }
}

/// An access whose value comes back, for what is behind it.
struct Returning {
    parts: Parts,
    /// Of an atomic, its operands.
    operands: Option<stored::Operands>,
    template: Write,
}

/// LDS of a workgroup.
#[derive(Clone, Debug)]
struct Lds {
    slots: Vec<Slot>,
}

impl Lds {
    fn new(bytes: usize) -> Lds {
        Lds { slots: std::iter::repeat_with(Slot::new).take(bytes.div_ceil(1 << PAGE)).collect() }
    }

    /// The pages of an access.
    fn each_page(&mut self, at: u64, bytes: u64, mut look: impl FnMut(&mut Slot, usize, usize, usize)) {
        let (mut from, end) = (at, at.saturating_add(bytes));
        while from < end {
            let next = ((from >> PAGE) + 1) << PAGE;
            let to = end.min(next);
            let Some(slot) = usize::try_from(from >> PAGE).ok().and_then(|page| self.slots.get_mut(page)) else {
                break;
            };
            look(slot, (from & ((1 << PAGE) - 1)) as usize, (to - from) as usize, (from - at) as usize);
            from = to;
        }
    }
}

/// A workgroup.
pub(crate) struct Group {
    number: u64,
    workgroup: [u32; 3],
    clocks: Clocks,
    lds: Lds,
    returning: Vec<Option<Box<Returning>>>,
}

impl Group {
    /// Of a workgroup that begins.
    fn new(number: u64, workgroup: [u32; 3], waves: usize, lds: Lds) -> Group {
        let returning = std::iter::repeat_with(|| None).take(waves).collect();
        Group { number, workgroup, clocks: Clocks::new(number, waves), lds, returning }
    }

    /// A wave is about to execute an instruction, which `outstanding` knows of. `polls` says that it is a load which a loop does again
    /// until its value changes.
    fn executes(
        &mut self,
        between: &Between,
        step: &Step<'_>,
        parts: Option<&Parts>,
        outstanding: &Outstanding,
        polls: bool,
        findings: &mut Findings,
    ) {
        let Some(parts) = parts else { return self.orders(between, step, outstanding) };
        let is_coherent = polls || is_coherent(step.inst);
        let lanes = parts.iter().any(|part| part.does == Does::Write);
        if lanes && let Some((lane, other, part, at)) = lanes::clash(step, parts) {
            self.two_lanes(step, (lane, other, part.space, at), findings);
        }
        if parts.iter().any(|part| part.space == Space::Memory && part.does != Does::Read) {
            self.clocks.tells_barrier(step.number, &between.order);
        }
        let mut template = Write::NONE;
        for (n, part) in parts.iter().enumerate().filter(|(_, part)| !is_scratch(part)) {
            let Some(me) = self.clocks.me(step.number, part.space, outstanding, &between.order) else { return };
            let by = By::new(me.id, me.number, step.pc);
            let what = match part.does {
                Does::Read if is_coherent => What::ReadsCoherently,
                Does::Read => What::Reads,
                Does::Write | Does::Atomic => {
                    let ([seen, fresh], behind, drained) = me.releases();
                    let flags = flags(step.inst, part, is_coherent, drained);
                    template = Write { by, value: 0, since: by.number, seen, fresh, behind, flags };
                    What::Writes(None, &template)
                }
            };
            let data = if part.does == Does::Write { Stored::of(step, n, part) } else { None };
            touch(&mut self.lds, between, part, &me, by, what, data.as_ref());
            between.not_judged.fetch_add(u64::from(me.has_skipped()), Ordering::Relaxed);
        }
        let gets = is_coherent && parts.iter().any(|part| part.does != Does::Write) && returns(step.inst);
        if gets && let Some(returning) = self.returning.get_mut(step.number) {
            let operands = stored::Operands::of(step);
            *returning = Some(Box::new(Returning { parts: parts.clone(), operands, template }));
        }
        if parts.iter().any(|part| part.does != Does::Read) && is_coherent {
            self.clocks.released(step.number, outstanding);
        }
    }

    /// An instruction without accesses: it may order others.
    fn orders(&mut self, between: &Between, step: &Step<'_>, outstanding: &Outstanding) {
        let inst = step.inst;
        if inst.op.flags.has(Flags::GWS) {
            self.clocks.tells_barrier(step.number, &between.order);
            if let Some(brings) = self.clocks.brings(step.number) {
                let mut met = lock(&between.met);
                met.retain(|source| source.wave != brings.wave);
                met.push(brings);
            }
            self.clocks.meets(step.number, outstanding.issued());
        } else if inst.op.flags.has(Flags::INVALIDATES) && (!inst.has(control::GLC) || inst.has(control::SCC)) {
            // With the first bit of the scope alone, it is for the workgroup.
            self.clocks.invalidates(step.number, outstanding);
        }
    }

    /// Two lanes of a store write different values to one place.
    #[cold]
    fn two_lanes(&self, step: &Step<'_>, (lane, other, space, at): (u8, u8, Space, u64), findings: &mut Findings) {
        let what = "two lanes of one instruction write different values";
        let wave = step.number as u32;
        let place = Position { group: self.number, workgroup: self.workgroup, wave, lane: Some(lane) };
        let key = Key { check: Check::Race, pc: step.pc, what, other: Some(step.pc) };
        let (address, detail) = match space {
            Space::Memory => (Some(at), String::new()),
            Space::Lds => (None, format!("byte {at} of LDS")),
        };
        let other = Some(Other { pc: step.pc, workgroup: None, wave, lane: Some(other) });
        findings.add(key, place, || Finding { place, other, address, detail, count: 1 });
    }

    /// A wave has executed an instruction.
    #[inline]
    fn executed(&mut self, between: &Between, step: &Step<'_>, outstanding: &Outstanding) {
        if let Some(returning) = self.returning.get_mut(step.number).and_then(Option::take) {
            self.got(between, step, outstanding, &returning);
        }
    }

    fn got(&mut self, between: &Between, step: &Step<'_>, outstanding: &Outstanding, returning: &Returning) {
        let (mut writes, mut folded) = (Vec::new(), Vec::new());
        for part in returning.parts.iter().filter(|part| part.does != Does::Write && !is_scratch(part)) {
            let Some(me) = self.clocks.me(step.number, part.space, outstanding, &between.order) else { return };
            let by = returning.template.by;
            if let Some(operands) = &returning.operands {
                // Lanes that changed nothing are looked at last: another one may have.
                for changes in [true, false] {
                    let lanes = operands.lanes_that(step, part, changes);
                    if lanes != 0 {
                        let of = LaneAccess { lanes, ..*part };
                        touch(&mut self.lds, between, &of, &me, by, What::Settles(changes), None);
                    }
                }
            }
            let mut known = true;
            let mut touches = between.shadow.touches();
            let mut last = None;
            for lane in part.active() {
                for (at, length) in part.pieces(lane).filter(|piece| last.replace(*piece) != Some(*piece)) {
                    match part.space {
                        Space::Memory => known &= touches.sources(at, length.into(), &mut writes, &mut folded),
                        Space::Lds => self.lds.each_page(at, length.into(), |slot, offset, bytes, _| {
                            slot.sources(offset, bytes, &mut writes, &mut folded);
                        }),
                    }
                }
            }
            drop(touches);
            if !known || between.partial && part.space == Space::Memory {
                self.clocks.loses(step.number);
            }
        }
        self.clocks.gets(step.number, outstanding.issued(), &writes, &folded);
    }

    /// A wave has waited.
    fn waits(&mut self, between: &Between, step: &Step<'_>, outstanding: &Outstanding) {
        let (vm, lgkm) = counts(step.inst);
        let met = || lock(&between.met).clone();
        self.clocks.waits(step.number, outstanding, [vm == 0, lgkm == 0], &between.order, met);
    }

    /// The waves go on behind a barrier.
    fn barrier(&mut self, between: &Between, all: &[Outstanding]) {
        self.clocks.barrier(all, &between.order);
    }

    /// The workgroup has ended. Returns its LDS, for another one.
    fn end(mut self, between: &Between, findings: &mut Findings) -> Lds {
        for (slot, page) in self.lds.slots.iter_mut().zip(0u64..) {
            for (byte, kind, first, second) in slot.take_races() {
                let place = place(self.number, self.workgroup, first);
                let detail = format!("byte {} of LDS", (page << PAGE) + byte);
                between.add(findings, (kind, first, second), place, None, None, detail);
            }
            slot.forget_lists();
        }
        self.lds
    }
}

/// The lanes of a part access memory or LDS.
fn touch(
    lds: &mut Lds,
    between: &Between,
    part: &LaneAccess,
    me: &Me<'_>,
    by: By,
    what: What<'_>,
    data: Option<&Stored<'_>>,
) {
    let mut touches = between.shadow.touches();
    let mut last = None;
    for lane in part.active() {
        for (piece, (at, length)) in part.pieces(lane).enumerate() {
            let what = match what {
                What::Writes(_, write) => What::Writes(data.map(|data| data.of_piece(lane, piece)), write),
                // Lanes often read the same: it is looked at once.
                what if last.replace((at, length)) == Some((at, length)) => match what {
                    What::Settles(_) => what,
                    _ => continue,
                },
                what => what,
            };
            let small = between.small || part.space == Space::Lds;
            let access = Access { me, by: by.of_lane(lane), what, order: &between.order, small };
            match part.space {
                Space::Memory => touches.touch(at, length.into(), &access),
                Space::Lds => lds.each_page(at, length.into(), |slot, offset, bytes, first| {
                    slot.touch(offset, bytes, first, &access);
                }),
            }
        }
    }
}

/// True for a part of which the lanes access their scratch.
fn is_scratch(part: &LaneAccess) -> bool {
    part.space == Space::Memory && part.at[part.lanes.trailing_zeros() as usize & 63] >= SCRATCH_WINDOW
}

/// True for atomics, and for accesses that see what other workgroups did before: compilers make them of atomic and volatile ones.
/// With the hint that the data is used once only, they are plain.
///
/// Source: LLVM's AMDGPUUsage, "Memory Model"; `SIMemoryLegalizer`.
fn is_coherent(inst: &Inst) -> bool {
    let exchanges = matches!(inst.op.access, Op::Load2(..)) && inst.src[1].is_some();
    matches!(inst.op.access, Op::Atomic(..))
        || exchanges
        || inst.op.family != Family::Ds && inst.control & (control::GLC | control::SCC) != 0 && !inst.has(control::SLC)
}

/// True for what brings a value back.
fn returns(inst: &Inst) -> bool {
    match inst.op.access {
        Op::Atomic(_, _, returns) => returns || inst.op.family != Family::Ds && inst.has(control::GLC),
        Op::Store(..) | Op::Store2(..) | Op::StoreFormat(..) => false,
        _ => true,
    }
}

/// What a write of an instruction is.
fn flags(inst: &Inst, part: &LaneAccess, is_coherent: bool, drained: bool) -> u16 {
    let when = |is: bool, flag: u16| if is { flag } else { 0 };
    let releases = when(drained, flag::RELEASES);
    if part.does == Does::Write {
        let loads = inst.has(control::LDS) && inst.op.family != Family::Ds;
        return releases | when(is_coherent && part.space == Space::Memory, flag::ATOMIC) | when(loads, flag::LOADS);
    }
    let compares = matches!(inst.op.access, Op::Atomic(AtomicOp::CmpSwap | AtomicOp::FCmpSwap, ..));
    let all = flag::ATOMIC | flag::MODIFIES | releases | when(compares, flag::COMPARES);
    // What it does is known behind it.
    all | when(returns(inst), flag::RETURNS) | when(returns(inst) && stored::is_plain_atomic(inst), flag::KEEPS)
}
