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

/// Makes a type whose values are words.
macro_rules! words {
    (
        $(#[$doc:meta])* $name:ident {
            $(#[$first_doc:meta])* $first:ident = $first_word:literal,
            $($(#[$next_doc:meta])* $next:ident = $next_word:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[$first_doc])* $first,
            $($(#[$next_doc])* $next,)*
        }

        impl $name {
            /// Every word.
            pub const WORDS: [&'static str; [$first_word $(, $next_word)*].len()] = [$first_word $(, $next_word)*];
            /// The words for the documentation.
            #[allow(dead_code, reason = "words may be a part of a value")]
            pub(crate) const VALUES: &'static str = concat!("`", $first_word, "`" $(, " | `", $next_word, "`")*);

            /// The word of a value.
            pub const fn name(self) -> &'static str {
                match self {
                    $name::$first => $first_word,
                    $($name::$next => $next_word,)*
                }
            }
        }

        impl $crate::Value for $name {
            fn parse(text: &std::ffi::OsStr) -> Result<Self, String> {
                match text.to_str() {
                    Some($first_word) => Ok($name::$first),
                    $(Some($next_word) => Ok($name::$next),)*
                    _ => Err($crate::value::expected_one_of(&$name::WORDS)),
                }
            }
        }
    };
}
pub(crate) use words;

/// What is expected where a word is: "expected a, b or c".
pub(crate) fn expected_one_of(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("expected {} or {last}", others.join(", ")),
        words => format!("expected {}", words.concat()),
    }
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
