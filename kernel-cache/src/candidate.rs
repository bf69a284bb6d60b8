//! A kernel of the cache, its file, and where its code object lies in it.

use std::path::PathBuf;

use amdgpu_code_object::container::CodeLocation;

use crate::interface::Interface;

/// A kernel of the cache, and where its code object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file.
    pub path: PathBuf,
    /// The state of the file when it was read.
    pub stamp: Stamp,
    /// Where in the file.
    pub place: CodeLocation,
    /// The kernel.
    pub interface: Interface,
}

/// The state of a file, by which a change is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// When its contents were changed, in nanoseconds since 1970.
    pub modified: i64,
    /// When anything of it was changed, its name too, in nanoseconds since 1970.
    pub changed: i64,
    /// Its bytes.
    pub size: u64,
    /// Its number in the file system.
    pub inode: u64,
}
