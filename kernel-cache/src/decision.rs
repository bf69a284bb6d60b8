//! Which of the kernels of a name runs.

use std::fmt;
use std::path::PathBuf;

use amdgpu_code_object::container::Kind;

use crate::hash::{Hash, Prefix};
use crate::interface::Interface;
use crate::rules::Refusal;
use crate::swap::Swap;

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

/// One of several candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The candidate.
    pub candidate: Candidate,
    /// Of its code object.
    pub hash: Hash,
}

/// What is done about a kernel. Lists are sorted by file and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No file has a kernel of this name.
    Nothing,
    /// This one takes its place.
    Swap {
        /// The kernel that runs.
        choice: Box<Choice>,
        /// What changes in the packet.
        swap: Swap,
    },
    /// None that there is fits. Those for other processors are listed only when there are no others.
    Refused(Vec<(Candidate, Vec<Refusal>)>),
    /// The code object that runs is among those that fit, and nobody chose another: it runs on.
    Running(Vec<Choice>),
    /// Several that differ fit, and nobody chose one.
    Several(Vec<Choice>),
}

/// How one of several is chosen: `LOGDUR_KERNEL_CACHE_PICK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The one in the file that was changed last; of equally old ones the last by path.
    Newest,
    /// The one whose code object's hash begins with one of these. Each kernel needs one that fits.
    Hashes(Vec<Prefix>),
}

impl std::str::FromStr for Pick {
    type Err = String;

    /// `newest`, or hashes' first digits with commas in between.
    fn from_str(text: &str) -> Result<Pick, String> {
        if text == "newest" {
            return Ok(Pick::Newest);
        }
        let hashes: Result<Vec<Prefix>, String> = text.split(',').map(|part| part.trim().parse()).collect();
        Ok(Pick::Hashes(hashes.map_err(|reason| format!("{reason}; or newest"))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_the_newest_or_the_beginnings_of_hashes() {
        assert_eq!("newest".parse(), Ok(Pick::Newest));
        let Ok(Pick::Hashes(hashes)) = "af1349b9,0123".parse() else { panic!("two hashes") };
        assert_eq!(hashes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["af1349b9", "0123"]);
        let expected = r#"expected 4 to 64 hexadecimal digits, found "latest"; or newest"#;
        assert_eq!("latest".parse::<Pick>(), Err(expected.to_owned()));
    }
}
