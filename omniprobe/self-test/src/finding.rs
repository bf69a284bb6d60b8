//! The findings of a check: figures, and facts that differ from the interceptor's needs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::device::DeviceError;

/// What one process of a check found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// What does not hold: a sentence each.
    pub broken: Vec<String>,
    /// Why there is nothing to say, if there is not.
    pub not_applicable: Option<String>,
    /// Measured and read values, by name; names end in their unit.
    pub figures: Map<String, Value>,
}

impl Findings {
    /// There is nothing to say for a reason.
    pub(crate) fn not_applicable(reason: impl Into<String>) -> Findings {
        Findings { not_applicable: Some(reason.into()), ..Findings::default() }
    }

    /// Notes a value.
    pub(crate) fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.to_owned(), value.into());
    }

    /// Notes what is broken unless `holds`.
    pub(crate) fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(otherwise());
        }
    }
}

/// What a check does in a process of its own.
pub(crate) type Body = fn(&crate::Site) -> Result<Findings, CheckError>;

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The runtime.
    #[error(transparent)]
    Hsa(#[from] hsa::HsaError),
    /// A file of the check.
    #[error("{what}: {error}")]
    File {
        /// Which.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
    /// The log of the library.
    #[error("the log of the library: expected {expected}, found {found:?}")]
    Log {
        /// What was expected.
        expected: &'static str,
        /// The beginning of what was found.
        found: String,
    },
}

/// The middle of some durations in nanoseconds, and the one that 99 of 100 are not above; 0 of none.
pub(crate) fn median_and_99th(values: &mut [u64]) -> (u64, u64) {
    values.sort_unstable();
    let at = |part: usize| values.get((values.len().saturating_sub(1)) * part / 100).copied().unwrap_or(0);
    (at(50), at(99))
}
