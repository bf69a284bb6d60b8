//! What FLAT, MUBUF and DS share: moving loaded bytes into registers and register bytes to memory.

use crate::atomic::AtomicOp;
use crate::env::{Addresses, Env, Fault};
use crate::inst::{Inst, control};
use crate::lanes::blend;
use crate::op::{Access, Fill, Flow};
use crate::operand::{Kind, Operand};
use crate::ops::scalar_flow::stop;
use crate::wave::{Aligned, LANES, Trap, Vgpr, Wave};

/// Up to four words of data for each lane.
pub(crate) type Data = [Vgpr; 4];

pub(crate) const NO_DATA: Data = [[0; LANES]; 4];

/// The loads, stores and atomics that FLAT and MUBUF have at the same opcodes: name, opcode, access.
/// Source: Vega ISA manual, opcode tables of "FLAT" and "MUBUF".
macro_rules! vector_memory_rows {
    ($make:ident) => {
        &[
            $make!("load_ubyte"          0x10 ALL       Load(1, Zero)),
            $make!("load_sbyte"          0x11 ALL       Load(1, Sign)),
            $make!("load_ushort"         0x12 ALL       Load(2, Zero)),
            $make!("load_sshort"         0x13 ALL       Load(2, Sign)),
            $make!("load_dword"          0x14 ALL       Load(4, Zero)),
            $make!("load_dwordx2"        0x15 ALL       Load(8, Zero)),
            $make!("load_dwordx3"        0x16 ALL       Load(12, Zero)),
            $make!("load_dwordx4"        0x17 ALL       Load(16, Zero)),
            $make!("store_byte"          0x18 ALL       Store(1, Zero)),
            $make!("store_byte_d16_hi"   0x19 ALL       Store(1, D16High)),
            $make!("store_short"         0x1a ALL       Store(2, Zero)),
            $make!("store_short_d16_hi"  0x1b ALL       Store(2, D16High)),
            $make!("store_dword"         0x1c ALL       Store(4, Zero)),
            $make!("store_dwordx2"       0x1d ALL       Store(8, Zero)),
            $make!("store_dwordx3"       0x1e ALL       Store(12, Zero)),
            $make!("store_dwordx4"       0x1f ALL       Store(16, Zero)),
            $make!("load_ubyte_d16"      0x20 ALL       Load(1, D16)),
            $make!("load_ubyte_d16_hi"   0x21 ALL       Load(1, D16High)),
            $make!("load_sbyte_d16"      0x22 ALL       Load(1, D16Sign)),
            $make!("load_sbyte_d16_hi"   0x23 ALL       Load(1, D16HighSign)),
            $make!("load_short_d16"      0x24 ALL       Load(2, D16)),
            $make!("load_short_d16_hi"   0x25 ALL       Load(2, D16High)),
        ]
    };
}

/// As [`vector_memory_rows`], for the atomics: name, opcode, bytes, operation.
macro_rules! vector_atomic_rows {
    ($make:ident) => {
        &[
            $make!("atomic_swap"         0x40 ALL       4 Swap),
            $make!("atomic_cmpswap"      0x41 ALL       4 CmpSwap),
            $make!("atomic_add"          0x42 ALL       4 Add),
            $make!("atomic_sub"          0x43 ALL       4 Sub),
            $make!("atomic_smin"         0x44 ALL       4 SMin),
            $make!("atomic_umin"         0x45 ALL       4 UMin),
            $make!("atomic_smax"         0x46 ALL       4 SMax),
            $make!("atomic_umax"         0x47 ALL       4 UMax),
            $make!("atomic_and"          0x48 ALL       4 And),
            $make!("atomic_or"           0x49 ALL       4 Or),
            $make!("atomic_xor"          0x4a ALL       4 Xor),
            $make!("atomic_inc"          0x4b ALL       4 Inc),
            $make!("atomic_dec"          0x4c ALL       4 Dec),
            $make!("atomic_add_f32"      0x4d F32_ARCHS 4 FAdd),
            $make!("atomic_pk_add_f16"   0x4e F32_ARCHS 4 PkAddF16),
            $make!("atomic_add_f64"      0x4f SINCE_90A 8 FAdd),
            $make!("atomic_min_f64"      0x50 SINCE_90A 8 FMin),
            $make!("atomic_max_f64"      0x51 SINCE_90A 8 FMax),
            $make!("atomic_swap_x2"      0x60 ALL       8 Swap),
            $make!("atomic_cmpswap_x2"   0x61 ALL       8 CmpSwap),
            $make!("atomic_add_x2"       0x62 ALL       8 Add),
            $make!("atomic_sub_x2"       0x63 ALL       8 Sub),
            $make!("atomic_smin_x2"      0x64 ALL       8 SMin),
            $make!("atomic_umin_x2"      0x65 ALL       8 UMin),
            $make!("atomic_smax_x2"      0x66 ALL       8 SMax),
            $make!("atomic_umax_x2"      0x67 ALL       8 UMax),
            $make!("atomic_and_x2"       0x68 ALL       8 And),
            $make!("atomic_or_x2"        0x69 ALL       8 Or),
            $make!("atomic_xor_x2"       0x6a ALL       8 Xor),
            $make!("atomic_inc_x2"       0x6b ALL       8 Inc),
            $make!("atomic_dec_x2"       0x6c ALL       8 Dec),
        ]
    };
}

pub(crate) use {vector_atomic_rows, vector_memory_rows};

/// The kind of a loaded or stored value of so many bytes.
pub(crate) const fn data_kind(bytes: u8) -> Kind {
    match bytes {
        0..=4 => Kind::B32,
        8 => Kind::B64,
        n => Kind::Dwords(n / 4),
    }
}

/// Registers that an atomic's operands take: compare-and-swap has two.
pub(crate) const fn atomic_operand_kind(op: AtomicOp, bytes: u8) -> Kind {
    match op {
        AtomicOp::CmpSwap => data_kind(bytes * 2),
        _ => data_kind(bytes),
    }
}

/// A value for each lane. A loop in the caller's code, at the level of the host that the caller was compiled for, which what
/// the standard library makes arrays with need not be.
#[inline(always)]
pub(crate) fn lanewise<T: Copy + Default>(value: impl Fn(usize) -> T) -> Aligned<[T; LANES]> {
    let mut values = Aligned([T::default(); LANES]);
    for (l, place) in values.iter_mut().enumerate() {
        *place = value(l);
    }
    values
}

/// Registers that so many bytes take.
pub(crate) const fn words_of(bytes: u8) -> usize {
    bytes.div_ceil(4) as usize
}

/// Accesses up to a dword of each lane of `mask` in memory whose dwords are interleaved; `at` says where a byte of it is.
/// `offsets` are those of its first byte: where they are not aligned, the bytes may lie in two dwords.
#[inline(always)]
pub(crate) fn interleaved(
    e: &mut dyn Env,
    store: bool,
    bytes: u8,
    mask: u64,
    offsets: &Vgpr,
    word: &mut Vgpr,
    at: impl Fn(u32) -> Aligned<Addresses>,
) -> Result<(), Fault> {
    let mut low = 0;
    for offset in offsets {
        low |= offset & 3;
    }
    if low != 0 {
        return parted(e, store, bytes, mask, offsets, word, at);
    }
    if mask == 0 {
        return Ok(());
    }
    one_part(e, store, bytes, mask, &at(0), word)
}

fn one_part(e: &mut dyn Env, store: bool, bytes: u8, mask: u64, at: &Addresses, word: &mut Vgpr) -> Result<(), Fault> {
    let words = std::slice::from_mut(word);
    if store { e.store(at, mask, bytes, words) } else { e.load(at, mask, bytes, words) }
}

/// As [`interleaved`], where some offset is not aligned.
fn parted(
    e: &mut dyn Env,
    store: bool,
    bytes: u8,
    mask: u64,
    offsets: &Vgpr,
    word: &mut Vgpr,
    at: impl Fn(u32) -> Aligned<Addresses>,
) -> Result<(), Fault> {
    let mut apart = 0;
    for (l, offset) in offsets.iter().enumerate() {
        apart |= u64::from((offset & 3) + u32::from(bytes) > 4) << l;
    }
    let (together, apart) = (mask & !apart, mask & apart);
    if together != 0 {
        one_part(e, store, bytes, together, &at(0), word)?;
    }
    if apart == 0 {
        return Ok(());
    }
    let mut whole = [0; LANES];
    for n in 0..u32::from(bytes) {
        let mut byte = lanewise(|l| word[l] >> (8 * n));
        one_part(e, store, 1, apart, &at(n), &mut byte)?;
        for (whole, byte) in whole.iter_mut().zip(&*byte) {
            *whole |= (byte & 0xff) << (8 * n);
        }
    }
    blend(word, &whole, apart);
    Ok(())
}

/// Puts loaded words into the destination lanes of `mask`.
pub(crate) fn fill(w: &mut Wave, dst: Operand, bytes: u8, how: Fill, data: &Data, mask: u64) {
    if bytes >= 4 {
        for (n, word) in data.iter().enumerate().take(usize::from(bytes) / 4) {
            blend(w.vector_mut(dst, n as u32), word, mask);
        }
        return;
    }
    fill_part(w, dst, bytes, how, &data[0], mask);
}

/// As [`fill`], for values of less than a dword.
#[inline(always)]
pub(crate) fn fill_part(w: &mut Wave, dst: Operand, bytes: u8, how: Fill, part: &Vgpr, mask: u64) {
    let signed = |x: u32| sign_extend(x, bytes);
    // Memories with error correction are written in whole dwords: nothing of the old contents stays.
    let old = if w.sramecc { [0; LANES] } else { *w.vector(dst, 0) };
    let word = lanewise(|l| {
        let x = part[l];
        match how {
            Fill::Zero => x,
            Fill::Sign => signed(x),
            Fill::D16 => old[l] & 0xffff_0000 | x,
            Fill::D16Sign => old[l] & 0xffff_0000 | signed(x) & 0xffff,
            Fill::D16High => old[l] & 0xffff | x << 16,
            Fill::D16HighSign => old[l] & 0xffff | signed(x) << 16,
        }
    });
    blend(w.vector_mut(dst, 0), &word, mask);
}

/// The words that a store writes.
pub(crate) fn gather(w: &Wave, from: Operand, bytes: u8, how: Fill) -> Data {
    let mut data = NO_DATA;
    for (n, word) in data.iter_mut().enumerate().take(usize::from(bytes).div_ceil(4)) {
        *word = *w.vector(from, n as u32);
    }
    if how == Fill::D16High {
        data[0] = data[0].map(|x| x >> 16);
    }
    data
}

/// Where in LDS M0 says that an access begins: as many of its bits count as there is LDS.
#[inline(always)]
pub(crate) fn m0_base(w: &Wave) -> u32 {
    w.sgpr[usize::from(Operand::M0.0)] & (w.arch.row().target.lds.next_power_of_two() - 1)
}

/// A load whose lanes land one after the other in LDS, at the base that M0 gives. Lanes that are active but not in
/// `mask` load zero.
pub(crate) fn load_lds(w: &mut Wave, i: &Inst, e: &mut dyn Env, at: &Addresses, mask: u64) -> Flow {
    let (Access::Load(bytes, how) | Access::LoadLds(bytes, how)) = i.op.access else { return stop(w, Trap::Illegal) };
    let (mut data, words) = (NO_DATA, words_of(bytes));
    if mask != 0
        && let Err(fault) = e.load(at, mask, bytes, &mut data[..words])
    {
        return stop(w, Trap::Memory(fault));
    }
    // The immediate may be negative; what is then before the beginning is outside, like what is behind the end.
    let base = i64::from(m0_base(w)) + i64::from(i.imm);
    let exec = w.exec();
    let lds = e.lds();
    for l in (0..LANES).filter(|l| exec >> l & 1 == 1) {
        for (n, words_of_lanes) in data.iter().enumerate().take(words) {
            let start = usize::try_from(base + 4 * (words * l + n) as i64);
            if let Some(place) = start.ok().and_then(|start| lds.get_mut(start..start + 4)) {
                let x = words_of_lanes[l];
                let word = if how == Fill::Sign { sign_extend(x, bytes) } else { x };
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    Flow::Next
}

fn sign_extend(x: u32, bytes: u8) -> u32 {
    (if bytes == 1 { i32::from(x as u8 as i8) } else { i32::from(x as u16 as i16) }) as u32
}

/// Performs the access of `i` on global memory for the lanes of `mask`; data is in `data`, results go to `dst`.
#[allow(clippy::too_many_arguments, reason = "where data is depends on the encoding, not on the instruction")]
#[inline(always)]
pub(crate) fn access(
    w: &mut Wave,
    i: &Inst,
    e: &mut dyn Env,
    at: &Addresses,
    mask: u64,
    data: Operand,
    dst: Operand,
    returns: bool,
) -> Flow {
    if i.has(control::LDS) {
        return load_lds(w, i, e, at, mask);
    }
    if mask == 0 {
        return Flow::Next;
    }
    w.coherent += u64::from(i.has(control::GLC | control::SCC));
    let done = match i.op.access {
        Access::Load(bytes @ 4.., _) => e.load(at, mask, bytes, w.vectors_mut(dst, words_of(bytes))),
        Access::Load(bytes, how) => {
            let mut word = Aligned([0; LANES]);
            e.load(at, mask, bytes, std::slice::from_mut(&mut *word))
                .map(|()| fill_part(w, dst, bytes, how, &word, mask))
        }
        Access::Store(bytes, Fill::D16High) => e.store(at, mask, bytes, &[lanewise(|l| w.vector(data, 0)[l] >> 16).0]),
        Access::Store(bytes, _) => e.store(at, mask, bytes, w.vectors(data, words_of(bytes))),
        Access::Atomic(op, bytes, _) => {
            let op = op.in_memory_of(w.arch, bytes);
            let operands = words_of(if op == AtomicOp::CmpSwap { bytes * 2 } else { bytes });
            let mut old = Aligned([[0; LANES]; 2]);
            let old = &mut old[..if returns { words_of(bytes) } else { 0 }];
            e.atomic(op, at, mask, bytes, w.vectors(data, operands), old).map(|()| {
                for (n, word) in old.iter().enumerate() {
                    blend(w.vector_mut(dst, n as u32), word, mask);
                }
            })
        }
        _ => return stop(w, Trap::Illegal),
    };
    match done {
        Ok(()) => Flow::Next,
        Err(fault) => stop(w, Trap::Memory(fault)),
    }
}
