//! The instruction tables, one file per encoding family, and the macros that make their rows.
//!
//! A row names an operation, its opcode, the processors on which the opcode has that meaning, the types of its
//! operands, and what it does to one lane.

use crate::op::Op;

/// Compiles one body for each level of the host's vector instructions; or a body for each of them, which calls what
/// `at_each_level` has compiled for that level.
#[cfg(feature = "semantics")]
macro_rules! levels {
    ($w:ident, $i:ident, $e:ident, $body:expr) => {
        levels!($w, $i, $e, $body, $body, $body)
    };
    ($w:ident, $i:ident, $e:ident, $base:expr, $v3:expr, $v4:expr) => {{
        fn base($w: &mut crate::wave::Wave, $i: &crate::inst::Inst, $e: &mut dyn crate::env::Env) -> crate::op::Flow {
            $base
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,lzcnt,popcnt")]
        fn v3($w: &mut crate::wave::Wave, $i: &crate::inst::Inst, $e: &mut dyn crate::env::Env) -> crate::op::Flow {
            $v3
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,lzcnt,popcnt")]
        #[target_feature(enable = "avx512bw,avx512cd,avx512dq,avx512f,avx512vl")]
        fn v4($w: &mut crate::wave::Wave, $i: &crate::inst::Inst, $e: &mut dyn crate::env::Env) -> crate::op::Flow {
            $v4
        }
        #[cfg(not(target_arch = "x86_64"))]
        use {base as v3, base as v4};
        crate::op::Levels { base, v3, v4 }
    }};
}

/// Calls a macro for each level of the host's vector instructions: with the level's name, the bits of a host vector register, and the
/// attributes of a function that is compiled for the level.
macro_rules! at_each_level {
    ($make:ident) => {
        $make! { base 128 }
        #[cfg(target_arch = "x86_64")]
        $make! { v3 256 #[target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,lzcnt,popcnt")] }
        #[cfg(target_arch = "x86_64")]
        $make! { v4 512
            #[target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,lzcnt,popcnt")]
            #[target_feature(enable = "avx512bw,avx512cd,avx512dq,avx512f,avx512vl")]
        }
    };
}

/// Compiles a body that has no lane loop once, for every level.
#[cfg(feature = "semantics")]
macro_rules! one_level {
    ($w:ident, $i:ident, $e:ident, $body:expr) => {{
        fn base($w: &mut crate::wave::Wave, $i: &crate::inst::Inst, $e: &mut dyn crate::env::Env) -> crate::op::Flow {
            $body
        }
        crate::op::Levels { base, v3: base, v4: base }
    }};
}

/// Without semantics a row is what the decoder needs of it.
#[cfg(not(feature = "semantics"))]
macro_rules! levels {
    ($w:ident, $i:ident, $e:ident, $($body:expr),+) => {
        crate::op::Levels::NOTHING
    };
}

/// As `levels`.
#[cfg(not(feature = "semantics"))]
macro_rules! one_level {
    ($w:ident, $i:ident, $e:ident, $body:expr) => {
        crate::op::Levels::NOTHING
    };
}

/// A vector operation: family, mnemonic, opcode, processors, then a closure over one lane.
///
/// * `|a: A, b: B| -> D { … }`: one to three sources;
/// * `fp |m, a: A, …| -> D { … }`: `m` does arithmetic in the wave's mode;
/// * `mode |m, a: A, …| -> D { … }`: `m` is the MODE register;
/// * `sat |a: A, …| -> D { … } else { … }`: the second body is for the clamp modifier;
/// * `cmp |a: A, b: B| { … }`: the result is a lane mask.
macro_rules! row {
    (@op $family:ident $name:ident $code:literal $archs:ident [$($src:ty),*] $dst:expr, $run:expr) => {
        crate::op::Op::new(stringify!($name), crate::op::Family::$family, $code, crate::arch::ArchSet::$archs, $run)
            .operands($dst, crate::ops::kinds(&[$(<$src as crate::lanes::Lane>::KIND),*]))
    };
    ($family:ident $name:ident $code:literal $archs:ident |$a:ident: $A:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A] <$D as crate::lanes::Lane>::KIND,
            levels!(w, i, _e, crate::lanes::map1(w, i, |$a: $A| -> $D { $($body)* })))
    };
    ($family:ident $name:ident $code:literal $archs:ident |$a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B] <$D as crate::lanes::Lane>::KIND,
            levels!(w, i, _e, crate::lanes::map2(w, i, |$a: $A, $b: $B| -> $D { $($body)* })))
    };
    ($family:ident $name:ident $code:literal $archs:ident |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B, $C] <$D as crate::lanes::Lane>::KIND,
            levels!(w, i, _e, crate::lanes::map3(w, i, |$a: $A, $b: $B, $c: $C| -> $D { $($body)* })))
    };
    ($family:ident $name:ident $code:literal $archs:ident fp |$m:ident, $a:ident: $A:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A] <$D as crate::lanes::Lane>::KIND, {
            #[inline(always)]
            fn f<M: crate::fp::Arith>($m: M, $a: $A) -> $D { $($body)* }
            levels!(w, i, _e, match crate::lanes::moded::<$D>(w) {
                None => crate::lanes::map1(w, i, |a| f(crate::fp::Nearest, a)),
                Some(moded) => crate::lanes::map1(w, i, |a| f(moded, a)),
            })
        })
    };
    ($family:ident $name:ident $code:literal $archs:ident fp |$m:ident, $a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B] <$D as crate::lanes::Lane>::KIND, {
            #[inline(always)]
            fn f<M: crate::fp::Arith>($m: M, $a: $A, $b: $B) -> $D { $($body)* }
            levels!(w, i, _e, match crate::lanes::moded::<$D>(w) {
                None => crate::lanes::map2(w, i, |a, b| f(crate::fp::Nearest, a, b)),
                Some(moded) => crate::lanes::map2(w, i, |a, b| f(moded, a, b)),
            })
        })
    };
    ($family:ident $name:ident $code:literal $archs:ident fp |$m:ident, $a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B, $C] <$D as crate::lanes::Lane>::KIND, {
            #[inline(always)]
            fn f<M: crate::fp::Arith>($m: M, $a: $A, $b: $B, $c: $C) -> $D { $($body)* }
            levels!(w, i, _e, match crate::lanes::moded::<$D>(w) {
                None => crate::lanes::map3(w, i, |a, b, c| f(crate::fp::Nearest, a, b, c)),
                Some(moded) => crate::lanes::map3(w, i, |a, b, c| f(moded, a, b, c)),
            })
        })
    };
    ($family:ident $name:ident $code:literal $archs:ident mode |$m:ident, $a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B] <$D as crate::lanes::Lane>::KIND,
            levels!(w, i, _e, { let $m = w.mode; crate::lanes::map2(w, i, |$a: $A, $b: $B| -> $D { $($body)* }) }))
    };
    ($family:ident $name:ident $code:literal $archs:ident mode |$m:ident, $a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $D:ty { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B, $C] <$D as crate::lanes::Lane>::KIND,
            levels!(w, i, _e, { let $m = w.mode; crate::lanes::map3(w, i, |$a: $A, $b: $B, $c: $C| -> $D { $($body)* }) }))
    };
    ($family:ident $name:ident $code:literal $archs:ident sat |$a:ident: $A:ty, $b:ident: $B:ty| -> $D:ty { $($body:tt)* } else { $($sat:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B] <$D as crate::lanes::Lane>::KIND,
            levels!(w, i, _e, if i.mods.clamp {
                crate::lanes::map2(w, i, |$a: $A, $b: $B| -> $D { $($sat)* })
            } else {
                crate::lanes::map2(w, i, |$a: $A, $b: $B| -> $D { $($body)* })
            })).with(crate::op::Flags::CLAMP)
    };
    ($family:ident $name:ident $code:literal $archs:ident sat |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $D:ty { $($body:tt)* } else { $($sat:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B, $C] <$D as crate::lanes::Lane>::KIND,
            levels!(w, i, _e, if i.mods.clamp {
                crate::lanes::map3(w, i, |$a: $A, $b: $B, $c: $C| -> $D { $($sat)* })
            } else {
                crate::lanes::map3(w, i, |$a: $A, $b: $B, $c: $C| -> $D { $($body)* })
            })).with(crate::op::Flags::CLAMP)
    };
    ($family:ident $name:ident $code:literal $archs:ident cmp |$a:ident: $A:ty, $b:ident: $B:ty| { $($body:tt)* }) => {
        row!(@op $family $name $code $archs [$A, $B] crate::operand::Kind::Mask,
            levels!(w, i, _e, crate::lanes::compare(w, i, |$a: $A, $b: $B| -> bool { $($body)* })))
    };
}

pub(crate) mod brain;
pub(crate) mod ds;
pub(crate) mod flat;
pub(crate) mod mfma;
pub(crate) mod mubuf;
pub(crate) mod packed;
pub(crate) mod rows_of_lanes;
pub(crate) mod salu;
pub(crate) mod scalar_flow;
mod scalars;
pub(crate) mod scaled_conversions;
pub(crate) mod small_floats;
pub(crate) mod smem;
pub(crate) mod transcendental;
pub(crate) mod vector_memory;
pub(crate) mod vop1;
pub(crate) mod vop2;
pub(crate) mod vop3;
pub(crate) mod vop3_float;
pub(crate) mod vopc;

use crate::operand::Kind;

/// Up to three operand kinds, the rest absent.
pub(crate) const fn kinds(present: &[Kind]) -> [Kind; 3] {
    let mut kinds = [Kind::None; 3];
    let mut n = 0;
    while n < present.len() {
        kinds[n] = present[n];
        n += 1;
    }
    kinds
}

/// Every table.
pub(crate) static TABLES: &[&[Op]] = &[
    salu::SOP2,
    salu::SOPK,
    salu::SOP1,
    salu::SOPC,
    scalar_flow::TABLE,
    smem::TABLE,
    smem::ATOMICS,
    smem::BUFFER_ATOMICS,
    vop2::TABLE,
    vop1::TABLE,
    transcendental::TABLE,
    vopc::CLASS,
    vopc::F16S,
    vopc::F32S,
    vopc::F64S,
    vopc::I16S,
    vopc::U16S,
    vopc::I32S,
    vopc::U32S,
    vopc::I64S,
    vopc::U64S,
    vop3::TABLE,
    vop3_float::TABLE,
    small_floats::TABLE,
    brain::TABLE,
    rows_of_lanes::TABLE,
    scaled_conversions::TABLE,
    packed::TABLE,
    mfma::TABLE,
    mfma::formats::TABLE,
    ds::TABLE,
    ds::ATOMICS,
    flat::FLAT,
    flat::FLAT_ATOMICS,
    flat::SCRATCH,
    flat::GLOBAL,
    flat::GLOBAL_ATOMICS,
    flat::BFLOAT,
    flat::LOADS_TO_LDS,
    mubuf::BUFFER,
    mubuf::BUFFER_ATOMICS,
    mubuf::BFLOAT,
    mubuf::formatted::FORMATTED,
    mubuf::CACHE,
];
