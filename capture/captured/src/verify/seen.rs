//! Whether a value is one that the application's kernel computes, as far as its replays show.

use super::{Distance, Tolerance, Type};

/// An element: what the application got, and what replays of the application's own kernel left there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    element_type: Type,
    tolerance: Tolerance,
    expected: &'a [u8],
    own: &'a [&'a [u8]],
}

impl<'a> Seen<'a> {
    /// Of bytes of the same length. Of what is no whole element, bits are compared.
    pub(super) fn new(element_type: Type, tolerance: Tolerance, expected: &'a [u8], own: &'a [&'a [u8]]) -> Seen<'a> {
        match expected.len() == element_type.size() {
            true => Seen { element_type, tolerance, expected, own },
            false => Seen { element_type: Type::Bits(1), tolerance: Tolerance::default(), expected, own },
        }
    }

    /// True for a value that is as the application got it.
    pub(super) fn is_equal(&self, value: &[u8]) -> bool {
        value == self.expected
    }

    /// How far a value is from what the application got.
    pub(super) fn distance(&self, value: &[u8]) -> Distance {
        self.element_type.distance(self.expected, value)
    }

    /// True for a value that is as the application got it, or near enough.
    pub(super) fn is_expected(&self, value: &[u8]) -> bool {
        self.is_equal(value) || !self.tolerance.is_exact() && self.tolerance.takes(&self.distance(value))
    }

    /// The value on which all replays agree; `None` when they differ.
    pub(super) fn agreed(&self) -> Option<&'a [u8]> {
        let (first, rest) = self.own.split_first()?;
        rest.iter().all(|value| value == first).then_some(*first)
    }

    /// True when replays differ, and not all of them are near what the application got.
    pub(super) fn is_masked(&self) -> bool {
        self.agreed().is_none() && !self.own.iter().all(|value| self.is_expected(value))
    }

    /// How far a value is outside of what the kernel computes, in units of how far the kernel's values are apart and the
    /// tolerance; `None` for one that it may well have computed.
    ///
    /// It may have computed what the application got or what is near enough, and what a replay computed. Where replays
    /// differ, numbers may be outside of the smallest and the largest by as much as these are apart, and the tolerance.
    pub(super) fn excess(&self, value: &[u8]) -> Option<f64> {
        if self.is_expected(value) || self.own.contains(&value) {
            return None;
        }
        // What bits were not seen was not computed. How far it is from what was can still be told from what they look like.
        let element_type = self.element_type.likely(self.own);
        let number = element_type.number(value);
        let numbers = self.own.iter().map(|own| (element_type.number(own), *own)).filter(|(own, _)| own.is_finite());
        let ends = numbers.fold(None, |ends: Option<[(f64, &[u8]); 2]>, own| match ends {
            None => Some([own, own]),
            Some([low, high]) => Some([if own.0 < low.0 { own } else { low }, if own.0 > high.0 { own } else { high }]),
        });
        let nan_seen =
            || element_type == self.element_type && self.own.iter().any(|own| element_type.number(own).is_nan());
        let Some([low, high]) = ends.filter(|_| number.is_finite()) else {
            // What is not finite has no distance from anything.
            return if number.is_nan() && nan_seen() { None } else { Some(f64::INFINITY) };
        };
        let spread = high.0 - low.0;
        let (end, outside) = if number < low.0 { (low, low.0 - number) } else { (high, number - high.0) };
        let step = element_type.step(end.1);
        let slack = self.tolerance.width(end.0, step);
        if element_type == self.element_type && self.agreed().is_none() && outside <= spread + slack {
            return None;
        }
        Some(outside.max(0.0) / (spread + slack).max(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Tolerance = Tolerance { abs: None, rel: None, ulp: None };

    fn excess(element_type: Type, tolerance: Tolerance, own: &[f32], value: f32) -> Option<f64> {
        let own: Vec<[u8; 4]> = own.iter().map(|v| v.to_le_bytes()).collect();
        let own: Vec<&[u8]> = own.iter().map(<[u8; 4]>::as_slice).collect();
        Seen::new(element_type, tolerance, &100.0f32.to_le_bytes(), &own).excess(&value.to_le_bytes())
    }

    #[test]
    fn numbers_may_be_outside_of_the_extremes_by_their_spread_and_the_tolerance() {
        let own = [1.0, 3.0, 2.0];
        for fine in [1.0, 2.5, 3.0, 5.0, -1.0, 100.0] {
            assert_eq!(excess(Type::F32, EXACT, &own, fine), None, "{fine}");
        }
        assert_eq!(excess(Type::F32, EXACT, &own, 9.0), Some(3.0));
        let near = Tolerance { abs: Some(2.0), ..EXACT };
        assert_eq!((excess(Type::F32, near, &own, 7.0), excess(Type::F32, near, &own, 7.5)), (None, Some(1.125)));
        assert_eq!(excess(Type::F32, EXACT, &own, f32::NAN), Some(f64::INFINITY));
        assert_eq!(excess(Type::F32, EXACT, &[1.0, f32::NAN], -f32::NAN), None);
        assert_eq!(excess(Type::F32, EXACT, &own, f32::INFINITY), Some(f64::INFINITY));
    }

    #[test]
    fn what_replays_agree_on_is_not_widened_and_bits_are_what_was_seen() {
        let next = f32::from_bits(2.0f32.to_bits() + 1);
        assert_eq!(excess(Type::F32, EXACT, &[2.0, 2.0], next), Some(1.0));
        assert_eq!(excess(Type::F32, EXACT, &[2.0, 2.0], 2.0), None);
        let bits = Type::Bits(4);
        assert_eq!((excess(bits, EXACT, &[1.0, 3.0], 3.0), excess(bits, EXACT, &[1.0, 3.0], 2.0)), (None, Some(0.0)));
        // They look like floats.
        assert_eq!(excess(bits, EXACT, &[1.0, 3.0], 9.0), Some(3.0));
    }
}
