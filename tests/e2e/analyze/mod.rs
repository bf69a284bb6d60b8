//! What captured dispatches do on the emulated GPU.

mod checks;
mod exact;
pub(crate) mod instructions;
mod ordered;
pub(crate) mod outstanding;
