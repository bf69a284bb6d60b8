//! The log of a run: rows, their times and columns, and what becomes of them when something fails.

mod attach;
mod columns;
mod copies;
mod crash;
mod durations;
mod ends;
mod load;
mod markers;
mod output;
mod ranks;
mod records;
mod served;
mod sites;
mod threads;
mod unwritable;
mod when;
