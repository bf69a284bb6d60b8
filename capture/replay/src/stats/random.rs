//! Random numbers that are the same every time.

/// SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when that is 0. What `end` does not divide is off by at most `end` · 2⁻⁶⁴.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first outputs of S. Vigna's splitmix64.c with the seed 1234567.
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_are_within_their_bounds_and_reach_all_of_them() {
        let mut random = Random::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| random.below(10)).collect();
        assert_eq!(drawn, (0..10).collect());
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
