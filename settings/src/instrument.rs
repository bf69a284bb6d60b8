//! What is instrumented: types of the variables of instrumented mode.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use crate::Value;

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch(pub bool);

impl Value for Switch {
    fn parse(text: &OsStr) -> Result<Self, String> {
        // logduration takes any case.
        match text.to_str().map(str::to_ascii_lowercase).as_deref() {
            Some("true" | "1") => Ok(Switch(true)),
            Some("false" | "0" | "") => Ok(Switch(false)),
            _ => Err("expected true or false".to_owned()),
        }
    }
}

/// Of how many dispatches of a kernel `random` draws one. More would leave out more kernels that are dispatched less often.
pub const DRAWN_FROM: u64 = 10;

/// Which dispatches are instrumented, of those that can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dispatches {
    /// All of them.
    All,
    /// Of each kernel those from the first to the last number, counted from 1.
    Range(u64, u64),
    /// A random share, from 0 to 1.
    Random(f64),
    /// Of each kernel one, drawn from its first [`DRAWN_FROM`].
    OneOfEach,
}

impl fmt::Display for Dispatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dispatches::All => f.write_str("all"),
            Dispatches::Range(1, last) => write!(f, "{last}"),
            Dispatches::Range(first, last) => write!(f, "{first}-{last}"),
            Dispatches::OneOfEach => f.write_str("random"),
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
            "random" => Ok(Dispatches::OneOfEach),
            _ => {
                let (first, last) = text.split_once('-').unwrap_or(("1", text));
                let range = (number(first)?, number(last)?);
                if range.0 <= range.1 { Ok(Dispatches::Range(range.0, range.1)) } else { Err(expected()) }
            }
        }
    }
}

/// Handlers: names, or paths of libraries, with colons in between, or commas, as logduration has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers(pub Vec<OsString>);

impl Value for Handlers {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let parts = text.as_bytes().split(|byte| matches!(byte, b':' | b',')).filter(|part| !part.is_empty());
        Ok(Handlers(parts.map(|part| OsStr::from_bytes(part).to_owned()).collect()))
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

/// Which workgroups send messages: of each dimension one, or those from the first to the last without that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workgroups(pub [Option<(u32, u32)>; 3]);

impl Workgroups {
    /// True when all are wanted.
    pub fn are_all(&self) -> bool {
        *self == Workgroups::default()
    }

    /// Whether a workgroup is wanted. Messages have 16 bits of its numbers.
    pub fn has(&self, workgroup: [u16; 3]) -> bool {
        let is_in = |(wanted, number): (&Option<(u32, u32)>, u16)| {
            wanted.is_none_or(|(first, end)| (first..end).contains(&u32::from(number)))
        };
        self.0.iter().zip(workgroup).all(is_in)
    }
}

impl Value for Workgroups {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected X,Y,Z, each N, N:M or nothing, with N less than M and M at most 65536".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        let mut all = Workgroups::default();
        for (n, part) in text.split(',').map(str::trim).enumerate() {
            let wanted = all.0.get_mut(n).ok_or_else(expected)?;
            if part.is_empty() {
                continue;
            }
            let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| n <= 1 << 16).ok_or_else(expected);
            let (first, end) = match part.split_once(':') {
                Some((first, end)) => (number(first)?, number(end)?),
                None => (number(part)?, number(part)? + 1),
            };
            *wanted = Some((first, end)).filter(|_| first < end && end <= 1 << 16).ok_or_else(expected).map(Some)?;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatches_are_counts_shares_and_ranges() {
        let parse = |text: &str| Dispatches::parse(OsStr::new(text));
        assert_eq!([parse("all"), parse("")], [Ok(Dispatches::All), Ok(Dispatches::All)]);
        assert_eq!([parse("random"), parse("25%")], [Ok(Dispatches::OneOfEach), Ok(Dispatches::Random(0.25))]);
        assert_eq!([parse("1"), parse("7")], [Ok(Dispatches::Range(1, 1)), Ok(Dispatches::Range(1, 7))]);
        assert_eq!(parse("3-9"), Ok(Dispatches::Range(3, 9)));
        for text in ["0", "9-3", "some", "101%", "-2", "1-"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn logdurations_spellings_are_understood() {
        for (text, expected) in [("TRUE", true), ("True", true), ("1", true), ("FALSE", false), ("", false)] {
            assert_eq!(Switch::parse(OsStr::new(text)), Ok(Switch(expected)), "{text}");
        }
        for text in ["Heatmap:./b.so", "Heatmap,./b.so", ",Heatmap:,./b.so"] {
            let parsed = Handlers::parse(OsStr::new(text));
            assert_eq!(parsed, Ok(Handlers(["Heatmap", "./b.so"].map(OsString::from).to_vec())), "{text}");
        }
    }

    #[test]
    fn workgroups_are_numbers_and_ranges_of_each_dimension() {
        let parse = |text: &str| Workgroups::parse(OsStr::new(text));
        assert_eq!(parse(""), Ok(Workgroups([None; 3])));
        assert_eq!(parse("3"), Ok(Workgroups([Some((3, 4)), None, None])));
        assert_eq!(parse("1:5,,65535"), Ok(Workgroups([Some((1, 5)), None, Some((65535, 65536))])));
        for text in ["5:1", "2:2", "65536", "0:65537", "a", "1,2,3,4", "-1", "1:"] {
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
