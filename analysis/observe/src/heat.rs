//! Where in the buffers of a dispatch its accesses go: how often, and of how many workgroups.

use std::ops::Range;

/// Memory with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub range: Range<u64>,
}

/// The most parts that a region is divided into.
const MOST: u64 = 1 << 18;
/// Parts that are allocated together.
const BLOCK: usize = 1024;

/// What went to a part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Reads: lines that an instruction of a wave touched.
    pub reads: u64,
    /// Writes and atomics, counted alike.
    pub writes: u64,
    /// The lowest number of a workgroup that accessed it.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell { reads: 0, writes: 0, first: u64::MAX, last: 0 }
    }
}

impl Cell {
    /// True when nothing went there.
    pub(crate) fn is_cold(&self) -> bool {
        self.reads | self.writes == 0
    }

    /// True when more than one workgroup accessed it.
    pub fn is_shared(&self) -> bool {
        self.first < self.last
    }

    /// Adds what another worker saw.
    pub(crate) fn add(&mut self, other: &Cell) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

struct Map {
    range: Range<u64>,
    shift: u32,
    first: u64,
    blocks: Vec<Option<Box<[Cell]>>>,
}

/// One worker's heat.
pub(crate) struct Heat {
    maps: Vec<Map>,
    last: usize,
}

impl Heat {
    /// Of regions that are sorted and do not overlap, in parts of a line at least.
    pub(crate) fn new(regions: &[Region], line: u64) -> Heat {
        let map = |region: &Region| {
            let Range { start, end } = region.range.clone();
            let part = line.max(((end - start) / MOST).next_power_of_two());
            let shift = part.trailing_zeros();
            let parts = (end.saturating_sub(1) >> shift) - (start >> shift) + 1;
            let blocks = (parts as usize).div_ceil(BLOCK);
            Map {
                range: start..end,
                shift,
                first: start >> shift,
                blocks: std::iter::repeat_with(|| None).take(blocks).collect(),
            }
        };
        Heat { maps: regions.iter().filter(|r| !r.range.is_empty()).map(map).collect(), last: 0 }
    }

    /// An instruction of a workgroup touches the line at an address.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64, group: u64, writes: bool) {
        let inside = |map: &Map| map.range.start >> map.shift << map.shift <= line && line < map.range.end;
        if !self.maps.get(self.last).is_some_and(inside) {
            let at = self.maps.partition_point(|map| map.range.end <= line);
            if !self.maps.get(at).is_some_and(inside) {
                return;
            }
            self.last = at;
        }
        let Some(map) = self.maps.get_mut(self.last) else { return };
        let n = ((line >> map.shift) - map.first) as usize;
        let Some(block) = map.blocks.get_mut(n / BLOCK) else { return };
        let block = block.get_or_insert_with(|| vec![Cell::default(); BLOCK].into_boxed_slice());
        let cell = &mut block[n % BLOCK];
        cell.reads += u64::from(!writes);
        cell.writes += u64::from(writes);
        cell.first = cell.first.min(group);
        cell.last = cell.last.max(group);
    }

    /// The parts that were accessed: number of the region and logarithm of the part's size, number of the part.
    pub(crate) fn into_cells(self) -> impl Iterator<Item = ((usize, u32), u64, Cell)> {
        self.maps.into_iter().enumerate().flat_map(|(of, map)| {
            let shift = map.shift;
            let blocks = map.blocks.into_iter().zip((0u64..).step_by(BLOCK));
            let cells = blocks.flat_map(|(block, base)| block.into_iter().flatten().zip(base..));
            cells.filter(|(cell, _)| !cell.is_cold()).map(move |(cell, n)| ((of, shift), n, cell))
        })
    }
}
