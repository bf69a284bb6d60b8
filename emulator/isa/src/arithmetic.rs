//! Which arithmetic an operation is counted as: the field's convention, which peaks of products and counters of hardware share.
//!
//! An addition, a multiplication or a transcendental function is one operation, a fused multiply-add two; dot products and products of
//! matrices are as many as their shape has. Conversions, comparisons, the least and the greatest, roundings, scalings by powers of two,
//! moves and other integer arithmetic are none. Source: the derived counters of rocprof, `SQ_INSTS_VALU_{ADD,MUL,TRANS,FMA}_*` and
//! `SQ_INSTS_VALU_MFMA_MOPS_*`.

/// What is added and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Number {
    /// Floats of four bits, of matrix instructions.
    F4,
    /// Floats of six bits, of matrix instructions.
    F6,
    /// Floats of eight bits, of matrix instructions.
    F8,
    /// Half precision.
    F16,
    /// Brain floats.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Integers of four bits, of dot products.
    I4,
    /// Integers of eight bits, of dot products and matrix instructions.
    I8,
    /// Integers of 16 bits, of dot products.
    I16,
}

impl Number {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Number::F4 => "fp4",
            Number::F6 => "fp6",
            Number::F8 => "fp8",
            Number::F16 => "f16",
            Number::Bf16 => "bf16",
            Number::F32 => "f32",
            Number::F64 => "f64",
            Number::I4 => "i4",
            Number::I8 => "i8",
            Number::I16 => "i16",
        }
    }

    /// True for floats.
    pub const fn is_float(self) -> bool {
        !matches!(self, Number::I4 | Number::I8 | Number::I16)
    }
}

/// The operations of one execution that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// None.
    None,
    /// So many of each active lane.
    Lane(Number, u32),
    /// So many of the wave, whatever lanes are active.
    Wave(Number, u32),
}

impl Arithmetic {
    /// What so many executions by so many active lanes in all are.
    pub fn total(self, executions: u64, lanes: u64) -> Option<(Number, u64)> {
        match self {
            Arithmetic::None => None,
            Arithmetic::Lane(of, each) => Some((of, u64::from(each) * lanes)),
            Arithmetic::Wave(of, each) => Some((of, u64::from(each) * executions)),
        }
    }
}
