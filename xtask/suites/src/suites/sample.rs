//! A seeded sample of tests.

use std::collections::BTreeMap;
use std::hash::Hasher;

use super::forms::Test;

/// So many tests, one of each group before two of any, in an order that the seed decides. A test that is added to a
/// suite changes no other's place.
pub(crate) fn of(tests: Vec<Test>, seed: u64, number: usize) -> Vec<Test> {
    let mut groups: BTreeMap<String, Vec<(u64, Test)>> = BTreeMap::new();
    for test in tests {
        groups.entry(test.group.clone()).or_default().push((rank(seed, &test.name), test));
    }
    let mut ranked = Vec::new();
    for (group, mut tests) in groups {
        tests.sort_by_key(|(rank, _)| *rank);
        let of_group = rank(seed, &group);
        ranked.extend(tests.into_iter().enumerate().map(|(turn, (_, test))| ((turn, of_group), test)));
    }
    ranked.sort_by_key(|(key, _)| *key);
    ranked.into_iter().take(number).map(|(_, test)| test).collect()
}

/// FNV-1a of the seed and the name, mixed as MurmurHash3 does at its end: the same on every machine and for ever.
fn rank(seed: u64, name: &str) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.write(&seed.to_le_bytes());
    hash.write(name.as_bytes());
    let mixed = (hash.0 ^ (hash.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(names: &[&str]) -> Vec<Test> {
        let test = |name: &&str| {
            let (group, _) = name.split_once('.').unwrap_or((name, ""));
            Test {
                name: (*name).to_owned(),
                group: group.to_owned(),
                words: Vec::new(),
                folder: ".".into(),
                cache: None,
            }
        };
        names.iter().map(test).collect()
    }

    fn names(tests: &[Test]) -> Vec<&str> {
        tests.iter().map(|t| t.name.as_str()).collect()
    }

    #[test]
    fn a_sample_has_one_of_each_group_before_two_of_any() {
        let sample = of(tests(&["a.1", "a.2", "a.3", "b.1", "c.1"]), 1, 3);
        let mut groups: Vec<&str> = sample.iter().map(|t| t.group.as_str()).collect();
        groups.sort_unstable();
        assert_eq!(groups, ["a", "b", "c"]);
    }

    #[test]
    fn a_seed_gives_the_same_sample_again_and_another_one_gives_another() {
        let all: Vec<String> = (0..200).map(|n| format!("g.{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let first = of(tests(&all), 1, 10);
        assert_eq!(names(&first), names(&of(tests(&all), 1, 10)));
        assert_ne!(names(&first), names(&of(tests(&all), 2, 10)));
    }
}
