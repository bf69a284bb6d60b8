//! What several packages need of the system that they run on: files and pipes, signals, locks, and texts that others made.

pub mod group;
mod lock;
pub mod marks;
pub mod network;
pub mod output;
pub mod path;
pub mod patient;
pub mod signals;
pub mod text;
pub mod trust;

pub use lock::lock;
