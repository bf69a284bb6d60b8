//! SOP2, SOPK, SOP1 and SOPC: the scalar ALU. Source: Vega ISA manual, "Scalar ALU Operations".
//!
//! Rows are closures of values. `scc` rows give the new condition code beside the result, `nz` rows set it when the
//! result is not zero, the others leave it.

use super::kinds;
use super::scalars::{Compact, Scalars, Whole};
use crate::action::{Action, Bitwise};
use crate::arch::ArchSet;
use crate::lanes::Lane;
use crate::micro::{MicroOp, proceed};
use crate::op::{Family, Flags, Flow, Op};
use crate::operand::Kind;
use crate::wave::Sgprs;

/// A scalar row: see the module's documentation. `cmp` sets only the condition code.
macro_rules! scalar {
    (@op $family:ident $name:ident $code:literal [$($kind:expr),*] $dst:expr, |$s:ident| $body:block) => {{
        #[inline(always)]
        fn body<S: Scalars>($s: &mut S) $body
        fn micro<const SHAPE: usize>(sgprs: &mut Sgprs, scc: bool, ops: &[MicroOp]) -> bool {
            let [op, rest @ ..] = ops else { return scc };
            let mut compact = Compact::<SHAPE> { sgprs, scc, op };
            body(&mut compact);
            proceed(compact.sgprs, compact.scc, rest)
        }
        let run = one_level!(w, i, _e, {
            body(&mut Whole(w, i));
            Flow::Next
        });
        Op::new(stringify!($name), Family::$family, $code, ArchSet::ALL, run)
            .operands($dst, kinds(&[$($kind),*]))
            .micros(if cfg!(feature = "semantics") { Some([micro::<0>, micro::<1>, micro::<2>, micro::<3>]) } else { None })
    }};
    ($family:ident $name:ident $code:literal |$a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND, <$B as Lane>::KIND] <$D as Lane>::KIND, |s| {
            let ($a, $b) = (s.source::<$A>(0), s.source::<$B>(1));
            let d: $D = { $($body)* };
            s.set(d);
        })
    };
    ($family:ident $name:ident $code:literal nz |$a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND, <$B as Lane>::KIND] <$D as Lane>::KIND, |s| {
            let ($a, $b) = (s.source::<$A>(0), s.source::<$B>(1));
            let d: $D = { $($body)* };
            s.set(d);
            s.set_scc(d != 0);
        }).with(Flags::WRITES_SCC)
    };
    ($family:ident $name:ident $code:literal scc |$c:ident, $a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND, <$B as Lane>::KIND] <$D as Lane>::KIND, |s| {
            let ($a, $b) = (s.source::<$A>(0), s.source::<$B>(1));
            let $c = s.scc();
            let (d, scc): ($D, bool) = { $($body)* };
            s.set(d);
            s.set_scc(scc);
        }).with(Flags::WRITES_SCC)
    };
    // The condition code chooses.
    ($family:ident $name:ident $code:literal select |$c:ident, $a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND, <$B as Lane>::KIND] <$D as Lane>::KIND, |s| {
            let ($a, $b) = (s.source::<$A>(0), s.source::<$B>(1));
            let $c = s.scc();
            let d: $D = { $($body)* };
            s.set(d);
        }).with(Flags::READS_SCC).is(Action::Select)
    };
    ($family:ident $name:ident $code:literal cmp |$a:ident: $A:ty, $b:ident: $B:ty| { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND, <$B as Lane>::KIND] Kind::None, |s| {
            let ($a, $b) = (s.source::<$A>(0), s.source::<$B>(1));
            s.set_scc({ $($body)* });
        }).with(Flags::WRITES_SCC).is(Action::Compare)
    };
    ($family:ident $name:ident $code:literal |$a:ident: $A:ty| -> $D:ty { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND] <$D as Lane>::KIND, |s| {
            let $a = s.source::<$A>(0);
            let d: $D = { $($body)* };
            s.set(d);
        })
    };
    ($family:ident $name:ident $code:literal nz |$a:ident: $A:ty| -> $D:ty { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND] <$D as Lane>::KIND, |s| {
            let $a = s.source::<$A>(0);
            let d: $D = { $($body)* };
            s.set(d);
            s.set_scc(d != 0);
        }).with(Flags::WRITES_SCC)
    };
    // The old EXEC is saved; the new one is a function of the source and the old one.
    ($family:ident $name:ident $code:literal saveexec |$a:ident, $exec:ident| { $($body:tt)* }) => {
        scalar!(@op $family $name $code [Kind::U64] Kind::U64, |s| {
            let ($a, $exec) = (s.source::<u64>(0), s.exec());
            let new: u64 = { $($body)* };
            s.set($exec);
            s.set_exec(new);
            s.set_scc(new != 0);
        }).with(Flags::WRITES_SCC)
    };
    // The new EXEC is also the result.
    ($family:ident $name:ident $code:literal wrexec |$a:ident, $exec:ident| { $($body:tt)* }) => {
        scalar!(@op $family $name $code [Kind::U64] Kind::U64, |s| {
            let ($a, $exec) = (s.source::<u64>(0), s.exec());
            let new: u64 = { $($body)* };
            s.set(new);
            s.set_exec(new);
            s.set_scc(new != 0);
        }).with(Flags::WRITES_SCC)
    };
    // The destination is changed in place.
    ($family:ident $name:ident $code:literal change |$d:ident: $D:ty, $a:ident: $A:ty, $c:ident| { $($body:tt)* }) => {
        scalar!(@op $family $name $code [<$A as Lane>::KIND] <$D as Lane>::KIND, |s| {
            let ($d, $a) = (s.destination::<$D>(), s.source::<$A>(0));
            let $c = s.scc();
            let d: $D = { $($body)* };
            s.set(d);
        }).with(Flags::READS_DST)
    };
    // The source is a 16-bit constant, and the destination changes.
    ($family:ident $name:ident $code:literal k |$d:ident, $k:ident, $c:ident| { $($body:tt)* }) => {
        scalar!(@op $family $name $code [] Kind::I32, |s| {
            let ($d, $k, $c) = (s.destination::<i32>(), s.immediate(), s.scc());
            let (d, scc): (i32, bool) = { $($body)* };
            s.set(d);
            s.set_scc(scc);
        })
    };
    // As `k`, but nothing is written beside the condition code.
    ($family:ident $name:ident $code:literal cmpk |$d:ident: $D:ty, $k:ident: $K:ty| { $($body:tt)* }) => {
        scalar!(@op $family $name $code [] <$D as Lane>::KIND, |s| {
            let ($d, $k) = (s.destination::<$D>(), s.immediate() as i16 as $K);
            s.set_scc({ $($body)* });
        }).with(Flags::WRITES_SCC.and(Flags::READS_DST)).is(Action::Compare)
    };
}

#[rustfmt::skip]
pub(crate) static SOP2: &[Op] = &[
    scalar!(Sop2 s_add_u32         0x00 scc |_c, a: u32, b: u32| -> u32 { a.overflowing_add(b) }).is(Action::Add),
    scalar!(Sop2 s_sub_u32         0x01 scc |_c, a: u32, b: u32| -> u32 { a.overflowing_sub(b) }).is(Action::Subtract),
    scalar!(Sop2 s_add_i32         0x02 scc |_c, a: i32, b: i32| -> i32 { a.overflowing_add(b) }).is(Action::Add),
    scalar!(Sop2 s_sub_i32         0x03 scc |_c, a: i32, b: i32| -> i32 { a.overflowing_sub(b) }).is(Action::Subtract),
    scalar!(Sop2 s_addc_u32        0x04 scc |c, a: u32, b: u32| -> u32 { let sum = u64::from(a) + u64::from(b) + u64::from(c); (sum as u32, sum >> 32 != 0) }).is(Action::AddCarry).with(Flags::READS_SCC),
    scalar!(Sop2 s_subb_u32        0x05 scc |c, a: u32, b: u32| -> u32 { (a.wrapping_sub(b).wrapping_sub(c.into()), u64::from(b) + u64::from(c) > u64::from(a)) }).is(Action::Subtract).with(Flags::READS_SCC),
    scalar!(Sop2 s_min_i32         0x06 scc |_c, a: i32, b: i32| -> i32 { (a.min(b), a < b) }),
    scalar!(Sop2 s_min_u32         0x07 scc |_c, a: u32, b: u32| -> u32 { (a.min(b), a < b) }),
    scalar!(Sop2 s_max_i32         0x08 scc |_c, a: i32, b: i32| -> i32 { (a.max(b), a >= b) }),
    scalar!(Sop2 s_max_u32         0x09 scc |_c, a: u32, b: u32| -> u32 { (a.max(b), a >= b) }),
    scalar!(Sop2 s_cselect_b32     0x0a select |c, a: u32, b: u32| -> u32 { if c { a } else { b } }),
    scalar!(Sop2 s_cselect_b64     0x0b select |c, a: u64, b: u64| -> u64 { if c { a } else { b } }),
    scalar!(Sop2 s_and_b32         0x0c nz |a: u32, b: u32| -> u32 { a & b }).is(Action::Bitwise(Bitwise::And)),
    scalar!(Sop2 s_and_b64         0x0d nz |a: u64, b: u64| -> u64 { a & b }).is(Action::Bitwise(Bitwise::And)),
    scalar!(Sop2 s_or_b32          0x0e nz |a: u32, b: u32| -> u32 { a | b }).is(Action::Bitwise(Bitwise::Or)),
    scalar!(Sop2 s_or_b64          0x0f nz |a: u64, b: u64| -> u64 { a | b }).is(Action::Bitwise(Bitwise::Or)),
    scalar!(Sop2 s_xor_b32         0x10 nz |a: u32, b: u32| -> u32 { a ^ b }).is(Action::Bitwise(Bitwise::Xor)),
    scalar!(Sop2 s_xor_b64         0x11 nz |a: u64, b: u64| -> u64 { a ^ b }).is(Action::Bitwise(Bitwise::Xor)),
    scalar!(Sop2 s_andn2_b32       0x12 nz |a: u32, b: u32| -> u32 { a & !b }).is(Action::Bitwise(Bitwise::AndN2)),
    scalar!(Sop2 s_andn2_b64       0x13 nz |a: u64, b: u64| -> u64 { a & !b }).is(Action::Bitwise(Bitwise::AndN2)),
    scalar!(Sop2 s_orn2_b32        0x14 nz |a: u32, b: u32| -> u32 { a | !b }).is(Action::Bitwise(Bitwise::OrN2)),
    scalar!(Sop2 s_orn2_b64        0x15 nz |a: u64, b: u64| -> u64 { a | !b }).is(Action::Bitwise(Bitwise::OrN2)),
    scalar!(Sop2 s_nand_b32        0x16 nz |a: u32, b: u32| -> u32 { !(a & b) }).is(Action::Bitwise(Bitwise::Nand)),
    scalar!(Sop2 s_nand_b64        0x17 nz |a: u64, b: u64| -> u64 { !(a & b) }).is(Action::Bitwise(Bitwise::Nand)),
    scalar!(Sop2 s_nor_b32         0x18 nz |a: u32, b: u32| -> u32 { !(a | b) }).is(Action::Bitwise(Bitwise::Nor)),
    scalar!(Sop2 s_nor_b64         0x19 nz |a: u64, b: u64| -> u64 { !(a | b) }).is(Action::Bitwise(Bitwise::Nor)),
    scalar!(Sop2 s_xnor_b32        0x1a nz |a: u32, b: u32| -> u32 { !(a ^ b) }).is(Action::Bitwise(Bitwise::Xnor)),
    scalar!(Sop2 s_xnor_b64        0x1b nz |a: u64, b: u64| -> u64 { !(a ^ b) }).is(Action::Bitwise(Bitwise::Xnor)),
    scalar!(Sop2 s_lshl_b32        0x1c nz |a: u32, b: u32| -> u32 { a << (b & 31) }).is(Action::ShiftLeft),
    scalar!(Sop2 s_lshl_b64        0x1d nz |a: u64, b: u32| -> u64 { a << (b & 63) }).is(Action::ShiftLeft),
    scalar!(Sop2 s_lshr_b32        0x1e nz |a: u32, b: u32| -> u32 { a >> (b & 31) }).is(Action::ShiftRight),
    scalar!(Sop2 s_lshr_b64        0x1f nz |a: u64, b: u32| -> u64 { a >> (b & 63) }).is(Action::ShiftRight),
    scalar!(Sop2 s_ashr_i32        0x20 nz |a: i32, b: u32| -> i32 { a >> (b & 31) }),
    scalar!(Sop2 s_ashr_i64        0x21 nz |a: i64, b: u32| -> i64 { a >> (b & 63) }),
    scalar!(Sop2 s_bfm_b32         0x22 |a: u32, b: u32| -> u32 { ((1u32 << (a & 31)) - 1) << (b & 31) }),
    scalar!(Sop2 s_bfm_b64         0x23 |a: u32, b: u32| -> u64 { ((1u64 << (a & 63)) - 1) << (b & 63) }),
    scalar!(Sop2 s_mul_i32         0x24 |a: i32, b: i32| -> i32 { a.wrapping_mul(b) }),
    scalar!(Sop2 s_bfe_u32         0x25 nz |a: u32, b: u32| -> u32 { field(a.into(), b, 31, 32) as u32 }),
    scalar!(Sop2 s_bfe_i32         0x26 nz |a: i32, b: u32| -> i32 { signed_field(a.into(), b, 31, 32) as i32 }),
    scalar!(Sop2 s_bfe_u64         0x27 nz |a: u64, b: u32| -> u64 { field(a, b, 63, 64) }),
    scalar!(Sop2 s_bfe_i64         0x28 nz |a: i64, b: u32| -> i64 { signed_field(a, b, 63, 64) }),
    scalar!(Sop2 s_absdiff_i32     0x2a nz |a: i32, b: i32| -> i32 { a.wrapping_sub(b).wrapping_abs() }),
    scalar!(Sop2 s_mul_hi_u32      0x2c |a: u32, b: u32| -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 }),
    scalar!(Sop2 s_mul_hi_i32      0x2d |a: i32, b: i32| -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 }),
    scalar!(Sop2 s_lshl1_add_u32   0x2e scc |_c, a: u32, b: u32| -> u32 { shift_add(a, b, 1) }),
    scalar!(Sop2 s_lshl2_add_u32   0x2f scc |_c, a: u32, b: u32| -> u32 { shift_add(a, b, 2) }),
    scalar!(Sop2 s_lshl3_add_u32   0x30 scc |_c, a: u32, b: u32| -> u32 { shift_add(a, b, 3) }),
    scalar!(Sop2 s_lshl4_add_u32   0x31 scc |_c, a: u32, b: u32| -> u32 { shift_add(a, b, 4) }),
    scalar!(Sop2 s_pack_ll_b32_b16 0x32 |a: u32, b: u32| -> u32 { a & 0xffff | b << 16 }),
    scalar!(Sop2 s_pack_lh_b32_b16 0x33 |a: u32, b: u32| -> u32 { a & 0xffff | b & 0xffff_0000 }),
    scalar!(Sop2 s_pack_hh_b32_b16 0x34 |a: u32, b: u32| -> u32 { a >> 16 | b & 0xffff_0000 }),
];

#[rustfmt::skip]
pub(crate) static SOPC: &[Op] = &[
    scalar!(Sopc s_cmp_eq_i32  0x00 cmp |a: i32, b: i32| { a == b }),
    scalar!(Sopc s_cmp_lg_i32  0x01 cmp |a: i32, b: i32| { a != b }),
    scalar!(Sopc s_cmp_gt_i32  0x02 cmp |a: i32, b: i32| { a > b }),
    scalar!(Sopc s_cmp_ge_i32  0x03 cmp |a: i32, b: i32| { a >= b }),
    scalar!(Sopc s_cmp_lt_i32  0x04 cmp |a: i32, b: i32| { a < b }),
    scalar!(Sopc s_cmp_le_i32  0x05 cmp |a: i32, b: i32| { a <= b }),
    scalar!(Sopc s_cmp_eq_u32  0x06 cmp |a: u32, b: u32| { a == b }),
    scalar!(Sopc s_cmp_lg_u32  0x07 cmp |a: u32, b: u32| { a != b }),
    scalar!(Sopc s_cmp_gt_u32  0x08 cmp |a: u32, b: u32| { a > b }),
    scalar!(Sopc s_cmp_ge_u32  0x09 cmp |a: u32, b: u32| { a >= b }),
    scalar!(Sopc s_cmp_lt_u32  0x0a cmp |a: u32, b: u32| { a < b }),
    scalar!(Sopc s_cmp_le_u32  0x0b cmp |a: u32, b: u32| { a <= b }),
    scalar!(Sopc s_bitcmp0_b32 0x0c cmp |a: u32, b: u32| { a >> (b & 31) & 1 == 0 }),
    scalar!(Sopc s_bitcmp1_b32 0x0d cmp |a: u32, b: u32| { a >> (b & 31) & 1 == 1 }),
    scalar!(Sopc s_bitcmp0_b64 0x0e cmp |a: u64, b: u32| { a >> (b & 63) & 1 == 0 }),
    scalar!(Sopc s_bitcmp1_b64 0x0f cmp |a: u64, b: u32| { a >> (b & 63) & 1 == 1 }),
    scalar!(Sopc s_cmp_eq_u64  0x12 cmp |a: u64, b: u64| { a == b }),
    scalar!(Sopc s_cmp_lg_u64  0x13 cmp |a: u64, b: u64| { a != b }),
];

#[rustfmt::skip]
pub(crate) static SOP1: &[Op] = &[
    scalar!(Sop1 s_mov_b32              0x00 |a: u32| -> u32 { a }).is(Action::Move),
    scalar!(Sop1 s_mov_b64              0x01 |a: u64| -> u64 { a }).is(Action::Move),
    scalar!(Sop1 s_cmov_b32             0x02 change |d: u32, a: u32, c| { if c { a } else { d } }).is(Action::ConditionalMove).with(Flags::READS_SCC),
    scalar!(Sop1 s_cmov_b64             0x03 change |d: u64, a: u64, c| { if c { a } else { d } }).is(Action::ConditionalMove).with(Flags::READS_SCC),
    scalar!(Sop1 s_not_b32              0x04 nz |a: u32| -> u32 { !a }).is(Action::Not),
    scalar!(Sop1 s_not_b64              0x05 nz |a: u64| -> u64 { !a }).is(Action::Not),
    scalar!(Sop1 s_wqm_b32              0x06 nz |a: u32| -> u32 { whole_quads(a.into()) as u32 }),
    scalar!(Sop1 s_wqm_b64              0x07 nz |a: u64| -> u64 { whole_quads(a) }),
    scalar!(Sop1 s_brev_b32             0x08 |a: u32| -> u32 { a.reverse_bits() }),
    scalar!(Sop1 s_brev_b64             0x09 |a: u64| -> u64 { a.reverse_bits() }),
    scalar!(Sop1 s_bcnt0_i32_b32        0x0a nz |a: u32| -> u32 { a.count_zeros() }),
    scalar!(Sop1 s_bcnt0_i32_b64        0x0b nz |a: u64| -> u32 { a.count_zeros() }),
    scalar!(Sop1 s_bcnt1_i32_b32        0x0c nz |a: u32| -> u32 { a.count_ones() }),
    scalar!(Sop1 s_bcnt1_i32_b64        0x0d nz |a: u64| -> u32 { a.count_ones() }),
    scalar!(Sop1 s_ff0_i32_b32          0x0e |a: u32| -> u32 { first_one((!a).into()) }),
    scalar!(Sop1 s_ff0_i32_b64          0x0f |a: u64| -> u32 { first_one(!a) }),
    scalar!(Sop1 s_ff1_i32_b32          0x10 |a: u32| -> u32 { first_one(a.into()) }),
    scalar!(Sop1 s_ff1_i32_b64          0x11 |a: u64| -> u32 { first_one(a) }),
    scalar!(Sop1 s_flbit_i32_b32        0x12 |a: u32| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }),
    scalar!(Sop1 s_flbit_i32_b64        0x13 |a: u64| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }),
    scalar!(Sop1 s_flbit_i32            0x14 |a: i32| -> u32 { crate::ops::vop1::sign_bits(a) }),
    scalar!(Sop1 s_flbit_i32_i64        0x15 |a: i64| -> u32 { let same = (a ^ (a >> 63)) as u64; if same == 0 { u32::MAX } else { same.leading_zeros() } }),
    scalar!(Sop1 s_sext_i32_i8          0x16 |a: u32| -> i32 { i32::from(a as u8 as i8) }),
    scalar!(Sop1 s_sext_i32_i16         0x17 |a: u32| -> i32 { i32::from(a as u16 as i16) }),
    scalar!(Sop1 s_bitset0_b32          0x18 change |d: u32, a: u32, _c| { d & !(1 << (a & 31)) }).is(Action::SetBit),
    scalar!(Sop1 s_bitset0_b64          0x19 change |d: u64, a: u32, _c| { d & !(1 << (a & 63)) }).is(Action::SetBit),
    scalar!(Sop1 s_bitset1_b32          0x1a change |d: u32, a: u32, _c| { d | 1 << (a & 31) }).is(Action::SetBit),
    scalar!(Sop1 s_bitset1_b64          0x1b change |d: u64, a: u32, _c| { d | 1 << (a & 63) }).is(Action::SetBit),
    scalar!(Sop1 s_and_saveexec_b64     0x20 saveexec |a, exec| { a & exec }).is(Action::SaveExec(Bitwise::And)),
    scalar!(Sop1 s_or_saveexec_b64      0x21 saveexec |a, exec| { a | exec }).is(Action::SaveExec(Bitwise::Or)),
    scalar!(Sop1 s_xor_saveexec_b64     0x22 saveexec |a, exec| { a ^ exec }).is(Action::SaveExec(Bitwise::Xor)),
    scalar!(Sop1 s_andn2_saveexec_b64   0x23 saveexec |a, exec| { a & !exec }).is(Action::SaveExec(Bitwise::AndN2)),
    scalar!(Sop1 s_orn2_saveexec_b64    0x24 saveexec |a, exec| { a | !exec }).is(Action::SaveExec(Bitwise::OrN2)),
    scalar!(Sop1 s_nand_saveexec_b64    0x25 saveexec |a, exec| { !(a & exec) }).is(Action::SaveExec(Bitwise::Nand)),
    scalar!(Sop1 s_nor_saveexec_b64     0x26 saveexec |a, exec| { !(a | exec) }).is(Action::SaveExec(Bitwise::Nor)),
    scalar!(Sop1 s_xnor_saveexec_b64    0x27 saveexec |a, exec| { !(a ^ exec) }).is(Action::SaveExec(Bitwise::Xnor)),
    scalar!(Sop1 s_quadmask_b32         0x28 nz |a: u32| -> u32 { quad_mask(a.into()) as u32 }),
    scalar!(Sop1 s_quadmask_b64         0x29 nz |a: u64| -> u64 { quad_mask(a) }),
    scalar!(Sop1 s_abs_i32              0x30 nz |a: i32| -> i32 { a.wrapping_abs() }),
    scalar!(Sop1 s_andn1_saveexec_b64   0x33 saveexec |a, exec| { !a & exec }).is(Action::SaveExec(Bitwise::AndN1)),
    scalar!(Sop1 s_orn1_saveexec_b64    0x34 saveexec |a, exec| { !a | exec }).is(Action::SaveExec(Bitwise::OrN1)),
    scalar!(Sop1 s_andn1_wrexec_b64     0x35 wrexec |a, exec| { !a & exec }).is(Action::SaveExec(Bitwise::AndN1)),
    scalar!(Sop1 s_andn2_wrexec_b64     0x36 wrexec |a, exec| { a & !exec }).is(Action::SaveExec(Bitwise::AndN2)),
    scalar!(Sop1 s_bitreplicate_b64_b32 0x37 |a: u32| -> u64 { (0..32).fold(0, |d, n| d | (u64::from(a >> n & 1) * 3) << (2 * n)) }),
];

#[rustfmt::skip]
pub(crate) static SOPK: &[Op] = &[
    scalar!(Sopk s_movk_i32    0x00 k |_d, k, c| { (k, c) }).is(Action::Move),
    scalar!(Sopk s_cmovk_i32   0x01 k |d, k, c| { (if c { k } else { d }, c) }).is(Action::ConditionalMove).with(Flags::READS_SCC.and(Flags::READS_DST)),
    scalar!(Sopk s_cmpk_eq_i32 0x02 cmpk |d: i32, k: i32| { d == k }),
    scalar!(Sopk s_cmpk_lg_i32 0x03 cmpk |d: i32, k: i32| { d != k }),
    scalar!(Sopk s_cmpk_gt_i32 0x04 cmpk |d: i32, k: i32| { d > k }),
    scalar!(Sopk s_cmpk_ge_i32 0x05 cmpk |d: i32, k: i32| { d >= k }),
    scalar!(Sopk s_cmpk_lt_i32 0x06 cmpk |d: i32, k: i32| { d < k }),
    scalar!(Sopk s_cmpk_le_i32 0x07 cmpk |d: i32, k: i32| { d <= k }),
    scalar!(Sopk s_cmpk_eq_u32 0x08 cmpk |d: u32, k: u16| { d == u32::from(k) }),
    scalar!(Sopk s_cmpk_lg_u32 0x09 cmpk |d: u32, k: u16| { d != u32::from(k) }),
    scalar!(Sopk s_cmpk_gt_u32 0x0a cmpk |d: u32, k: u16| { d > u32::from(k) }),
    scalar!(Sopk s_cmpk_ge_u32 0x0b cmpk |d: u32, k: u16| { d >= u32::from(k) }),
    scalar!(Sopk s_cmpk_lt_u32 0x0c cmpk |d: u32, k: u16| { d < u32::from(k) }),
    scalar!(Sopk s_cmpk_le_u32 0x0d cmpk |d: u32, k: u16| { d <= u32::from(k) }),
    scalar!(Sopk s_addk_i32    0x0e k |d, k, _c| { d.overflowing_add(k) }).with(Flags::WRITES_SCC.and(Flags::READS_DST)),
    scalar!(Sopk s_mulk_i32    0x0f k |d, k, c| { (d.wrapping_mul(k), c) }).with(Flags::READS_DST),
];

fn shift_add(a: u32, b: u32, shift: u32) -> (u32, bool) {
    let sum = (u64::from(a) << shift) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}

/// A bit field: offset in the low bits of `b`, width from bit 16.
fn field(a: u64, b: u32, offset_mask: u32, size: u32) -> u64 {
    let (offset, width) = (b & offset_mask, (b >> 16 & 127).min(size));
    let shifted = a >> offset;
    if width >= 64 { shifted } else { shifted & ((1 << width) - 1) }
}

fn signed_field(a: i64, b: u32, offset_mask: u32, size: u32) -> i64 {
    let (offset, width) = (b & offset_mask, (b >> 16 & 127).min(size));
    let width = width.min(size - offset);
    if width == 0 {
        return 0;
    }
    (a >> offset) << (64 - width) >> (64 - width)
}

/// The position of the lowest one, or minus one.
fn first_one(a: u64) -> u32 {
    if a == 0 { u32::MAX } else { a.trailing_zeros() }
}

/// Every quad with a bit set becomes all ones.
fn whole_quads(a: u64) -> u64 {
    (0..16).filter(|q| a >> (4 * q) & 15 != 0).fold(0, |d, q| d | 15 << (4 * q))
}

/// One bit per quad that has a bit set.
fn quad_mask(a: u64) -> u64 {
    (0..16).filter(|q| a >> (4 * q) & 15 != 0).fold(0, |d, q| d | 1 << q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;
    use crate::arch::{Arch, Generation};
    use crate::operand::Operand;
    use crate::step::Nothing;
    use crate::wave::{Wave, vgpr_file};

    #[test]
    fn bit_fields_have_their_width_in_the_upper_half() {
        assert_eq!(field(0xabcd, 4 | 8 << 16, 31, 32), 0xbc);
        assert_eq!(field(u64::MAX, 64 << 16, 63, 64), u64::MAX);
        assert_eq!(signed_field(0xf0, 4 | 4 << 16, 31, 32), -1);
        assert_eq!(signed_field(-1, 0, 63, 64), 0);
    }

    #[test]
    fn what_a_row_says_of_the_condition_code_is_what_it_does() {
        let decoder = Decoder::new(Arch::Gfx90a);
        for op in [SOP2, SOP1, SOPC, SOPK].into_iter().flatten() {
            let code = u32::from(op.code(Generation::Gfx9).unwrap());
            // s[6:7] of s[2:3] and s[4:5], or of a constant.
            let word = match op.family {
                Family::Sop2 => 0b10 << 30 | code << 23 | 6 << 16 | 4 << 8 | 2,
                Family::Sop1 => 0b1_0111_1101 << 23 | 6 << 16 | code << 8 | 2,
                Family::Sopc => 0b1_0111_1110 << 23 | code << 16 | 4 << 8 | 2,
                _ => 0b1011 << 28 | code << 23 | 6 << 16 | 3,
            };
            let inst = decoder.decode(&[word]).unwrap();
            let (mut reads, mut writes) = (false, false);
            for (a, b, d) in
                [(0, 0, 0), (1, 3, 3), (u64::MAX, 1, u64::from(u32::MAX)), (5, 0xff, 0x7fff_ffff), (3, 7, 5)]
            {
                let [clear, set] = [false, true].map(|scc| {
                    let mut w = Wave::new(Arch::Gfx90a, 0, vgpr_file());
                    w.scc = scc;
                    w.set_exec(0xff);
                    [(2, a), (4, b), (6, d)].into_iter().for_each(|(n, value)| w.set_pair(Operand(n), value));
                    crate::step::execute(&mut w, &inst, &mut Nothing);
                    (w.sgpr, w.scc)
                });
                reads |= clear.0 != set.0 || op.flags.has(Flags::WRITES_SCC) && clear.1 != set.1;
                writes |= clear.1 || !set.1;
            }
            let said = [Flags::READS_SCC, Flags::WRITES_SCC].map(|flag| op.flags.has(flag));
            assert_eq!([reads, writes], said, "{}", op.name);
        }
    }

    #[test]
    fn quads_spread_and_gather() {
        assert_eq!(whole_quads(0x0120), 0x0ff0);
        assert_eq!(quad_mask(0x0120), 0b0110);
    }
}
