//! The architectural state of one wave of 64 lanes.

use crate::arch::{Arch, WAVE};
use crate::env::Fault;
use crate::mode::Mode;
use crate::operand::{Kind, Operand};

/// Lanes of a wave.
pub const LANES: usize = WAVE.lanes() as usize;

/// Does something for each lane of a mask, lower lanes first.
#[inline(always)]
pub fn each_lane(mask: u64, mut what: impl FnMut(usize)) {
    if mask == u64::MAX {
        (0..LANES).for_each(what);
        return;
    }
    let mut left = mask;
    while left != 0 {
        what(left.trailing_zeros() as usize);
        left &= left - 1;
    }
}

/// Vector registers of a wave, accumulation registers included.
pub const VGPRS: usize = 512;

/// One vector register: a dword for each lane.
pub type Vgpr = [u32; LANES];

/// What begins at a cache line of the host, wherever it is: of values for each lane that do not, each vector access needs two lines, and
/// a load that follows its store waits until that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Aligned<T>(pub T);

impl<T> std::ops::Deref for Aligned<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> std::ops::DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// All vector registers of one wave. Each begins at a cache line of the host, so that none of its vector accesses needs two.
#[derive(PartialEq, Eq)]
#[repr(align(64))]
pub struct Registers([Vgpr; VGPRS]);

impl std::ops::Deref for Registers {
    type Target = [Vgpr; VGPRS];
    #[inline(always)]
    fn deref(&self) -> &[Vgpr; VGPRS] {
        &self.0
    }
}

impl std::ops::DerefMut for Registers {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Vgpr; VGPRS] {
        &mut self.0
    }
}

/// The vector register file of one wave. Like the hardware's, it is not cleared between waves.
pub type VgprFile = Box<Registers>;

/// A vector register file with undefined (in fact zero) contents.
pub fn vgpr_file() -> VgprFile {
    Box::new(Registers([[0; LANES]; VGPRS]))
}

/// Why a wave stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// The words at the program counter are no instruction of this processor, or one that is not implemented.
    Illegal,
    /// The program counter left mapped memory.
    Fetch,
    /// A memory access was refused.
    Memory(Fault),
    /// An aperture that this kind of access may not touch, or an access that is not aligned as it must be.
    Aperture {
        /// The address.
        address: u64,
    },
    /// `s_trap` with that number.
    Trap(u8),
    /// `s_sethalt`: no debugger is there to resume the wave.
    Halt,
    /// The wave turned skipping of vector instructions on (MODE.VSKIP), which is not emulated.
    Vskip,
}

/// Scalar registers by operand code: numbered ones, `flat_scratch`, `xnack_mask`, `vcc`, `ttmp`, `m0`, `exec`.
pub type Sgprs = [u32; 128];

/// A pair of scalar registers.
#[inline(always)]
pub(crate) fn pair(sgprs: &Sgprs, first: Operand) -> u64 {
    let n = usize::from(first.0);
    u64::from(sgprs[n & 127]) | u64::from(sgprs[(n + 1) & 127]) << 32
}

/// One wave: its registers and where it is.
pub struct Wave {
    /// Address of the next instruction.
    pub pc: u64,
    /// The scalar condition code.
    pub scc: bool,
    /// Scalar registers.
    pub sgpr: Sgprs,
    /// Vector registers; see [`Wave::accum_offset`] for accumulation registers.
    pub vgpr: VgprFile,
    /// Where `a0` is in [`Wave::vgpr`].
    pub accum_offset: u32,
    /// Floating-point mode and such.
    pub mode: Mode,
    /// The wave's processor.
    pub arch: Arch,
    /// The device has error correction of its static memories on (`sramecc+`): loads into half of a register clear the
    /// other half. Source: LLVM's `GCNSubtarget::d16PreservesUnusedBits`.
    pub sramecc: bool,
    /// High halves of the shared (LDS) and private (scratch) apertures.
    pub apertures: Apertures,
    /// Hardware registers that `s_getreg` reads: hardware id, LDS and register allocation.
    pub hw_regs: HwRegs,
    /// Why the wave stopped, after [`Flow::Trap`](crate::op::Flow::Trap).
    pub trap: Option<Trap>,
    /// Instructions executed.
    pub executed: u64,
    /// Vector memory accesses that a cache may not answer (`glc`, `sc0`, `sc1`): how waves look for what others wrote.
    pub coherent: u64,
}

/// The address windows that flat instructions send to LDS and to scratch: the high 32 bits of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apertures {
    /// LDS.
    pub shared: u32,
    /// Scratch.
    pub private: u32,
}

/// Hardware registers with values that the machine gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HwRegs {
    /// `HW_REG_HW_ID`.
    pub hw_id: u32,
    /// `HW_REG_GPR_ALLOC`.
    pub gpr_alloc: u32,
    /// `HW_REG_LDS_ALLOC`.
    pub lds_alloc: u32,
    /// `HW_REG_TRAPSTS`.
    pub trap_sts: u32,
    /// `HW_REG_XCC_ID` of gfx942.
    pub xcc_id: u32,
}

impl Wave {
    /// A wave with all lanes on, at `pc`.
    pub fn new(arch: Arch, pc: u64, vgpr: VgprFile) -> Wave {
        let mut sgpr = [0; 128];
        sgpr[usize::from(Operand::EXEC.0)] = u32::MAX;
        sgpr[usize::from(Operand::EXEC.0) + 1] = u32::MAX;
        Wave {
            pc,
            scc: false,
            sgpr,
            vgpr,
            accum_offset: 256,
            mode: Mode(0xf0),
            arch,
            sramecc: false,
            apertures: Apertures::default(),
            hw_regs: HwRegs::default(),
            trap: None,
            executed: 0,
            coherent: 0,
        }
    }

    /// The execution mask.
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        self.pair(Operand::EXEC)
    }

    /// Sets the execution mask.
    #[inline(always)]
    pub fn set_exec(&mut self, mask: u64) {
        self.set_pair(Operand::EXEC, mask);
    }

    /// The vector condition code.
    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.pair(Operand::VCC)
    }

    /// A pair of scalar registers.
    #[inline(always)]
    pub fn pair(&self, first: Operand) -> u64 {
        pair(&self.sgpr, first)
    }

    /// Sets a pair of scalar registers.
    #[inline(always)]
    pub fn set_pair(&mut self, first: Operand, value: u64) {
        let n = usize::from(first.0);
        self.sgpr[n & 127] = value as u32;
        self.sgpr[(n + 1) & 127] = (value >> 32) as u32;
    }

    /// Sets one scalar register.
    #[inline(always)]
    pub fn set_sgpr(&mut self, register: Operand, value: u32) {
        self.sgpr[usize::from(register.0) & 127] = value;
    }

    /// The place of a vector operand's word `n` in the register file.
    #[inline(always)]
    pub fn vgpr_index(&self, operand: Operand, n: u32) -> usize {
        let code = u32::from(operand.0);
        let first = if code >= 512 { code - 512 + self.accum_offset } else { code - 256 };
        (first + n) as usize & (VGPRS - 1)
    }

    /// Word `n` of a vector operand.
    #[inline(always)]
    pub fn vector(&self, operand: Operand, n: u32) -> &Vgpr {
        &self.vgpr[self.vgpr_index(operand, n)]
    }

    /// Word `n` of a vector operand, to write.
    #[inline(always)]
    pub fn vector_mut(&mut self, operand: Operand, n: u32) -> &mut Vgpr {
        let index = self.vgpr_index(operand, n);
        &mut self.vgpr[index]
    }

    /// The first `words` words of a vector operand. An operand that would reach beyond the register file, which no
    /// compiler makes, is moved to its end.
    #[inline(always)]
    pub fn vectors(&self, operand: Operand, words: usize) -> &[Vgpr] {
        let first = self.vgpr_index(operand, 0).min(VGPRS - words);
        &self.vgpr[first..first + words]
    }

    /// As [`Wave::vectors`], to write.
    #[inline(always)]
    pub fn vectors_mut(&mut self, operand: Operand, words: usize) -> &mut [Vgpr] {
        let first = self.vgpr_index(operand, 0).min(VGPRS - words);
        &mut self.vgpr[first..first + words]
    }

    /// A scalar source of 32 bits (or of 16, in the low half).
    #[inline(always)]
    pub fn scalar32(&self, operand: Operand, literal: u32, kind: Kind) -> u32 {
        if operand.is_scalar_register() {
            self.sgpr[usize::from(operand.0)]
        } else if let Some(value) = operand.inline_integer() {
            value as u32
        } else {
            self.constant32(operand, literal, kind)
        }
    }

    /// As [`Wave::scalar32`], where it is neither a register nor an integer. Apart: every row has this.
    #[inline(never)]
    fn constant32(&self, operand: Operand, literal: u32, kind: Kind) -> u32 {
        if operand == Operand::LITERAL {
            return literal;
        }
        if kind.is_brain() {
            if let Some(bits) = operand.inline_float_bits32() {
                return bits >> 16;
            }
        } else if kind.is_16_bit() {
            if let Some(bits) = operand.inline_float_bits16() {
                return u32::from(bits);
            }
        } else if let Some(bits) = operand.inline_float_bits32() {
            return bits;
        }
        self.special(operand) as u32
    }

    /// A scalar source of 64 bits.
    #[inline(always)]
    pub fn scalar64(&self, operand: Operand, literal: u32, kind: Kind) -> u64 {
        if operand.is_scalar_register() { self.pair(operand) } else { self.constant64(operand, literal, kind) }
    }

    /// As [`Wave::scalar64`], where it is no register.
    #[inline(never)]
    fn constant64(&self, operand: Operand, literal: u32, kind: Kind) -> u64 {
        if let Some(value) = operand.inline_integer() {
            return i64::from(value) as u64;
        }
        if let Some(bits) = operand.inline_float_bits64() {
            return bits;
        }
        match (operand, kind) {
            (Operand::LITERAL, Kind::F64) => u64::from(literal) << 32,
            (Operand::LITERAL, Kind::I64) => i64::from(literal as i32) as u64,
            (Operand::LITERAL, _) => u64::from(literal),
            (other, _) => self.special(other),
        }
    }

    /// Aperture bases and limits and single-bit sources.
    fn special(&self, operand: Operand) -> u64 {
        match operand.0 {
            235 => u64::from(self.apertures.shared) << 32,
            236 => u64::from(self.apertures.shared) << 32 | 0xffff_ffff,
            237 => u64::from(self.apertures.private) << 32,
            238 => u64::from(self.apertures.private) << 32 | 0xffff_ffff,
            251 => u64::from(self.vcc() == 0),
            252 => u64::from(self.exec() == 0),
            253 => u64::from(self.scc),
            // 239, the ordered-wave id, has no meaning in compute kernels.
            _ => 0,
        }
    }
}
