//! Words that hold addresses: what they point to, and how sure that is.
//!
//! As in replays that relocate memory, an aligned word of memory counts as an address if its value is inside captured memory. In
//! arguments, a word at any byte does: structures may be packed.

use std::fmt;
use std::ops::Range;

/// Bytes of an address.
pub(super) const WORD: usize = 8;

/// What an address points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aim {
    /// An allocation, by its number.
    Allocation(usize),
    /// A kernel's code object, by its number: variables, constants, functions.
    Code(usize),
}

/// Where a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In the arguments of all launches.
    Kernarg,
    /// In an allocation, by its number.
    Allocation(usize),
    /// In a variable of a code object, by its number.
    Variable(usize),
    /// In what is written between the steps.
    Writes,
}

impl Place {
    /// Its letter in the files, and its number.
    pub(super) fn row(self) -> (char, usize) {
        match self {
            Place::Kernarg => ('k', 0),
            Place::Allocation(number) => ('a', number),
            Place::Variable(number) => ('v', number),
            Place::Writes => ('w', 0),
        }
    }
}

/// How sure it is that a word is an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sure {
    /// The code object declares a pointer.
    Pointer,
    /// Its value is inside of captured memory.
    Looks,
    /// As above, but the argument or the buffer is declared as numbers.
    Number,
    /// As above, at an offset at which compilers put no pointer.
    Unaligned,
    /// Its value is the end of an allocation, as of the pointer behind a last element.
    End,
    /// Its value is the end of an allocation and the beginning of the next; it is taken for the beginning.
    Boundary,
}

impl Sure {
    /// Its word in the list of addresses, and why it may be none; `None` where that is not likely.
    pub(super) fn row(self) -> (&'static str, Option<&'static str>) {
        match self {
            Sure::Pointer => ("pointer", None),
            Sure::Looks => ("address", None),
            Sure::Number => ("number", Some("its type is that of a number")),
            Sure::Unaligned => ("unaligned", Some("it is not aligned as pointers are")),
            Sure::End => ("end", Some("it is the end of an allocation, not in it")),
            Sure::Boundary => ("boundary", None),
        }
    }
}

/// A word that holds an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fixup {
    /// What it is in.
    pub(super) place: Place,
    /// Where in that, in bytes.
    pub(super) offset: u64,
    /// What it points into.
    pub(super) aim: Aim,
    /// Where in that, in bytes.
    pub(super) aim_offset: u64,
    /// How sure that is.
    pub(super) sure: Sure,
}

/// As a line of the file that the program reads: place, offset, target, offset, how sure.
impl fmt::Display for Fixup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (letter, number) = self.place.row();
        let (target, of) = match self.aim {
            Aim::Allocation(number) => ('a', number),
            Aim::Code(number) => ('c', number),
        };
        let Fixup { offset, aim_offset, sure, .. } = self;
        write!(f, "{letter}{number} {offset} {target}{of} {aim_offset} {}", sure.row().0)
    }
}

/// Where a value points: what, how far into it, and how sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aimed {
    pub(super) aim: Aim,
    pub(super) offset: u64,
    pub(super) sure: Sure,
}

/// Memory that addresses may point into, by address. No two overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets(Vec<(Range<u64>, Aim)>);

impl Targets {
    pub(super) fn new(mut all: Vec<(Range<u64>, Aim)>) -> Targets {
        all.retain(|(range, _)| range.start < range.end);
        all.sort_by_key(|(range, _)| range.start);
        Targets(all)
    }

    /// What a value points into, or to the end of.
    pub(super) fn find(&self, value: u64) -> Option<Aimed> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        if value < first.0.start || value > last.0.end {
            return None;
        }
        let at = self.0.partition_point(|(range, _)| range.start <= value).checked_sub(1)?;
        let (range, aim) = self.0.get(at)?;
        let offset = value - range.start;
        if value < range.end {
            let before = at.checked_sub(1).and_then(|before| self.0.get(before));
            let is_boundary = offset == 0 && before.is_some_and(|(before, _)| before.end == value);
            let sure = if is_boundary { Sure::Boundary } else { Sure::Looks };
            return Some(Aimed { aim: *aim, offset, sure });
        }
        (value == range.end).then_some(Aimed { aim: *aim, offset, sure: Sure::End })
    }

    /// The addresses in an argument that is no pointer, and where they are: aligned ones first; none overlap. `of_number` says that
    /// its type is that of a number, and `at` is its offset among the arguments.
    pub(super) fn in_argument(&self, bytes: &[u8], at: u64, of_number: bool) -> Vec<(u64, Aimed)> {
        let mut found: Vec<(u64, Aimed)> = Vec::new();
        let is_aligned = |offset: u64| offset.is_multiple_of(WORD as u64);
        for aligned in [true, false] {
            for (offset, word) in (at..).zip(bytes.array_windows::<WORD>()) {
                let is_taken = || found.iter().any(|(other, _)| other.abs_diff(offset) < WORD as u64);
                if is_aligned(offset) != aligned || is_taken() {
                    continue;
                }
                // The end of an allocation at an odd place is a chance too many.
                let aimed = self.find(u64::from_le_bytes(*word)).filter(|aimed| aligned || aimed.sure != Sure::End);
                if let Some(mut aimed) = aimed {
                    if of_number {
                        aimed.sure = Sure::Number;
                    } else if !aligned {
                        aimed.sure = Sure::Unaligned;
                    }
                    found.push((offset, aimed));
                }
            }
        }
        found.sort_by_key(|(offset, _)| *offset);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Targets {
        let one = |range, number| (range, Aim::Allocation(number));
        Targets::new(vec![
            one(0x4000..0x5000, 1),
            one(0x1000..0x2000, 0),
            (0x9000..0xa000, Aim::Code(1)),
            one(0x2000..0x2008, 2),
        ])
    }

    fn aimed(aim: Aim, offset: u64, sure: Sure) -> Option<Aimed> {
        Some(Aimed { aim, offset, sure })
    }

    #[test]
    fn values_inside_of_memory_and_at_its_end_are_addresses() {
        let targets = targets();
        assert_eq!(targets.find(0x1ff8), aimed(Aim::Allocation(0), 0xff8, Sure::Looks));
        assert_eq!(targets.find(0x2000), aimed(Aim::Allocation(2), 0, Sure::Boundary));
        assert_eq!(targets.find(0x2008), aimed(Aim::Allocation(2), 8, Sure::End));
        assert_eq!(targets.find(0x9010), aimed(Aim::Code(1), 0x10, Sure::Looks));
        assert_eq!(targets.find(0xa000), aimed(Aim::Code(1), 0x1000, Sure::End));
        assert_eq!([0, 0xfff, 0x2009, 0x3fff, 0xa001, u64::MAX].map(|value| targets.find(value)), [None; 6]);
        assert_eq!(Targets::default().find(0), None);
    }

    #[test]
    fn addresses_in_arguments_are_found_at_every_byte_and_overlap_no_other() {
        let targets = targets();
        // At byte 1 of an argument at offset 16, as in a packed structure.
        let packed = [&[7u8][..], &0x4010u64.to_le_bytes(), &[0; 7]].concat();
        let found = targets.in_argument(&packed, 16, false);
        assert_eq!(found, [(17, Aimed { aim: Aim::Allocation(1), offset: 0x10, sure: Sure::Unaligned })]);
        let two = [0x1008u64, 0x4000].map(u64::to_le_bytes).concat();
        let offsets =
            |found: Vec<(u64, Aimed)>| found.into_iter().map(|(at, aimed)| (at, aimed.sure)).collect::<Vec<_>>();
        assert_eq!(offsets(targets.in_argument(&two, 8, false)), [(8, Sure::Looks), (16, Sure::Looks)]);
        assert_eq!(offsets(targets.in_argument(&two[..8], 8, true)), [(8, Sure::Number)]);
        assert_eq!(targets.in_argument(&two[..7], 8, false), []);
    }

    #[test]
    fn a_line_of_the_list_has_what_the_program_reads() {
        let fixup =
            Fixup { place: Place::Kernarg, offset: 8, aim: Aim::Allocation(3), aim_offset: 64, sure: Sure::Pointer };
        assert_eq!(fixup.to_string(), "k0 8 a3 64 pointer");
        let fixup = Fixup { place: Place::Variable(1), aim: Aim::Code(1), sure: Sure::End, ..fixup };
        assert_eq!(fixup.to_string(), "v1 8 c1 64 end");
    }
}
