//! Brain floats: the upper halves of singles.

/// A brain float, kept as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brain(pub u16);

impl Brain {
    /// The same value.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Rounds to nearest, ties to even. NaN becomes quiet.
    #[inline(always)]
    pub fn from_f32(x: f32) -> Brain {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        Brain(if x.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
    }

    /// One of the two around `x`: the upper bits of `random` are added to what is lost, and a carry counts. NaN becomes quiet.
    #[inline(always)]
    pub fn stochastic(x: f32, random: u32) -> Brain {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(random >> 16) >> 16;
        Brain(if x.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
    }

    /// The largest number in the place of infinity.
    #[inline(always)]
    pub fn limited(self) -> Brain {
        if self.0 & 0x7fff == 0x7f80 { Brain(self.0 - 1) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_brain_float_stays_and_what_is_between_two_goes_to_the_nearer_one() {
        for code in 0..=u16::MAX {
            let brain = Brain(code);
            let x = brain.to_f32();
            if x.is_nan() {
                assert_eq!([Brain::from_f32(x), Brain::stochastic(x, u32::MAX)], [Brain(code | 0x40); 2]);
                continue;
            }
            assert_eq!([Brain::from_f32(x), Brain::stochastic(x, u32::MAX)], [brain; 2]);
            if x.is_infinite() {
                assert_eq!(brain.limited(), Brain(code - 1));
                continue;
            }
            assert_eq!(brain.limited(), brain);
            // By the bits of singles, which are in the order of their values: half of the way to the next away from zero.
            let bits = u32::from(code) << 16;
            let near = |less: u32| Brain::from_f32(f32::from_bits(bits | less)).0;
            assert_eq!([0x7fff, 0x8001].map(near), [code, code + 1]);
            assert_eq!(near(0x8000), code + (code & 1));
            let random = |random: u32| Brain::stochastic(f32::from_bits(bits | 0x4000), random).0;
            assert_eq!([0, 0xbfff_ffff, 0xc000_0000].map(random), [code, code, code + 1]);
        }
    }
}
