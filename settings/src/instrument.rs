//! What is instrumented: types of the variables of instrumented mode.

use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::Value;

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch(pub bool);

impl Value for Switch {
    fn parse(text: &OsStr) -> Result<Self, String> {
        match text.to_str() {
            Some("true" | "1") => Ok(Switch(true)),
            Some("false" | "0" | "") => Ok(Switch(false)),
            _ => Err("expected true or false".to_owned()),
        }
    }
}

/// The share of dispatches that `random` stands for.
const RANDOM: f64 = 0.01;

/// Which dispatches are instrumented, of those that can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dispatches {
    /// All of them.
    All,
    /// Of each kernel those from the first to the last number, counted from 1.
    Range(u64, u64),
    /// A random share, from 0 to 1.
    Random(f64),
}

impl fmt::Display for Dispatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dispatches::All => f.write_str("all"),
            Dispatches::Range(1, last) => write!(f, "{last}"),
            Dispatches::Range(first, last) => write!(f, "{first}-{last}"),
            Dispatches::Random(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

impl Value for Dispatches {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected all, random, N, N% or N-M".to_owned();
        let text = text.to_str().ok_or_else(expected)?.trim();
        let number = |text: &str| text.trim().parse().ok().filter(|&n: &u64| n > 0).ok_or_else(expected);
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|p| (0.0..=100.0).contains(p));
            return percent.map(|p: f64| Dispatches::Random(p / 100.0)).ok_or_else(expected);
        }
        match text {
            "" | "all" => Ok(Dispatches::All),
            "random" => Ok(Dispatches::Random(RANDOM)),
            _ => {
                let (first, last) = text.split_once('-').unwrap_or(("1", text));
                let range = (number(first)?, number(last)?);
                if range.0 <= range.1 { Ok(Dispatches::Range(range.0, range.1)) } else { Err(expected()) }
            }
        }
    }
}

/// Handlers: names, or paths of libraries, with colons in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers(pub Vec<OsString>);

impl Value for Handlers {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let parts = std::env::split_paths(text).map(|part| part.into_os_string());
        Ok(Handlers(parts.filter(|part| !part.is_empty()).collect()))
    }
}

/// Options of handlers: keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerOptions(pub Vec<(String, String)>);

impl Value for HandlerOptions {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected KEY=VALUE, several with colons in between".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(expected)?;
            Ok((key.to_owned(), value.to_owned()))
        };
        text.split(':').filter(|part| !part.is_empty()).map(pair).collect::<Result<_, _>>().map(HandlerOptions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatches_are_counts_shares_and_ranges() {
        let parse = |text: &str| Dispatches::parse(OsStr::new(text));
        assert_eq!([parse("all"), parse("")], [Ok(Dispatches::All), Ok(Dispatches::All)]);
        assert_eq!([parse("random"), parse("25%")], [Ok(Dispatches::Random(0.01)), Ok(Dispatches::Random(0.25))]);
        assert_eq!([parse("1"), parse("7")], [Ok(Dispatches::Range(1, 1)), Ok(Dispatches::Range(1, 7))]);
        assert_eq!(parse("3-9"), Ok(Dispatches::Range(3, 9)));
        for text in ["0", "9-3", "some", "101%", "-2", "1-"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_of_handlers_are_keys_and_values() {
        let pairs = |text: &str| HandlerOptions::parse(OsStr::new(text)).map(|options| options.0);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("page=4096:name="), Ok(vec![pair("page", "4096"), pair("name", "")]));
        assert!(pairs("page").is_err() && pairs("=1").is_err());
    }
}
