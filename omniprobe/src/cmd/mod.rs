//! One file for each subcommand.

pub(crate) mod analyze;
pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod captured;
mod captures;
mod check;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod extract;
pub(crate) mod fsck;
pub(crate) mod info;
pub(crate) mod input;
pub(crate) mod isa;
mod kind;
mod left;
mod listing;
pub(crate) mod log;
pub(crate) mod manual;
mod output;
pub(crate) mod progress;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod summary;
pub(crate) mod trace;
pub(crate) mod tune;
mod worker;

pub(crate) use output::{file, lines, printable, tell};
