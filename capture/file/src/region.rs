//! What the records of regions refer to.

use std::collections::HashSet;
use std::fmt;

use crate::id::Id;
use crate::records::{Dispatch, FramePosition, Records, SnapshotId};

/// A record of a region, by what it needs of the file.
pub(crate) struct Reference<'r> {
    name: &'static str,
    region: u64,
    /// The step that it is about.
    sequence: Option<u64>,
    snapshot: Option<SnapshotId>,
    dispatch: Option<&'r Dispatch>,
}

impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sequence {
            Some(sequence) => write!(f, "{} {sequence} of region {}", self.name, self.region),
            None => write!(f, "{} of region {}", self.name, self.region),
        }
    }
}

/// What records of regions refer to, and where these records are.
pub(crate) fn references(records: &Records) -> impl Iterator<Item = (FramePosition, Reference<'_>)> {
    let steps = records.steps.iter().map(|step| {
        let about = Reference {
            name: "step",
            region: step.region,
            sequence: Some(step.sequence),
            snapshot: step.delta,
            dispatch: step.dispatch.as_ref(),
        };
        (step.place, about)
    });
    let checkpoints = records.checkpoints.iter().map(|at| {
        let about = Reference {
            name: "the checkpoint after step",
            region: at.region,
            sequence: Some(at.sequence),
            snapshot: Some(at.snapshot),
            dispatch: None,
        };
        (at.place, about)
    });
    let ends = records.region_ends.iter().map(|end| {
        let about =
            Reference { name: "the end", region: end.region, sequence: None, snapshot: end.after, dispatch: None };
        (end.place, about)
    });
    steps.chain(checkpoints).chain(ends)
}

impl Reference<'_> {
    /// What it refers to and the file does not have.
    pub(crate) fn lacks(
        &self,
        regions: &HashSet<u64>,
        has: &dyn Fn(SnapshotId) -> bool,
        kernels: &HashSet<u64>,
        objects: &HashSet<Id>,
    ) -> Vec<String> {
        let mut lacks = Vec::new();
        if !regions.contains(&self.region) {
            lacks.push(format!("region {}", self.region));
        }
        lacks.extend(self.snapshot.filter(|id| !has(*id)).map(|id| format!("snapshot {}", id.0)));
        if let Some(dispatch) = self.dispatch {
            lacks.extend(code_lacks(dispatch, kernels, objects));
        }
        lacks
    }
}

/// The kernel and the code object of a dispatch, if the file does not have them.
pub(crate) fn code_lacks(dispatch: &Dispatch, kernels: &HashSet<u64>, objects: &HashSet<Id>) -> Vec<String> {
    let mut lacks = Vec::new();
    if dispatch.kernel != 0 && !kernels.contains(&dispatch.kernel) {
        lacks.push(format!("kernel {}", dispatch.kernel));
    }
    if !dispatch.code_object.is_none() && !objects.contains(&dispatch.code_object) {
        lacks.push(format!("code object {}", dispatch.code_object));
    }
    lacks
}
