//! The machine around the waves of an AMD GPU: dispatches, workgroups, AQL and SDMA queues, memory, signals, clock.
//!
//! This crate takes packets as hardware does, executes kernels for real, and reports everything that it cannot do to the
//! [`driver::Driver`]. It never decides anything by a kernel's name, and never skips what it does not know.
//!
//! It knows nothing of the kernel driver's interface; `kfd-emu` puts that around it.

pub mod clock;
mod code;
mod counters;
pub mod dispatch;
pub mod driver;
pub mod engine;
mod fill;
pub mod gpu;
mod gws;
pub mod inject;
pub mod launch;
mod machine;
pub mod memory;
pub mod observer;
pub mod queue;
mod registers;
mod schedule;
mod shape;
mod signal;
mod spread;
mod symbol;
mod units;
mod watch;
mod workgroup;

/// Instructions: tables, decoder, disassembler.
pub use amdgpu_isa as isa;
pub use amdgpu_isa::Arch;
pub use amdgpu_isa::wave::Trap;
pub use engine::Engine;
pub use gpu::Gpu;
use logdur_system::lock;
pub use registers::{PRIVATE_APERTURE_HI, SHARED_APERTURE_HI};
pub use shape::{Dies, Shape};
