//! Loads that a loop does again until their value changes: compilers make them of atomic loads that no bit of the instruction tells.

use std::collections::HashSet;

use amdgpu_emu::isa::Decoder;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::{Access, Flags};
use amdgpu_emu::isa::operand::Operand;
use amdgpu_emu::isa::uses::{Set, Uses};
use amdgpu_emu::memory::View;
use amdgpu_emu::observer::Step;

/// Instructions that are looked at, behind a load or in a loop.
const MOST: usize = 96;

/// True for a load that is done again in a loop at the same address, with no write and no barrier in the loop; or before such a loop,
/// with no write and no barrier on a way to it: compilers take the first turn out of a loop.
#[cold]
pub(crate) fn is_poll(step: &Step<'_>) -> bool {
    if !matches!(step.inst.op.access, Access::Load(..)) {
        return false;
    }
    let (mut view, decoder) = (View::new(step.space.clone()), Decoder::new(step.wave.arch));
    let (mut open, mut seen) = (vec![step.pc], HashSet::new());
    while let Some(at) = open.pop() {
        if seen.len() >= MOST || !seen.insert(at) {
            continue;
        }
        let Some(inst) = decoded(&mut view, &decoder, at) else { continue };
        if at != step.pc && (is_write(&inst) || inst.op.flags.has(Flags::BARRIER)) {
            continue;
        }
        let next = at.wrapping_add(inst.size.into());
        match inst.target(at) {
            // A loop: of this load, or behind it of another one of the same address.
            Some(first) if first <= at && polls(&mut view, &decoder, first..next, step.inst) => return true,
            Some(first) if first <= at => {}
            target => open.extend(target),
        }
        open.extend(inst.falls_through().then_some(next));
    }
    false
}

/// True for a loop that does a load again and again.
fn polls(view: &mut View, decoder: &Decoder, range: std::ops::Range<u64>, load: &Inst) -> bool {
    let (mut at, mut has_load, mut written) = (range.start, false, Vec::new());
    for _ in 0..MOST {
        if at >= range.end {
            let address = addresses(load);
            return has_load && !written.iter().any(|set| meets(set, &address));
        }
        let Some(inst) = decoded(view, decoder, at) else { return false };
        if is_write(&inst) || inst.op.flags.has(Flags::BARRIER) {
            return false;
        }
        let is_load = std::ptr::eq(inst.op, load.op) && inst.src[0] == load.src[0] && inst.src[2] == load.src[2];
        has_load |= is_load && inst.imm == load.imm;
        written.push(Uses::of(&inst).writes);
        at = at.wrapping_add(inst.size.into());
    }
    false
}

/// The registers that a load's address is made of.
fn addresses(load: &Inst) -> Vec<Operand> {
    let of = |operand: Operand| [operand, Operand(operand.0 + 1)];
    let is_pair = load.op.src[0].dwords() > 1 && !load.src[2].is_some();
    let vectors = of(load.src[0]).into_iter().take(if is_pair { 2 } else { 1 });
    let scalars = load.src[2].is_scalar_register().then(|| of(load.src[2])).into_iter().flatten();
    vectors.chain(scalars).collect()
}

fn meets(set: &Set, registers: &[Operand]) -> bool {
    set.ranges().iter().any(|range| {
        let first = u32::from(range.first.0);
        registers.iter().any(|register| (first..first + range.count).contains(&u32::from(register.0)))
    })
}

fn is_write(inst: &Inst) -> bool {
    let writes =
        matches!(inst.op.access, Access::Store(..) | Access::Store2(..) | Access::StoreFormat(..) | Access::Atomic(..));
    writes || inst.op.flags.has(Flags::GWS)
}

fn decoded(view: &mut View, decoder: &Decoder, at: u64) -> Option<Inst> {
    let mut words = [0; 2];
    for (n, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 4];
        if view.read(at.wrapping_add(4 * n as u64), &mut bytes).is_err() && n == 0 {
            return None;
        }
        *word = u32::from_le_bytes(bytes);
    }
    decoder.decode(&words).ok()
}
