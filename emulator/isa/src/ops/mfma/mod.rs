//! Matrix fused multiply-add on the accumulation registers, and moves to and from them.
//!
//! A row names the shape: `m` by `n` results of `k` products each, in `blocks` independent blocks. Where an element
//! lives follows from the shape alone. Source: CDNA and CDNA2 ISA manuals, "Matrix Arithmetic Instructions", and AMD's
//! public matrix instruction calculator.

use crate::wave::LANES;

pub(crate) mod formats;
mod product;
mod sparse;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use table::TABLE;

/// The shape of a matrix instruction.
#[derive(Clone, Copy)]
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    blocks: usize,
    /// Results of one lane that are rows in sequence.
    height: usize,
}

impl Shape {
    /// Elements of a factor that one lane holds.
    const fn per_lane(self) -> usize {
        self.m * self.k * self.blocks / LANES
    }

    /// Results that one lane holds.
    const fn results(self) -> usize {
        self.m * self.n * self.blocks / LANES
    }

    /// Where element `(index, k)` of block `b` of a factor with `size` rows is: lane, and position in the lane.
    #[cfg(test)]
    const fn factor(self, size: usize, b: usize, index: usize, k: usize) -> (usize, usize) {
        let per_lane = self.per_lane();
        (self.lane(size, b, index, k / per_lane), k % per_lane)
    }

    /// The lane of the elements of a row of a factor from `k = step * per_lane()` on.
    const fn lane(self, size: usize, b: usize, index: usize, step: usize) -> usize {
        index + size * (b + self.blocks * step)
    }

    /// Lanes that hold a row of a factor.
    const fn steps(self) -> usize {
        self.k / self.per_lane()
    }

    /// Which element result `r` of lane `l` is: block, row, column.
    const fn result(self, r: usize, l: usize) -> (usize, usize, usize) {
        let height = self.height;
        let tile = self.n * self.m / height;
        let blocks_at_once = if tile >= LANES { 1 } else { LANES / tile };
        let groups = LANES / blocks_at_once / self.n;
        let steps = self.m / (height * groups);
        let block = blocks_at_once * (r / (steps * height)) + (l / self.n) % blocks_at_once;
        let row = r % height + height * ((l / self.n) / blocks_at_once + groups * ((r / height) % steps));
        (block, row, l % self.n)
    }
}

/// A shape, and where its results are.
struct Layout {
    shape: Shape,
    /// Where each row of each block begins: results of a lane before it times their lanes, and its first lane. No shape has more rows.
    places: [u16; LANES],
}

impl Layout {
    const fn new(shape: Shape) -> Layout {
        let mut places = [0; LANES];
        let mut at = 0;
        while at < shape.results() * LANES {
            let (block, row, column) = shape.result(at / LANES, at % LANES);
            if column == 0 {
                places[block * shape.m + row] = at as u16;
            }
            at += 1;
        }
        Layout { shape, places }
    }

    /// Of a row of a block.
    fn place(&self, block: usize, row: usize) -> u16 {
        self.places[(block * self.shape.m + row) % LANES]
    }
}
