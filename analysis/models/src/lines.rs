//! Cache lines that the lanes of an access touch, against the fewest that could hold their bytes.
//!
//! Exact. How the address unit merges requests is not public: lines are counted, not requests.

/// Bytes of lanes, in pieces that lie together: addresses and lengths. Sorted and joined by [`Bytes::join`].
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    ranges: Vec<(u64, u64)>,
}

/// What an access touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Distinct bytes.
    pub bytes: u64,
    /// Distinct lines.
    pub lines: u64,
    /// The fewest lines that hold so many bytes.
    pub least: u64,
}

impl Bytes {
    /// Nothing.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Adds bytes.
    #[inline]
    pub fn push(&mut self, at: u64, length: u64) {
        let end = at.saturating_add(length);
        // Lanes beside each other are the rule.
        match self.ranges.last_mut() {
            Some(last) if last.1 == at => last.1 = end,
            Some(last) if last.0 <= at && end <= last.1 => {}
            _ => self.ranges.push((at, end)),
        }
    }

    /// Sorts the ranges, and joins those that touch.
    pub fn join(&mut self) {
        if self.ranges.len() < 2 {
            return;
        }
        self.ranges.sort_unstable();
        let mut kept = 0;
        for n in 1..self.ranges.len() {
            let (start, end) = self.ranges[n];
            if start <= self.ranges[kept].1 {
                self.ranges[kept].1 = self.ranges[kept].1.max(end);
            } else {
                kept += 1;
                self.ranges[kept] = (start, end);
            }
        }
        self.ranges.truncate(kept + 1);
    }

    /// The ranges, first and one past the last byte.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// What joined ranges touch, in lines of so many bytes, a power of two.
    pub fn touched(&self, line: u64) -> Touched {
        let shift = line.trailing_zeros();
        let mut touched = Touched::default();
        let mut next = 0;
        for &(start, end) in self.ranges.iter().filter(|(start, end)| start < end) {
            touched.bytes += end - start;
            let (first, last) = ((start >> shift).max(next), (end - 1) >> shift);
            if first <= last {
                touched.lines += last - first + 1;
                next = last + 1;
            }
        }
        touched.least = touched.bytes.div_ceil(line);
        touched
    }

    /// The lines of joined ranges, each once: their first bytes.
    pub fn each_line(&self, line: u64, mut what: impl FnMut(u64)) {
        let shift = line.trailing_zeros();
        let mut next = 0;
        for &(start, end) in self.ranges.iter().filter(|(start, end)| start < end) {
            for n in (start >> shift).max(next)..=(end - 1) >> shift {
                what(n << shift);
                next = n + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(pieces: impl Iterator<Item = (u64, u64)>, line: u64) -> Touched {
        let mut bytes = Bytes::default();
        pieces.for_each(|(at, length)| bytes.push(at, length));
        bytes.join();
        let touched = bytes.touched(line);
        let mut lines = 0;
        bytes.each_line(line, |_| lines += 1);
        assert_eq!(lines, touched.lines);
        touched
    }

    #[test]
    fn a_row_wastes_nothing_a_stride_does_and_a_broadcast_is_no_waste() {
        let lanes = 0..64u64;
        assert_eq!(
            touched(lanes.clone().map(|l| (0x1000 + 4 * l, 4)), 128),
            Touched { bytes: 256, lines: 2, least: 2 }
        );
        assert_eq!(
            touched(lanes.clone().map(|l| (0x1000 + 16 * l, 4)), 128),
            Touched { bytes: 256, lines: 8, least: 2 }
        );
        assert_eq!(touched(lanes.clone().map(|_| (0x1000, 4)), 128), Touched { bytes: 4, lines: 1, least: 1 });
        assert_eq!(touched(lanes.map(|l| (0x1004 + 4 * l, 4)), 128), Touched { bytes: 256, lines: 3, least: 2 });
    }

    #[test]
    fn lanes_in_any_order_and_over_the_end_of_lines_count_once() {
        let order = (0..64u64).map(|l| (0x1000 + 4 * (l * 37 % 64), 4));
        assert_eq!(touched(order, 64), Touched { bytes: 256, lines: 4, least: 4 });
        assert_eq!(touched([(0x103c, 16), (0x1044, 16)].into_iter(), 64), Touched { bytes: 24, lines: 2, least: 1 });
        assert_eq!(touched(std::iter::empty(), 64), Touched::default());
    }
}
