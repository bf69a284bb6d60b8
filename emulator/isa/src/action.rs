//! What an operation does, as far as code outside of the tables tells operations apart.
//!
//! Widths and types are those of the operands' [kinds](crate::operand::Kind), memory is [`Access`](crate::op::Access), and what goes
//! across kinds is a [flag](crate::op::Flags). A match on an [`Action`] has no wildcard arm, so that a new kind has to be answered for
//! wherever one is asked for: `cargo xtask kinds` refuses others, and mnemonics that are compared.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An operation that no code outside of the tables tells apart from others.
    Other,
    /// Copies a value; of an operation of 16-bit constants, the constant.
    Move,
    /// Inverts all bits.
    Not,
    /// Combines the bits of two values.
    Bitwise(Bitwise),
    /// Combines a value with EXEC into the new EXEC, which is the result as well or leaves the old one there.
    SaveExec(Bitwise),
    /// And of two values, or with a third.
    AndOr,
    /// Or of three values.
    Or3,
    /// A left shift, or with a third value.
    ShiftOr,
    /// Takes each bit of one of two values, by the bits of another one.
    InsertField,
    /// A part of a value, extended to the whole.
    ExtractField,
    /// Shifts to the left.
    ShiftLeft,
    /// Shifts to the right, filled with zeros.
    ShiftRight,
    /// Shifts to the right, filled with the sign.
    ShiftRightSigned,
    /// Bytes of two values, by a third.
    PermuteBytes,
    /// A word of two, that begins at a bit.
    AlignBits,
    /// A word of two, that begins at a byte.
    AlignBytes,
    /// Two halves side by side.
    Pack,
    /// The bits from the last to the first.
    ReverseBits,
    /// A sum.
    Add,
    /// A sum with the carry that goes in.
    AddCarry,
    /// A difference, with or without a borrow that goes in.
    Subtract,
    /// The lower half of a product.
    MultiplyLow,
    /// The lower half of a product of 24 bits each, perhaps with a sum.
    Multiply24,
    /// The upper half of a product of 24 bits each.
    MultiplyHigh24,
    /// A left shift and a sum.
    ShiftAdd,
    /// A sum, shifted to the left.
    AddShift,
    /// An exclusive or and a sum.
    XorAdd,
    /// One of two values, by the condition code or a mask.
    Select,
    /// Copies a value if the condition code is set.
    ConditionalMove,
    /// Sets or clears one bit.
    SetBit,
    /// Compares scalars.
    Compare,
    /// Tests lanes for equality, or its opposite where no value is unordered.
    Equality,
    /// The byte of this number as a float.
    ByteToFloat(u8),
    /// A fused multiply-add of doubles.
    Fma64,
    /// The fused multiply-add of a division, which VCC scales.
    DivFmas,
    /// A function that the transcendental unit approximates.
    Transcendental,
    /// A dot product in each lane.
    Dot,
    /// A product of matrices, to which one is added.
    MatrixProduct(Shape),
    /// Reads the lane whose number is given.
    ReadLane,
    /// Reads the first active lane.
    ReadFirstLane,
    /// Writes the lane whose number is given.
    WriteLane,
    /// Exchanges two registers.
    Swap,
    /// Exchanges rows of so many lanes between two registers: lower ones of the source, upper ones of the destination.
    SwapLanes(u8),
    /// Each lane reads another one, whose number it gives.
    PermuteLanes,
    /// Accesses LDS at an address that is M0's and the lane's number.
    LaneAddressed,
    /// Reads LDS, and exchanges elements of so many bits between lanes: each gets a column of what sixteen read.
    LoadTransposed(u8),
    /// Jumps under a condition.
    Branch(Condition),
    /// The address of the next instruction.
    GetPc,
    /// Jumps, and leaves the address of the next instruction.
    Call,
    /// Ends the wave.
    End,
    /// Takes wait states.
    Nop,
    /// Waits for counters of outstanding accesses.
    Wait,
    /// Waits for the waves of the whole grid.
    GridBarrier,
    /// Sends a message, whose data is M0.
    SendMessage,
    /// Writes M0 to the thread trace.
    TraceData,
    /// Reads a hardware register.
    GetRegister,
    /// Writes a hardware register.
    SetRegister,
    /// Writes the index or the mode of relative register addressing, which are in M0.
    SetIndex,
    /// Ends relative register addressing.
    EndIndex,
    /// Writes what the L2 cache holds back to memory.
    WriteBack,
}

/// An operation on each bit of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the manual's: N1 and N2 invert a source, the others the result")]
pub enum Bitwise {
    And,
    AndN1,
    AndN2,
    Nand,
    Or,
    OrN1,
    OrN2,
    Nor,
    Xor,
    Xnor,
}

/// What a jump depends on, or its opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The scalar condition code is set.
    Scc,
    /// VCC is zero.
    Vcc,
    /// EXEC is zero.
    Exec,
}

/// The shape of a product of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the first factor and of the result.
    pub rows: u8,
    /// Columns of the second factor and of the result.
    pub columns: u8,
    /// Products in each result's sum, with those of a sparse factor's zeros.
    pub depth: u8,
    /// Independent products.
    pub blocks: u8,
    /// The factors are singles of whose mantissas ten bits count.
    pub is_shortened: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;

    #[test]
    fn what_a_mnemonic_says_an_operation_does_is_in_its_row() {
        use Action::*;
        let starts = |of: &'static [&str]| move |op: &Op| of.iter().any(|start| op.name.starts_with(start));
        let has = |of: &'static [&str]| move |op: &Op| of.iter().any(|part| op.name.contains(part));
        let check = |says: &dyn Fn(&Op) -> bool, does: &dyn Fn(Action) -> bool| {
            let mut count = 0;
            for op in crate::rows() {
                assert_eq!(says(op), does(op.action), "{}", op.name);
                count += u32::from(does(op.action));
            }
            assert_ne!(count, 0);
        };
        check(&has(&["saveexec", "wrexec"]), &|of| matches!(of, SaveExec(_)));
        check(&starts(&["v_mfma_", "v_smfmac_"]), &|of| matches!(of, MatrixProduct(_)));
        check(&starts(&["v_cvt_f32_ubyte"]), &|of| matches!(of, ByteToFloat(_)));
        check(&starts(&["s_cbranch_scc"]), &|of| of == Branch(Condition::Scc));
        check(&starts(&["s_cbranch_vcc"]), &|of| of == Branch(Condition::Vcc));
        check(&starts(&["s_cbranch_exec"]), &|of| of == Branch(Condition::Exec));
        check(&starts(&["v_dot"]), &|of| of == Dot);
        let functions = ["v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"];
        check(&|op| functions.iter().any(|start| op.name.starts_with(start)), &|of| of == Transcendental);
        check(&starts(&["v_div_fmas"]), &|of| of == DivFmas);
        check(&|op| ["v_fma_f64", "v_fmac_f64"].contains(&op.name), &|of| of == Fma64);
        check(&starts(&["s_cmp", "s_bitcmp"]), &|of| of == Compare);
        check(&|op| op.name.starts_with("v_cmp") && has(&["_eq_", "_ne_"])(op), &|of| of == Equality);
        check(&has(&["readlane"]), &|of| of == ReadLane);
        check(&has(&["readfirstlane"]), &|of| of == ReadFirstLane);
        check(&has(&["writelane"]), &|of| of == WriteLane);
        check(&starts(&["v_permlane"]), &|of| matches!(of, SwapLanes(_)));
        check(&has(&["addtid"]), &|of| of == LaneAddressed);
        check(&has(&["_tr_b"]), &|of| matches!(of, LoadTransposed(_)));
        check(&starts(&["s_endpgm"]), &|of| of == End);
        check(&starts(&["s_getreg"]), &|of| of == GetRegister);
        check(&starts(&["s_setreg"]), &|of| of == SetRegister);
        check(&|op| op.name.starts_with("s_set_gpr_idx"), &|of| of == SetIndex || of == EndIndex);
        check(&starts(&["s_swappc", "s_call"]), &|of| of == Call);
        check(&starts(&["s_cmov"]), &|of| of == ConditionalMove);
        check(&starts(&["s_bitset"]), &|of| of == SetBit);
        check(&starts(&["s_cselect", "v_cndmask"]), &|of| of == Select);
        check(&starts(&["v_mul_i32_i24", "v_mul_u32_u24", "v_mad_i32_i24", "v_mad_u32_u24"]), &|of| of == Multiply24);
        check(&starts(&["v_mul_hi_i32_i24", "v_mul_hi_u32_u24"]), &|of| of == MultiplyHigh24);
    }

    #[test]
    fn the_shape_of_a_matrix_product_is_the_one_that_its_mnemonic_names() {
        for op in crate::rows() {
            let Action::MatrixProduct(shape) = op.action else { continue };
            let sizes = format!("_{}x{}x{}", shape.rows, shape.columns, shape.depth);
            assert!(op.name.contains(&sizes), "{}: {sizes}", op.name);
            assert!(shape.blocks == 1 || !op.name.contains("b_") || op.name.contains(&format!("_{}b_", shape.blocks)));
            assert_eq!(shape.is_shortened, op.name.ends_with("_xf32"), "{}", op.name);
        }
    }
}
