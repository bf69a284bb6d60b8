//! Dispatch records: what is kept of a dispatch from the moment its packet is given to the GPU until its row is written.
//!
//! They are in a file that is mapped into the process (see [`layout`]), so that they outlive it: [`store`] is the
//! process's side, [`snapshot`] reads a file, and [`recover`] writes the rows that the process could not. Rows are made
//! here for both ([`columns`], [`lines`]).

pub mod account;
pub mod appended;
pub mod clock;
pub mod columns;
pub mod compare;
pub mod copies;
pub mod filter;
pub mod layout;
pub mod left;
pub mod lines;
pub mod markers;
pub mod names;
pub mod packed;
pub mod pages;
pub mod process;
mod record;
pub mod recover;
pub mod rows;
pub mod snapshot;
pub mod store;

pub use filter::{Choice, Filter, RowFilter};
pub use names::{Kernel, Naming, Operation, Registers};
pub use process::Process;
pub use record::{BLOCK_BYTES, BLOCK_RECORDS, Block, Fate, Record, Shape, State, Times, flag};
pub use store::{Origin, Records};
