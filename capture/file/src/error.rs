//! Errors of capture files.

use std::io;
use std::path::{Path, PathBuf};

use crate::records::SnapshotId;

/// Why something was not written or not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be made or opened.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Bytes could not be written. Nothing more is captured; what was committed before is in the file.
    #[error("the capture stops at {end} bytes, which stay readable: writing {bytes} more failed")]
    Write {
        /// Bytes of the file that are whole frames.
        end: u64,
        /// Bytes that were to follow.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// An earlier write failed: see the error of that one.
    #[error("the capture has stopped: an earlier write failed")]
    Stopped,
    /// The memory that was to be captured could not be read. It is not in the snapshot, which is marked incomplete, if the memory
    /// is there at all.
    #[error("{length} bytes at {address:#x} could not be read")]
    Memory {
        /// From where.
        address: u64,
        /// How many.
        length: u64,
        /// Why.
        source: io::Error,
    },
    /// A range that ends after the last address, or is in the snapshot already.
    #[error("a snapshot's range of {length} bytes at {address:#x}: expected {expected}")]
    Range {
        /// From where.
        address: u64,
        /// How many.
        length: u64,
        /// What it has to be.
        expected: &'static str,
    },
    /// A record is larger than a frame may be.
    #[error("a {what} of {bytes} bytes: expected at most {most}")]
    TooLarge {
        /// Which kind.
        what: &'static str,
        /// How large.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// Reading the file failed.
    #[error("reading {bytes} bytes at offset {offset}")]
    Read {
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// The bytes at a place of the file are not what the format says.
    #[error("offset {offset}: expected {expected}, found {found}")]
    Damaged {
        /// Where.
        offset: u64,
        /// The expected value.
        expected: String,
        /// What is.
        found: String,
    },
    /// The file is of a version, or needs a feature, that this reader does not have.
    #[error("offset {offset}: {what}: a newer reader is needed")]
    Newer {
        /// Where the file says so.
        offset: u64,
        /// What it is.
        what: String,
    },
    /// A chunk is in none of the stores.
    #[error("{}offset {offset}: chunk {id} is in no store: {places}", named(capture))]
    NoChunk {
        /// The capture; empty if it is no file.
        capture: PathBuf,
        /// Which.
        id: crate::Id,
        /// Where the capture refers to it.
        offset: u64,
        /// Where it was looked for, and what was there.
        places: String,
    },
    /// The file of a chunk has not the chunk's bytes.
    #[error("{}offset {offset}: {}: expected chunk {id}, found {found}", named(capture), path.display())]
    WrongChunk {
        /// The capture; empty if it is no file.
        capture: PathBuf,
        /// The file.
        path: PathBuf,
        /// Which.
        id: crate::Id,
        /// Where the capture refers to it.
        offset: u64,
        /// What it has.
        found: String,
    },
    /// There is no such snapshot.
    #[error("no snapshot {} in this file", .0.0)]
    NoSnapshot(SnapshotId),
    /// There is no such code object.
    #[error("no code object {0} in this file")]
    NoCodeObject(crate::Id),
    /// Memory that is not in the snapshot.
    #[error("{length} bytes at {address:#x} are not in snapshot {}", .snapshot.0)]
    NotCaptured {
        /// Which snapshot.
        snapshot: SnapshotId,
        /// From where.
        address: u64,
        /// How many.
        length: u64,
    },
}

/// The name of a file before what is wrong with it.
fn named(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!("{}: ", path.display()) }
}

impl CaptureError {
    pub(crate) fn damaged(offset: u64, expected: impl Into<String>, found: impl Into<String>) -> CaptureError {
        CaptureError::Damaged { offset, expected: expected.into(), found: found.into() }
    }
}
