//! What the encodings do around the pseudocode, in the test's own words: where sources come from, what modifiers and MODE make of them
//! and of results, and which lanes and parts of registers are written.

use std::cell::Cell;
use std::collections::BTreeMap;

use amdgpu_isa::inst::{Form, Inst};
use amdgpu_isa::op::{Family, Flags};
use amdgpu_isa::operand::{Kind, Operand};
use amdgpu_isa::wave::{LANES, Wave};

use crate::evaluate::{Bodies, Floats, Program};
use crate::parse::Body;
use crate::real::{Format, Real, Round};
use crate::value::{BIT, Value, ones};

/// The state behind an instruction.
pub(crate) struct Expected {
    /// Written dwords of vector registers: register, lane, value.
    pub(crate) vectors: Vec<(usize, usize, u32)>,
    /// Lanes of whose results only a part is kept that says nothing: of a NaN, or of an approximation.
    pub(crate) partial: u64,
    pub(crate) sgpr: [u32; 128],
    pub(crate) scc: bool,
    /// The result is one that hardware approximates.
    pub(crate) approximate: bool,
}

/// The bits of MODE that matter here.
fn floats(mode: u32) -> Floats {
    Floats {
        rounds: [Round::of(mode & 3), Round::of(mode >> 2 & 3)],
        flushes: [mode >> 4 & 1 == 0, mode >> 6 & 1 == 0],
        saturates: mode >> 23 & 1 == 1,
    }
}

/// Denormal results of a width are zero.
fn flushes_results(mode: u32, width: u32) -> bool {
    mode >> (if width == 32 { 5 } else { 7 }) & 1 == 0
}

/// Singles that are computed without denormals, whatever the mode: the approximations, and the unfused multiply-adds.
fn knows_no_denormals(name: &str) -> bool {
    let approximation = ["exp", "log", "rcp", "rsq", "sqrt"].iter().any(|stem| name.starts_with(&format!("v_{stem}_")));
    let unfused = ["v_mac_f32", "v_mad_f32", "v_mad_legacy_f32", "v_madmk_f32", "v_madak_f32"].contains(&name);
    let dot = name.starts_with("v_dot2_f32") || name.starts_with("v_dot2c_f32");
    dot || name.starts_with("v_mad_mix") || name.ends_with("f32") && (approximation || unfused)
}

/// The lane that a lane reads with data-parallel control, by the manual's table.
fn dpp_lane(control: u16, lane: usize) -> Option<usize> {
    let (row, n, at) = (lane / 16 * 16, control as usize & 15, lane % 16);
    match control {
        0..=0xff => Some(lane / 4 * 4 + (control as usize >> (2 * (lane % 4)) & 3)),
        0x101..=0x10f => (at + n < 16).then(|| lane + n),
        0x111..=0x11f => at.checked_sub(n).map(|at| row + at),
        0x121..=0x12f => Some(row + (at + 16 - n) % 16),
        0x130 => (lane < 63).then(|| lane + 1),
        0x134 => Some((lane + 1) % 64),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) % 64),
        0x140 => Some(row + 15 - at),
        0x141 => Some(lane / 8 * 8 + 7 - lane % 8),
        0x142 => Some(row.checked_sub(1).unwrap_or(lane)),
        0x143 => Some(if lane >= 32 { 31 } else { lane }),
        _ => Some(row + n),
    }
}

/// The dwords of source `s` of a lane.
fn source(w: &Wave, i: &Inst, s: usize, kind: Kind, lane: usize) -> u128 {
    let operand = i.src[s];
    if operand.is_vector() {
        return (0..kind.dwords()).fold(0, |bits, n| bits | u128::from(w.vector(operand, n)[lane]) << (32 * n));
    }
    match kind {
        // A constant is the same in both.
        Kind::V2F32 | Kind::V2B32 if !operand.is_scalar_register() => {
            u128::from(w.scalar32(operand, i.literal, Kind::F32)) * 0x1_0000_0001
        }
        // A constant of four dwords is not known to be one thing or another.
        _ if kind.dwords() == 2 => w.scalar64(operand, i.literal, kind).into(),
        _ => w.scalar32(operand, i.literal, kind).into(),
    }
}

/// The bits of source `s` of a lane with modifiers; `None` where a lane without a source is left out.
fn modified(w: &Wave, i: &Inst, s: usize, lane: usize) -> Option<u128> {
    let kind = i.op.src[s];
    let mut from = lane;
    if let (0, Some(dpp)) = (s, i.dpp()) {
        match dpp_lane(dpp.ctrl, lane).filter(|&from| w.exec() >> from & 1 == 1) {
            Some(lane) => from = lane,
            None if dpp.bound_ctrl => return Some(signs(0, i, s, kind)),
            None => return None,
        }
    }
    let mix = |s: usize| if i.mods.op_sel_hi >> s & 1 == 1 { Kind::F16 } else { Kind::F32 };
    let mut bits = source(w, i, s, if kind == Kind::Mix { mix(s) } else { kind }, from);
    if let (Some(sdwa), 0 | 1) = (i.sdwa(), s) {
        let (first, width) = match sdwa.src_sel[s] {
            n @ 0..=3 => (8 * n, 8),
            n @ 4..=5 => (16 * (n - 4), 16),
            _ => (0, 32),
        };
        bits = bits >> first & ones(width);
        if sdwa.sext[s] && bits >> (width - 1) & 1 == 1 {
            bits |= ones(32) & !ones(width);
        }
    } else if kind.is_16_bit() && i.op.flags.has(Flags::OP_SEL) && i.mods.op_sel >> s & 1 == 1 {
        bits >>= 16;
    }
    if i.op.family == Family::Vop3p && kind.is_packed() && kind != Kind::V2B32 {
        return Some(packed(i, s, kind, bits));
    }
    Some(signs(bits, i, s, kind))
}

/// Absolute value and negation.
fn signs(mut bits: u128, i: &Inst, s: usize, kind: Kind) -> u128 {
    let bit = match kind {
        Kind::F16 => 15,
        Kind::F32 | Kind::M32 => 31,
        Kind::F64 => 63,
        // Both halves.
        Kind::V2F16 if i.op.family != Family::Vop3p => {
            let both = |sources: u8| if sources >> s & 1 == 1 { 0x8000_8000 } else { 0 };
            return bits & !both(i.mods.abs) ^ both(i.mods.neg);
        }
        Kind::Mix if i.mods.op_sel_hi >> s & 1 == 0 => 31,
        Kind::Mix => 15 + 16 * (i.mods.op_sel >> s & 1),
        _ => return bits,
    };
    // Packed instructions have the signs of upper halves in the field of absolute values.
    if i.mods.abs >> s & 1 == 1 && (i.op.family != Family::Vop3p || kind == Kind::Mix) {
        bits &= !(1 << bit);
    }
    bits ^ u128::from(i.mods.neg >> s & 1) << bit
}

/// The halves that the results use, in their places.
fn packed(i: &Inst, s: usize, kind: Kind, bits: u128) -> u128 {
    let width = if kind.dwords() == 2 { 32 } else { 16 };
    let part = |chosen: u8, negated: u8| {
        let part = bits >> (width * u32::from(chosen >> s & 1)) & ones(width);
        part ^ if kind.is_float() { u128::from(negated >> s & 1) << (width - 1) } else { 0 }
    };
    part(i.mods.op_sel, i.mods.neg) | part(i.mods.op_sel_hi, i.mods.abs) << width
}

/// What an instruction does by its text.
pub(crate) fn expected(w: &Wave, i: &Inst, body: &Body, bodies: &Bodies) -> Result<Expected, String> {
    match i.op.family {
        Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk => scalar(w, i, body, bodies),
        _ => vector(w, i, body, bodies),
    }
}

pub(crate) fn program<'a>(mode: u32, bodies: &'a Bodies) -> Program<'a> {
    Program {
        bodies,
        names: BTreeMap::new(),
        lambdas: BTreeMap::new(),
        floats: floats(mode),
        clamps: false,
        written: false,
        exact: false,
        no_denormals: false,
        flushes_sums: [false; 2],
        approximate: Cell::new(false),
        memory: None,
    }
}

fn scalar(w: &Wave, i: &Inst, body: &Body, bodies: &Bodies) -> Result<Expected, String> {
    let mut program = program(w.mode.0, bodies);
    let raw = |bits: u64, kind: Kind| Value::raw(bits.into(), 32 * kind.dwords().max(1));
    for s in 0..2 {
        let kind = i.op.src[s];
        if kind != Kind::None {
            let bits = if kind.dwords() == 2 {
                w.scalar64(i.src[s], i.literal, kind)
            } else {
                w.scalar32(i.src[s], i.literal, kind).into()
            };
            program.names.insert(format!("S{s}"), raw(bits, kind));
        }
    }
    if i.op.family == Family::Sopk {
        // The constant is what the text calls its first source, and in comparisons its second one.
        let first = if i.op.name.starts_with("s_cmpk") { "S1" } else { "S0" };
        program.names.insert(first.to_owned(), Value::raw((i.imm as u64 & 0xffff).into(), 16));
        program.names.insert("SIMM16".to_owned(), Value::raw((i.imm as u64 & 0xffff).into(), 16));
        if first == "S1" {
            program.names.insert("S0".to_owned(), raw(w.scalar32(i.dst, 0, Kind::B32).into(), Kind::B32));
        }
    }
    let pair = |operand: Operand| u128::from(w.pair(operand));
    if i.dst.is_some() {
        let bits = if i.op.dst.dwords() == 2 { w.pair(i.dst) } else { w.sgpr[usize::from(i.dst.0) & 127].into() };
        program.names.insert("D0".to_owned(), raw(bits, i.op.dst));
    }
    program.names.insert("SCC".to_owned(), Value::Bits(w.scc.into(), BIT));
    program.names.insert("M0".to_owned(), Value::raw(w.sgpr[usize::from(Operand::M0.0)].into(), 32));
    program.names.insert("EXEC".to_owned(), Value::raw(pair(Operand::EXEC), 64));
    program.names.insert("VCC".to_owned(), Value::raw(pair(Operand::VCC), 64));
    program.run(body)?;
    let bits = |name: &str| program.names.get(name).ok_or("no value")?.bits();
    let mut sgpr = w.sgpr;
    let mut put = |operand: Operand, bits: u128, dwords: u32| {
        for n in 0..dwords {
            sgpr[(usize::from(operand.0) + n as usize) & 127] = (bits >> (32 * n)) as u32;
        }
    };
    put(Operand::EXEC, bits("EXEC")?, 2);
    put(Operand::M0, bits("M0")?, 1);
    if i.dst.is_some() && program.written {
        put(i.dst, bits("D0")?, i.op.dst.dwords());
    }
    Ok(Expected { vectors: Vec::new(), partial: 0, sgpr, scc: bits("SCC")? != 0, approximate: false })
}

fn vector(w: &Wave, i: &Inst, body: &Body, bodies: &Bodies) -> Result<Expected, String> {
    let op = i.op;
    let (mut approximate, mut partial) = (false, 0);
    let (mut vectors, mut sgpr) = (Vec::new(), w.sgpr);
    let (mut mask, mut exec) = (0u64, 0u64);
    for lane in (0..LANES).filter(|lane| w.exec() >> lane & 1 == 1) {
        let mut program = program(w.mode.0, bodies);
        if knows_no_denormals(op.name) {
            program.floats.flushes[0] = true;
            program.no_denormals = true;
        }
        if op.name == "v_cvt_rpi_i32_f32" {
            // The text does not say how the half is added; it is to nearest.
            program.floats.rounds = [Round::Nearest; 2];
        }
        if op.flags.has(Flags::DENORMALS) {
            program.floats.flushes = [false; 2];
        }
        let dpp = i.dpp();
        if dpp.is_some_and(|dpp| dpp.row_mask >> (lane / 16) & 1 == 0 || dpp.bank_mask >> (lane / 4 % 4) & 1 == 0) {
            continue;
        }
        // The instructions with a literal have it between or behind their sources.
        let k = [Flags::K_SECOND, Flags::K_THIRD].iter().position(|flag| op.flags.has(*flag)).map(|n| n + 1);
        let (mut place, mut first) = (0, 0);
        let mut is_left_out = false;
        for s in 0..3 {
            if op.src[s] == Kind::None || op.src[s] == Kind::Mask {
                continue;
            }
            let Some(bits) = modified(w, i, s, lane) else {
                is_left_out = true;
                break;
            };
            let value = Value::raw(bits, 32 * op.src[s].dwords());
            first = if s == 0 { bits } else { first };
            if k == Some(s) {
                program.names.insert("SIMM32".to_owned(), value.clone());
                program.names.insert("SIMM16".to_owned(), value);
                continue;
            }
            program.names.insert(format!("S{place}"), value);
            place += 1;
        }
        if is_left_out {
            continue;
        }
        let dwords = if op.dst == Kind::Mask { 2 } else { op.dst.dwords() };
        let old = |n: u32| if op.dst == Kind::Mask { 0 } else { w.vector(i.dst, n)[lane] };
        let before = (0..dwords).fold(0u128, |bits, n| bits | u128::from(old(n)) << (32 * n));
        let sum = if op.flags.has(Flags::DST_IS_SRC2) { flushed(&program.floats, op.dst, before) } else { before };
        program.names.insert("D0".to_owned(), Value::raw(sum, 32 * dwords));
        let carry = if op.flags.has(Flags::MASK_IN) { w.scalar64(i.src[2], i.literal, Kind::Mask) } else { w.vcc() };
        program.names.insert("VCC".to_owned(), Value::raw(carry.into(), 64));
        program.names.insert("EXEC".to_owned(), Value::raw(w.exec().into(), 64));
        program.names.insert("SCC".to_owned(), Value::Bits(w.scc.into(), BIT));
        program.names.insert("laneId".to_owned(), Value::unsigned(lane as u64, 32));
        program.names.insert("WAVE_MODE.IEEE".to_owned(), Value::Bits((w.mode.0 >> 9 & 1).into(), BIT));
        program.names.insert("OPSEL".to_owned(), Value::raw(i.mods.op_sel.into(), 4));
        program.names.insert("OPSEL_HI".to_owned(), Value::raw(i.mods.op_sel_hi.into(), 3));
        // The text says nothing of what clamping does to shifts, and it is not known to do anything.
        let shifts = op.name.contains("sh") && op.name.contains("rev");
        program.clamps = i.mods.clamp && !op.dst.is_float() && !op.flags.has(Flags::MASK_OUT) && !shifts;
        if op.name.starts_with("v_dot2") && op.dst == Kind::F32 {
            // Sums are rounded once, to nearest. The text leaves that open.
            program.floats.rounds = [Round::Nearest; 2];
            program.exact = true;
            if !amdgpu_isa::Arch::flushes_half_products(w.arch) {
                program.floats.flushes[1] = w.mode.0 >> 6 & 1 == 0;
            } else {
                program.floats.flushes[1] = true;
            }
        }
        program.run(body)?;
        approximate |= program.approximate.get();
        let bits = |name: &str| program.names.get(name).ok_or("no value")?.bits();
        let (mut result, vcc) = (bits("D0")?, bits("VCC")? as u64);
        let carried = match program.names.get("D1") {
            Some(carry) => carry.bits()? != 0,
            None => vcc >> lane & 1 == 1,
        };
        if op.dst == Kind::Mask {
            let set = result >> lane & 1 == 1 || vcc >> lane & 1 == 1 && op.family == Family::Vopc && !program.written;
            mask |= u64::from(set) << lane;
            exec |= u64::from(set) << lane;
            continue;
        }
        if op.flags.has(Flags::MASK_OUT) {
            mask |= u64::from(carried) << lane;
            if i.mods.clamp && carried && op.family == Family::Vop2 {
                result = if op.name.starts_with("v_add") { ones(32) } else { 0 };
            }
            // Of wide sums, what is beside the result is bit 64.
            match op.dst {
                Kind::U64 if i.mods.clamp && carried => result = ones(64),
                Kind::I64 if i.mods.clamp && carried != (result >> 63 & 1 == 1) => {
                    result = if carried { 1 << 63 } else { ones(63) }
                }
                _ => {}
            }
        }
        if op.name.starts_with("v_fract") {
            result = below_one(op.dst, result);
        }
        let result = finished(w.mode.0, i, result, knows_no_denormals(op.name));
        let words = placed(i, before, result);
        let is_part = i.sdwa().is_some_and(|sdwa| sdwa.dst_sel < 6);
        let says_nothing = program.approximate.get() || is_nan(op.dst, result);
        // A quotient that is none by the way it was made is infinite by ours, and NaN by the text.
        let no_quotient = op.name.starts_with("v_div_fixup") && is_nan(op.src[0], first);
        partial |= u64::from(is_part && says_nothing || no_quotient) << lane;
        for n in 0..dwords {
            vectors.push((w.vgpr_index(i.dst, n), lane, (words >> (32 * n)) as u32));
        }
    }
    if op.dst == Kind::Mask || op.flags.has(Flags::MASK_OUT) {
        let mut put = |operand: Operand, mask: u64| {
            sgpr[usize::from(operand.0) & 127] = mask as u32;
            sgpr[(usize::from(operand.0) + 1) & 127] = (mask >> 32) as u32;
        };
        put(i.sdst, mask);
        if op.flags.has(Flags::WRITES_EXEC) {
            put(Operand::EXEC, exec);
        }
    }
    Ok(Expected { vectors, partial, sgpr, scc: w.scc, approximate })
}

/// Width and number of the floats in an operand.
fn floats_in(kind: Kind) -> Option<(u32, u32)> {
    match kind {
        Kind::F16 => Some((16, 1)),
        Kind::F32 => Some((32, 1)),
        Kind::F64 => Some((64, 1)),
        Kind::V2F16 => Some((16, 2)),
        Kind::V2F32 => Some((32, 2)),
        _ => None,
    }
}

fn is_nan(kind: Kind, bits: u128) -> bool {
    floats_in(kind).is_some_and(|(width, _)| Format::of(width).is_nan(bits as u64 & ones(width) as u64))
}

/// What is added to, without the denormals that the mode does not want.
fn flushed(floats: &Floats, kind: Kind, bits: u128) -> u128 {
    let Some((width, count)) = floats_in(kind).filter(|(width, _)| floats.flushes[usize::from(*width != 32)]) else {
        return bits;
    };
    (0..count).fold(0, |all, n| {
        let part = (bits >> (n * width)) as u64 & ones(width) as u64;
        all | u128::from(Format::of(width).flushed(part)) << (n * width)
    })
}

/// A fraction that was rounded up to one is the largest below it. Source: LLVM makes these operations of `min(x - floor(x), …)`
/// (`matchFractPat`).
fn below_one(kind: Kind, bits: u128) -> u128 {
    let Some((width, _)) = floats_in(kind) else { return bits };
    let one = Real::of_integer(1).bits(Format::of(width), Round::Nearest, false);
    if bits & ones(width) == u128::from(one) { bits - 1 } else { bits }
}

/// A result with the output modifiers and the mode's denormals.
fn finished(mode: u32, i: &Inst, bits: u128, flushes: bool) -> u128 {
    let Some((width, count)) = floats_in(i.op.dst) else { return bits };
    let format = Format::of(width);
    // `v_fma_mixhi` has its result above.
    let shift = if i.op.name.ends_with("mixhi_f16") { 16 } else { 0 };
    (0..count).fold(bits, |all, n| {
        let at = width * n + shift;
        let mut part = (all >> at) as u64 & ones(width) as u64;
        let no_denormals = flushes && width == 32 || flushes_results(mode, width);
        if no_denormals {
            part = format.flushed(part);
        }
        let multiplies = mode >> 9 & 1 == 0 && flushes_results(mode, width) && i.mods.omod != 0;
        if multiplies && i.op.family != Family::Vop3p {
            let by = [0, 1, 2, -1][usize::from(i.mods.omod) & 3];
            let real = Real::of(part, format);
            part = format.flushed(real.clone().scaled(by).bits(
                format,
                Round::Nearest,
                width == 16 && mode >> 23 & 1 == 1,
            ));
            if part == format.sign() {
                part = 0;
            }
        }
        if i.mods.clamp {
            let real = Real::of(part, format);
            let one = Real::of_integer(1);
            part = if real.is_nan() {
                if mode >> 8 & 1 == 1 { 0 } else { part }
            } else if real.compared(&one).is_some_and(|order| order.is_gt()) {
                one.bits(format, Round::Nearest, false)
            } else if real.is_negative() || matches!(real, Real::Zero(_)) {
                0
            } else {
                part
            };
        }
        all & !(ones(width) << at) | u128::from(part) << at
    })
}

/// A result in its part of the register, whose old contents are `before`.
fn placed(i: &Inst, before: u128, result: u128) -> u128 {
    let op = i.op;
    let half = op.dst.is_16_bit() && !op.dst.is_packed();
    if let Some(sdwa) = i.sdwa() {
        let (first, width) = match sdwa.dst_sel {
            n @ 0..=3 => (8 * u32::from(n), 8),
            n @ 4..=5 => (16 * (u32::from(n) - 4), 16),
            _ => return if half { result & 0xffff } else { result },
        };
        let field = result & ones(width);
        return match sdwa.dst_unused {
            0 => field << first,
            1 => {
                let sign = if field >> (width - 1) & 1 == 1 { ones(32) & !ones(width) } else { 0 };
                (field | sign) << first & ones(32)
            }
            _ => before & !(ones(width) << first) | field << first,
        };
    }
    if !half || op.name.contains("_mix") {
        return result;
    }
    if op.flags.has(Flags::OP_SEL) && i.mods.op_sel & 8 != 0 && i.form == Form::E64 {
        return before & 0xffff | (result & 0xffff) << 16;
    }
    if op.flags.has(Flags::KEEP_HIGH) { before & 0xffff_0000 | result & 0xffff } else { result & 0xffff }
}

/// True when a float of a destination is NaN in both, or, of one that is approximated, both are near each other.
pub(crate) fn alike(i: &Inst, approximate: bool, got: &[u32], expected: &[u32]) -> bool {
    let join = |words: &[u32]| words.iter().rev().fold(0u64, |bits, word| bits << 32 | u64::from(*word));
    let (got, expected) = (join(got), join(expected));
    let halves = i.op.name == "v_cvt_pkrtz_f16_f32";
    let Some((width, _)) = (if halves { Some((16, 2)) } else { floats_in(i.op.dst) }) else { return got == expected };
    let format = Format::of(width);
    let total = 32 * i.op.dst.dwords();
    (0..total / width).all(|n| {
        let [a, b] = [got, expected].map(|bits| bits >> (n * width) & ones(width) as u64);
        let near = approximate && !format.is_nan(a) && a.abs_diff(b) <= 2;
        // Of zeros of both signs, the text leaves the one in the middle open.
        let zeros = i.op.name.starts_with("v_med3") && (a | b) & !format.sign() == 0;
        a == b || near || zeros || format.is_nan(a) && format.is_nan(b)
    })
}
