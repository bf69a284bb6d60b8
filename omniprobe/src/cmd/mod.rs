//! One file for each subcommand.

pub(crate) mod cache;
pub(crate) mod doctor;
pub(crate) mod log;
pub(crate) mod run;
