//! Replays captured dispatches, and proves that they compute what the application got.
//!
//! A [`CapturedDispatch`](logdur_captured::CapturedDispatch) is one dispatch of a capture with all that it needs. [`replay()`] puts
//! its memory at the addresses that it had, its code beside it, and runs it on a queue of its own. It compares what the dispatch wrote
//! with what the application's own dispatch wrote ([`logdur_captured::verify`]). It is a plain HSA program: the runtime is opened in
//! this process, on whatever device there is. Or there is no runtime, and the emulated GPU runs it ([`logdur_captured::Backend`]).
//!
//! PASS means: every captured byte was at its address, the same code ran, and each byte that it wrote equals the application's. Every
//! weaker result must have another word. This crate must never replay anything else without saying so.

mod accesses;
pub mod bench;
mod calls;
mod contents;
mod device;
mod dirty;
mod error;
mod filled;
mod geometry;
mod hostcall;
mod judge;
mod loaded;
mod masks;
mod memory;
mod observed;
pub mod place;
mod placed;
mod process;
mod reach;
mod refilled;
pub mod region;
mod relocations;
mod replacement;
mod replay;
mod setup;
pub mod stats;
pub mod tune;
mod variants;

pub use device::{Description, STUCK_SECONDS, Times, emulated_processors};
pub use error::{Fault, ReplayError, Result};
pub use geometry::Geometry;
pub use loaded::{COMPARED, Variant};
pub use observed::{CalledCode, Named, Observed, emulated_processor, named, observed};
pub use process::{address_limit, leave, worker};
pub use replacement::{Replacement, Which};
pub use replay::{Options, Repetition, Report, Whose, replay};
pub use setup::{MASK_LIMIT, REGION_MASK_LIMIT, Setup};
pub use variants::{Ran, Trials, Variants};
