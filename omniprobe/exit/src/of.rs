//! The statuses of results and errors of libraries.

use amdgpu_listing::ListingError;
use logdur_capture::CaptureError;
use logdur_captured::CapturedError;
use logdur_captured::diff::Diff;
use logdur_captured::verify::Overall;

use crate::Exit;

impl From<&CapturedError> for Exit {
    fn from(error: &CapturedError) -> Exit {
        match error {
            // Of a damaged file, the damage is the error.
            CapturedError::Capture(
                CaptureError::NoSnapshot(_)
                | CaptureError::NoCodeObject(_)
                | CaptureError::NotCaptured { .. }
                | CaptureError::NoChunk { .. },
            ) => Exit::Incomplete,
            CapturedError::Capture(_) | CapturedError::CodeObject { .. } | CapturedError::Region { .. } => {
                Exit::Corrupt
            }
            CapturedError::Usage { .. } | CapturedError::File { .. } | CapturedError::Output(_) => Exit::Usage,
            CapturedError::Listing(error) => error.into(),
            CapturedError::Incomplete { .. } | CapturedError::IncompleteRegion { .. } | CapturedError::Empty { .. } => {
                Exit::Incomplete
            }
            CapturedError::Pages { .. } => Exit::Placement,
            CapturedError::Unsupported(_) => Exit::Unsupported,
        }
    }
}

impl From<&ListingError> for Exit {
    fn from(error: &ListingError) -> Exit {
        match error {
            ListingError::CodeObject { .. } => Exit::Corrupt,
            ListingError::Unsupported(_) => Exit::Unsupported,
            _ => Exit::Usage,
        }
    }
}

impl From<Overall> for Exit {
    fn from(overall: Overall) -> Exit {
        match overall {
            Overall::Pass => Exit::Success,
            Overall::Fail | Overall::NotReproduced => Exit::Mismatch,
            Overall::Inconclusive => Exit::Inconclusive,
            Overall::NothingWritten => Exit::NothingToCompare,
            Overall::NoReference => Exit::Incomplete,
        }
    }
}

impl From<&Diff> for Exit {
    fn from(diff: &Diff) -> Exit {
        match () {
            () if diff.differs() => Exit::Mismatch,
            () if !diff.missing.is_empty() => Exit::Incomplete,
            () => Exit::Success,
        }
    }
}

#[cfg(test)]
mod tests {
    use logdur_capture::SnapshotId;

    use super::*;

    #[test]
    fn what_a_replay_lacks_is_told_apart_from_what_it_was_given_wrongly() {
        let refused = CapturedError::Unsupported("hidden_hostcall_buffer".to_owned());
        assert_eq!(Exit::from(&refused), Exit::Unsupported);
        let taken = CapturedError::Pages { address: 0x1000, length: 1, why: "taken".to_owned() };
        assert_eq!(Exit::from(&taken), Exit::Placement);
        assert_eq!(Exit::from(&CapturedError::Capture(CaptureError::NoSnapshot(SnapshotId(1)))), Exit::Incomplete);
    }
}
