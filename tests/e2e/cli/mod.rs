//! The command line. Another ROCm changes little here.

mod browser;
mod escapes;
mod files;
mod formats;
mod hostile;
mod launcher;
mod listing;
mod names;
mod profile;
mod self_test;
mod summary;
pub(crate) mod trace;
