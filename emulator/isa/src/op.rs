//! The row of the instruction tables: one *operation*, in all its encodings.

use crate::action::Action;
use crate::arch::{Arch, ArchSet, Generation};
use crate::arithmetic::{Arithmetic, Number};
use crate::atomic::AtomicOp;
use crate::env::Env;
use crate::inst::Inst;
use crate::micro::{Micros, Taken};
use crate::operand::Kind;
use crate::wave::Wave;

/// The encoding family that an opcode number belongs to. VOP1, VOP2 and VOPC operations also appear in VOP3, at the
/// fixed distance [`Family::vop3_base`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the manual's")]
pub enum Family {
    Sop2,
    Sopk,
    Sop1,
    Sopc,
    Sopp,
    Smem,
    Vop2,
    Vop1,
    Vopc,
    Vop3,
    Vop3p,
    /// A product of matrices behind a prefix that loads its scales: the opcode is that of the product without them.
    Vop3px2,
    Ds,
    Flat,
    Scratch,
    Global,
    Mubuf,
}

impl Family {
    /// Every family, in the order of the coverage page.
    pub const ALL: [Family; 17] = [
        Family::Sop2,
        Family::Sopk,
        Family::Sop1,
        Family::Sopc,
        Family::Sopp,
        Family::Smem,
        Family::Vop2,
        Family::Vop1,
        Family::Vopc,
        Family::Vop3,
        Family::Vop3p,
        Family::Vop3px2,
        Family::Ds,
        Family::Flat,
        Family::Scratch,
        Family::Global,
        Family::Mubuf,
    ];

    /// The number of opcodes that the family's opcode field can express.
    pub const fn opcodes(self, generation: Generation) -> usize {
        match generation {
            Generation::Gfx9 => match self {
                Family::Sop2 | Family::Sopc | Family::Sopp => 128,
                Family::Sopk => 32,
                Family::Sop1 | Family::Smem | Family::Vop1 | Family::Vopc | Family::Ds => 256,
                Family::Vop2 => 64,
                Family::Vop3 => 1024,
                Family::Vop3p | Family::Vop3px2 => 128,
                Family::Flat | Family::Scratch | Family::Global | Family::Mubuf => 128,
            },
        }
    }

    /// Where the family's opcodes begin in the VOP3 opcode space, if they appear there.
    pub const fn vop3_base(self, generation: Generation) -> Option<u16> {
        match (generation, self) {
            (Generation::Gfx9, Family::Vopc) => Some(0),
            (Generation::Gfx9, Family::Vop2) => Some(0x100),
            (Generation::Gfx9, Family::Vop1) => Some(0x140),
            _ => None,
        }
    }
}

/// What executing an instruction asks of the loop that executes instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on with the next instruction (the program counter may have been changed).
    Next,
    /// The wave has ended.
    End,
    /// The wave waits at the workgroup's barrier.
    Barrier,
    /// The wave has nothing to do for a while: let others run.
    Yield,
    /// Hardware may hold the wave here until its memory accesses are done (`s_waitcnt`). Here they are: go on, or let others
    /// run as hardware would.
    Wait,
    /// The wave cannot go on; [`Wave::trap`] says why.
    Trap,
}

/// The code of an operation for one level of the host's vector instructions.
///
/// # Safety
/// The host must have the vector instructions that the function was compiled for; [`Levels`] holds one per level.
pub type Run = unsafe fn(&mut Wave, &Inst, &mut dyn Env) -> Flow;

/// The same code compiled for each level of the host's vector instructions.
#[derive(Clone, Copy)]
pub struct Levels {
    /// Runs on every host.
    pub base: Run,
    /// Needs AVX2, FMA, F16C, BMI1, BMI2, LZCNT and POPCNT (x86-64-v3).
    pub v3: Run,
    /// Needs AVX-512 F, BW, CD, DQ and VL in addition (x86-64-v4).
    pub v4: Run,
}

#[cfg(not(feature = "semantics"))]
impl Levels {
    /// Of a crate that only decodes: nothing executes it.
    pub(crate) const NOTHING: Levels = {
        fn nothing(_: &mut Wave, _: &Inst, _: &mut dyn Env) -> Flow {
            Flow::Trap
        }
        Levels { base: nothing, v3: nothing, v4: nothing }
    };
}

/// Properties of an operation that no operand kind expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u64);

impl Flags {
    /// Nothing special.
    pub const NONE: Flags = Flags(0);
    /// Has no VOP3 form.
    pub const E32_ONLY: Flags = Flags(1);
    /// The destination is also the third source (`v_mac`, `v_fmac`, `v_dot2c`).
    pub const DST_IS_SRC2: Flags = Flags(1 << 1);
    /// The third source is a lane mask: VCC in the short form.
    pub const MASK_IN: Flags = Flags(1 << 2);
    /// Writes a lane mask beside its result: VCC in the short form.
    pub const MASK_OUT: Flags = Flags(1 << 3);
    /// The literal is the second source (`v_madmk`).
    pub const K_SECOND: Flags = Flags(1 << 4);
    /// The literal is the third source (`v_madak`).
    pub const K_THIRD: Flags = Flags(1 << 5);
    /// The result is a scalar register (`v_readlane`).
    pub const SCALAR_DST: Flags = Flags(1 << 6);
    /// There is no sub-dword form.
    pub const NO_SDWA: Flags = Flags(1 << 7);
    /// There is no data-parallel form.
    pub const NO_DPP: Flags = Flags(1 << 8);
    /// A 16-bit result leaves the upper half of its register alone; others clear it.
    pub const KEEP_HIGH: Flags = Flags(1 << 9);
    /// `op_sel` chooses halves of the operands in the VOP3 form.
    pub const OP_SEL: Flags = Flags(1 << 10);
    /// Writes EXEC as well as its destination (`v_cmpx`).
    pub const WRITES_EXEC: Flags = Flags(1 << 11);
    /// A jump: the immediate is a distance in dwords.
    pub const BRANCH: Flags = Flags(1 << 12);
    /// Source modifiers and clamp have no meaning, although the kinds are floats.
    pub const NO_MODS: Flags = Flags(1 << 13);
    /// The clamp modifier saturates, although the kinds are integers.
    pub const CLAMP: Flags = Flags(1 << 14);
    /// There is no clamp modifier, although the kinds are floats.
    pub const NO_CLAMP: Flags = Flags(1 << 15);
    /// There is no output multiplier, although the result is a float.
    pub const NO_OMOD: Flags = Flags(1 << 16);
    /// The immediate is a mode of relative register addressing (`s_set_gpr_idx_on`).
    pub const INDEX_MODE: Flags = Flags(1 << 17);
    /// The second source, an exponent, is written as a half in the VOP3 form (`v_ldexp_f16`).
    pub const HALF_EXPONENT: Flags = Flags(1 << 18);
    /// Both halves of `op_sel_hi` are set unless the text says otherwise, although the kinds are not packed (`v_dot4`).
    pub const DOT: Flags = Flags(1 << 19);
    /// Multiplies matrices of doubles: a modifier that permutes for other types negates.
    pub const F64_MATRIX: Flags = Flags(1 << 20);
    /// Denormal sources are never read as zero, whatever the mode: tests of the class of a number.
    pub const DENORMALS: Flags = Flags(1 << 21);
    /// The offset is a pattern of lanes (`ds_swizzle_b32`).
    pub const SWIZZLE: Flags = Flags(1 << 22);
    /// The destination is an accumulation register.
    pub const ACC_DST: Flags = Flags(1 << 23);
    /// The source is an accumulation register.
    pub const ACC_SRC: Flags = Flags(1 << 24);
    /// The first source is a vector register.
    pub const VECTOR_SRC: Flags = Flags(1 << 25);
    /// Sources are scalar, as the number of a lane is; but for a first one that is [`Flags::VECTOR_SRC`].
    pub const LANE_SRC: Flags = Flags(1 << 26);
    /// Synchronises the waves of the whole grid: its GDS bit is always set.
    pub const GWS: Flags = Flags(1 << 27);
    /// The GDS bit is never set.
    pub const NO_GDS: Flags = Flags(1 << 28);
    /// Bits of the scope are allowed on every processor (`buffer_wbl2`).
    pub const SCOPES: Flags = Flags(1 << 29);
    /// Control never goes to the next instruction.
    pub const NO_NEXT: Flags = Flags(1 << 30);
    /// Jumps to an address in registers.
    pub const INDIRECT: Flags = Flags(1 << 31);
    /// The immediate field must be zero.
    pub const NO_IMMEDIATE: Flags = Flags(1 << 32);
    /// A literal follows the instruction always (`s_setreg_imm32_b32`).
    pub const LITERAL: Flags = Flags(1 << 33);
    /// The wave waits for the others of its workgroup.
    pub const BARRIER: Flags = Flags(1 << 34);
    /// The sub-dword form only chooses what is read of the source: the result is written whole.
    pub const PART_SRC: Flags = Flags(1 << 35);
    /// `op_sel` chooses the byte of the destination that is written, by its upper two bits.
    pub const BYTE_DST: Flags = Flags(1 << 36);
    /// Multiplies a sparse matrix: the third source says where its elements are, and the destination is what is added to.
    pub const SPARSE: Flags = Flags(1 << 37);
    /// Of the scalar ALU: reads the condition code.
    pub const READS_SCC: Flags = Flags(1 << 38);
    /// Of the scalar ALU: writes the condition code.
    pub const WRITES_SCC: Flags = Flags(1 << 39);
    /// Of the scalar ALU: the destination is a source, too. It is changed in place, or only read.
    pub const READS_DST: Flags = Flags(1 << 40);
    /// The fields of modifiers are a truth table (`v_bitop3_b32`).
    pub const TRUTH_TABLE: Flags = Flags(1 << 41);
    /// The lower two bits of `op_sel` are `fi` and `bound_ctrl`: whether lanes that are off are read, and whether they give zero.
    pub const FETCHES: Flags = Flags(1 << 42);
    /// `op_sel` chooses the half of the destination that is written, by its upper bit.
    pub const HALF_DST: Flags = Flags(1 << 44);
    /// Registers of its result need not begin at an even one, whatever the processor wants.
    pub const ANY_REGISTER: Flags = Flags(1 << 43);
    /// A 16-bit result goes to the upper half of its register; the lower half stays (`v_fma_mixhi_f16`).
    pub const HIGH_DST: Flags = Flags(1 << 46);
    /// Invalidates the cache of vector loads: later ones see what other workgroups wrote.
    pub const INVALIDATES: Flags = Flags(1 << 45);

    /// CBSZ and BLGP say what the elements of the factors are: [`FactorFormat`](crate::inst::FactorFormat).
    pub const FORMATS: Flags = Flags(1 << 47);
    /// Whatever byte is chosen, the result is late as one that does not begin with its register.
    pub const LATE_BYTE: Flags = Flags(1 << 48);

    /// Both sets.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// True when all of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a loaded value fills its register, or which part of a register is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Whole dwords, or zero extension.
    Zero,
    /// Sign extension.
    Sign,
    /// The low half of the register. A load keeps the high half, or clears it where
    /// [`Wave::sramecc`](crate::wave::Wave::sramecc) is set.
    D16,
    /// Like [`Fill::D16`] with sign extension to 16 bits.
    D16Sign,
    /// The high half of the register; a load does with the low half what [`Fill::D16`] does with the high one.
    D16High,
    /// Like [`Fill::D16High`] with sign extension to 16 bits.
    D16HighSign,
}

/// What a memory operation does; the families say how the address is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Not a memory operation, or one with code of its own.
    None,
    /// Reads that many bytes a lane.
    Load(u8, Fill),
    /// Writes that many bytes a lane; only [`Fill::Zero`] and [`Fill::D16High`] occur.
    Store(u8, Fill),
    /// Two reads at two offsets in units of the element size times the stride (`ds_read2`): element bytes, stride.
    Load2(u8, u8),
    /// Two writes at two offsets (`ds_write2`): element bytes, stride.
    Store2(u8, u8),
    /// Read, modify, write of so many bytes; the old value is returned when `true` (LDS) or when GLC is set.
    Atomic(AtomicOp, u8, bool),
    /// Reads that many bytes from global memory into LDS, one element a lane.
    LoadLds(u8, Fill),
    /// Reads that many components of an element in the format of a buffer's descriptor.
    LoadFormat(u8, Packing),
    /// Writes that many components of an element in the format of a buffer's descriptor.
    StoreFormat(u8, Packing),
}

/// Where the components of a formatted element are in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// A register each.
    Dwords,
    /// Half a register each. An odd number's last high half is as [`Fill::D16`] has it.
    Halves,
    /// One component, as [`Fill::D16High`] has it.
    HighHalf,
}

impl Packing {
    /// How many registers so many components take.
    pub const fn dwords(self, components: u8) -> u8 {
        match self {
            Packing::Dwords => components,
            Packing::Halves => components.div_ceil(2),
            Packing::HighHalf => 1,
        }
    }

    /// True when a part of the last register is of no component.
    pub const fn is_partial(self, components: u8) -> bool {
        match self {
            Packing::Dwords => false,
            Packing::Halves => components % 2 == 1,
            Packing::HighHalf => true,
        }
    }
}

/// One operation of the instruction set.
pub struct Op {
    /// The mnemonic without encoding suffix.
    pub name: &'static str,
    /// The number in the family's opcode field, by generation: see [`Op::code`].
    pub codes: [Option<u16>; Generation::COUNT],
    /// The processors on which the number means this operation.
    pub archs: ArchSet,
    /// The family whose opcode field the numbers are of.
    pub family: Family,
    /// What the destination is.
    pub dst: Kind,
    /// What the sources are.
    pub src: [Kind; 3],
    /// What the kinds do not say.
    pub flags: Flags,
    /// What the operation does, for code outside of the tables.
    pub action: Action,
    /// What a memory operation does.
    pub access: Access,
    /// What it is counted as.
    pub arithmetic: Arithmetic,
    /// The code that executes it.
    pub run: Levels,
    /// The code that executes it within a block, if it is of the scalar ALU.
    pub micros: Option<Micros>,
    /// For jumps that depend on registers at most: whether it is taken.
    pub taken: Option<Taken>,
}

impl Op {
    /// True for matrix instructions, whose modifier fields are CBSZ, ABID and BLGP.
    pub fn is_matrix(&self) -> bool {
        matches!(self.action, Action::MatrixProduct(_))
    }

    /// The number in the family's opcode field; `None` in a generation that lacks the operation.
    pub const fn code(&self, generation: Generation) -> Option<u16> {
        self.codes[generation as usize]
    }

    /// A row of gfx9; the shapes of the families are filled in by the table macros.
    pub const fn new(name: &'static str, family: Family, code: u16, archs: ArchSet, run: Levels) -> Op {
        Op {
            name,
            codes: [Some(code)],
            archs,
            family,
            dst: Kind::None,
            src: [Kind::None; 3],
            flags: Flags::NONE,
            action: Action::Other,
            access: Access::None,
            arithmetic: Arithmetic::None,
            run,
            micros: None,
            taken: None,
        }
    }

    /// The same row with its operands.
    pub const fn operands(mut self, dst: Kind, src: [Kind; 3]) -> Op {
        self.dst = dst;
        self.src = src;
        self
    }

    /// The same row with more flags.
    pub const fn with(mut self, flags: Flags) -> Op {
        self.flags = self.flags.and(flags);
        self
    }

    /// The same row, which does this.
    pub(crate) const fn is(mut self, action: Action) -> Op {
        self.action = action;
        self
    }

    /// The same row with a memory access.
    pub const fn access(mut self, access: Access) -> Op {
        self.access = access;
        self
    }

    /// The same row, counted as so many operations of each lane.
    pub(crate) const fn counts(mut self, of: Number, each: u32) -> Op {
        self.arithmetic = Arithmetic::Lane(of, each);
        self
    }

    /// The same row, counted as so many operations of the wave.
    pub(crate) const fn counts_of_wave(mut self, of: Number, each: usize) -> Op {
        self.arithmetic = Arithmetic::Wave(of, each as u32);
        self
    }

    /// The same row with its code within a block.
    pub(crate) const fn micros(mut self, micros: Option<Micros>) -> Op {
        self.micros = micros;
        self
    }

    /// The same row with the condition of its jump.
    pub(crate) const fn taken(mut self, taken: Taken) -> Op {
        self.taken = Some(taken);
        self
    }

    /// True when negation and absolute value apply to source `s`.
    pub fn takes_modifiers(&self, s: usize) -> bool {
        let pairs = match self.family {
            Family::Vop2 => matches!(self.src[s], Kind::V2F16 | Kind::V2Bf16),
            Family::Vop3 => matches!(self.src[s], Kind::V2F16 | Kind::V2Bf16 | Kind::V2F32),
            _ => false,
        };
        (pairs || self.src[s].takes_float_modifiers()) && !self.flags.has(Flags::NO_MODS)
    }

    /// True when there is a clamp modifier: results of floats between 0 and 1, of integers within their range.
    pub fn has_clamp(&self) -> bool {
        let float = self.dst.is_float() || self.src.iter().any(|k| k.is_float());
        self.flags.has(Flags::CLAMP)
            || float && self.dst != Kind::None && !self.flags.has(Flags::NO_MODS) && !self.flags.has(Flags::NO_CLAMP)
    }

    /// True when results can be multiplied by 2, 4 and 1/2.
    pub fn has_omod(&self) -> bool {
        let pair = match self.family {
            Family::Vop3p | Family::Vop3px2 => false,
            Family::Vop3 => matches!(self.dst, Kind::V2F32 | Kind::V2F16 | Kind::V2Bf16),
            _ => self.dst == Kind::V2F32,
        };
        (pair || matches!(self.dst, Kind::F16 | Kind::F32 | Kind::F64))
            && !self.flags.has(Flags::NO_MODS)
            && !self.flags.has(Flags::NO_OMOD)
    }

    /// The opcode number in a family: its own, or that of its VOP3 form.
    fn code_in(&self, family: Family, generation: Generation) -> Option<u16> {
        let code = self.code(generation)?;
        if self.family == family {
            Some(code)
        } else if family == Family::Vop3 && self.has_two_forms() {
            self.family.vop3_base(generation).map(|base| base + code)
        } else {
            None
        }
    }

    /// True when the mnemonic is printed with the name of its form, since there are others.
    pub fn is_suffixed(&self) -> bool {
        let is_moved = matches!(self.family, Family::Vop1 | Family::Vop2) && !self.flags.has(Flags::NO_DPP);
        self.has_two_forms() || is_moved
    }

    /// True when the operation has a short and a long form.
    pub fn has_two_forms(&self) -> bool {
        matches!(self.family, Family::Vop1 | Family::Vop2 | Family::Vopc) && !self.flags.has(Flags::E32_ONLY)
    }
}

/// The rows of one family, by opcode number, for one processor.
pub struct Index {
    rows: Vec<Option<&'static Op>>,
}

impl Index {
    /// Collects the rows of `family` that `arch` has.
    pub fn new(family: Family, arch: Arch, tables: &[&'static [Op]]) -> Index {
        let generation = arch.row().generation;
        let mut rows = vec![None; family.opcodes(generation)];
        for op in tables.iter().copied().flatten() {
            if let Some(code) = op.code_in(family, generation)
                && op.archs.contains(arch)
            {
                rows[usize::from(code)] = Some(op);
            }
        }
        Index { rows }
    }

    /// The row with that opcode number.
    pub fn get(&self, code: u32) -> Option<&'static Op> {
        self.rows.get(code as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn an_opcode_of_a_processor_has_one_row() {
        for arch in Arch::ALL {
            let mut rows = HashMap::new();
            for op in crate::rows().filter(|op| op.archs.contains(arch)) {
                for family in Family::ALL {
                    let Some(code) = op.code_in(family, arch.row().generation) else { continue };
                    let other: Option<&str> = rows.insert((family, code), op.name);
                    assert_eq!(other, None, "{arch}: {family:?} {code:#x} is {} too", op.name);
                }
            }
        }
    }

    #[test]
    fn families_are_numbered_in_the_order_of_their_list() {
        for (number, family) in Family::ALL.into_iter().enumerate() {
            assert_eq!(family as usize, number, "{family:?}");
        }
    }
}
