//! Errors of bytes in a sub-buffer.

/// The bytes are not a message. The reader has read all messages before them, and stops here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset} of {bytes}: {found}")]
pub struct Corrupt {
    /// Offset of the message in the sub-buffer.
    pub offset: usize,
    /// Bytes of the sub-buffer.
    pub bytes: usize,
    /// The field that is wrong, with its expected value.
    pub found: Malformed,
}

/// A wrong field of a message: its expected and its found value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The sub-buffer ends inside the header.
    #[error("expected a header of 64 bytes, found {left} bytes")]
    Header {
        /// What is left.
        left: usize,
    },
    /// The data would end behind the sub-buffer.
    #[error("expected at most {left} bytes of data, found a size of {size}")]
    Size {
        /// What is left behind the header.
        left: usize,
        /// What the header says.
        size: u64,
    },
    /// The size of the data is not a multiple of 4.
    #[error("expected a size of data that is a multiple of 4, found {size}")]
    Unaligned {
        /// What the header says.
        size: u64,
    },
    /// The count of lanes differs from the mask.
    #[error("expected {mask} active lanes, as the mask has, found {count}")]
    Lanes {
        /// Lanes of the mask.
        mask: u32,
        /// What the header says.
        count: u32,
    },
    /// The lanes cannot have equal parts of the data.
    #[error("expected data for {lanes} lanes, found {size} bytes")]
    Parts {
        /// Active lanes.
        lanes: u32,
        /// Bytes of the data.
        size: u64,
    },
    /// An address message does not have one address for each lane.
    #[error("expected an address of 8 bytes for each lane, found {size} bytes for each of {items}")]
    Address {
        /// Items of data: lanes, or one for the wave.
        items: u32,
        /// Bytes of an item.
        size: u64,
    },
}
