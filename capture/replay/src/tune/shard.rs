//! A part of a search, for machines that share the work.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of several parts, which together have every choice once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    number: u32,
    count: u32,
}

impl Shard {
    /// The choices of this part. Neighbours, which are often alike in their cost, are in different parts.
    pub fn of<T>(self, choices: Vec<T>) -> Vec<T> {
        let ours = choices
            .into_iter()
            .enumerate()
            .filter(|(at, _)| *at as u64 % u64::from(self.count) + 1 == u64::from(self.number));
        ours.map(|(_, choice)| choice).collect()
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        match parts {
            Some((number, count)) if 1 <= number && number <= count => Ok(Shard { number, count }),
            _ => Err(format!("expected I/N, part I of N parts, the first being 1, found {text:?}")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_have_every_choice_once() {
        let parts = ["1/3", "2/3", "3/3"].map(|text| text.parse::<Shard>().unwrap().of((0..8).collect::<Vec<u32>>()));
        assert_eq!(parts, [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
        for text in ["0/3", "4/3", "1", "1/0", "a/b", "-1/3", "1/2/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
