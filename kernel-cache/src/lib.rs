//! Folders of code objects, and whether a kernel in them may take the place of one that an application dispatches.
//!
//! [`Cache`] finds the kernels of folders by name, with an index that makes the next start fast. [`fit`] compares an
//! [`Interface`] with another and says either how to swap, or every reason why not; the reasons are one table ([`rules`]).
//!
//! This crate allows only swaps that are proven ABI-compatible; that the kernels compute the same is the user's claim. It names kernel,
//! file and reason of each refusal. It never calls the HSA runtime, never trusts an index that does not match its files, and never
//! panics on any file.
//!
//! Sources: LLVM's AMDGPUUsage for what kernels are told and how.

#![forbid(unsafe_code)]
// Loaded into processes of others, on bytes of anybody's.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice
)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod add;
mod cache;
mod candidate;
mod decision;
mod error;
mod file;
mod hash;
pub mod index;
mod interface;
mod kernarg;
pub mod likeness;
mod packet;
mod page;
mod root;
pub mod rules;
mod scan;
mod skim;
mod swap;
mod target;
mod triton;
mod trust;
pub mod twins;
mod variables;
mod walk;

pub use add::{Added, add};
pub use cache::{Cache, Indexing, Problem};
pub use candidate::{Candidate, Stamp};
pub use decision::{Choice, Decision, Pick};
pub use error::Unavailable;
pub use hash::{Hash, Prefix};
pub use index::index_folder;
pub use interface::{Common, Interface, Parameter};
pub use kernarg::{Copy, Fill, Kernarg, Layout, Move, What};
pub use packet::{Launch, LdsPointers, Limits, PacketFacts};
pub use page::page;
pub use rules::{Accepted, Fact, Reason, Refusal};
pub use skim::skim;
pub use swap::{Sizes, Swap, fit, fit_clone, fit_code};
pub use target::{members, runs_on};
pub use trust::Trust;
pub use variables::{Binding, Module, Modules, Patch, Patched};
