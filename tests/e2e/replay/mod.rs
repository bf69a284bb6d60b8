//! Captured dispatches that run again. Another ROCm changes little here.

mod alone;
mod bench;
mod bisect;
mod bisect_of_much;
mod chain;
mod counters;
mod damage;
mod diff;
mod layouts;
mod minimize;
mod mutants;
pub(crate) mod mutations;
pub(crate) mod region;
pub(crate) mod region_of_a_program;
mod regions_lacking;
mod regions_together;
mod stacks;
mod trim;
mod tune;
pub(crate) mod verify;
