//! MUBUF: memory through a buffer descriptor. Source: Vega ISA manual, "Vector Memory Buffer Instructions".

pub(crate) mod formatted;

use super::kinds;
use crate::action::Action;
use crate::arch::ArchSet;
use crate::atomic::AtomicOp;
use crate::env::{Addresses, Env};
use crate::inst::{Inst, control};
use crate::lanes::mask_of;
use crate::op::{Access, Family, Fill, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::ops::scalar_flow::stop;
use crate::ops::vector_memory::{
    NO_DATA, access, atomic_operand_kind, data_kind, fill, gather, interleaved, lanewise, load_lds, vector_atomic_rows,
    vector_memory_rows,
};
use crate::wave::{Aligned, LANES, Trap, Vgpr, Wave};

const fn buffer(name: &'static str, code: u16, archs: ArchSet, what: Access, run: Levels) -> Op {
    let data = match what {
        Access::Load(bytes, _) | Access::Store(bytes, _) => data_kind(bytes),
        Access::Atomic(a, bytes, _) => atomic_operand_kind(a, bytes),
        _ => Kind::None,
    };
    let sources = kinds(&[Kind::B32, Kind::Dwords(4), Kind::B32]);
    Op::new(name, Family::Mubuf, code, archs, run).access(what).operands(data, sources)
}

const RUN: Levels = levels!(w, i, e, execute(w, i, e));

const fn cache(name: &'static str, code: u16, archs: ArchSet) -> Op {
    Op::new(
        name,
        Family::Mubuf,
        code,
        archs,
        one_level!(_w, _i, e, {
            e.fence();
            Flow::Next
        }),
    )
}

macro_rules! buffer_row {
    ($name:literal $code:literal $archs:ident $kind:ident($bytes:literal, $fill:ident)) => {
        buffer(concat!("buffer_", $name), $code, ArchSet::$archs, Access::$kind($bytes, Fill::$fill), RUN)
    };
}

macro_rules! buffer_atomic {
    ($name:literal $code:literal F32_ARCHS $bytes:literal $op:ident) => { buffer_atomic!($name $code SINCE_908 $bytes $op) };
    ($name:literal $code:literal $archs:ident $bytes:literal $op:ident) => {
        buffer(concat!("buffer_", $name), $code, ArchSet::$archs, Access::Atomic(crate::atomic::AtomicOp::$op, $bytes, false), RUN)
    };
}

pub(crate) static BUFFER: &[Op] = vector_memory_rows!(buffer_row);
pub(crate) static BUFFER_ATOMICS: &[Op] = vector_atomic_rows!(buffer_atomic);

/// The row that only MI350 has.
pub(crate) static BFLOAT: &[Op] = &[buffer(
    "buffer_atomic_pk_add_bf16",
    0x52,
    ArchSet::SINCE_950,
    Access::Atomic(AtomicOp::PkAddBf16, 4, false),
    RUN,
)];

#[rustfmt::skip]
pub(crate) static CACHE: &[Op] = &[
    cache("buffer_wbl2",        0x28, ArchSet::SINCE_90A).with(Flags::SCOPES).is(Action::WriteBack),
    cache("buffer_invl2",       0x29, ArchSet::ONLY_90A),
    cache("buffer_inv",         0x29, ArchSet::SINCE_942).with(Flags::INVALIDATES),
    cache("buffer_wbinvl1",     0x3e, ArchSet::UNTIL_90A).with(Flags::INVALIDATES),
    cache("buffer_wbinvl1_vol", 0x3f, ArchSet::UNTIL_90A).with(Flags::INVALIDATES),
];

/// The fields of a buffer descriptor that addresses depend on.
struct Descriptor {
    base: u64,
    stride: u32,
    swizzle: bool,
    records: u32,
    /// Records that are interleaved are two to the power of this.
    index_stride_log2: u32,
    add_lane: bool,
}

impl Descriptor {
    fn read(w: &Wave, i: &Inst) -> Descriptor {
        let first = usize::from(i.src[1].0);
        let word = |n: usize| w.sgpr[(first + n) & 127];
        let add_lane = word(3) >> 23 & 1 == 1;
        // With the lane added to the index, the data format extends the stride.
        let extension = if add_lane { (word(3) >> 15 & 15) << 14 } else { 0 };
        Descriptor {
            base: u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32,
            stride: word(1) >> 16 & 0x3fff | extension,
            swizzle: word(1) >> 31 == 1,
            records: word(2),
            index_stride_log2: 3 + (word(3) >> 21 & 3),
            add_lane,
        }
    }
}

/// A buffer, and where in it each lane of an instruction accesses.
pub(crate) struct Buffer {
    descriptor: Descriptor,
    scalar: u32,
    /// The instruction has an index.
    is_indexed: bool,
    indices: Aligned<Vgpr>,
    /// With the immediate. Of linear buffers such sums have more than 32 bits: they do not come back into the buffer. Source: LLVM's
    /// `splitBufferOffsets`, to which a negative offset in a register is illegal whatever the immediate is.
    offsets: Aligned<[u64; LANES]>,
    exec: u64,
}

impl Buffer {
    #[inline(always)]
    pub(crate) fn new(w: &Wave, i: &Inst) -> Buffer {
        let (offen, idxen) = (i.has(control::OFFEN), i.has(control::IDXEN));
        let zero = Aligned([0; LANES]);
        let indices = if idxen { Aligned(*w.vector(i.src[0], 0)) } else { zero };
        let offsets = if offen { Aligned(*w.vector(i.src[0], u32::from(idxen))) } else { zero };
        let imm = u64::from(i.imm as u32);
        Buffer {
            descriptor: Descriptor::read(w, i),
            scalar: w.scalar32(i.src[2], 0, Kind::B32),
            is_indexed: idxen,
            indices,
            offsets: lanewise(|l| u64::from(offsets[l]) + imm),
            exec: w.exec(),
        }
    }

    /// The addresses of `size` bytes from byte `part` of each lane's access on, and the active lanes that are inside.
    #[inline(always)]
    pub(crate) fn place(&self, part: u32, size: u32) -> (Aligned<Addresses>, u64) {
        let d = &self.descriptor;
        let base = d.base.wrapping_add(u64::from(self.scalar));
        let added = u64::from(d.add_lane);
        let index = lanewise(|l| u64::from(self.indices[l]) + added * l as u64);
        // Of swizzled buffers sums wrap: LLVM's private memory of GFX9 relies on it (`privateMemoryResourceIsRangeChecked`).
        let offset = lanewise(|l| {
            let sum = self.offsets[l] + u64::from(part);
            if d.swizzle { u64::from(sum as u32) } else { sum }
        });
        let end = |l: usize| offset[l] + u64::from(size);
        let records = u64::from(d.records);
        if d.swizzle {
            // Elements of four bytes, records interleaved in groups.
            let log2 = d.index_stride_log2;
            let (groups, in_group) = (index.map(|n| n >> log2), index.map(|n| n & ((1 << log2) - 1)));
            let at = lanewise(|l| {
                let element = groups[l] * u64::from(d.stride) + (offset[l] & !3);
                let place = in_group[l] * 4 + (offset[l] & 3);
                base.wrapping_add((element << log2).wrapping_add(place))
            });
            let inside = if d.add_lane { u64::MAX } else { mask_of(|l| index[l] < records) };
            return (at, inside & self.exec);
        }
        let at = lanewise(|l| base.wrapping_add(index[l] * u64::from(d.stride) + offset[l]));
        // The limit is in bytes, but for an access by index to a buffer with a stride. Source: Mesa's `si_descriptors.c`, for GFX9.
        let inside = if d.stride == 0 || !self.is_indexed {
            mask_of(|l| end(l) + u64::from(self.scalar) <= records)
        } else {
            let limit = u64::from(d.stride.max(size));
            mask_of(|l| (index[l] < records) & (end(l) <= limit))
        };
        (at, inside & self.exec)
    }

    /// True when of an access of so many bytes, which `inside` lanes are inside with, some dwords of others are inside.
    /// Limits are checked dword by dword: of an access across the end of a buffer, the dwords inside count.
    #[inline(always)]
    pub(crate) fn is_cut(&self, bytes: u8, inside: u64) -> bool {
        bytes > 4 && inside != self.exec && self.place(0, 4).1 != inside
    }

    /// Bytes from one dword of a lane to its next.
    pub(crate) fn step(&self) -> u32 {
        if self.descriptor.swizzle { 4 << self.descriptor.index_stride_log2 } else { 4 }
    }
}

#[inline(always)]
fn execute(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let buffer = Buffer::new(w, i);
    let exec = w.exec();
    let bytes = match i.op.access {
        Access::Load(bytes, _) | Access::Store(bytes, _) | Access::Atomic(_, bytes, _) => bytes,
        _ => return stop(w, Trap::Illegal),
    };
    let (at, inside) = buffer.place(0, bytes.into());
    if i.has(control::LDS) {
        return load_lds(w, i, e, &at, inside);
    }
    if !matches!(i.op.access, Access::Atomic(..)) && (buffer.descriptor.swizzle || buffer.is_cut(bytes, inside)) {
        return by_dwords(w, i, e, exec, &buffer.offsets, |part, size| buffer.place(part, size));
    }
    if let Access::Load(_, how) = i.op.access
        && inside != exec
    {
        fill(w, i.dst, bytes, how, &NO_DATA, exec & !inside);
    }
    access(w, i, e, &at, inside, i.dst, i.dst, i.has(control::GLC))
}

/// An access at an offset per lane, one dword at a time: of a swizzled buffer its dwords are apart.
#[inline(always)]
fn by_dwords(
    w: &mut Wave,
    i: &Inst,
    e: &mut dyn Env,
    exec: u64,
    offsets: &[u64; LANES],
    place: impl Fn(u32, u32) -> (Aligned<Addresses>, u64),
) -> Flow {
    let (bytes, how, store) = match i.op.access {
        Access::Load(bytes, how) => (bytes, how, false),
        Access::Store(bytes, how) => (bytes, how, true),
        _ => return stop(w, Trap::Illegal),
    };
    let mut data = if store { gather(w, i.dst, bytes, how) } else { NO_DATA };
    for (n, word) in data.iter_mut().enumerate().take(usize::from(bytes).div_ceil(4)) {
        let first = 4 * n as u32;
        let from = lanewise(|l| (offsets[l] as u32).wrapping_add(first));
        let (start, inside) = place(first, 4);
        let at = |byte: u32| if byte == 0 { start } else { place(first + byte, 1).0 };
        if let Err(fault) = interleaved(e, store, bytes.min(4), inside, &from, word, at) {
            return stop(w, Trap::Memory(fault));
        }
    }
    if !store {
        fill(w, i.dst, bytes, how, &data, exec);
    }
    Flow::Next
}
