//! Captured dispatches: what each of them has and lacks, its buffers, and how two of them differ.
//!
//! A [`CapturedDispatch`] is one dispatch of a capture with all that it needs. [`diff`] compares two of them, [`verify`] what a
//! kernel wrote with what another one wrote. A [`region`] is several dispatches in their order. Nothing here runs a kernel: that is for `logdur-replay`.

mod backend;
mod buffers;
pub mod diff;
mod dispatch;
mod divided;
mod error;
pub mod extract;
mod fewest;
pub mod kernarg;
mod npy;
pub mod region;
pub mod regions;
pub mod reproduce;
mod told;
mod trim;
pub mod verify;

pub use backend::Backend;
pub use buffers::{STACKS, buffers, nearest};
pub use dispatch::{
    Argument, Called, CapturedDispatch, Code, Companion, OwnData, Pointer, duration_ns, extent, lacks, name, original,
    packet, processor, runtime, symbol, without,
};
pub use divided::{Bounds, Divided, divided};
pub use error::{CapturedError, Result, with_causes};
pub use fewest::fewest;
pub use told::Told;
pub use trim::trim;
