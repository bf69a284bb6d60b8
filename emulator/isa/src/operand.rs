//! Operand codes, and the kinds of value that an operand can be.
//!
//! A code is the 9-bit source field of the vector encodings; scalar encodings use its lower half. Two ranges are
//! added above it for accumulation registers and for "nothing here". Source: Vega ISA manual, "Scalar Operands" and
//! "Vector Operands"; CDNA2 manual for accumulation registers.

/// A register, constant or special value, by its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand(pub u16);

impl Operand {
    /// No operand in this place.
    pub const NONE: Operand = Operand(0xffff);
    /// `flat_scratch_lo`.
    pub const FLAT_SCRATCH: Operand = Operand(102);
    /// `vcc_lo`.
    pub const VCC: Operand = Operand(106);
    /// `m0`.
    pub const M0: Operand = Operand(124);
    /// `exec_lo`.
    pub const EXEC: Operand = Operand(126);
    /// Inline constant zero.
    pub const ZERO: Operand = Operand(128);
    /// In the src0 field: a sub-dword control word follows.
    pub const SDWA: Operand = Operand(249);
    /// In the src0 field: a data-parallel control word follows.
    pub const DPP: Operand = Operand(250);
    /// True when VCC is zero.
    pub const VCCZ: Operand = Operand(251);
    /// True when EXEC is zero.
    pub const EXECZ: Operand = Operand(252);
    /// The scalar condition code.
    pub const SCC: Operand = Operand(253);
    /// A 32-bit literal follows the instruction.
    pub const LITERAL: Operand = Operand(255);

    /// Vector register `n`.
    pub const fn vgpr(n: u32) -> Operand {
        Operand(256 + n as u16)
    }

    /// Accumulation register `n`.
    pub const fn agpr(n: u32) -> Operand {
        Operand(512 + n as u16)
    }

    /// Scalar register (or special register) with code `n`.
    pub const fn sgpr(n: u32) -> Operand {
        Operand(n as u16)
    }

    /// True when there is an operand.
    pub const fn is_some(self) -> bool {
        self.0 != Operand::NONE.0
    }

    /// True for vector and accumulation registers.
    pub const fn is_vector(self) -> bool {
        self.0 >= 256 && self.is_some()
    }

    /// True for accumulation registers.
    pub const fn is_agpr(self) -> bool {
        self.0 >= 512 && self.is_some()
    }

    /// True for values held in the scalar register file (numbered and named registers).
    pub const fn is_scalar_register(self) -> bool {
        self.0 < 128
    }

    /// The value of an inline integer constant.
    pub const fn inline_integer(self) -> Option<i32> {
        match self.0 {
            128..=192 => Some(self.0 as i32 - 128),
            193..=208 => Some(192 - self.0 as i32),
            _ => None,
        }
    }

    /// The value of an inline floating-point constant; `1/(2*pi)` is code 248.
    pub const fn inline_float(self) -> Option<f64> {
        Some(match self.0 {
            240 => 0.5,
            241 => -0.5,
            242 => 1.0,
            243 => -1.0,
            244 => 2.0,
            245 => -2.0,
            246 => 4.0,
            247 => -4.0,
            248 => 0.15915494309189532,
            _ => return None,
        })
    }

    /// The bits of an inline floating-point constant in a 16-bit operand.
    pub const fn inline_float_bits16(self) -> Option<u16> {
        Some(match self.0 {
            240 => 0x3800,
            241 => 0xb800,
            242 => 0x3c00,
            243 => 0xbc00,
            244 => 0x4000,
            245 => 0xc000,
            246 => 0x4400,
            247 => 0xc400,
            248 => 0x3118,
            _ => return None,
        })
    }

    /// The bits of an inline floating-point constant in a 32-bit operand.
    pub const fn inline_float_bits32(self) -> Option<u32> {
        Some(match self.0 {
            240 => 0x3f00_0000,
            241 => 0xbf00_0000,
            242 => 0x3f80_0000,
            243 => 0xbf80_0000,
            244 => 0x4000_0000,
            245 => 0xc000_0000,
            246 => 0x4080_0000,
            247 => 0xc080_0000,
            248 => 0x3e22_f983,
            _ => return None,
        })
    }

    /// The bits of an inline floating-point constant in a 64-bit operand.
    pub const fn inline_float_bits64(self) -> Option<u64> {
        match self.inline_float() {
            // The hardware's 1/(2*pi) differs from the nearest double in the last bit.
            Some(_) if self.0 == 248 => Some(0x3fc4_5f30_6dc9_c882),
            Some(value) => Some(value.to_bits()),
            None => None,
        }
    }
}

/// What an operand's bits are: how many registers they take and how modifiers and constants apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No operand.
    None,
    /// 16 bits, signed.
    I16,
    /// 16 bits, unsigned.
    U16,
    /// Half precision.
    F16,
    /// A brain float: the upper half of a single.
    Bf16,
    /// 32 bits without sign or modifiers.
    B32,
    /// 32 bits, signed.
    I32,
    /// 32 bits, unsigned.
    U32,
    /// Single precision.
    F32,
    /// 32 bits that are moved, not computed, but accept the modifiers of floats (`v_cndmask_b32`).
    M32,
    /// 64 bits without sign or modifiers.
    B64,
    /// 64 bits, signed.
    I64,
    /// 64 bits, unsigned.
    U64,
    /// Double precision.
    F64,
    /// Two 16-bit integers in one register.
    V2I16,
    /// Two halves in one register.
    V2F16,
    /// Two brain floats in one register.
    V2Bf16,
    /// A single, or half of a register, as `op_sel_hi` says (`v_fma_mix`).
    Mix,
    /// Two singles in two registers.
    V2F32,
    /// Two dwords in two registers, without modifiers.
    V2B32,
    /// One bit a lane, in scalar registers: a pair of them for 64 lanes.
    Mask,
    /// That many registers of raw data (3, 4, 8, 16, 32).
    Dwords(u8),
}

impl Kind {
    /// The number of 32-bit registers that the operand takes.
    pub const fn dwords(self) -> u32 {
        match self {
            Kind::None => 0,
            Kind::B64 | Kind::I64 | Kind::U64 | Kind::F64 | Kind::V2F32 | Kind::V2B32 => 2,
            Kind::Mask => crate::arch::WAVE.mask_dwords(),
            Kind::Dwords(n) => n as u32,
            _ => 1,
        }
    }

    /// True when negation and absolute value apply to it.
    pub const fn takes_float_modifiers(self) -> bool {
        matches!(self, Kind::F16 | Kind::Bf16 | Kind::F32 | Kind::F64 | Kind::M32 | Kind::Mix)
    }

    /// True for brain floats, whose floating-point constants are the upper halves of singles.
    pub const fn is_brain(self) -> bool {
        matches!(self, Kind::Bf16 | Kind::V2Bf16)
    }

    /// True for operands of 16 bits, whose floating-point constants have as many.
    pub const fn is_16_bit(self) -> bool {
        matches!(self, Kind::I16 | Kind::U16 | Kind::F16 | Kind::Bf16 | Kind::V2I16 | Kind::V2F16 | Kind::V2Bf16)
    }

    /// True for two values in one operand, selected by `op_sel` and `op_sel_hi`.
    pub const fn is_packed(self) -> bool {
        matches!(self, Kind::V2I16 | Kind::V2F16 | Kind::V2Bf16 | Kind::V2F32 | Kind::V2B32)
    }

    /// True for floating-point operands.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Kind::F16 | Kind::Bf16 | Kind::F32 | Kind::F64 | Kind::V2F16 | Kind::V2Bf16 | Kind::V2F32 | Kind::Mix
        )
    }
}
