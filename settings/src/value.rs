//! Types that a variable can have.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A type that is read from a variable's text.
pub trait Value: Sized {
    /// Reads the text.
    ///
    /// # Errors
    /// What was expected, as a phrase that "found …" can follow.
    fn parse(text: &OsStr) -> Result<Self, String>;
}

impl Value for Option<String> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        match text.to_str() {
            Some("") => Ok(None),
            Some(text) => Ok(Some(text.to_owned())),
            None => Err("expected UTF-8".to_owned()),
        }
    }
}

impl Value for Option<PathBuf> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        Ok((!text.is_empty()).then(|| PathBuf::from(OsString::from(text))))
    }
}

impl Value for u32 {
    fn parse(text: &OsStr) -> Result<Self, String> {
        text.to_str().and_then(|t| t.trim().parse().ok()).ok_or_else(|| "expected a number".to_owned())
    }
}

impl Value for Option<u32> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { u32::parse(text).map(Some) }
    }
}

/// A number of bytes, with an optional suffix K, M, G or T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Value for Bytes {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected a number of bytes, with K, M, G or T after it if wanted".to_owned();
        let text = text.to_str().ok_or_else(expected)?.trim();
        let (digits, shift) = match text.char_indices().last() {
            Some((end, 'k' | 'K')) => (&text[..end], 10),
            Some((end, 'm' | 'M')) => (&text[..end], 20),
            Some((end, 'g' | 'G')) => (&text[..end], 30),
            Some((end, 't' | 'T')) => (&text[..end], 40),
            _ => (text, 0),
        };
        let number: u64 = digits.parse().map_err(|_| expected())?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_have_suffixes() {
        let parse = |text: &str| Bytes::parse(OsStr::new(text)).map(|b| b.0);
        assert_eq!(
            [parse("17"), parse("4k"), parse("16G"), parse(" 1T ")],
            [Ok(17), Ok(4096), Ok(16 << 30), Ok(1 << 40)]
        );
        assert!(parse("lots").is_err() && parse("G").is_err() && parse("99999999999T").is_err());
    }
}
