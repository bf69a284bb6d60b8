//! Tuning: a captured dispatch with other workgroups, grids and code, each compared before it is timed.
//!
//! [`Space`] enumerates configurations. [`prepare()`] compiles them and checks the kernel's limits. [`search()`] runs them on a
//! [`Runner`], and drops those that cannot be the best. [`Journal`] keeps the results, so a killed search continues where it was. At the
//! end, the best configuration runs once more, in alternation with the captured one.
//!
//! This module measures the captured configuration like all others, and keeps the reason of each configuration that was not measured.
//! It never calls a configuration the best without comparing its output, and never ends because one crashes.

mod best;
mod compile;
mod expression;
mod journal;
mod merged;
mod parameter;
mod prepare;
mod rerun;
mod search;
mod shard;
mod sources;
mod space;
mod subject;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

pub use best::{Best, ConfiguredDispatch};
pub use compile::{Compiling, Job, Template};
pub use expression::Expression;
pub use journal::{Identity, Journal};
pub use merged::Merged;
pub use parameter::{Parameter, Shape};
pub use prepare::{Prepared, prepare, sources};
pub use search::{Plan, Progress, Searched, Trial, search};
use serde::{Deserialize, Serialize};
pub use shard::Shard;
pub use sources::Sources;
pub use space::{Choice, Keep, Origin, Space};
pub use subject::Subject;
pub use table::write_csv;

use crate::geometry::Geometry;
use crate::stats::Summary;

/// What runs configurations of one dispatch.
pub trait Runner {
    /// Runs a configuration: verifies before it times. What it returns are the times of these repetitions only, as many
    /// as asked for; searches put them together. A configuration comes again when it needs more.
    fn run(&mut self, config: &Config, repetitions: u32) -> Outcome;

    /// True when times are those of an emulation; asked after the first run.
    fn emulated(&self) -> bool;

    /// Why it says less than it could that a configuration computes what the application got, one line each; asked after the
    /// first run.
    fn qualified(&self) -> Vec<String>;
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Its number; 0 is the captured configuration.
    pub number: usize,
    /// Parameters and their values.
    pub values: Vec<(String, String)>,
    /// What is other than in the captured dispatch.
    pub geometry: Geometry,
    /// Its sizes; `None` when they cannot be computed.
    pub sizes: Option<Sizes>,
    /// The file whose kernel runs; `None` for what ran in the application.
    pub code: Option<PathBuf>,
    /// The hash of that kernel's code object, where it is known.
    pub code_hash: Option<String>,
    /// What it was compiled with.
    pub command: Option<String>,
}

/// What is dispatched, in work-items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sizes {
    /// Of the grid.
    pub grid: [u32; 3],
    /// Of a workgroup.
    pub workgroup: [u32; 3],
}

/// What came of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// It computes what the application got, and takes so long.
    Measured {
        /// Of each repetition, on the GPU.
        gpu_ns: Vec<u64>,
        /// What they say.
        summary: Summary,
    },
    /// It computes something else.
    Mismatch {
        /// What, and where.
        text: String,
    },
    /// The application's own kernel is not deterministic, so that nothing can be said.
    Inconclusive {
        /// What differs.
        text: String,
    },
    /// Neither it nor the application's kernel wrote anything that can be seen.
    NothingWritten {
        /// That, in a word.
        text: String,
    },
    /// The capture does not have the memory after the kernel.
    NoReference {
        /// That, in a word.
        text: String,
    },
    /// The GPU reported a fault.
    Fault {
        /// Which.
        text: String,
    },
    /// It does not end.
    Hang {
        /// How long was waited.
        seconds: f64,
    },
    /// The process that ran it ended.
    Crash {
        /// How.
        text: String,
    },
    /// The kernel was not made for it.
    Invalid {
        /// Which limit, and what was asked for.
        text: String,
    },
    /// There is no code.
    CompileFailed {
        /// What the compiler said last.
        text: String,
    },
    /// The kernel may not take the captured one's place.
    Refused {
        /// Every reason.
        text: String,
    },
}

impl Outcome {
    /// Measured times; a [`Crash`](Outcome::Crash) when there are none.
    pub fn measured(gpu_ns: Vec<u64>) -> Outcome {
        match Summary::of(&gpu_ns) {
            Some(summary) => Outcome::Measured { gpu_ns, summary },
            None => Outcome::Crash { text: "expected times, found none".to_owned() },
        }
    }

    /// Measured times, and what they say.
    pub fn times(&self) -> Option<(&[u64], &Summary)> {
        match self {
            Outcome::Measured { gpu_ns, summary } => Some((gpu_ns, summary)),
            _ => None,
        }
    }

    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Measured { .. } => "measured",
            Outcome::Mismatch { .. } => "mismatch",
            Outcome::Inconclusive { .. } => "inconclusive",
            Outcome::NothingWritten { .. } => "nothing-written",
            Outcome::NoReference { .. } => "no-reference",
            Outcome::Fault { .. } => "fault",
            Outcome::Hang { .. } => "hang",
            Outcome::Crash { .. } => "crash",
            Outcome::Invalid { .. } => "invalid",
            Outcome::CompileFailed { .. } => "compile-failed",
            Outcome::Refused { .. } => "refused",
        }
    }

    /// Why there are no times; empty when there are.
    pub fn reason(&self) -> String {
        match self {
            Outcome::Measured { .. } => String::new(),
            Outcome::Hang { seconds } => format!("did not end within {seconds} s"),
            Outcome::Mismatch { text }
            | Outcome::Inconclusive { text }
            | Outcome::NothingWritten { text }
            | Outcome::NoReference { text }
            | Outcome::Fault { text }
            | Outcome::Crash { text }
            | Outcome::Invalid { text }
            | Outcome::CompileFailed { text }
            | Outcome::Refused { text } => text.clone(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Measured { .. } => f.write_str(self.word()),
            _ => write!(f, "{}: {}", self.word(), self.reason()),
        }
    }
}
