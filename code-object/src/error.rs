//! Errors of parsers: the expected value, the found value, and the offset.

use thiserror::Error;

/// A result of this crate.
pub type Result<T, E = Unreadable> = std::result::Result<T, E>;

/// What is wrong with some bytes. Offsets count from the beginning of what was given to the function that failed: a file,
/// or one code object; offsets in a compressed bundle count in what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The source could not be read.
    #[error("reading {length} bytes at {at:#x}: {reason}")]
    Read {
        /// Where.
        at: u64,
        /// How many bytes.
        length: u64,
        /// What the source said.
        reason: String,
    },
    /// It ends before something is complete.
    #[error("{what} at {at:#x}: expected {expected} bytes, found {found}")]
    Short {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// Bytes that it needs.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// Something else than what has to be there.
    #[error("{what} at {at:#x}: expected {expected}, found {found}")]
    Unexpected {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// What may be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// More than this crate is ready to take.
    #[error("{what} at {at:#x}: expected at most {limit}, found {found}")]
    TooLarge {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// The most that is taken.
        limit: u64,
        /// What there is, or is claimed to be.
        found: u64,
    },
    /// What the metadata says of one kernel cannot be used.
    #[error("metadata of kernel {kernel:?}: {key}: expected {expected}, found {found}")]
    Metadata {
        /// Its name, or its place in the list when it has none.
        kernel: String,
        /// The key, with those that it is under before it.
        key: String,
        /// What may be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
}

impl Unreadable {
    pub(crate) fn unexpected(
        what: &'static str,
        at: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Unreadable {
        Unreadable::Unexpected { what, at, expected: expected.into(), found: found.into() }
    }
}
