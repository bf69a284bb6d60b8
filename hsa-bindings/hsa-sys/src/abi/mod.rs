//! What the runtime, the application and the GPU share in memory.

pub mod aql;
pub mod kernel_descriptor;
pub mod queue;
pub mod queue_description;
pub mod signal;
