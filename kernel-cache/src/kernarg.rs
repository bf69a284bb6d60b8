//! The kernel arguments of a swapped dispatch: the application's as they are, or laid anew for the other kernel.
//!
//! Explicit arguments have the same offsets in both kernels. Hidden ones have the offsets that each compiler chose: those of the original
//! are copied, all others come from the packet and the queue.

use amdgpu_code_object::ValueKind;

use crate::interface::{Interface, Parameter};
use crate::packet::{LdsPointers, PacketFacts};

/// What a kernarg segment is aligned to at least, whatever the metadata says. Source: the HSA runtime specification,
/// `HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT`.
const ALIGN: u32 = 16;

/// Where the other kernel's arguments are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernarg {
    /// In the application's kernarg segment, as it is.
    AsItIs,
    /// In a segment of their own.
    Relaid(Layout),
}

/// A recipe for a kernarg segment. Bytes that are neither copied nor filled are zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its bytes.
    pub size: u32,
    /// The alignment of its address in bytes.
    pub align: u32,
    /// How many bytes of the application's segment are read: from its beginning to the end of the last copy.
    pub source_size: u32,
    /// Copies from the application's segment.
    pub copies: Vec<Copy>,
    /// Values from the packet and the queue.
    pub fills: Vec<Fill>,
    /// Explicit arguments that are offsets into dynamic LDS, at the same place in both segments. Empty where none of them moves.
    pub moves: Vec<Move>,
}

/// An offset into dynamic LDS. The application has counted it from the original's own LDS on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where it is in both segments.
    pub at: u32,
    /// Its bytes, at most 8, the lowest first.
    pub size: u32,
    /// What is added.
    pub by: i32,
    /// What the candidate needs it to be a multiple of.
    pub align: u32,
}

/// Bytes that are copied from the application's segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where they are in the application's segment.
    pub from: u32,
    /// Where they go.
    pub to: u32,
    /// How many.
    pub len: u32,
}

/// A hidden argument that the application's segment does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Where it goes.
    pub to: u32,
    /// Its bytes, at most 8: the low ones of the value, the lowest first.
    pub size: u32,
    /// What it is.
    pub what: What,
}

/// What can be known of a dispatch from its packet and queue. Source: AMDGPUUsage, "AMDHSA Code Object V5 Kernel Argument
/// Metadata Map Additions".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Complete workgroups in a dimension, 0 to 2.
    BlockCount(u8),
    /// Work-items of a complete workgroup in a dimension.
    GroupSize(u8),
    /// Work-items of the incomplete workgroup in a dimension, or zero.
    Remainder(u8),
    /// Dimensions of the grid.
    GridDims,
    /// OpenCL's global offset: zero, as for every kernel that does not ask for it.
    GlobalOffset,
    /// LDS that was added when the kernel was dispatched.
    DynamicLdsSize,
    /// Address of the queue.
    Queue,
    /// The high half of the private aperture's address.
    PrivateBase,
    /// The high half of the shared aperture's address.
    SharedBase,
}

impl What {
    /// Of a hidden argument. `None` for what only the application's runtime can know.
    pub fn of(kind: &ValueKind) -> Option<What> {
        Some(match kind {
            ValueKind::HiddenBlockCountX => What::BlockCount(0),
            ValueKind::HiddenBlockCountY => What::BlockCount(1),
            ValueKind::HiddenBlockCountZ => What::BlockCount(2),
            ValueKind::HiddenGroupSizeX => What::GroupSize(0),
            ValueKind::HiddenGroupSizeY => What::GroupSize(1),
            ValueKind::HiddenGroupSizeZ => What::GroupSize(2),
            ValueKind::HiddenRemainderX => What::Remainder(0),
            ValueKind::HiddenRemainderY => What::Remainder(1),
            ValueKind::HiddenRemainderZ => What::Remainder(2),
            ValueKind::HiddenGridDims => What::GridDims,
            ValueKind::HiddenGlobalOffsetX | ValueKind::HiddenGlobalOffsetY | ValueKind::HiddenGlobalOffsetZ => {
                What::GlobalOffset
            }
            ValueKind::HiddenDynamicLdsSize => What::DynamicLdsSize,
            ValueKind::HiddenQueuePtr => What::Queue,
            ValueKind::HiddenPrivateBase => What::PrivateBase,
            ValueKind::HiddenSharedBase => What::SharedBase,
            _ => return None,
        })
    }
}

impl Fill {
    /// What the argument is for a dispatch.
    pub fn value(&self, facts: &PacketFacts) -> u64 {
        let of = |values: [u32; 3], n: u8| values.get(usize::from(n)).copied().unwrap_or(0);
        let grid = |n| of(facts.grid, n);
        let group = |n| of(facts.workgroup.map(u32::from), n);
        u64::from(match self.what {
            What::BlockCount(n) => grid(n).checked_div(group(n)).unwrap_or(0),
            What::GroupSize(n) => group(n),
            What::Remainder(n) => grid(n).checked_rem(group(n)).unwrap_or(0),
            What::GridDims => facts.dimensions.into(),
            What::GlobalOffset => 0,
            What::DynamicLdsSize => facts.group.saturating_sub(facts.original_group),
            What::Queue => return facts.queue,
            What::PrivateBase => facts.private_base_hi,
            What::SharedBase => facts.shared_base_hi,
        })
    }
}

/// The original's argument that a hidden one of the other kernel is the same as.
pub(crate) fn counterpart<'a>(original: &'a Interface, hidden: &Parameter) -> Option<&'a Parameter> {
    original.hidden().find(|o| o.kind == hidden.kind)
}

impl Kernarg {
    /// For two kernels that have passed the rules about arguments.
    pub(crate) fn of(original: &Interface, candidate: &Interface) -> Kernarg {
        let same_place = |hidden: &Parameter| {
            counterpart(original, hidden).is_some_and(|o| (o.offset, o.size) == (hidden.offset, hidden.size))
        };
        let fits = candidate.kernarg_size <= original.kernarg_size
            && candidate.kernarg_align <= original.kernarg_align.max(ALIGN);
        let as_it_is = fits && candidate.hidden().all(same_place) && moves(original, candidate).is_empty();
        if as_it_is { Kernarg::AsItIs } else { Kernarg::relaid(original, candidate) }
    }

    /// How far offsets into dynamic LDS move, in bytes.
    pub(crate) fn moved_by(&self) -> i32 {
        match self {
            Kernarg::Relaid(Layout { moves, .. }) => moves.first().map_or(0, |first| first.by),
            Kernarg::AsItIs => 0,
        }
    }

    /// What is to be known of the offsets into dynamic LDS. `read` returns bytes of the application's segment, by their
    /// offset and their number, at most 8.
    #[inline]
    pub fn pointers(&self, read: impl Fn(u32, u32) -> [u8; 8]) -> LdsPointers {
        let mut found = LdsPointers::default();
        let Kernarg::Relaid(layout) = self else { return found };
        for one in &layout.moves {
            let value = one.value(read(one.at, one.size));
            found.least = found.least.min(value);
            found.most = found.most.max(value);
            found.misaligned |= value.checked_rem(one.align.into()).is_some_and(|rest| rest != 0);
        }
        found
    }

    /// The same, always in a segment of their own.
    pub(crate) fn relaid(original: &Interface, candidate: &Interface) -> Kernarg {
        Kernarg::Relaid(Layout::of(original, candidate))
    }
}

impl Layout {
    fn of(original: &Interface, candidate: &Interface) -> Layout {
        let explicit = candidate.explicit().map(Parameter::end).max().unwrap_or(0);
        let mut copies = Vec::new();
        // Explicit arguments with the room between them, in one piece.
        copy(&mut copies, 0, 0, u32::try_from(explicit).unwrap_or(u32::MAX));
        let mut fills = Vec::new();
        for hidden in candidate.hidden() {
            match (counterpart(original, hidden), What::of(&hidden.kind)) {
                (Some(o), _) => copy(&mut copies, o.offset, hidden.offset, hidden.size),
                (None, Some(what)) => fills.push(Fill { to: hidden.offset, size: hidden.size, what }),
                // The rules have refused it.
                (None, None) => {}
            }
        }
        Layout {
            size: candidate.kernarg_size,
            align: candidate.kernarg_align.max(ALIGN),
            source_size: copies.iter().map(|c| c.from.saturating_add(c.len)).max().unwrap_or(0),
            copies,
            fills,
            moves: moves(original, candidate),
        }
    }
}

impl Move {
    /// The offset in some bytes of which it has the first.
    fn value(&self, bytes: [u8; 8]) -> u64 {
        let unused = 64_u32.saturating_sub(self.size.saturating_mul(8));
        u64::from_le_bytes(bytes) << unused >> unused
    }

    /// What is written in the place of some bytes, of which the offset has the first; the others stay.
    #[inline]
    pub fn moved(&self, bytes: [u8; 8]) -> [u8; 8] {
        let moved = self.value(bytes).wrapping_add_signed(self.by.into()).to_le_bytes();
        let mut all = bytes;
        all.iter_mut().zip(moved).take(self.size as usize).for_each(|(to, byte)| *to = byte);
        all
    }
}

/// What dynamic LDS is aligned to at least: as compilers align arrays in it.
const LDS_ALIGN: u32 = 16;

/// The offsets into dynamic LDS that the candidate takes: all move by the difference of both kernels' own LDS, such that they keep their
/// alignment. None is listed if that is no difference, and the application has aligned each as the candidate needs it.
fn moves(original: &Interface, candidate: &Interface) -> Vec<Move> {
    let is_offset = |(o, _): &(&Parameter, &Parameter)| o.kind == ValueKind::DynamicSharedPointer;
    let pairs = || original.explicit().zip(candidate.explicit()).filter(is_offset);
    let needs = |of: &Parameter| of.pointee_align.unwrap_or(1);
    let is_aligned = pairs().all(|(o, c)| needs(c) <= needs(o));
    if original.group_size == candidate.group_size && is_aligned {
        return Vec::new();
    }
    let align = pairs().map(|(o, c)| needs(o).max(needs(c))).max().unwrap_or(1).max(LDS_ALIGN);
    let difference = i64::from(candidate.group_size) - i64::from(original.group_size);
    // Rounded up, also below zero.
    let by = difference.saturating_add(i64::from(align) - 1).div_euclid(align.into()).saturating_mul(align.into());
    let by = i32::try_from(by).unwrap_or(i32::MAX);
    pairs().map(|(o, c)| Move { at: o.offset, size: o.size, by, align: needs(c) }).collect()
}

impl Layout {
    /// The segment for a dispatch, from the application's own. What that is too short for is zero.
    pub fn lay(&self, source: &[u8], facts: &PacketFacts) -> Vec<u8> {
        let mut segment = vec![0; self.size as usize];
        let mut put = |to: u32, bytes: &[u8]| {
            let room = segment.get_mut(to as usize..).unwrap_or_default();
            room.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        };
        for copy in &self.copies {
            let from = source.get(copy.from as usize..).unwrap_or_default();
            put(copy.to, from.get(..copy.len as usize).unwrap_or(from));
        }
        for fill in &self.fills {
            let value = fill.value(facts).to_le_bytes();
            put(fill.to, value.get(..fill.size as usize).unwrap_or(&value));
        }
        for one in &self.moves {
            let room = segment.get_mut(one.at as usize..).unwrap_or_default();
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(&*room).for_each(|(to, byte)| *to = *byte);
            room.iter_mut().zip(one.moved(bytes)).for_each(|(to, byte)| *to = byte);
        }
        segment
    }
}

/// Adds a copy, to the one before it where they are neighbours in both segments.
fn copy(copies: &mut Vec<Copy>, from: u32, to: u32, len: u32) {
    match copies.last_mut() {
        Some(last) if last.from.checked_add(last.len) == Some(from) && last.to.checked_add(last.len) == Some(to) => {
            last.len = last.len.saturating_add(len);
        }
        _ if len > 0 => copies.push(Copy { from, to, len }),
        _ => {}
    }
}
