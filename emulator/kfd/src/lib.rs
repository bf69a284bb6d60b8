//! `libkfdemu.so`: the AMD GPU kernel driver in user space.
//!
//! Loaded with `LD_PRELOAD`, it serves `/dev/kfd`, `/dev/dri/renderD*` and the parts of sysfs that the ROCm runtime
//! reads. Devices are memory files that are told by their inode; every `mmap` offset that the runtime is given is a real
//! offset in such a file, so mapping, duplicating and closing them is left to the kernel. Offsets of another process's
//! memory are the exception.
//!
//! What it must do: behave to the real runtime as the driver does, report what it does not implement. What it must
//! never do: print (but to its log), change a process that does not open the device, or let a panic reach C.

// Loaded into processes of others.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod board;
mod buffer;
mod device;
mod dmabuf;
mod entries;
mod event;
pub mod exports;
mod heap;
mod host;
mod ioctl;
mod memfile;
mod paths;
mod plan;
mod process_log;
mod product;
pub mod progress;
mod queue;
mod readings;
mod runtime;
mod shared;
mod state;
mod svm;
mod sysfs;
mod trace;
mod tree;
mod uapi;
mod usage;

use logdur_system::lock;

/// An error number of the C library.
type Errno = i32;
