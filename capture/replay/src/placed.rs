//! Captured memory and where it is on a device, and the pages of it that differ.
//!
//! Addresses of three spaces meet in a replay. Those that the application had are plain numbers, as in the capture. Those of now are
//! [`Placed`]. Those in an ELF become [`Placed`] by a [`LoadBias`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// An address of now, for the device that replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Placed(pub(crate) u64);

impl Placed {
    /// The address so many bytes behind it.
    pub(crate) fn plus(self, bytes: u64) -> Placed {
        Placed(self.0.wrapping_add(bytes))
    }

    /// How many bytes it is behind another.
    pub(crate) fn since(self, other: Placed) -> u64 {
        self.0.wrapping_sub(other.0)
    }
}

/// What is added to the addresses in a code object where it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadBias(pub(crate) u64);

impl LoadBias {
    /// Of a code object in which a place has the address `elf`, and is `placed` now.
    pub(crate) fn of(placed: Placed, elf: u64) -> LoadBias {
        LoadBias(placed.0.wrapping_sub(elf))
    }

    /// Where an address of the code object is now.
    pub(crate) fn placed(self, elf: u64) -> Placed {
        Placed(elf.wrapping_add(self.0))
    }

    /// The address in the code object of what is at an address now.
    pub(crate) fn elf(self, placed: Placed) -> u64 {
        placed.0.wrapping_sub(self.0)
    }
}

/// Some captured memory, and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedRange {
    /// As the application had it.
    pub(crate) captured: Range<u64>,
    /// The first byte's address now.
    pub(crate) placed: Placed,
}

impl PlacedRange {
    /// Where a captured address of it is now.
    pub(crate) fn now(&self, captured: u64) -> Placed {
        self.placed.plus(captured.wrapping_sub(self.captured.start))
    }

    /// The captured address of what is at one of its addresses now.
    pub(crate) fn then(&self, placed: Placed) -> u64 {
        self.captured.start.wrapping_add(placed.since(self.placed))
    }
}

/// Pages that are not as they were before, by the captured address of their first byte: whole pages, but where an area
/// begins or ends in one.
pub(crate) type Pages = BTreeMap<u64, Arc<[u8]>>;
