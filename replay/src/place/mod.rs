//! Memory at the addresses that it had.
//!
//! The runtime takes addresses from the kernel, which gives the highest gap between the process's mappings that is large
//! enough. So the addresses that are wanted are kept free from before the runtime starts ([`Reserved`]), and while memory
//! is allocated every gap but the wanted one is filled ([`Reserved::steer`]). It is memory of the captured kind then, on
//! every version of the runtime, whether that can map memory at given addresses or not.

mod maps;
mod plan;
mod steer;

pub use maps::{Mapping, Maps};
pub use plan::{MemoryRequest, PAGE, blocks, regions};
pub use steer::Reserved;
