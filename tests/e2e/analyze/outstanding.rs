//! Which instructions of a kernel may use registers too early, on all paths through code that was executed: what the test of the wait
//! check holds against it. It follows edges, not waves, and so sees at least what a wave can meet.

use std::collections::{BTreeMap, BTreeSet};

use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::{Access, Family, Fill};
use amdgpu_isa::uses::{Registers, Set, Uses};
use serde_json::Value;

/// Where the results of operations come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Memory,
    Lds,
    Scalar,
    Flat,
}

/// Of registers that are not there yet: how many operations of the same source are younger at least.
type Pending = BTreeMap<(u32, Source), u32>;

fn source(inst: &Inst) -> Option<Source> {
    match inst.op.family {
        Family::Global | Family::Scratch => Some(Source::Memory),
        Family::Mubuf if inst.op.access != Access::None => Some(Source::Memory),
        Family::Flat => Some(Source::Flat),
        Family::Ds => Some(Source::Lds),
        Family::Smem => Some(Source::Scalar),
        _ => None,
    }
}

fn registers(set: &Set) -> BTreeSet<u32> {
    let of = |r: &Registers| (0..r.count).map(move |n| u32::from(r.first.0) + n).collect::<Vec<_>>();
    set.ranges().iter().flat_map(of).collect()
}

/// What was counted of an instruction.
struct Counted {
    executions: u64,
    taken: u64,
    lanes: u64,
}

/// The addresses of executed instructions that may use a register too early. `analyzed` is the object of the dispatch.
pub(crate) fn early(code: &[(u64, Inst)], analyzed: &Value) -> BTreeSet<u64> {
    let number = |i: &Value, what: &str| i[what].as_u64().unwrap();
    let counts: BTreeMap<u64, Counted> = analyzed["instructions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| {
            let counted =
                Counted { executions: number(i, "executions"), taken: number(i, "taken"), lanes: number(i, "lanes") };
            (number(i, "address"), counted)
        })
        .collect();
    let insts: BTreeMap<u64, &Inst> = code.iter().map(|(address, inst)| (*address, inst)).collect();
    let (mut states, mut found) = (BTreeMap::<u64, Pending>::new(), BTreeSet::new());
    let mut open = vec![(code[0].0, Pending::new())];
    while let Some((address, state)) = open.pop() {
        let (Some(inst), Some(counted)) = (insts.get(&address), counts.get(&address)) else { continue };
        let known = states.get(&address);
        let mut merged = known.cloned().unwrap_or_default();
        for (place, younger) in state {
            merged.entry(place).and_modify(|least| *least = younger.min(*least)).or_insert(younger);
        }
        if known == Some(&merged) {
            continue;
        }
        states.insert(address, merged.clone());
        let mut after = merged;
        step(inst, counted, &mut after, || {
            found.insert(address);
        });
        assert!(!inst.is_indirect(), "{address:#x}: {} cannot be followed", inst.op.name);
        if inst.falls_through() && counted.taken < counted.executions {
            open.push((address + u64::from(inst.size), after.clone()));
        }
        if let Some(target) = inst.target(address).filter(|_| counted.taken > 0) {
            open.push((target, after));
        }
    }
    found
}

fn step(inst: &Inst, counted: &Counted, pending: &mut Pending, mut early: impl FnMut()) {
    if inst.op.name == "s_waitcnt" {
        let imm = inst.imm as u32;
        let (vm, lgkm) = (imm & 15 | (imm >> 14 & 3) << 4, imm >> 8 & 15);
        pending.retain(|(_, source), younger| match source {
            Source::Memory => vm == 63 || *younger < vm,
            Source::Lds => lgkm == 15 || *younger < lgkm,
            Source::Scalar => lgkm != 0,
            Source::Flat => vm != 0 || lgkm != 0,
        });
        return;
    }
    let of = source(inst);
    let uses = Uses::of(inst);
    let (mut reads, writes) = (registers(&uses.reads), registers(&uses.writes));
    // Halves that a load keeps are of loads before it.
    if let Access::Load(_, Fill::D16 | Fill::D16Sign | Fill::D16High | Fill::D16HighSign) = inst.op.access {
        reads.retain(|register| !writes.contains(register));
    }
    let in_order = matches!(of, Some(Source::Memory | Source::Lds));
    let is_early = pending.keys().any(|(register, source)| {
        reads.contains(register) || writes.contains(register) && !(in_order && Some(*source) == of)
    });
    if is_early {
        early();
    }
    let Some(of) = of else { return };
    let most = if of == Source::Memory { 63 } else { 15 };
    for ((_, source), younger) in pending.iter_mut() {
        *younger += u32::from(*source == of);
    }
    pending.retain(|(_, source), younger| !in_order || *source != of || *younger < most);
    if counted.lanes > 0 || of == Source::Scalar {
        pending.extend(writes.into_iter().map(|register| ((register, of), 0)));
    }
}
