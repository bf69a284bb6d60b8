//! Models of what kernels do to the hardware. They know no device: numbers and addresses come from an observer of the
//! emulated GPU, or from messages of instrumented kernels.
//!
//! Each computation says whether it is exact or a model.

pub mod banks;
pub mod blocks;
pub mod forms;
pub mod hazards;
pub mod issue;
pub mod lines;
pub mod liveness;
pub mod occupancy;
pub mod operations;
pub mod processor;
pub mod roofline;
