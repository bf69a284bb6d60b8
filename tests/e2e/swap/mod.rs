//! Kernels that run in place of others.

mod kernels;
mod together;
mod unsafe_swaps;
mod variables;
