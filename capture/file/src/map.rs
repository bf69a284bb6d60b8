//! The memory map of a snapshot: its extents on top of those of its parents.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::extent::{Extent, What};
use crate::state::joined;

/// Extents by address. They do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pieces: BTreeMap<u64, Extent>,
}

impl Map {
    /// Adds an extent; it replaces what the map has at its addresses.
    pub(crate) fn put(&mut self, extent: Extent) {
        let (start, end) = (extent.address, extent.end());
        if let Some(before) = self.pieces.range(..start).next_back().map(|(_, piece)| *piece)
            && before.end() > start
        {
            self.insert(before.address, start, before.what);
            self.insert(end, before.end(), before.what);
        }
        let inside: Vec<u64> = self.pieces.range(start..end).map(|(at, _)| *at).collect();
        for at in inside {
            if let Some(piece) = self.pieces.remove(&at) {
                self.insert(end, piece.end(), piece.what);
            }
        }
        if extent.what != What::Dropped {
            self.insert(start, end, extent.what);
        }
    }

    fn insert(&mut self, start: u64, end: u64, what: What) {
        if start < end {
            self.pieces.insert(start, Extent { address: start, length: end - start, what });
        }
    }

    /// The piece that holds an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Extent> {
        self.pieces.range(..=address).next_back().map(|(_, piece)| piece).filter(|piece| piece.end() > address)
    }

    /// The first piece behind an address.
    pub(crate) fn after(&self, address: u64) -> Option<&Extent> {
        let next = address.checked_add(1)?;
        self.pieces.range(next..).next().map(|(_, piece)| piece)
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Extent> {
        self.pieces.values()
    }

    /// The addresses of all extents. Adjacent extents are one range.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        joined(self.pieces().map(|piece| piece.address..piece.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(address: u64, length: u64, what: What) -> Extent {
        Extent { address, length, what }
    }

    #[test]
    fn what_is_put_later_is_on_top_and_the_rest_stays_around_it() {
        let mut map = Map::default();
        map.put(extent(0, 100, What::Fill(1)));
        map.put(extent(20, 10, What::Fill(2)));
        map.put(extent(50, 10, What::Dropped));
        let pieces: Vec<_> = map.pieces().map(|p| (p.address, p.length)).collect();
        assert_eq!(pieces, [(0, 20), (20, 10), (30, 20), (60, 40)]);
        assert_eq!(map.ranges(), [0..50, 60..100]);
        map.put(extent(10, 80, What::Fill(3)));
        assert_eq!(map.pieces().map(|p| (p.address, p.length)).collect::<Vec<_>>(), [(0, 10), (10, 80), (90, 10)]);
        assert_eq!(map.at(95).unwrap().what, What::Fill(1));
        assert_eq!((map.at(100), map.after(10).unwrap().address), (None, 90));
    }
}
