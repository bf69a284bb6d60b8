//! Captures that are written, cut off, damaged, killed, and read again.

mod crash;
mod damage;
mod exercise;
mod full_disk;
mod harness;
mod memory;
mod mutants;
mod newer;
mod old_versions;
mod regions;
mod sizes;
mod store;
mod threads;
