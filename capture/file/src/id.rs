//! Names of contents.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

/// The BLAKE3 hash of some bytes: equal ids are equal bytes. All zeros is no content.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 32]);

impl Id {
    /// Of bytes.
    pub fn of(bytes: &[u8]) -> Id {
        Id(*blake3::hash(bytes).as_bytes())
    }

    /// True when it names nothing.
    pub fn is_none(&self) -> bool {
        self.0 == [0; 32]
    }
}

/// Makes the id of content that comes in pieces.
#[derive(Debug, Default)]
pub struct IdOfPieces(blake3::Hasher);

impl IdOfPieces {
    /// The content goes on.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The id of all of it.
    pub fn id(&self) -> Id {
        Id(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

/// A number that no other file has: the kernel's random bytes, or, without those, time and process.
pub(crate) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    if File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).is_err() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        let [time, process] = [now.to_le_bytes(), u64::from(std::process::id()).to_le_bytes()];
        bytes.copy_from_slice([time, process].as_flattened());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_has_the_same_id_however_it_is_cut() {
        let mut pieces = IdOfPieces::default();
        [&b"a"[..], b"", b"bc"].into_iter().for_each(|piece| pieces.add(piece));
        assert_eq!(pieces.id(), Id::of(b"abc"));
    }
}
