//! The kernel arguments of a swapped dispatch: the application's as they are, or laid anew for the other kernel.
//!
//! Explicit arguments have the same offsets in both kernels. Hidden ones have the offsets that each compiler chose: those of the original
//! are copied, all others come from the packet and the queue.

use amdgpu_code_object::ValueKind;

use crate::interface::{Interface, Parameter};
use crate::packet::PacketFacts;

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
        if fits && candidate.hidden().all(same_place) { Kernarg::AsItIs } else { Kernarg::relaid(original, candidate) }
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
        }
    }
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
