//! From instruction words to [`Inst`].
//!
//! Source: Vega and CDNA2 ISA manuals, "Microcode Formats". What the tables do not know is refused, and so are
//! operands that the encoding forbids: a word is never read as something else.

use std::fmt;
use std::sync::OnceLock;

use crate::arch::Arch;
use crate::coverage::{absent, graphics};
use crate::inst::{Form, Inst, Mods, control};
use crate::op::{Access, Family, Fill, Flags, Index, Levels, Op, Run};
use crate::operand::{Kind, Operand};
use crate::ops::TABLES;

mod memory;
mod vector;

/// Why words are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The instruction goes on beyond the words that were given.
    Truncated,
    /// No encoding family begins like this.
    Encoding,
    /// The family has no such opcode in the tables for this processor.
    Opcode(Family, u16),
    /// An operation that the processor has and the tables lack.
    Absent(&'static str),
    /// The operation cannot be written in this form.
    Form(&'static str),
    /// Bits that have no meaning for the operation are set.
    Reserved(&'static str),
    /// An operand code that the operation does not accept.
    Operand(&'static str, u16),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => write!(f, "the instruction goes on beyond the end"),
            DecodeError::Encoding => write!(f, "unknown encoding"),
            DecodeError::Opcode(family, code) => write!(f, "unknown {family:?} opcode {code:#x}"),
            DecodeError::Absent(name) => write!(f, "{name} is not emulated"),
            DecodeError::Form(name) => write!(f, "{name} has no such form"),
            DecodeError::Reserved(name) => write!(f, "{name} with bits set that it does not use"),
            DecodeError::Operand(name, code) => write!(f, "{name} does not take operand {code:#x}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// The vector instructions of the host that the operations' code is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostLevel {
    /// Any host.
    Base,
    /// x86-64-v3: AVX2, FMA, F16C, BMI, LZCNT, POPCNT.
    V3,
    /// x86-64-v4: in addition AVX-512 F, BW, CD, DQ and VL.
    V4,
}

impl HostLevel {
    /// Every level, the lowest first.
    pub const ALL: [HostLevel; 3] = [HostLevel::Base, HostLevel::V3, HostLevel::V4];

    /// The best level that this host has.
    pub fn detect() -> HostLevel {
        #[cfg(target_arch = "x86_64")]
        if ["avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "popcnt"].into_iter().all(has_feature) {
            let more = ["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"];
            return if more.into_iter().all(has_feature) { HostLevel::V4 } else { HostLevel::V3 };
        }
        HostLevel::Base
    }
}

#[cfg(target_arch = "x86_64")]
fn has_feature(name: &str) -> bool {
    match name {
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512cd" => is_x86_feature_detected!("avx512cd"),
        "avx512dq" => is_x86_feature_detected!("avx512dq"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "bmi1" => is_x86_feature_detected!("bmi1"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "fma" => is_x86_feature_detected!("fma"),
        "lzcnt" => is_x86_feature_detected!("lzcnt"),
        "popcnt" => is_x86_feature_detected!("popcnt"),
        _ => false,
    }
}

/// Decodes instructions of one processor.
pub struct Decoder {
    arch: Arch,
    level: HostLevel,
    indices: &'static [Index],
}

/// The rows of all families, of each processor that was asked for: they are collected once.
static INDICES: [OnceLock<Vec<Index>>; Arch::COUNT] = [const { OnceLock::new() }; Arch::COUNT];

fn indices(arch: Arch) -> &'static [Index] {
    INDICES[arch as usize].get_or_init(|| Family::ALL.iter().map(|&f| Index::new(f, arch, TABLES)).collect())
}

impl Decoder {
    /// A decoder for `arch` whose instructions run on this host.
    pub fn new(arch: Arch) -> Decoder {
        Decoder::with_level(arch, HostLevel::detect())
    }

    /// A decoder whose instructions run at `level`, or at the level that the host has if that is lower.
    pub fn with_level(arch: Arch, level: HostLevel) -> Decoder {
        let level = level.min(HostLevel::detect());
        Decoder { arch, level, indices: indices(arch) }
    }

    /// The processor.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The level that instructions run at: that of the host or lower.
    pub fn level(&self) -> HostLevel {
        self.level
    }

    /// The row of an opcode.
    pub fn row(&self, family: Family, code: u32) -> Option<&'static Op> {
        self.indices[family as usize].get(code)
    }

    fn find(&self, family: Family, code: u32) -> Result<&'static Op, DecodeError> {
        self.row(family, code).ok_or_else(|| match absent(family, code as u16, self.arch) {
            Some(name) => DecodeError::Absent(name),
            None => DecodeError::Opcode(family, code as u16),
        })
    }

    fn run(&self, levels: &Levels) -> Run {
        match self.level {
            HostLevel::Base => levels.base,
            HostLevel::V3 => levels.v3,
            HostLevel::V4 => levels.v4,
        }
    }

    fn inst(&self, op: &'static Op, form: Form, size: u8) -> Inst {
        Inst {
            op,
            run: self.run(&op.run),
            form,
            size,
            plain_sources: true,
            plain_result: true,
            mods: Mods::default(),
            dst: Operand::NONE,
            sdst: Operand::NONE,
            src: [Operand::NONE; 3],
            literal: 0,
            imm: 0,
            control: 0,
        }
    }

    /// Decodes the instruction at the beginning of `words`.
    ///
    /// # Errors
    /// When the words are not an instruction that the tables know.
    pub fn decode(&self, words: &[u32]) -> Result<Inst, DecodeError> {
        let &first = words.first().ok_or(DecodeError::Truncated)?;
        match first >> 26 {
            0b110000 => self.smem(first, second(words)?),
            0b110110 => self.ds(first, second(words)?),
            0b110111 => self.flat(first, second(words)?),
            0b111000 => self.mubuf(first, second(words)?),
            0b110100 if first >> 23 == vector::VOP3P => self.vop3p(first, words),
            0b110100 => self.vop3(first, second(words)?),
            top if top >> 5 == 0 => self.vop(first, words),
            top if top >> 4 == 0b10 => self.scalar(first, words),
            _ => Err(graphics(first, self.arch).map_or(DecodeError::Encoding, DecodeError::Absent)),
        }
    }

    /// SOP2, SOPK, SOP1, SOPC and SOPP share the prefix 10.
    fn scalar(&self, first: u32, words: &[u32]) -> Result<Inst, DecodeError> {
        match first >> 23 {
            0b101111111 => {
                let op = self.find(Family::Sopp, first >> 16 & 0x7f)?;
                let mut i = self.inst(op, Form::Only, 4);
                // Jumps are signed; other immediates are bits.
                i.imm =
                    if op.flags.has(Flags::BRANCH) { i32::from(first as u16 as i16) } else { (first & 0xffff) as i32 };
                if i.imm != 0 && op.flags.has(Flags::NO_IMMEDIATE) {
                    return Err(DecodeError::Form(op.name));
                }
                Ok(i)
            }
            0b101111110 => {
                let op = self.find(Family::Sopc, first >> 16 & 0x7f)?;
                let mut i = self.inst(op, Form::Only, 4);
                let sources = [first & 0xff, first >> 8 & 0xff];
                if op.src[1] == Kind::None {
                    // The second field of `s_set_gpr_idx_on` is bits.
                    i.imm = sources[1] as i32;
                    return self.scalar_sources(i, &sources[..1], words);
                }
                self.scalar_sources(i, &sources, words)
            }
            0b101111101 => {
                let op = self.find(Family::Sop1, first >> 8 & 0xff)?;
                let mut i = self.inst(op, Form::Only, 4);
                i.dst = scalar_destination(op, op.dst, first >> 16 & 0x7f)?;
                let source = [first & 0xff];
                // A jump target is a register or a literal.
                if op.flags.has(Flags::INDIRECT) && matches!(source[0], 128..=254) {
                    return Err(DecodeError::Operand(op.name, source[0] as u16));
                }
                self.scalar_sources(i, if op.src[0] == Kind::None { &[] } else { &source }, words)
            }
            top if top >> 5 == 0b1011 => {
                let op = self.find(Family::Sopk, first >> 23 & 0x1f)?;
                let mut i = self.inst(op, Form::Only, 4);
                i.dst = scalar_destination(op, op.dst, first >> 16 & 0x7f)?;
                i.imm = i32::from(first as u16 as i16);
                if op.flags.has(Flags::LITERAL) {
                    i.literal = second(words)?;
                    i.size = 8;
                }
                Ok(i)
            }
            _ => {
                let op = self.find(Family::Sop2, first >> 23 & 0x7f)?;
                let mut i = self.inst(op, Form::Only, 4);
                i.dst = scalar_destination(op, op.dst, first >> 16 & 0x7f)?;
                self.scalar_sources(i, &[first & 0xff, first >> 8 & 0xff], words)
            }
        }
    }

    fn scalar_sources(&self, mut i: Inst, codes: &[u32], words: &[u32]) -> Result<Inst, DecodeError> {
        for (n, &code) in codes.iter().enumerate() {
            let operand = Operand::sgpr(code);
            i.src[n] = scalar_source(i.op, i.op.src[n], operand)?;
            if operand == Operand::LITERAL {
                i.literal = second(words)?;
                i.size = 8;
            }
        }
        Ok(i)
    }
}

/// How many dwords the instruction that begins with a word has, also where its operation is not known.
///
/// Source: Vega ISA manual, "Microcode Formats".
pub fn length(word: u32) -> usize {
    let literal = |shift: u32| word >> shift & 0xff == 0xff;
    let long = match word >> 26 {
        // Interpolation is the one short family among the long ones.
        0b110101 => false,
        0b110000..=0b111111 => true,
        // Scalar: two sources, or one; immediates are within the word.
        top if top >> 4 == 0b10 => match word >> 23 {
            0b101111111 => false,
            0b101111101 => literal(0),
            top if top >> 5 == 0b1011 && top != 0b101111110 => false,
            _ => literal(0) || literal(8),
        },
        // Vector: a literal, or a control word of the sub-dword and data-parallel forms.
        _ => matches!(word & 0x1ff, 249 | 250 | 255),
    };
    1 + usize::from(long)
}

fn second(words: &[u32]) -> Result<u32, DecodeError> {
    words.get(1).copied().ok_or(DecodeError::Truncated)
}

/// Refuses bits that have no meaning for the operation.
fn reserved(op: &Op, bits: u32) -> Result<(), DecodeError> {
    if bits == 0 { Ok(()) } else { Err(DecodeError::Reserved(op.name)) }
}

/// The highest numbered scalar register plus one.
const SGPRS: u32 = 102;

/// Checks a scalar register operand of `dwords` registers: it exists and is aligned.
fn scalar_register(op: &Op, code: u32, dwords: u32) -> Result<Operand, DecodeError> {
    let last = code + dwords.max(1) - 1;
    let exists = match code {
        0..=101 => last < SGPRS,
        // flat_scratch, xnack_mask and vcc; then the trap temporaries.
        102..=107 => dwords <= 2,
        108..=123 => last <= 123,
        124 => dwords <= 1,
        126 | 127 => dwords <= 2,
        _ => false,
    };
    let aligned = code.is_multiple_of(dwords.clamp(1, 4));
    if exists && aligned { Ok(Operand::sgpr(code)) } else { Err(DecodeError::Operand(op.name, code as u16)) }
}

fn scalar_destination(op: &Op, kind: Kind, code: u32) -> Result<Operand, DecodeError> {
    match kind {
        Kind::None => Ok(Operand::NONE),
        kind => scalar_register(op, code, kind.dwords()),
    }
}

/// Checks a scalar source: a register, an inline constant, a special value or a literal.
fn scalar_source(op: &Op, kind: Kind, operand: Operand) -> Result<Operand, DecodeError> {
    match operand.0 {
        0..=127 => scalar_register(op, operand.0.into(), kind.dwords()),
        128..=208 | 235..=248 | 251..=253 | 255 => Ok(operand),
        code => Err(DecodeError::Operand(op.name, code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guessed_length_is_the_length_of_every_instruction_that_is_known() {
        // v_add_f32, the same with a literal, with a control word, in its long form; s_mov_b32, s_add_u32 with a
        // literal; s_nop, s_movk_i32, s_cmp_eq_u32 with a literal; s_load_dword, ds_read_b32.
        let words: &[[u32; 2]] = &[
            [0x0200_0501, 0],
            [0x0200_04ff, 0x1234],
            [0x0200_04f9, 0x0606_0601],
            [0xd101_0000, 0x0002_0501],
            [0xbe80_0001, 0],
            [0x8000_ff01, 0x1234],
            [0xbf80_00ff, 0],
            [0xb000_00ff, 0],
            [0xbf06_ff01, 0x1234],
            [0xc002_0000, 0],
            [0xd86c_0000, 0],
        ];
        let decoder = Decoder::new(Arch::Gfx906);
        for words in words {
            let inst = decoder.decode(words).unwrap_or_else(|e| panic!("{words:08x?}: {e}"));
            assert_eq!(length(words[0]), usize::from(inst.size) / 4, "{}", inst.op.name);
        }
    }
}
