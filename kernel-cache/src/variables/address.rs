//! How code makes an address of its own code object: `s_getpc_b64`, and the additions that follow it.
//!
//! Source: LLVM's AMDGPU backend, `SI_PC_ADD_REL_OFFSET`; the Vega ISA manual for the instructions.

use amdgpu_isa::Decoder;
use amdgpu_isa::action::Action;
use amdgpu_isa::flow::{WORD, first};
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::Family;
use amdgpu_isa::operand::{Kind, Operand};

/// An instruction that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotUnderstood {
    /// Its address, before the code is loaded.
    pub(super) address: u64,
    /// Its mnemonic, or its words.
    pub(super) what: String,
}

/// An address that code makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    /// Where its `s_getpc_b64` is.
    pub(super) at: u64,
    /// The address behind the last addition.
    pub(super) end: u64,
    /// The address that is made.
    pub(super) target: u64,
    /// The additions: of the low half, and of the high one.
    pub(super) halves: [Addition; 2],
    /// True when it is jumped to at once.
    pub(super) is_jump: bool,
}

/// An addition of a constant to half of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addition {
    /// Its address.
    pub(super) at: u64,
    /// The scalar register that it writes.
    pub(super) to: u16,
    /// True when the constant is a word of its own, behind the instruction.
    pub(super) is_literal: bool,
}

/// Between `s_getpc_b64` and the additions there are few instructions, if any.
const FAR: usize = 8;

impl Made {
    /// The address that begins with an `s_getpc_b64`, by the code that is behind it.
    pub(super) fn of(decoder: &Decoder, at: u64, getpc: &Inst, code: &[u8]) -> Result<Made, NotUnderstood> {
        let unknown = || NotUnderstood { address: at, what: getpc.op.name.to_owned() };
        let pc = at.wrapping_add(getpc.size.into());
        let (low, high) = (getpc.dst.0, getpc.dst.0.wrapping_add(1));
        let (mut address, mut rest) = (pc, code);
        let mut first_half: Option<(Addition, u32)> = None;
        for _ in 0..FAR {
            if rest.is_empty() {
                break;
            }
            let (words, inst) = first(decoder, rest);
            let inst = inst.map_err(|_| unknown())?;
            rest = rest.get(words.words().len() * WORD..).unwrap_or_default();
            let here = address;
            address = address.wrapping_add(words.bytes());
            if inst.op.action == Action::Nop {
                continue;
            }
            let adds =
                |what: Action| inst.op.action == what && inst.op.family == Family::Sop2 && inst.op.dst == Kind::U32;
            match first_half {
                None if adds(Action::Add) => {
                    let constant = constant_added(&inst, low).ok_or_else(unknown)?;
                    // The high half is still wanted.
                    if inst.dst.0 == high {
                        return Err(unknown());
                    }
                    first_half = Some((addition(here, &inst), constant));
                }
                Some((low_half, constant)) if adds(Action::AddCarry) => {
                    let high_constant = constant_added(&inst, high).ok_or_else(unknown)?;
                    let sum = u64::from(high_constant) << 32 | u64::from(constant);
                    let halves = [low_half, addition(here, &inst)];
                    let next = (!rest.is_empty()).then(|| first(decoder, rest).1.ok()).flatten();
                    let is_pair = halves[1].to == halves[0].to + 1;
                    let jumps = |next: Inst| next.is_indirect() && is_pair && next.src[0].0 == halves[0].to;
                    let is_jump = next.is_some_and(jumps);
                    return Ok(Made { at, end: address, target: pc.wrapping_add(sum), halves, is_jump });
                }
                _ => return Err(unknown()),
            }
        }
        Err(unknown())
    }
}

fn addition(at: u64, inst: &Inst) -> Addition {
    Addition { at, to: inst.dst.0, is_literal: inst.src.contains(&Operand::LITERAL) }
}

/// The constant that an instruction adds to a register; `None` when it does something else.
fn constant_added(inst: &Inst, register: u16) -> Option<u32> {
    let constant = match (inst.src[0], inst.src[1]) {
        (Operand(source), constant) if source == register => constant,
        (constant, Operand(source)) if source == register => constant,
        _ => return None,
    };
    match constant {
        Operand::LITERAL => Some(inst.literal),
        other => other.inline_integer().map(|n| n as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_isa::Arch;

    fn made(words: &[u32]) -> Result<Made, NotUnderstood> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let decoder = Decoder::new(Arch::Gfx90a);
        let getpc = first(&decoder, &bytes).1.unwrap();
        Made::of(&decoder, 0x1000, &getpc, &bytes[4..])
    }

    #[test]
    fn an_address_is_the_sum_of_all_three_instructions() {
        // s_getpc_b64 s[2:3]; s_add_u32 s2, s2, 0xfffffff0; s_addc_u32 s3, s3, -1 (as a literal); s_nop 0
        let words = [0xbe82_1c00, 0x8002_ff02, 0xffff_fff0, 0x8203_ff03, 0xffff_ffff, 0xbf80_0000];
        let found = made(&words).unwrap();
        assert_eq!((found.target, found.end, found.is_jump), (0xff4, 0x1014, false));
        assert_eq!(
            found.halves.map(|half| (half.at, half.to, half.is_literal)),
            [(0x1004, 2, true), (0x100c, 3, true)]
        );
        // s_addc_u32 s3, s3, 0 (inline); s_setpc_b64 s[2:3]
        let words = [0xbe82_1c00, 0x8002_ff02, 0x20, 0x8203_8003, 0xbe80_1d02];
        let found = made(&words).unwrap();
        assert_eq!((found.target, found.is_jump, found.halves[1].is_literal), (0x1024, true, false));
    }

    #[test]
    fn what_is_done_otherwise_is_not_understood() {
        let cases: &[&[u32]] = &[
            // Nothing behind it; s_add_u32 of two registers; of another register; the high half first.
            &[0xbe82_1c00],
            &[0xbe82_1c00, 0x8002_0402, 0x8203_8003],
            &[0xbe82_1c00, 0x8004_ff04, 0x20, 0x8203_8003],
            &[0xbe82_1c00, 0x8203_8003, 0x8002_ff02, 0x20],
        ];
        for words in cases {
            assert_eq!(made(words), Err(NotUnderstood { address: 0x1000, what: "s_getpc_b64".to_owned() }));
        }
    }
}
