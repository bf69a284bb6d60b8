//! End to end: the real ROCm runtime, HIP and HSA programs, `liblogdur.so` and `omniprobe`, on the emulated GPU or, with
//! `LOGDUR_TEST_DEVICE=real`, on hardware.
//!
//! Run by `cargo xtask test`, which builds what is tested here.

mod analyze;
mod capture;
mod cli;
mod emulator;
mod instrument;
mod log;
mod replay;
mod runtime;
mod support;
mod swap;
