//! Captured memory and where it is on a device, and the pages of it that differ.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Some captured memory, and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedRange {
    /// As the application had it.
    pub(crate) captured: Range<u64>,
    /// The first byte's address now.
    pub(crate) placed: u64,
}

/// Pages that are not as they were before, by the captured address of their first byte: whole pages, but where an area
/// begins or ends in one.
pub(crate) type Pages = BTreeMap<u64, Arc<[u8]>>;
