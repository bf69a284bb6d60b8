//! The model of accesses of LDS and memory: each lane runs the text on the same bytes, lower lanes first.

use amdgpu_isa::inst::{Inst, control};
use amdgpu_isa::op::{Access, Family};
use amdgpu_isa::operand::{Kind, Operand};
use amdgpu_isa::wave::{LANES, Wave};

use crate::evaluate::{Bodies, Bytes};
use crate::memory::Memory;
use crate::model::{self, Expected};
use crate::parse::Body;
use crate::value::Value;

/// LDS: what is outside reads as zero, and is not written.
struct Lds<'a>(&'a mut [u8]);

impl Bytes for Lds<'_> {
    fn read(&mut self, at: u64, bytes: u32) -> u128 {
        let place = self.0.get(at as usize..(at + u64::from(bytes)) as usize).unwrap_or_default();
        place.iter().rev().fold(0, |value, byte| value << 8 | u128::from(*byte))
    }

    fn write(&mut self, at: u64, bytes: u32, value: u128) {
        if let Some(place) = self.0.get_mut(at as usize..(at + u64::from(bytes)) as usize) {
            place.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        }
    }
}

/// Memory that repeats itself, as the machine of the tests has it.
struct Repeated<'a>(&'a mut [u8]);

impl Bytes for Repeated<'_> {
    fn read(&mut self, at: u64, bytes: u32) -> u128 {
        let size = self.0.len() as u64;
        (0..u64::from(bytes)).rev().fold(0, |value, n| value << 8 | u128::from(self.0[((at + n) % size) as usize]))
    }

    fn write(&mut self, at: u64, bytes: u32, value: u128) {
        let size = self.0.len() as u64;
        for n in 0..u64::from(bytes) {
            self.0[((at + n) % size) as usize] = (value >> (8 * n)) as u8;
        }
    }
}

/// Where a lane accesses: before and behind the immediate.
fn addresses(w: &Wave, i: &Inst, lane: usize) -> (u64, u64) {
    let offset = i64::from(i.imm) as u64;
    if i.op.family == Family::Mubuf {
        let at = of_buffer(w, i, lane);
        return (at, at);
    }
    if !i.src[0].is_some() {
        // The text adds what there is itself.
        return (0, 0);
    }
    let low = w.vector(i.src[0], 0)[lane].into();
    match i.op.family {
        Family::Ds => (low, u64::from((low as u32).wrapping_add(i.imm as u32))),
        Family::Global if i.src[2].is_some() => {
            let base = w.pair(i.src[2]).wrapping_add(low);
            (base, base.wrapping_add(offset))
        }
        _ => {
            let base = low | u64::from(w.vector(i.src[0], 1)[lane]) << 32;
            (base, base.wrapping_add(offset))
        }
    }
}

/// Where a lane accesses a linear buffer, inside. Source: the Vega ISA manual, "Buffer Addressing".
fn of_buffer(w: &Wave, i: &Inst, lane: usize) -> u64 {
    let word = |n: usize| u64::from(w.sgpr[usize::from(i.src[1].0) + n]);
    let (base, stride) = (word(0) | (word(1) & 0xffff) << 32, word(1) >> 16 & 0x3fff);
    let (offen, idxen) = (i.has(control::OFFEN), i.has(control::IDXEN));
    let register = |is: bool, n: u32| if is { u64::from(w.vector(i.src[0], n)[lane]) } else { 0 };
    let (index, offset) = (register(idxen, 0), register(offen, idxen.into()));
    base + u64::from(w.scalar32(i.src[2], 0, Kind::B32)) + index * stride + offset + i.imm as u64
}

/// Where an instruction of scalar memory accesses, inside of its buffer. Of each part the two lowest bits count as zero. Source: the
/// Vega ISA manual, "Scalar Memory Operations".
fn of_scalars(w: &Wave, i: &Inst) -> u64 {
    let register = if i.has(control::SOFFSET) { w.scalar32(i.src[1], 0, Kind::B32).into() } else { 0u64 };
    let base = w.pair(i.src[0]) & if is_scalar_buffer(i) { 0xffff_ffff_ffff } else { u64::MAX };
    [base, i64::from(i.imm) as u64, register].into_iter().fold(0, |sum, part| sum.wrapping_add(part & !3))
}

/// True for scalar memory of which a buffer's descriptor says the address.
pub(crate) fn is_scalar_buffer(i: &Inst) -> bool {
    i.op.family == Family::Smem && i.op.src[0].dwords() == 4
}

/// What an instruction of scalar memory does by its text.
fn expected_of_scalars(
    w: &Wave,
    i: &Inst,
    body: &Body,
    bodies: &Bodies,
    memory: &mut Memory,
) -> Result<Expected, String> {
    let (first, dwords) = (usize::from(i.dst.0), i.op.dst.dwords());
    let mut global = Repeated(&mut memory.bytes);
    let mut program = model::program(w.mode.0, bodies);
    program.memory = Some(&mut global);
    program.names.insert("ADDR".to_owned(), Value::unsigned(of_scalars(w, i), 64));
    let word = |n: u32| u128::from(w.sgpr[first + n as usize]);
    let group = |from: u32| (from..dwords.min(from + 4)).fold(0, |bits, n| bits | word(n) << (32 * (n - from)));
    let data = Value::raw(group(0), 32 * dwords.min(4));
    let mut sgpr = w.sgpr;
    for name in ["DATA", "SDATA", "RETURN_DATA"] {
        program.names.insert(name.to_owned(), data.clone());
    }
    for n in 0..dwords / 4 {
        program.names.insert(format!("SDATA{n}"), Value::raw(group(4 * n), 128));
    }
    program.run(body)?;
    let (name, written) = match i.op.access {
        Access::Load(..) => ("SDATA", dwords),
        Access::Atomic(_, bytes, _) if i.has(control::GLC) => ("RETURN_DATA", u32::from(bytes) / 4),
        _ => return Ok(Expected { vectors: Vec::new(), partial: 0, sgpr, scc: w.scc, approximate: false }),
    };
    for n in 0..written {
        let name = if written > 4 { format!("{name}{}", n / 4) } else { name.to_owned() };
        let found = program.names.get(&name).ok_or("no result")?.bits()?;
        sgpr[first + n as usize] = (found >> (32 * (n % 4))) as u32;
    }
    Ok(Expected { vectors: Vec::new(), partial: 0, sgpr, scc: w.scc, approximate: false })
}

/// What an access does by its text, to registers and to `memory`.
pub(crate) fn expected(
    w: &Wave,
    i: &Inst,
    body: &Body,
    bodies: &Bodies,
    memory: &mut Memory,
) -> Result<Expected, String> {
    if i.op.family == Family::Smem {
        return expected_of_scalars(w, i, body, bodies, memory);
    }
    // Of a buffer the data is where the result of others is.
    let is_buffer = i.op.family == Family::Mubuf;
    let is_load = matches!(i.op.access, Access::Load(..));
    let mut vectors = Vec::new();
    for lane in (0..LANES).filter(|lane| w.exec() >> lane & 1 == 1) {
        let (base, at) = addresses(w, i, lane);
        let register = |operand: Operand, kind: Kind| {
            let word = |n: u32| u128::from(w.vector(operand, n)[lane]);
            Value::raw((0..kind.dwords()).fold(0, |bits, n| bits | word(n) << (32 * n)), 32 * kind.dwords())
        };
        let mut lds = Lds(&mut memory.lds);
        let mut global = Repeated(&mut memory.bytes);
        let mut program = model::program(w.mode.0, bodies);
        program.memory = Some(if i.op.family == Family::Ds { &mut lds } else { &mut global });
        // Sums in memory are to nearest, and of LDS keep the denormals that the mode keeps.
        program.floats.rounds = [crate::real::Round::Nearest; 2];
        let flushes = program.floats.flushes;
        program.floats.flushes = [false; 2];
        program.flushes_sums = match i.op.family {
            Family::Ds => flushes,
            _ => [w.arch.flushes_float_atomics(), false],
        };
        if i.op.name.ends_with("bf16") {
            program.flushes_sums = [false; 2];
        }
        program.names.insert("M0".to_owned(), Value::raw(w.sgpr[usize::from(Operand::M0.0)].into(), 32));
        program.names.insert("laneID".to_owned(), Value::unsigned(lane as u64, 32));
        program.floats.saturates = false;
        program.names.insert("BASE".to_owned(), Value::unsigned(base, 64));
        program.names.insert("ADDR".to_owned(), Value::unsigned(at, 64));
        program.names.insert("ADDR_BASE".to_owned(), Value::unsigned(base, 64));
        program.names.insert("OFFSET".to_owned(), Value::unsigned(i.imm as u64 & 0xffff, 32));
        program.names.insert("OFFSET0".to_owned(), Value::unsigned(i.imm as u64 & 0xff, 8));
        program.names.insert("OFFSET1".to_owned(), Value::unsigned(i.imm as u64 >> 8 & 0xff, 8));
        for (s, name) in [(1, "DATA"), (2, "DATA2")] {
            if i.op.src[s] != Kind::None && i.src[s].is_some() && i.src[s].is_vector() {
                program.names.insert(name.to_owned(), register(i.src[s], i.op.src[s]));
            }
        }
        if is_buffer && !is_load {
            program.names.insert("DATA".to_owned(), register(i.dst, i.op.dst));
        }
        if let Some(data) = program.names.get("DATA").cloned() {
            program.names.insert("DATA0".to_owned(), data.clone());
            program.names.insert("VDATA".to_owned(), data);
        }
        let returns = match i.op.access {
            Access::Atomic(..) if is_buffer => i.has(control::GLC),
            _ => i.dst.is_some() && i.op.dst != Kind::None && (is_load || !is_buffer),
        };
        let dwords = match i.op.access {
            Access::Atomic(_, bytes, _) if is_buffer => u32::from(bytes) / 4,
            _ => i.op.dst.dwords(),
        };
        let result = if returns { register(i.dst, i.op.dst) } else { Value::raw(0, 32 * dwords) };
        program.names.insert("RETURN_DATA".to_owned(), result.clone());
        if returns && is_load {
            program.names.insert("VDATA".to_owned(), result);
        }
        program.run(body)?;
        if returns {
            let name = if is_load && i.op.family != Family::Ds { "VDATA" } else { "RETURN_DATA" };
            let bits = program.names.get(name).ok_or("no result")?.bits()?;
            for n in 0..dwords {
                vectors.push((w.vgpr_index(i.dst, n), lane, (bits >> (32 * n)) as u32));
            }
        }
    }
    Ok(Expected { vectors, partial: 0, sgpr: w.sgpr, scc: w.scc, approximate: false })
}

/// True for what the model knows the address of.
pub(crate) fn is_modelled(i: &Inst) -> bool {
    let plain = !i.has(control::GDS) && !i.has(control::LDS);
    // Registers that are given an address are no others of the instruction.
    let apart = |offset: Operand| {
        let base = i.src[usize::from(i.op.family == Family::Mubuf)].0;
        (base + 4 <= 100) && (!offset.is_scalar_register() || offset.0 < 100 && !(base..base + 4).contains(&offset.0))
    };
    plain
        && match i.op.family {
            Family::Ds | Family::Global | Family::Flat => true,
            // A register, or a multiple of eight.
            Family::Mubuf => {
                apart(i.src[2])
                    && (i.src[2].0 < 100 || (128..=192).contains(&i.src[2].0) && i.src[2].0.is_multiple_of(8))
            }
            Family::Smem => {
                let offset = if i.has(control::SOFFSET) { i.src[1] } else { Operand::NONE };
                apart(offset) && usize::from(i.dst.0) + 16 <= 100 && (i.imm >= 0 || !is_scalar_buffer(i))
            }
            _ => false,
        }
}
