//! What the rows of logs come to: totals by kernel, shape, queue, GPU or log, and how two runs compare.
//!
//! [`rows`] reads lines of both formats, [`summary`] adds them up, and [`against`] compares two runs.
//! [`timeline`] puts dispatches onto tracks, which [`perfetto`] and [`chrome`] write as files. Totals are exact:
//! [`durations`] and [`busy`] keep every value, in a form that holds ten million rows in memory.

pub mod against;
pub mod busy;
pub mod chrome;
pub mod columns;
pub mod durations;
pub mod export;
pub mod gpus;
pub mod page;
mod pairs;
pub mod perfetto;
mod processes;
pub mod profile;
pub mod rows;
pub mod short;
pub mod summary;
pub mod table;
pub mod timeline;
mod twins;
pub mod wall;

pub use processes::{LastRun, last_run};
pub use rows::{Line, Log, ReadError, Row};
pub use summary::{By, Summary};
