//! Code objects wherever they are kept: bare, in offload bundles, in programs and libraries.

use crate::error::{Result, Unreadable};
use crate::source::{self, Source};
use crate::target::Target;

/// What code objects are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An ELF for the GPU, and nothing around it.
    Bare,
    /// A bundle of clang's: `__CLANG_OFFLOAD_BUNDLE__`.
    Bundle,
    /// A compressed bundle: `CCOB`.
    CompressedBundle,
}

/// Where a code object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it lies in.
    pub kind: Kind,
    /// True when that lies in a program or library for the host.
    pub in_host_elf: bool,
    /// The bundle's name for it, like `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`; empty for a bare one.
    pub id: String,
    /// Where the bundle begins in the source; of a bare one, the code object itself.
    pub container_offset: u64,
    /// From the beginning of the source; in a compressed bundle, of what it holds.
    pub offset: u64,
    /// In bytes. Entries for the host are often empty.
    pub length: u64,
    /// Why it cannot be read. Its neighbours can.
    pub problem: Option<Unreadable>,
}

impl Entry {
    /// What the bundle says that it was compiled for; `None` for a bare one and for the host's.
    pub fn target(&self) -> Option<Target> {
        None
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the source cannot be read or the bundle is damaged.
    pub fn read(&self, source: &dyn Source) -> Result<Vec<u8>> {
        source::read(source, "code object", self.offset, self.length)
    }
}

/// Finds every code object. A source of another kind has none.
///
/// # Errors
/// When the source cannot be read. What is wrong with one entry or bundle is told by [`Entry::problem`].
pub fn entries(source: &dyn Source) -> Result<Vec<Entry>> {
    let _ = source;
    Ok(Vec::new())
}
