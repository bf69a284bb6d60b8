//! A kernel of the cache, its file, and where its code object lies in it.

use std::fmt;
use std::path::PathBuf;

use amdgpu_code_object::container::Kind;

use crate::interface::Interface;

/// A kernel of the cache, and where its code object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file.
    pub path: PathBuf,
    /// What the file was like when it was read.
    pub stamp: Stamp,
    /// Where in the file.
    pub place: Place,
    /// The kernel.
    pub interface: Interface,
}

/// What tells a file from what it was before.
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

/// Where a code object lies in a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// What it lies in.
    pub kind: Kind,
    /// True when that lies in a program or library for the host.
    pub in_host_elf: bool,
    /// The bundle's name for it; empty for a bare one.
    pub id: String,
    /// Where the bundle begins in the file.
    pub container_offset: u64,
    /// Bytes of the bundle in the file.
    pub container_length: u64,
    /// Where it begins in the file, or in what a compressed bundle holds.
    pub offset: u64,
    /// Its bytes.
    pub length: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.id.is_empty() {
            return write!(f, "code object at {:#x}", self.offset);
        }
        write!(f, "{} in the bundle at {:#x}", self.id, self.container_offset)
    }
}
