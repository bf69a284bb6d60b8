//! The hash of contents, which names them.

use std::fmt;
use std::str::FromStr;

/// Of a code object's bytes: BLAKE3, 32 bytes. Its text is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Digits of [`short`](Hash::short).
    pub const SHORT: usize = 12;

    /// A hash that was computed before.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash of a code object's bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(*blake3::hash(bytes).as_bytes())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first digits, as rows and notices show them.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(Hash::SHORT);
        text
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The first digits of a `Hash`, by which a user chooses one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// True for a hash that begins so.
    pub fn matches(&self, hash: &Hash) -> bool {
        hash.to_string().starts_with(&self.0)
    }
}

impl FromStr for Prefix {
    type Err = String;

    /// At least four hexadecimal digits.
    fn from_str(text: &str) -> Result<Prefix, String> {
        let right = (4..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !right {
            return Err(format!("expected 4 to 64 hexadecimal digits, found {text:?}"));
        }
        Ok(Prefix(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of nothing. Source: the test vectors of the BLAKE3 specification.
    const EMPTY: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

    #[test]
    fn the_text_of_a_hash_is_the_specifications() {
        let hash = Hash::of(b"");
        assert_eq!((hash.to_string().as_str(), hash.short().as_str()), (EMPTY, "af1349b9f5f9"));
    }

    #[test]
    fn a_prefix_chooses_what_begins_with_it_and_bad_ones_say_what_is_expected() {
        let hash = Hash::of(b"");
        let matches = |text: &str| text.parse::<Prefix>().map(|p| p.matches(&hash));
        assert_eq!((matches("AF13"), matches(EMPTY), matches("af14")), (Ok(true), Ok(true), Ok(false)));
        for bad in ["", "af1", "newer", &format!("{EMPTY}0")] {
            assert_eq!(matches(bad), Err(format!("expected 4 to 64 hexadecimal digits, found {bad:?}")));
        }
    }
}
