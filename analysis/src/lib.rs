//! Models of what kernels do to the hardware. They know no device: numbers and addresses come from whoever saw them, an
//! observer of the emulated GPU or messages of instrumented kernels.
//!
//! What is exact and what is a model is said where it is computed.

pub mod banks;
pub mod blocks;
pub mod lines;
pub mod occupancy;
pub mod operations;
pub mod processor;
