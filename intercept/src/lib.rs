//! Watches the packets of HSA queues: records each dispatch, times it by its completion signal, and holds queues.
//!
//! ```text
//! app thread ── packets ──► queue (one of its ways) ──► dispatch: own signal, record ──► real queue
//! GPU ── completion ──► reaper: ticks into the record, signal back to the pool
//! ```
//!
//! The crate knows nothing of logs, kernel caches or captures. A feature implements some of the traits in [`ports`]; the
//! program that loads this crate puts features together in [`Ports`]. A port without a feature costs a comparison.
//!
//! Code here runs in processes of others: it allocates nothing, waits for no lock and makes no system call on the thread that
//! publishes packets, but where a comment says why.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

pub mod address_map;
pub mod backtrace;
pub mod blocks;
pub mod cache_line;
pub mod calls;
pub mod clock;
mod decrements;
mod dispatch;
mod events;
mod guard;
pub mod host_clock;
pub mod interceptor;
pub mod kernarg_ring;
pub mod library;
pub mod lifetime;
pub mod packing;
mod pending;
pub mod progress;
pub mod queue;
pub mod reaper;
mod signals;
mod stack;
mod sync;
pub mod thread;
pub mod units;
pub mod wake;
pub mod watch;
pub mod window;

pub use guard::guard;
pub use interceptor::Interceptor;
pub use interceptor::ports::{self, Ports};
pub use stack::guard_large;
