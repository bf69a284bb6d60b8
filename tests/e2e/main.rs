//! End to end: the real ROCm runtime, HIP and HSA programs, `liblogdur.so` and `omniprobe`, on the emulated GPU or, with
//! `LOGDUR_TEST_DEVICE=real`, on hardware.
//!
//! Run by `cargo xtask test`, which builds what is tested here.

mod accesses;
mod captures;
mod compare;
mod harness;
mod launch;
mod log;
mod unwritable;
mod versions;

mod alone;
mod analyze;
mod app_signals;
mod bench;
mod browser;
mod capture;
mod code_objects;
mod columns;
mod copies;
mod costs;
mod crash;
mod diff;
mod durations;
mod emulator;
mod ends;
mod errors;
mod escapes;
mod formats;
mod guest;
mod hardware;
mod hip;
mod holds;
mod hostile;
mod instrumented;
mod instrumented_kernels;
mod launcher;
mod listing;
mod load;
mod machine;
mod mapped;
mod markers;
mod mutants;
mod mutations;
mod names;
mod neighbours;
mod opencl;
mod openmp;
mod oracles;
mod output;
mod queues;
mod ranks;
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
mod variables;
