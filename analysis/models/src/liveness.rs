//! Registers that are live: whose values some instruction may still read.
//!
//! A model: it counts as compilers do. A write ends the life of a register's old value in all lanes, also where only some are active.
//! What is exact for a scalar register is so for a vector register only where compilers keep to that.

use std::collections::BTreeMap;

use amdgpu_isa::action::Action;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::uses::{Registers, Uses};

/// Vector registers, accumulation registers, then scalar registers with the named ones.
const VECTORS: usize = 256;
const SCALARS: usize = 2 * VECTORS;
const WORDS: usize = (SCALARS + 128) / 64;
/// The first scalar register that a kernel does not allocate: behind `vcc_hi`.
const NAMED: u16 = 108;

/// A set of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set([u64; WORDS]);

impl Set {
    fn of(ranges: &[Registers]) -> Set {
        let mut set = Set::default();
        for n in ranges.iter().flat_map(numbers) {
            set.0[n / 64] |= 1 << (n % 64);
        }
        set
    }

    fn or(&self, other: &Set) -> Set {
        Set(std::array::from_fn(|n| self.0[n] | other.0[n]))
    }

    fn without(&self, other: &Set) -> Set {
        Set(std::array::from_fn(|n| self.0[n] & !other.0[n]))
    }

    fn count(&self, words: std::ops::Range<usize>) -> u32 {
        self.0[words].iter().map(|word| word.count_ones()).sum()
    }

    fn live(&self) -> Live {
        const FILE: usize = VECTORS / 64;
        Live { vgprs: self.count(0..FILE), agprs: self.count(FILE..2 * FILE), sgprs: self.count(2 * FILE..WORDS) }
    }
}

fn numbers(range: &Registers) -> impl Iterator<Item = usize> {
    let first = range.first;
    let of = move |n: u32| match first {
        first if first.is_agpr() => Some(VECTORS + usize::from(first.0 - 512) + n as usize).filter(|n| *n < SCALARS),
        first if first.is_vector() => Some(usize::from(first.0 - 256) + n as usize).filter(|n| *n < VECTORS),
        first if first.is_scalar_register() => {
            Some(first.0 + n as u16).filter(|code| *code < NAMED).map(|code| SCALARS + usize::from(code))
        }
        _ => None,
    };
    (0..range.count).filter_map(of)
}

/// How many registers are live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Vector registers.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Scalar registers, with VCC and others that a kernel allocates.
    pub sgprs: u32,
}

impl Live {
    fn max(self, other: Live) -> Live {
        Live {
            vgprs: self.vgprs.max(other.vgprs),
            agprs: self.agprs.max(other.agprs),
            sgprs: self.sgprs.max(other.sgprs),
        }
    }
}

/// True for an operation after which a part of its result's old value may be read: lanes that it does not write.
fn keeps_lanes(inst: &Inst) -> bool {
    let masked = |dpp: amdgpu_isa::inst::Dpp| !dpp.bound_ctrl || dpp.bank_mask & dpp.row_mask != 15;
    inst.op.action == Action::WriteLane || inst.dpp().is_some_and(masked)
}

/// What an instruction reads and writes.
fn uses(inst: &Inst) -> (Set, Set) {
    let uses = Uses::of(inst);
    let (reads, writes) = (Set::of(uses.reads.ranges()), Set::of(uses.writes.ranges()));
    if keeps_lanes(inst) { (reads.or(&writes), writes) } else { (reads, writes) }
}

/// The live registers at each instruction of a kernel: before it or with its results, whichever is more. The instructions are sorted by
/// address. `None` where control cannot be followed: calls, and jumps to addresses in registers, or registers that M0 selects.
pub fn live(code: &[(u64, Inst)]) -> Option<Vec<Live>> {
    let selects = |inst: &Inst| inst.op.action == Action::SetIndex || inst.op.action == Action::EndIndex;
    if code.iter().any(|(_, inst)| inst.is_indirect() || selects(inst)) {
        return None;
    }
    let places: BTreeMap<u64, usize> = code.iter().enumerate().map(|(n, (address, _))| (*address, n)).collect();
    let all: Vec<(Set, Set)> = code.iter().map(|(_, inst)| uses(inst)).collect();
    let next: Vec<[Option<usize>; 2]> = code
        .iter()
        .map(|(address, inst)| {
            let behind = inst.falls_through().then(|| address + u64::from(inst.size));
            [behind, inst.target(*address)].map(|to| places.get(&to?).copied())
        })
        .collect();
    let mut before = vec![Set::default(); code.len()];
    loop {
        let mut changed = false;
        for n in (0..code.len()).rev() {
            let behind = next[n].iter().flatten().fold(Set::default(), |all, next| all.or(&before[*next]));
            let now = behind.without(&all[n].1).or(&all[n].0);
            changed |= now != before[n];
            before[n] = now;
        }
        if !changed {
            break;
        }
    }
    let at = |n: usize| {
        let behind = next[n].iter().flatten().fold(all[n].1, |all, next| all.or(&before[*next]));
        before[n].live().max(behind.live())
    };
    Some((0..code.len()).map(at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_isa::{Arch, Decoder};

    fn code(words: &[&[u32]]) -> Vec<(u64, Inst)> {
        let decoder = Decoder::new(Arch::Gfx90a);
        let mut address = 0;
        let mut next = |words: &&[u32]| {
            let inst = decoder.decode(words).unwrap();
            address += u64::from(inst.size);
            (address - u64::from(inst.size), inst)
        };
        words.iter().map(&mut next).collect()
    }

    #[test]
    fn a_register_lives_from_its_write_to_its_last_read_and_around_a_loop() {
        // Words of llvm-mc: v_mov_b32 v1, 0; v_mov_b32 v2, 1; v_add_f32 v3, v1, v2; v_mov_b32 v4, v3; s_endpgm.
        let straight = code(&[&[0x7e02_0280], &[0x7e04_0281], &[0x0206_0501], &[0x7e08_0303], &[0xbf81_0000]]);
        let vgprs = |code: &[(u64, Inst)]| live(code).unwrap().iter().map(|live| live.vgprs).collect::<Vec<_>>();
        assert_eq!(vgprs(&straight), [1, 2, 2, 1, 0]);
        // v_mov_b32 v1, 0; v_mov_b32 v2, 1; v_add_f32 v2, v1, v2; s_cbranch_scc1 to the addition; v_mov_b32 v4, v2; s_endpgm.
        let around =
            code(&[&[0x7e02_0280], &[0x7e04_0281], &[0x0204_0501], &[0xbf85_fffe], &[0x7e08_0302], &[0xbf81_0000]]);
        assert_eq!(vgprs(&around), [1, 2, 2, 2, 1, 0]);
        // s_setpc_b64 s[30:31].
        assert_eq!(live(&code(&[&[0xbe80_1d1e]])), None);
    }
}
