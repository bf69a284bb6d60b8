//! Parts of a region that have certain steps.

use super::{Part, Region};

impl Region<'_> {
    /// The shortest part whose memory before is known and that has these steps: from the nearest checkpoint before the first on.
    pub fn spanning(&self, first: u64, last: u64) -> Part {
        let at = self.checkpoints.iter().rfind(|checkpoint| checkpoint.sequence < first);
        let last = self.with_meanwhile(last);
        Part {
            first: at.map_or(1, |at| at.sequence + 1),
            last,
            start: at.map(|at| at.snapshot),
            reference: self.reference(last),
        }
    }
}
