//! Observers of the emulated GPU: what each analysis and each check of a dispatch needs to see.
//!
//! An observer is a file here and a row in a table below, of which options, help and documents are made. It counts, or keeps a
//! shadow of what the waves do; what that means for the hardware is in `logdur-analysis`. The row of a check names its
//! `Checker`, by which it is called.
//!
//! # Threads
//! Each worker of the emulated GPU has counts of its own. They are merged when the dispatch ends, so that no total depends on
//! threads. Shadows belong to a workgroup.

#[macro_use]
mod check;

mod allowed;
mod barrier;
mod bounds;
mod by_pc;
pub mod counters;
pub mod counts;
pub mod finding;
mod forms;
mod hazard;
pub mod heat;
mod init;
pub mod lds;
pub mod lines;
mod outstanding;
mod pages;
pub mod peak;
mod race;
mod registers;
pub mod report;
pub mod seen;
mod session;
mod wait;
mod worst;

pub use allowed::Divided;
pub use logdur_analysis::roofline::table as peaks;
pub use seen::Looked;
pub use session::{Sample, Session};
pub use worst::Worst;

/// Makes the analyses, or the checks, of one table.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $( $variant:ident $word:literal $says:literal; )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $( #[doc = $says] $variant, )*
        }

        impl $name {
            /// All, in the order of reports.
            pub const ALL: &[$name] = &[$( $name::$variant ),*];

            /// The word of the command line.
            pub const fn word(self) -> &'static str {
                match self { $( $name::$variant => $word, )* }
            }

            /// All, as a table of Markdown.
            pub fn table() -> String {
                let row = |row: &$name| format!("| `{}` | {} |\n", row.word(), row.says());
                let rows: String = $name::ALL.iter().map(row).collect();
                format!("| word | what it tells |\n|---|---|\n{rows}")
            }

            /// What it tells, for people.
            pub const fn says(self) -> &'static str {
                match self { $( $name::$variant => $says, )* }
            }
        }
    };
}

table! {
    /// What is analysed.
    Analysis {
        Mix "mix" "executed instructions by kind, operations of floats and of dot products by type, active lanes";
        Blocks "blocks" "basic blocks, edges between them, and divergence";
        Lines "lines" "cache lines and distinct bytes of each access to memory";
        Lds "lds" "bank conflicts of LDS accesses";
        Heat "heat" "accesses to each part of each buffer, and parts that workgroups share";
        Occupancy "occupancy" "waves of a SIMD, and the resource that limits them";
    }
}

/// Makes the checks: the rows of a table, and what holds the [`check::Checker`] that each row names.
macro_rules! checks {
    ($( $variant:ident $word:literal $says:literal $module:ident::$checker:ident; )*) => {
        table! {
            /// What is checked.
            Check { $( $variant $word $says; )* }
        }

        checkers! { $( $variant $module $checker; )* }
    };
}

checks! {
    Memory "memory" "accesses outside of all buffers, of the workgroup's LDS, or of the lane's scratch"
        bounds::Memory;
    Init "init" "addresses, branches, active lanes and stored values that depend on registers, LDS or scratch that nothing has written"
        init::Init;
    Race "race" "accesses of two waves to the same bytes of LDS or memory, of which one writes, and that nothing orders"
        race::Races;
    Wait "wait" "registers that are used before s_waitcnt has waited for the load that writes them"
        wait::Waits;
    Hazard "hazard" "instructions that follow another one too early: wait states that the processor needs and that are missing"
        hazard::Hazards;
    Barrier "barrier" "barriers that some waves or lanes of a workgroup do not reach, or reach elsewhere"
        barrier::Barriers;
}

table! {
    /// Reports in omniprobe's forms.
    Analyzer {
        MemoryAnalysis "MemoryAnalysis" "L2 cache lines and LDS bank conflicts of each access of the source";
        Heatmap "Heatmap" "how many lanes accessed each page of memory";
        BasicBlockAnalysis "BasicBlockAnalysis" "how often waves enter each block, and with how many lanes";
    }
}

/// What a session observes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Analyses.
    pub analyses: Vec<Analysis>,
    /// Checks.
    pub checks: Vec<Check>,
    /// Bytes of the pages whose lanes are counted: a power of two.
    pub page: Option<u64>,
}

impl Wanted {
    /// True when an analysis is wanted.
    pub fn analyses(&self, analysis: Analysis) -> bool {
        self.analyses.contains(&analysis)
    }

    /// True when a check is wanted.
    pub fn checks(&self, check: Check) -> bool {
        self.checks.contains(&check)
    }
}
