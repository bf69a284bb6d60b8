//! The machine around the waves of an AMD GPU: dispatches, workgroups, AQL and SDMA queues, memory, signals, clock.
//!
//! What this crate must do: take packets as hardware does, execute kernels for real, and report everything that it
//! cannot do to the [`driver::Driver`]. What it must never do: decide anything by a kernel's name, or skip what it does not know.
//!
//! It knows nothing of the kernel driver's interface; `kfd-emu` puts that around it.

pub mod clock;
mod code;
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
mod symbol;
mod watch;
mod workgroup;

/// Instructions: tables, decoder, disassembler.
pub use amdgpu_isa as isa;
pub use amdgpu_isa::Arch;
pub use amdgpu_isa::wave::Trap;
pub use engine::Engine;
pub use gpu::Gpu;
pub use registers::{PRIVATE_APERTURE_HI, SHARED_APERTURE_HI};
pub use shape::Shape;

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex; a panic of another thread while it held the lock does not stop the machine.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
