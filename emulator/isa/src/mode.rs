//! The MODE register: how floating-point results are rounded, and what becomes of denormals.

/// Rounding of floating-point results. Source: Vega ISA manual, "MODE register", FP_ROUND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Toward plus infinity.
    Up,
    /// Toward minus infinity.
    Down,
    /// Toward zero.
    Zero,
}

/// The MODE register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Mode {
    fn rounding(self, shift: u32) -> Rounding {
        match self.0 >> shift & 3 {
            0 => Rounding::Nearest,
            1 => Rounding::Up,
            2 => Rounding::Down,
            _ => Rounding::Zero,
        }
    }

    /// Rounding of single-precision results.
    pub fn round32(self) -> Rounding {
        self.rounding(0)
    }

    /// Rounding of half- and double-precision results.
    pub fn round16_64(self) -> Rounding {
        self.rounding(2)
    }

    /// Registers of vector instructions are moved by an index.
    #[inline(always)]
    pub fn has_index(self) -> bool {
        self.0 & Mode::GPR_IDX_EN != 0
    }

    /// Single-precision denormal sources are read as zero.
    #[inline]
    pub fn flush_in32(self) -> bool {
        self.0 & 1 << 4 == 0
    }

    /// Single-precision denormal results are written as zero.
    #[inline]
    pub fn flush_out32(self) -> bool {
        self.0 & 1 << 5 == 0
    }

    /// Half- and double-precision denormal sources are read as zero.
    #[inline]
    pub fn flush_in16_64(self) -> bool {
        self.0 & 1 << 6 == 0
    }

    /// Half- and double-precision denormal results are written as zero.
    #[inline]
    pub fn flush_out16_64(self) -> bool {
        self.0 & 1 << 7 == 0
    }

    /// Clamping turns NaN into zero.
    #[inline]
    pub fn dx10_clamp(self) -> bool {
        self.0 & 1 << 8 != 0
    }

    /// Signaling NaNs are quieted and output modifiers are off.
    #[inline]
    pub fn ieee(self) -> bool {
        self.0 & 1 << 9 != 0
    }

    /// What is too large for a half, or for a float of eight bits, becomes the largest one.
    #[inline]
    pub fn saturates_small(self) -> bool {
        self.0 & Mode::FP16_OVFL != 0
    }

    /// Results of halves and smaller floats that overflow are the largest value instead of infinity or NaN. Infinities that
    /// come from infinite sources or from a division by zero stay. Source: LLVM's AMDGPUUsage, `.amdhsa_fp16_overflow`.
    pub const FP16_OVFL: u32 = 1 << 23;
    /// Vector instructions are skipped.
    pub const VSKIP: u32 = 1 << 28;
    /// `s_set_gpr_idx` mode is on.
    pub const GPR_IDX_EN: u32 = 1 << 27;
}
