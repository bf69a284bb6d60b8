//! Places memory at its captured addresses.
//!
//! The Linux kernel gives the runtime the highest gap between mappings that is large enough. So the wanted addresses are reserved
//! before the runtime starts ([`Reserved`]), and all other gaps are filled during an allocation ([`Reserved::steer`]). In this way,
//! memory has the captured kind on every version of the runtime, even if that version cannot map memory at given addresses.

mod maps;
mod steer;

pub use maps::{Mapping, Maps};
pub use steer::Reserved;
