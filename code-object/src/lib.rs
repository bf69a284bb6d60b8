//! AMD GPU code objects: what is in them, and where they are kept.
//!
//! [`container::entries`] finds code objects in bare ELFs, offload bundles (compressed or not), programs and libraries,
//! and reads no more of a file than headers. [`CodeObject::parse`] turns the bytes of one into its kernels with their
//! arguments, its globals and its target; [`Image`] has its code and its sections.
//!
//! What this crate must do: say what the bytes say, for every version of the ABI from 2 to 6, and keep by name what it
//! does not know. What it must never do: input and output of its own, calls of the HSA runtime, panic or take memory
//! without bound on any input.
//!
//! Sources: LLVM's AMDGPUUsage for the ELF and its metadata, clang's "Offload Bundler" page for bundles, the ELF
//! specification.

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

mod code;
pub mod container;
mod data;
mod descriptor;
mod document;
mod elf;
mod error;
mod global;
mod kernel;
pub mod load;
mod may_write;
mod metadata;
mod msgpack;
mod object;
mod rewrite;
mod source;
mod target;
mod value;
mod value_kind;
mod words;
mod yaml;

pub use code::{Function, KernelBytes};
pub use data::{AddressBits, DataKind, DataRange, InnerData, LinkedAddress, StoredAddress};
pub use descriptor::Descriptor;
pub use elf::Image;
pub use error::{Result, Unreadable};
pub use global::{AddressTaken, Global, GlobalKind};
pub use kernel::{Access, AddressSpace, Argument, Kernel, KernelKind};
pub use may_write::{Arguments, MayWrite};
pub use object::{Abi, CodeObject};
pub use rewrite::rewrite;
pub use source::{NO_MEMORY, Source, zeroed};
pub use target::{Setting, Target};
pub use value::Value;
pub use value_kind::ValueKind;
