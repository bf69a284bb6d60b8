//! `liblogdur_markers.so`: is preloaded, and has the functions of ROCTx. They pass each range and mark to `liblogdur.so`, and each call
//! to the next library that has the function: another tool sees what it would see without this one.
//!
//! A range is passed on when it ends. What ends before the HSA runtime has loaded `liblogdur.so` waits here.
//!
//! # Threads
//! Any. No lock is held while another library is called, but for the function of `liblogdur.so` that watches ranges: it calls nothing back.

// Loaded into processes of others.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod open;
mod receiver;
mod roctx;
mod state;

pub use receiver::{logdur_markers_connect, logdur_markers_end, logdur_markers_open, logdur_markers_watch};
pub use roctx::{
    roctx_version_major, roctx_version_minor, roctxMarkA, roctxProfilerPause, roctxProfilerResume, roctxRangePop,
    roctxRangePushA, roctxRangeStartA, roctxRangeStop,
};
