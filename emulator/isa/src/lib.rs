//! What one wave of an AMD GPU does: instruction tables, decoder, disassembler, registers, semantics.
//!
//! A row of the tables is an *operation*, not an encoding: its name, its opcode on each processor, the types of its
//! operands and what it does to one lane, in one line. Decoder, disassembler and coverage page derive from the rows.
//!
//! What this crate must do: compute what the hardware computes, for every instruction it accepts. What it must never
//! do: take words for an instruction that they are not, panic on any words or operand values, or touch anything
//! outside of a wave but through [`env::Env`].
//!
//! The feature `semantics` (the default) has what executes instructions. Without it, the tables, the decoder and the
//! disassembler are left: what a library in an application's process has of this crate.
//!
//! The only `unsafe` is the call of code that was compiled for the vector instructions that the host was found to have.

#![allow(clippy::needless_range_loop, reason = "a lane's number is an index into several arrays at once")]
#![cfg_attr(
    not(feature = "semantics"),
    allow(
        dead_code,
        unused_imports,
        reason = "what rows compute with stays in its files; nothing calls it, and linkers drop it"
    )
)]

#[cfg(feature = "semantics")]
pub mod access;
pub mod action;
pub mod arch;
pub mod arithmetic;
pub mod atomic;
#[cfg(feature = "semantics")]
pub mod block;
pub mod coverage;
pub mod decode;
pub mod disasm;
mod dpp;
pub mod env;
pub mod flow;
pub mod fp;
pub mod inst;
mod lane;
mod lanes;
pub mod micro;
pub mod mode;
pub mod op;
pub mod operand;
mod ops;
#[cfg(feature = "semantics")]
pub mod step;
pub mod uses;
pub mod wave;

pub use arch::Arch;
pub use decode::Decoder;

/// Every row of the tables, for listings.
pub fn rows() -> impl Iterator<Item = &'static op::Op> {
    ops::TABLES.iter().copied().flatten()
}
