//! What is wrong with the bytes of a sub-buffer.

/// Bytes that are no message. What is before them was read; nothing behind them can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset} of {bytes}: {found}")]
pub struct Corrupt {
    /// Where the message begins.
    pub offset: usize,
    /// Bytes that were to be read.
    pub bytes: usize,
    /// What was expected, and what is there.
    pub found: Found,
}

/// What was expected of a message, and what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Found {
    /// Fewer bytes than a header has.
    #[error("expected a header of 64 bytes, found {left} bytes")]
    Header {
        /// What is left.
        left: usize,
    },
    /// More data than there is.
    #[error("expected at most {left} bytes of data, found a size of {size}")]
    Size {
        /// What is left behind the header.
        left: usize,
        /// What the header says.
        size: u64,
    },
    /// A size that is no multiple of a dword.
    #[error("expected a size of data that is a multiple of 4, found {size}")]
    Unaligned {
        /// What the header says.
        size: u64,
    },
    /// A count of lanes that the mask does not have.
    #[error("expected {mask} active lanes, as the mask has, found {count}")]
    Lanes {
        /// Lanes of the mask.
        mask: u32,
        /// What the header says.
        count: u32,
    },
    /// Data that the lanes cannot have equal parts of.
    #[error("expected data for {lanes} lanes, found {size} bytes")]
    Parts {
        /// Active lanes.
        lanes: u32,
        /// Bytes of the data.
        size: u64,
    },
    /// An address message that has no address for each lane.
    #[error("expected an address of 8 bytes for each lane, found {size} bytes for each of {items}")]
    Address {
        /// Items of data: lanes, or one for the wave.
        items: u32,
        /// Bytes of an item.
        size: u64,
    },
}
