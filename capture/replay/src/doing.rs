//! Errors of the runtime, as those of a replay.

use hsa::HsaError;
use logdur_captured::{ReplayError, Result};

/// Says what the runtime was asked for when it refuses.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, HsaError> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| ReplayError::Runtime { doing: what(), source: source.into() })
    }
}
