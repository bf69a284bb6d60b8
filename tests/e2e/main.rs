//! End to end: the real ROCm runtime, HIP and HSA programs, `liblogdur.so` and `omniprobe`, on the emulated GPU or, with
//! `LOGDUR_TEST_DEVICE=real`, on hardware.
//!
//! Run by `cargo xtask test`, which builds what is tested here.

mod bed;
mod captures;
mod compare;
mod launch;
mod log;
mod unwritable;
mod versions;

mod alone;
mod app_signals;
mod bench;
mod capture;
mod code_objects;
mod costs;
mod crash;
mod diff;
mod durations;
mod emulator;
mod errors;
mod guest;
mod hardware;
mod hip;
mod hostile;
mod launcher;
mod listing;
mod machine;
mod mapped;
mod mutants;
mod names;
mod neighbours;
mod opencl;
mod openmp;
mod oracles;
mod output;
mod queues;
mod replay;
mod self_test;
mod summary;
mod swap;
mod textures;
mod together;
mod tools;
mod trace;
mod triton;
mod tune;
mod twins;
mod variables;
