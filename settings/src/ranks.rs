//! Ranks of a parallel job, and GPUs of a machine.

use std::ffi::OsStr;
use std::ops::RangeInclusive;

use crate::Value;

/// A set of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks(Vec<RangeInclusive<u32>>);

impl Ranks {
    /// True for a rank of the set.
    pub fn contains(&self, rank: u32) -> bool {
        self.0.iter().any(|range| range.contains(&rank))
    }
}

impl Value for Option<Ranks> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let expected = || "expected ranks and ranges of ranks, like 0,8-15".to_owned();
        ranges(text).map(|ranges| Some(Ranks(ranges))).ok_or_else(expected)
    }
}

/// GPUs by their numbers in the column `agent` of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices(pub Vec<RangeInclusive<u32>>);

impl Value for Option<Devices> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let expected = || "expected numbers of GPUs and ranges of them, like 0,2-3".to_owned();
        ranges(text).map(|ranges| Some(Devices(ranges))).ok_or_else(expected)
    }
}

/// Numbers and ranges of numbers, with commas in between.
fn ranges(text: &OsStr) -> Option<Vec<RangeInclusive<u32>>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some(first..=last)
    };
    text.to_str()?.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_and_ranges() {
        let parse = |text| Option::<Ranks>::parse(OsStr::new(text));
        let ranks = parse("0,8-15, 20").unwrap().unwrap();
        let found: Vec<u32> = (0..30).filter(|&rank| ranks.contains(rank)).collect();
        assert_eq!(found, [0, 8, 9, 10, 11, 12, 13, 14, 15, 20]);
        assert_eq!(parse(""), Ok(None));
        for text in ["a", "3-1", "1-", "-1", "1,,2", "1-2-3", "4294967296"] {
            assert!(parse(text).is_err() && Option::<Devices>::parse(OsStr::new(text)).is_err(), "{text}");
        }
    }
}
