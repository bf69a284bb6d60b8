//! The kernarg segment of a packet. Its size comes from the code object, or else from the allocation that contains it.

use std::ptr;

use hsa_sys::abi::aql::Packet;

use super::memory::Memory;

/// The most bytes read as arguments if neither metadata nor descriptor tells the size. No compiler produces more.
const MOST: u64 = 64 << 10;

/// Why the bytes of a segment may be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Doubt {
    /// The size is unknown. The bytes reach to the end of the allocation, or to [`MOST`].
    #[error(
        "neither metadata nor descriptor says how many bytes of arguments the kernel takes: \
         the {0} bytes from their address on were captured"
    )]
    Extent(u64),
    /// The allocation ends before the segment does.
    #[error("its arguments: expected {expected} bytes, {found} are there")]
    Cut {
        /// The size of the segment.
        expected: u64,
        /// Bytes to the end of the allocation.
        found: u64,
    },
    /// There is no segment.
    #[error("its arguments: expected {0} bytes, the packet has no address of them")]
    Absent(u64),
    /// The size is unknown, and so is the allocation.
    #[error("its arguments: nothing says how many bytes they have, and their memory is not known")]
    Unknown,
}

impl Doubt {
    /// True if bytes may be missing.
    pub(super) fn is_loss(self) -> bool {
        !matches!(self, Doubt::Extent(_))
    }
}

/// A kernarg segment.
pub(super) struct Kernarg {
    pub(super) bytes: Vec<u8>,
    pub(super) doubt: Option<Doubt>,
}

/// How many bytes of a segment are read, and the doubt about them. `size` is the known size, `allocated` the number of bytes from
/// `address` to the end of the allocation.
fn length(size: Option<u64>, address: u64, allocated: Option<u64>) -> (u64, Option<Doubt>) {
    match (size, allocated) {
        (Some(0), _) => (0, None),
        (Some(expected), _) if address == 0 => (0, Some(Doubt::Absent(expected))),
        (None, _) if address == 0 => (0, None),
        (Some(expected), Some(found)) if found < expected => (found, Some(Doubt::Cut { expected, found })),
        (Some(size), _) => (size, None),
        (None, Some(there)) => (there.min(MOST), Some(Doubt::Extent(there.min(MOST)))),
        (None, None) => (0, Some(Doubt::Unknown)),
    }
}

impl Kernarg {
    /// Reads the arguments of a packet. `size` is the kernel's kernarg size in bytes; the application has written all of them.
    pub(super) fn of(packet: &Packet, size: Option<u32>, memory: &Memory) -> Kernarg {
        let address = packet.kernarg_address();
        let allocated = memory.around(address).map(|allocation| allocation.end() - address);
        let (length, doubt) = length(size.map(Into::into), address, allocated);
        let mut bytes = vec![0; length as usize];
        if length > 0 {
            let from = ptr::with_exposed_provenance::<u8>(address as usize);
            // SAFETY: the packet is complete, so that its arguments are there until it is executed, which is for us to begin;
            // bytes that are not known to be arguments are of memory that is allocated.
            unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        }
        Kernarg { bytes, doubt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_as_long_as_is_known_and_else_as_their_allocation_and_what_is_missing_is_said() {
        assert_eq!(length(Some(112), 0x1000, Some(4096)), (112, None));
        assert_eq!(length(Some(112), 0x1000, None), (112, None));
        assert_eq!(length(Some(0), 0, None), (0, None));
        assert_eq!(length(None, 0, None), (0, None));
        assert_eq!(length(None, 0x1000, Some(256)), (256, Some(Doubt::Extent(256))));
        assert_eq!(length(None, 0x1000, Some(1 << 30)), (MOST, Some(Doubt::Extent(MOST))));
        let cut = Doubt::Cut { expected: 112, found: 64 };
        assert_eq!(length(Some(112), 0x1000, Some(64)), (64, Some(cut)));
        assert_eq!(length(Some(8), 0, None), (0, Some(Doubt::Absent(8))));
        assert_eq!(length(None, 0x1000, None), (0, Some(Doubt::Unknown)));
        assert!(cut.is_loss() && Doubt::Unknown.is_loss() && !Doubt::Extent(256).is_loss());
    }
}
