//! What the application's own kernel leaves alone: another kernel may not change it, whatever the tolerance.

use super::Type;
use super::seen::Seen;

/// What is known of the stores of the application's own kernel, beside the bytes that it changes.
#[derive(Clone, Copy, Debug)]
pub enum Stored<'a> {
    /// For each byte, whether a replay stored it: also what was there before.
    Bytes(&'a [bool]),
    /// None of its stores has fewer bytes. Of a word of this size that it changes, it has stored all bytes.
    Words(usize),
}

impl<'a> Stored<'a> {
    /// Of some of the bytes.
    pub(super) fn of(self, (at, end): (usize, usize)) -> Stored<'a> {
        match self {
            Stored::Bytes(stored) => Stored::Bytes(stored.get(at..end).unwrap_or_default()),
            Stored::Words(bytes) => Stored::Words(bytes),
        }
    }
}

/// An element as the application's kernel found and left it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) before: &'a [u8],
    /// In the application.
    pub(super) expected: &'a [u8],
    /// In replays.
    pub(super) own: &'a [&'a [u8]],
    pub(super) stored: Stored<'a>,
}

impl Element<'_> {
    /// True for bytes that the kernel changes nowhere and stores nowhere, as far as that is known.
    fn leaves(&self, mut bytes: std::ops::Range<usize>) -> bool {
        let unchanged = |after: &[u8]| after.get(bytes.clone()) == self.before.get(bytes.clone());
        let is_unchanged = unchanged(self.expected) && self.own.iter().all(|own| unchanged(own));
        is_unchanged
            && match self.stored {
                Stored::Bytes(stored) => !bytes.any(|at| stored.get(at).is_some_and(|stored| *stored)),
                Stored::Words(_) => true,
            }
    }

    /// True when the kernel leaves all of it alone.
    fn is_left_alone(&self) -> bool {
        self.leaves(0..self.before.len())
    }

    /// How far a value is outside of what may be there; `None` if it may be. No tolerance is for what is left alone.
    pub(super) fn excess(&self, seen: &Seen<'_>, value: &[u8]) -> Option<f64> {
        if self.is_left_alone() { (value != self.before).then_some(f64::INFINITY) } else { seen.excess(value) }
    }

    /// True for a value of which bytes are changed that the kernel leaves alone. The bytes of a number mean nothing by themselves.
    pub(super) fn is_touched_outside(&self, element_type: Type, value: &[u8]) -> bool {
        let length = self.before.len();
        let unit = match (element_type, self.stored) {
            (Type::Bits(_), Stored::Bytes(_)) => 1,
            (Type::Bits(_), Stored::Words(bytes)) => bytes.clamp(1, length.max(1)),
            _ => length.max(1),
        };
        let mut units = (0..length).step_by(unit).map(|at| at..(at + unit).min(length));
        units.any(|unit| value.get(unit.clone()) != self.before.get(unit.clone()) && self.leaves(unit))
    }
}
