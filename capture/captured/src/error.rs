//! Errors of captured dispatches.

use amdgpu_listing::ListingError;

/// Why a captured dispatch was not read or compared.
#[derive(Debug, thiserror::Error)]
pub enum CapturedError {
    /// The capture cannot be read.
    #[error("the capture")]
    Capture(#[from] logdur_capture::CaptureError),
    /// A file of results cannot be made.
    #[error(transparent)]
    Output(#[from] logdur_system::output::OutputError),
    /// What was asked for is not there, or is not allowed for this kernel.
    #[error("{what}: expected {expected}, found {found}")]
    Usage {
        /// Which option.
        what: String,
        /// What it takes.
        expected: String,
        /// What it was.
        found: String,
    },
    /// The capture has no such record, or an empty one.
    #[error("the capture has no {what} of dispatch {dispatch}")]
    Incomplete {
        /// The dispatch.
        dispatch: u64,
        /// What is missing.
        what: String,
    },
    /// The capture lacks something of a region.
    #[error("region {region}: the capture has not {what}")]
    IncompleteRegion {
        /// The region.
        region: u64,
        /// What is missing.
        what: String,
    },
    /// Records of a region are lost, contradict each other, or refer to what the capture does not have.
    #[error("region {region}: {why}")]
    Region {
        /// The region.
        region: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The capture has no dispatch at all.
    #[error("{file}: expected a captured dispatch, found none{end}")]
    Empty {
        /// Its file.
        file: String,
        /// How it ends, if that is why.
        end: String,
    },
    /// A code object of the capture or of a file is not one.
    #[error("{place}")]
    CodeObject {
        /// Where it came from.
        place: String,
        /// What is wrong with it.
        source: amdgpu_code_object::Unreadable,
    },
    /// A file cannot be read.
    #[error("{path}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file's code cannot be found or read.
    #[error(transparent)]
    Listing(#[from] ListingError),
    /// Captured memory that no replay could restore.
    #[error("{length} bytes at {address:#x}: {why}")]
    Pages {
        /// The address.
        address: u64,
        /// How many bytes.
        length: u64,
        /// Why no pages can be like that.
        why: String,
    },
    /// What the kernel was given is not there in a replay.
    #[error("unsupported: {0}")]
    Unsupported(String),
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, CapturedError>;

/// An error and what it came from, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
