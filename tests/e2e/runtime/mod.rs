//! The library between the application and the runtime.

mod app_signals;
mod costs;
mod errors;
mod guest;
mod hardware;
mod neighbours;
mod newest;
mod off;
pub(crate) mod queues;
