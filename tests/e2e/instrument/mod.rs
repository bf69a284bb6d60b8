//! Instrumented kernels, and handlers of their messages.

pub(crate) mod accesses;
mod handlers;
pub(crate) mod kernels;
pub(crate) mod mode;
