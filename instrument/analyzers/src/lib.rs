//! `liblogdur_analyzers.so`: handlers of the messages of instrumented kernels, and source positions for all handlers.
//!
//! An analyzer is a type with `Analyzer`: what it keeps of one dispatch. `Each` makes a handler of it. Models of the hardware are in
//! `logdur-analysis`, instructions and source lines come from `amdgpu-listing`.

mod blocks;
mod code;
mod each;
mod heatmap;
mod logger;
mod memory;
mod sources;

use blocks::Blocks;
use each::Each;
use heatmap::Heatmap;
use logger::{Addresses, All, BlockStarts, Logger};
use memory::Memory;
pub use sources::logdur_sources;

logdur_handler::export!(
    Each<Heatmap>,
    Each<Memory>,
    Each<Blocks>,
    Each<Logger<All>>,
    Each<Logger<Addresses>>,
    Each<Logger<BlockStarts>>,
);
