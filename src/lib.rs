//! `liblogdur.so`: the interceptor, loaded by ROCm's HSA runtime through `HSA_TOOLS_LIB`.
//!
//! ```text
//! app thread ── packets ──► queue (one of its ways) ──► dispatch: own signal, record ──► real queue
//! GPU ── completion ──► reaper: ticks into the record, signal back to the pool
//! records ──► log thread ──► rows
//! ```
//!
//! The library is a guest in a process. It prints to the application's stdout or stderr only if asked. It never aborts, never unwinds
//! across the C boundary, is never unloaded and installs no signal handler. A feature that fails turns itself off with one notice in
//! the log, and the application continues.

// Loaded into processes of others.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod asan;
mod capture;
mod code;
mod control;
mod copies;
mod descriptors;
mod diagnostics;
mod entry;
mod exit;
mod guarded;
mod heap;
mod hooks;
mod instrument;
mod kernels;
mod log;
mod markers;
mod not_loaded;
mod own_memory;
mod ports;
mod process;
mod records;
mod session;
mod stacks;
mod swap;
mod totals;
mod when;

pub use asan::__asan_default_options;
pub use entry::{HSA_AMD_TOOL_PRIORITY, OnLoad, OnUnload};
