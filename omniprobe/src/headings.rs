//! Headings of options in the help.

pub(crate) const LOG: &str = "Log";
pub(crate) const SWAP: &str = "Swap kernels";
pub(crate) const CAPTURE: &str = "Capture dispatches";
pub(crate) const DISPATCHES: &str = "Dispatches";
pub(crate) const SELF_TEST: &str = "Self-test";
pub(crate) const PLACE: &str = "Device and runtime";
pub(crate) const VARIANT: &str = "Other kernels and geometries";
pub(crate) const REPLAY: &str = "Replay";
pub(crate) const COMPARISON: &str = "Comparison";
pub(crate) const MEASUREMENT: &str = "Measurement";
pub(crate) const ANALYSIS: &str = "Analysis";
pub(crate) const GENERAL: &str = "General";
pub(crate) const INSTRUMENTED: &str = "Instrumented kernels";
