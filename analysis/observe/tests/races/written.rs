//! What of registers and LDS was written: bits that are moved, masked and shifted, and where they are used.

use std::sync::Arc;

use amdgpu_emu::Arch;
use logdur_observe::{Check, Sample, Session, Wanted};

use crate::rig::run;

/// Bytes of LDS of a workgroup.
const LDS: u32 = 1024;

// Source of the words: `llvm-mc -mcpu=gfx90a`. Register 0 has the lane's number; all others, and LDS, begin unwritten.

/// A byte and a dword are written, and copied as two dwords.
const PADDING: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0083,
    0xd83c_0000,
    0x0000_0001,
    0xd81a_0004,
    0x0000_0001,
    0xbf8c_c07f,
    0xd8ec_0000,
    0x0200_0001,
    0xbf8c_c07f,
    0xdc74_8000,
    0x0008_0201,
    0xbf81_0000,
];
/// Twelve bits of an unwritten dword are replaced, then the others; then all are used.
const BIT_FIELD: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0082,
    0xd86c_0000,
    0x0200_0001,
    0xbf8c_c07f,
    0x2604_04ff,
    0xffff_f000,
    0x2804_0500,
    0xd81a_0000,
    0x0000_0201,
    0xbf8c_c07f,
    0xd86c_0000,
    0x0300_0001,
    0xbf8c_c07f,
    0x2606_06ff,
    0x0000_0fff,
    0xd200_0003,
    0x040d_1900,
    0xd81a_0000,
    0x0000_0301,
    0xbf8c_c07f,
    0xd86c_0000,
    0x0400_0001,
    0xbf8c_c07f,
    0xd1c8_0005,
    0x0231_0104,
    0x680a_0905,
    0xdc70_8000,
    0x0008_0501,
    0xbf81_0000,
];
/// Two bytes of a dword are written, and used: in a branch, in a sum of bytes, in a comparison; and stored.
const PACKED_BYTES: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0082,
    0xd83c_0000,
    0x0000_0001,
    0xd83c_0001,
    0x0000_0001,
    0xbf8c_c07f,
    0xd86c_0000,
    0x0200_0001,
    0xbf8c_c07f,
    0x2606_04ff,
    0x0000_00ff,
    0xd1c8_0004,
    0x0221_1102,
    0x7d98_0704,
    0xbf87_0000,
    0x680a_04f9,
    0x0100_0602,
    0x240c_0490,
    0xd1ed_0006,
    0x0402_0506,
    0xdc70_8000,
    0x0008_0501,
    0xdc68_8000,
    0x0008_0201,
    0x7d54_04f9,
    0x0100_8a02,
    0x86fe_0a7e,
    0xbf81_0000,
];
/// Of a dword whose upper half is unwritten, sums are an address: with a carry, with shifts, and of products.
const SUMS: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0082,
    0xd83e_0000,
    0x0000_0001,
    0xbf8c_c07f,
    0xd86c_0000,
    0x0200_0001,
    0xbf8c_c07f,
    0xd1c8_0003,
    0x0221_1102,
    0x7d92_0685,
    0x3808_0480,
    0xd1fd_0004,
    0x0411_0502,
    0xd1fe_0004,
    0x0206_0504,
    0xd1c3_0004,
    0x0411_0702,
    0x2608_08bf,
    0x2408_0882,
    0xdc70_8000,
    0x0008_0304,
    0xbf81_0000,
];
/// The same, with a carry that depends on an unwritten dword.
const CARRY: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0082,
    0xd83e_0000,
    0x0000_0001,
    0xd86c_0200,
    0x0700_0001,
    0xbf8c_c07f,
    0xd0c9_000c,
    0x0002_0e85,
    0xbf8c_c07f,
    0xd86c_0000,
    0x0200_0001,
    0xbf8c_c07f,
    0xd1c8_0003,
    0x0221_1102,
    0x7d92_0685,
    0xd11c_0e04,
    0x0032_0480,
    0xd1fd_0004,
    0x0411_0502,
    0xd1fe_0004,
    0x0206_0504,
    0xd1c3_0004,
    0x0411_0702,
    0x2608_08bf,
    0x2408_0882,
    0xdc70_8000,
    0x0008_0304,
    0xbf81_0000,
];
/// An unwritten dword is stored.
const UNWRITTEN: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0082,
    0xd86c_0000,
    0x0200_0001,
    0xbf8c_c07f,
    0x7e06_0302,
    0xdc70_8000,
    0x0008_0301,
    0xbf81_0000,
];
/// A product with an unwritten dword is stored beside one that is written.
const SUM_BESIDE_WRITTEN: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0083,
    0xd86c_0000,
    0x0300_0001,
    0xbf8c_c07f,
    0x7e04_0281,
    0xd285_0003,
    0x0002_0103,
    0x7e0a_0303,
    0x7e08_0302,
    0xdc74_8000,
    0x0008_0401,
    0xbf81_0000,
];
/// A byte beside one that is written is stored.
const UNWRITTEN_BYTE: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0082,
    0xd83c_0000,
    0x0000_0001,
    0xbf8c_c07f,
    0xd874_0001,
    0x0200_0001,
    0xbf8c_c07f,
    0xdc60_8000,
    0x0008_0201,
    0xbf81_0000,
];
/// The active lanes depend on a bit of a byte beside one that is written.
const BRANCH: &[u32] = &[
    0xbe88_00ff,
    0x0013_0000,
    0xbe89_0080,
    0x2402_0082,
    0xd83c_0000,
    0x0000_0001,
    0xbf8c_c07f,
    0xd86c_0000,
    0x0200_0001,
    0xbf8c_c07f,
    0x2604_04ff,
    0x0000_0100,
    0x7d9a_0480,
    0x86fe_6a7e,
    0xbf81_0000,
];

/// What the check finds.
fn found(code: &[u32]) -> Vec<&'static str> {
    let wanted = Wanted { analyses: Vec::new(), checks: vec![Check::Init], page: None };
    let session = Arc::new(Session::new(Arch::Gfx90a, wanted, Sample::All, Vec::new(), Vec::new()));
    run(code, 1, 1, LDS, 1, session.clone());
    session.take().findings.all.keys().map(|key| key.what).collect()
}

#[test]
fn copied_padding_bit_fields_and_packed_bytes_are_no_findings_and_unwritten_bits_that_are_used_are() {
    for (name, code) in [("padding", PADDING), ("bit field", BIT_FIELD), ("packed bytes", PACKED_BYTES), ("sums", SUMS)]
    {
        assert_eq!(found(code), [""; 0], "{name}");
    }
    let stored = "a value that nothing has written is stored to memory";
    for (name, code, expected) in [
        ("an unwritten dword", UNWRITTEN, stored),
        ("a product beside a written dword", SUM_BESIDE_WRITTEN, stored),
        ("an unwritten byte", UNWRITTEN_BYTE, stored),
        ("a carry", CARRY, "an address depends on a value that nothing has written"),
        ("a branch", BRANCH, "the active lanes depend on a value that nothing has written"),
    ] {
        assert_eq!(found(code), [expected], "{name}");
    }
}
