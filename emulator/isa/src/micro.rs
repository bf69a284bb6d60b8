//! Operations of the scalar ALU in the compact form of blocks.

use crate::wave::Sgprs;

/// The code of an operation in a block: from the registers and the condition code to the condition code behind the last of
/// the operations, of which it is the first.
pub type Micro = fn(&mut Sgprs, bool, &[MicroOp]) -> bool;

/// The same by what the sources are: bit `n` is set where source `n` is a constant.
pub type Micros = [Micro; 4];

/// Whether a jump is taken, from the registers and the condition code.
pub type Taken = fn(&Sgprs, bool) -> bool;

/// An operation of a block.
pub struct MicroOp {
    pub(crate) run: Micro,
    /// Values of sources that are constants (operations on 64 bits extend the sign); the first is the immediate of SOPK.
    pub(crate) constants: [i32; 2],
    /// Codes of registers.
    pub(crate) dst: u8,
    pub(crate) src: [u8; 2],
}

/// Executes operations. Each calls the next by this: there are no more calls within each other than a block has operations,
/// and none where compilers make jumps of them.
#[inline(always)]
pub(crate) fn proceed(sgprs: &mut Sgprs, scc: bool, ops: &[MicroOp]) -> bool {
    match ops {
        [op, ..] => (op.run)(sgprs, scc, ops),
        [] => scc,
    }
}
