//! MUBUF with a format: elements of a buffer, converted between the format of the buffer's descriptor and registers. HIP's and
//! OpenCL's one-dimensional textures are such buffers.
//!
//! Source: Vega ISA manual, "Buffer Resource Descriptor" and "Buffer Data": loads take format and selection of components from the
//! descriptor, stores only the format. Conversions are those of Direct3D's data conversion rules. The manual does not say what a store
//! of fewer components than the format has writes into the others: zeros here.

use super::Buffer;
use crate::arch::ArchSet;
use crate::env::{Addresses, Env, Fault};
use crate::fp::F16;
use crate::inst::{Inst, control};
use crate::lanes::blend;
use crate::op::{Access, Family, Flow, Levels, Op, Packing};
use crate::operand::Kind;
use crate::ops::kinds;
use crate::ops::scalar_flow::stop;
use crate::ops::vector_memory::{Data, NO_DATA, data_kind, words_of};
use crate::wave::{LANES, Trap, Vgpr, Wave};

const RUN: Levels = one_level!(w, i, e, execute(w, i, e));

const fn row(name: &'static str, code: u16, access: Access) -> Op {
    let data = match access {
        Access::LoadFormat(components, packing) | Access::StoreFormat(components, packing) => {
            data_kind(4 * packing.dwords(components))
        }
        _ => Kind::None,
    };
    let sources = kinds(&[Kind::B32, Kind::Dwords(4), Kind::B32]);
    Op::new(name, Family::Mubuf, code, ArchSet::ALL, RUN).access(access).operands(data, sources)
}

macro_rules! rows {
    ($($name:literal $code:literal $kind:ident($components:literal, $packing:ident)),* $(,)?) => {
        &[$(row(concat!("buffer_", $name), $code, Access::$kind($components, Packing::$packing))),*]
    };
}

#[rustfmt::skip]
pub(crate) static FORMATTED: &[Op] = rows!(
    "load_format_x"          0x00 LoadFormat(1, Dwords),
    "load_format_xy"         0x01 LoadFormat(2, Dwords),
    "load_format_xyz"        0x02 LoadFormat(3, Dwords),
    "load_format_xyzw"       0x03 LoadFormat(4, Dwords),
    "store_format_x"         0x04 StoreFormat(1, Dwords),
    "store_format_xy"        0x05 StoreFormat(2, Dwords),
    "store_format_xyz"       0x06 StoreFormat(3, Dwords),
    "store_format_xyzw"      0x07 StoreFormat(4, Dwords),
    "load_format_d16_x"      0x08 LoadFormat(1, Halves),
    "load_format_d16_xy"     0x09 LoadFormat(2, Halves),
    "load_format_d16_xyz"    0x0a LoadFormat(3, Halves),
    "load_format_d16_xyzw"   0x0b LoadFormat(4, Halves),
    "store_format_d16_x"     0x0c StoreFormat(1, Halves),
    "store_format_d16_xy"    0x0d StoreFormat(2, Halves),
    "store_format_d16_xyz"   0x0e StoreFormat(3, Halves),
    "store_format_d16_xyzw"  0x0f StoreFormat(4, Halves),
    "load_format_d16_hi_x"   0x26 LoadFormat(1, HighHalf),
    "store_format_d16_hi_x"  0x27 StoreFormat(1, HighHalf),
);

/// How the bits of a component are read. Source: Vega ISA manual, `NUM_FORMAT` of the buffer descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    /// Unsigned, all ones is 1.
    Unorm,
    /// Signed, the largest is 1 and the smallest two are -1.
    Snorm,
    /// Unsigned, as a float of the same value.
    Uscaled,
    /// Signed, as a float of the same value.
    Sscaled,
    Uint,
    Sint,
    Float,
}

impl Number {
    fn of(code: u32) -> Option<Number> {
        use Number::{Float, Sint, Snorm, Sscaled, Uint, Unorm, Uscaled};
        [Some(Unorm), Some(Snorm), Some(Uscaled), Some(Sscaled), Some(Uint), Some(Sint), None, Some(Float)]
            [code as usize & 7]
    }

    fn is_integer(self) -> bool {
        matches!(self, Number::Uint | Number::Sint)
    }
}

/// Bits of the components of a `DATA_FORMAT`, from the least significant one on; none for reserved ones. Names of formats have the
/// most significant component first. Source: Vega ISA manual, `DATA_FORMAT` of the buffer descriptor.
const fn layout(code: u32) -> &'static [u32] {
    match code {
        1 => &[8],
        2 => &[16],
        3 => &[8, 8],
        4 => &[32],
        5 => &[16, 16],
        6 => &[11, 11, 10],
        7 => &[10, 11, 11],
        8 => &[2, 10, 10, 10],
        9 => &[10, 10, 10, 2],
        10 => &[8, 8, 8, 8],
        11 => &[32, 32],
        12 => &[16, 16, 16, 16],
        13 => &[32, 32, 32],
        14 => &[32, 32, 32, 32],
        _ => &[],
    }
}

/// The format of a buffer's elements.
pub(crate) struct Format {
    layout: &'static [u32],
    number: Option<Number>,
    /// `DST_SEL` of each component.
    select: [u32; 4],
}

impl Format {
    pub(crate) fn read(w: &Wave, i: &Inst) -> Format {
        let word = w.sgpr[(usize::from(i.src[1].0) + 3) & 127];
        // With the lane added to the index, these bits extend the stride.
        let data = if word >> 23 & 1 == 1 { 0 } else { word >> 15 & 15 };
        Format {
            layout: layout(data),
            number: Number::of(word >> 12 & 7),
            select: std::array::from_fn(|n| word >> (3 * n) & 7),
        }
    }

    /// Bytes of an element; 0 of a reserved format, whose elements are not read or written.
    pub(crate) fn bytes(&self) -> u8 {
        (self.layout.iter().sum::<u32>() / 8) as u8
    }

    /// The number 1 in a register.
    fn one(&self) -> u32 {
        if self.number.is_none_or(Number::is_integer) { 1 } else { 1f32.to_bits() }
    }

    /// The components of an element as registers have them, selected.
    fn unpack(&self, words: [u32; 4], is_inside: bool) -> [u32; 4] {
        let mut components = [0, 0, 0, if is_inside { self.one() } else { 0 }];
        let mut first = 0;
        for (component, bits) in components.iter_mut().zip(self.layout).take(if is_inside { 4 } else { 0 }) {
            let word = words[(first / 32) as usize & 3] >> (first % 32);
            *component = self.number.map_or(0, |number| widen(number, word & ones(*bits), *bits));
            first += bits;
        }
        self.select.map(|select| match select {
            1 => self.one(),
            4..=7 => components[select as usize - 4],
            _ => 0,
        })
    }

    /// An element of components.
    fn pack(&self, components: [u32; 4]) -> [u32; 4] {
        let (mut words, mut first) = ([0; 4], 0);
        for (component, bits) in components.into_iter().zip(self.layout) {
            let value = self.number.map_or(0, |number| narrow(number, component, *bits));
            words[(first / 32) as usize & 3] |= (value & ones(*bits)) << (first % 32);
            first += bits;
        }
        words
    }

    /// A component of a register's half as one of a whole register.
    fn whole(&self, half: u32) -> u32 {
        match self.number {
            Some(Number::Sint) => i32::from(half as u16 as i16) as u32,
            Some(Number::Uint) | None => half & 0xffff,
            Some(_) => F16(half as u16).to_f32().to_bits(),
        }
    }

    /// A component of a whole register as one of its half.
    fn half(&self, word: u32) -> u32 {
        match self.number {
            Some(number) if !number.is_integer() => F16::from_f32(f32::from_bits(word)).0.into(),
            _ => word & 0xffff,
        }
    }
}

const fn ones(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}

fn signed(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

/// A component of an element, as 32 bits of a register.
fn widen(number: Number, value: u32, bits: u32) -> u32 {
    let float = |value: f64| (value as f32).to_bits();
    match number {
        Number::Uint => value,
        Number::Sint => signed(value, bits) as u32,
        Number::Uscaled => float(value.into()),
        Number::Sscaled => float(signed(value, bits).into()),
        Number::Unorm => float(f64::from(value) / f64::from(ones(bits))),
        Number::Snorm => float((f64::from(signed(value, bits)) / f64::from(ones(bits - 1))).max(-1.0)),
        Number::Float => match bits {
            32 => value,
            // Floats of 10 and 11 bits are halves without a sign and without the last bits.
            10 | 11 | 16 => F16((value << (if bits == 16 { 0 } else { 15 - bits })) as u16).to_f32().to_bits(),
            _ => 0,
        },
    }
}

/// 32 bits of a register, as a component of an element. Casts of floats to integers saturate, and take NaN to 0.
fn narrow(number: Number, register: u32, bits: u32) -> u32 {
    let value = f64::from(f32::from_bits(register));
    let (largest, positive) = (ones(bits), ones(bits - 1));
    let within = |value: f64| (value.round_ties_even() as i64).clamp(-i64::from(positive) - 1, positive.into()) as u32;
    match number {
        Number::Uint => register.min(largest),
        Number::Sint => i64::from(register as i32).clamp(-i64::from(positive) - 1, positive.into()) as u32,
        Number::Uscaled => (value.round_ties_even() as u32).min(largest),
        Number::Sscaled => within(value),
        Number::Unorm => (value.clamp(0.0, 1.0) * f64::from(largest)).round_ties_even() as u32,
        Number::Snorm => within(value.clamp(-1.0, 1.0) * f64::from(positive)),
        Number::Float => match bits {
            32 => register,
            16 => F16::from_f32(f32::from_bits(register)).0.into(),
            10 | 11 if value <= 0.0 => 0,
            10 | 11 => u32::from(F16::from_f32(f32::from_bits(register)).0) >> (15 - bits),
            _ => 0,
        },
    }
}

fn execute(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let elements = (Buffer::new(w, i), Format::read(w, i));
    w.coherent += u64::from(i.has(control::GLC | control::SCC));
    let done = match i.op.access {
        Access::LoadFormat(components, packing) => load(w, i, e, &elements, (components, packing)),
        Access::StoreFormat(components, packing) => store(w, i, e, &elements, (components, packing)),
        _ => return stop(w, Trap::Illegal),
    };
    match done {
        Ok(()) => Flow::Next,
        Err(fault) => stop(w, Trap::Memory(fault)),
    }
}

/// Moves elements at their addresses; of a swizzled buffer their dwords are apart. Returns the lanes that are inside of the buffer.
fn each(
    buffer: &Buffer,
    bytes: u8,
    data: &mut Data,
    mut access: impl FnMut(&Addresses, u64, u8, &mut [Vgpr]) -> Result<(), Fault>,
) -> Result<u64, Fault> {
    let (at, inside) = buffer.place(0, bytes.into());
    if inside == 0 || bytes == 0 {
        return Ok(0);
    }
    if buffer.step() == 4 {
        access(&at, inside, bytes, &mut data[..words_of(bytes)])?;
        return Ok(inside);
    }
    for (n, word) in data.iter_mut().enumerate().take(words_of(bytes)) {
        let (at, _) = buffer.place(4 * n as u32, 4);
        access(&at, inside, bytes.min(4), std::slice::from_mut(word))?;
    }
    Ok(inside)
}

fn load(
    w: &mut Wave,
    i: &Inst,
    e: &mut dyn Env,
    (buffer, format): &(Buffer, Format),
    (components, packing): (u8, Packing),
) -> Result<(), Fault> {
    let mut data = NO_DATA;
    let inside = each(buffer, format.bytes(), &mut data, |at, mask, bytes, words| e.load(at, mask, bytes, words))?;
    let (exec, dwords) = (w.exec(), usize::from(packing.dwords(components)));
    // Memories with error correction are written in whole dwords: nothing of the old contents stays.
    let kept: Vgpr = if w.sramecc { [0; LANES] } else { *w.vector(i.dst, dwords as u32 - 1) };
    let mut results = NO_DATA;
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 == 1) {
        let element = format.unpack(data.map(|word| word[lane]), inside >> lane & 1 == 1);
        let half = |n: usize| format.half(element[n]);
        for (n, result) in results.iter_mut().enumerate().take(dwords) {
            result[lane] = match packing {
                Packing::Dwords => element[n],
                Packing::HighHalf => kept[lane] & 0xffff | half(0) << 16,
                // The last one of an odd number.
                Packing::Halves if 2 * n + 1 == usize::from(components) => kept[lane] & 0xffff_0000 | half(2 * n),
                Packing::Halves => half(2 * n) | half(2 * n + 1) << 16,
            };
        }
    }
    for (n, result) in results.iter().enumerate().take(dwords) {
        blend(w.vector_mut(i.dst, n as u32), result, exec);
    }
    Ok(())
}

fn store(
    w: &Wave,
    i: &Inst,
    e: &mut dyn Env,
    (buffer, format): &(Buffer, Format),
    (components, packing): (u8, Packing),
) -> Result<(), Fault> {
    let register = |n: u32, lane: usize| w.vector(i.dst, n)[lane];
    let mut data = NO_DATA;
    for lane in 0..LANES {
        let component = |n: usize| match packing {
            _ if n >= usize::from(components) => 0,
            Packing::Dwords => register(n as u32, lane),
            Packing::HighHalf => format.whole(register(0, lane) >> 16),
            Packing::Halves => format.whole(register(n as u32 / 2, lane) >> (16 * (n % 2))),
        };
        let element = format.pack(std::array::from_fn(component));
        data.iter_mut().zip(element).for_each(|(word, part)| word[lane] = part);
    }
    each(buffer, format.bytes(), &mut data, |at, mask, bytes, words| e.store(at, mask, bytes, words)).map(drop)
}
