//! Errors of listings.

use amdgpu_code_object::Unreadable;
use logdur_kernel_cache::Unavailable;

/// Why code is not listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// What was asked for is not there.
    #[error("{what}: expected {expected}, found {found}")]
    Usage {
        /// The option or the file.
        what: String,
        /// What it takes.
        expected: String,
        /// What it was.
        found: String,
    },
    /// A file cannot be read.
    #[error("{path}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A code object of a file cannot be read.
    #[error("{path}: expected a file that can be read")]
    Unavailable {
        /// The file.
        path: String,
        /// What was found.
        source: Unavailable,
    },
    /// Bytes are no code object.
    #[error("{place}")]
    CodeObject {
        /// Where they are from.
        place: String,
        /// What is wrong with them.
        source: Unreadable,
    },
    /// Code for a processor whose instructions are not known.
    #[error("unsupported: {0}")]
    Unsupported(String),
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, ListingError>;
