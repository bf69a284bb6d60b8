//! Copies between host and GPU go through one piece of memory that both see.

/// Bytes that are copied at once.
pub(super) const STAGING: usize = 4 << 20;

/// A part of a piece of memory that is copied through the staging memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StagedCopy {
    /// The number of the piece, and where in it.
    pub(super) piece: usize,
    pub(super) at: usize,
    /// Where in the staging memory.
    pub(super) staged: usize,
    /// Its address on the GPU.
    pub(super) address: u64,
    pub(super) bytes: usize,
}

/// Cuts pieces, given as address and length, into batches of parts that each fill the staging memory.
pub(super) fn batches(pieces: impl Iterator<Item = (u64, usize)>) -> Vec<Vec<StagedCopy>> {
    let (mut all, mut now, mut staged) = (Vec::new(), Vec::new(), 0);
    for (piece, (start, length)) in pieces.enumerate() {
        let mut at = 0;
        while at < length {
            if staged == STAGING {
                all.push(std::mem::take(&mut now));
                staged = 0;
            }
            let bytes = (length - at).min(STAGING - staged);
            now.push(StagedCopy { piece, at, staged, address: start + at as u64, bytes });
            at += bytes;
            staged += bytes;
        }
    }
    all.push(now);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fill_the_staging_memory_and_none_is_cut_without_need() {
        let large = STAGING + 3;
        let all = batches([(0x1000, 8), (0x2000, large), (0x9000, 0)].into_iter());
        let part = |piece, at, staged, address, bytes| StagedCopy { piece, at, staged, address, bytes };
        let rest = STAGING - 8;
        assert_eq!(all[0], [part(0, 0, 0, 0x1000, 8), part(1, 0, 8, 0x2000, rest)]);
        assert_eq!(all[1], [part(1, rest, 0, 0x2000 + rest as u64, 11)]);
        assert_eq!(all.len(), 2);
    }
}
