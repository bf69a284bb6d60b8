//! Replays captured dispatches, and proves that they compute what the application got.
//!
//! A [`CapturedDispatch`] is one dispatch of a capture with all that it needs. [`replay()`] puts its memory at the addresses that it had,
//! its code beside it, runs it on a queue of its own, and compares what it wrote with what the application's own dispatch
//! wrote ([`verify`]). It is a plain HSA program: the runtime is opened in this process, on whatever device there is; or there is
//! no runtime at all, and the emulated GPU is asked directly ([`Backend`]).
//!
//! PASS means: every captured byte was at its address, the same code ran, and each byte that it wrote equals the application's. Every
//! weaker result must have another word. This crate must never replay anything else without saying so.

pub mod bench;
mod buffers;
mod calls;
mod captured;
mod contents;
mod device;
pub mod diff;
mod dirty;
mod divided;
mod error;
mod exit;
pub mod extract;
mod geometry;
mod hostcall;
mod judge;
mod kernarg;
mod loaded;
mod memory;
mod npy;
mod observed;
pub mod place;
mod placed;
mod process;
mod reach;
mod relocations;
mod replacement;
mod replay;
mod setup;
pub mod stats;
pub mod tune;
mod variants;
pub mod verify;

pub use buffers::buffers;
pub use captured::{Argument, CapturedDispatch, Code, Pointer, lacks, original, packet, runtime, symbol};
pub use device::{Backend, Description, Times, emulated_processors};
pub use divided::{Bounds, Divided, divided};
pub use error::{Fault, ReplayError, Result};
pub use exit::Exit;
pub use geometry::Geometry;
pub use loaded::{COMPARED, Variant};
pub use observed::{CalledCode, Named, Observed, emulated_processor, named, observed};
pub use process::{leave, worker};
pub use replacement::{Replacement, Which};
pub use replay::{Options, Repetition, Report, Whose, replay};
pub use setup::{MASK_LIMIT, Setup};
pub use variants::{Ran, Variants};
