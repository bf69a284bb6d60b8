//! Files of rocprofiler-sdk's tools: rows of logs as a database of rocpd ([`mod@write`]), and databases of rocpd ([`database`]) and tables
//! of `rocprofv3` ([`trace`]) as lines of a log.
//!
//! A database has a table for each subject, with the number of the export in its name, and a view with the plain name over it: tools
//! that merge databases make these views over the tables of all. Source of tables and columns: version 3 of the schema, in
//! `share/rocprofiler-sdk-rocpd` of rocprofiler-sdk (rocm-systems, 2026).

pub mod counters;
pub mod database;
mod lines;
mod schema;
pub mod trace;
pub mod write;

pub use lines::Lines;

/// Why a file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RocprofError {
    /// SQLite refuses.
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] logdur_report::ReadError),
    /// A table cannot be read.
    #[error(transparent)]
    Table(#[from] csv::Error),
    /// A file or a pipe gives an error.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is a database of something else, or of another version.
    #[error("expected a database of rocpd with schema version {VERSION}, found {0}", VERSION = schema::VERSION)]
    Schema(String),
    /// A cell of a table.
    #[error("line {line}: expected {expected} in {column}, found {found:?}")]
    Cell {
        /// From 1.
        line: u64,
        /// The column's name.
        column: &'static str,
        /// What it has in each row.
        expected: &'static str,
        /// The beginning of what is there.
        found: String,
    },
}
