//! Captures.

mod calls;
pub(crate) mod content;
mod holds;
mod mapped;
mod region;
mod reproduced;
mod store;
mod untouched;
