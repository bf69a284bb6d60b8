//! Errors of single files.

use std::io;
use std::path::PathBuf;

use amdgpu_code_object::Unreadable;
use amdgpu_code_object::container::CodeLocation;

/// Why a candidate's code object cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The file cannot be opened or examined.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may have written it.
    #[error("{path}: {reason}", path = path.display())]
    Mistrusted {
        /// The file.
        path: PathBuf,
        /// Whose it is, and who may write it.
        reason: String,
    },
    /// It is another file now than when it was indexed.
    #[error("{path}: it was changed after it was indexed", path = path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file no longer has a code object there.
    #[error("{path}, {place}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Box<CodeLocation>,
        /// The parser's error.
        source: Box<Unreadable>,
    },
    /// It does not have the kernel that the index says.
    #[error("{path}, {place}: expected kernel {kernel} as in the index, found {found}", path = path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Box<CodeLocation>,
        /// The kernel's name.
        kernel: String,
        /// What there is.
        found: &'static str,
    },
}
