//! The exit statuses of the command line: one table, of which `--help` and the page of statuses are made.

mod of;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// Makes the statuses and what is said of each from one list.
macro_rules! statuses {
    ($( $name:ident = $number:literal $word:literal $means:literal then $advice:literal; )*) => {
        /// How a subcommand of `omniprobe` ends. Numbers are never used again for something else.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Exit {
            $( #[doc = $means] $name = $number, )*
        }

        impl Exit {
            /// Every status, in the order of their numbers.
            pub const ALL: &[Exit] = &[$( Exit::$name ),*];

            /// Its name, for people and programs.
            pub const fn word(self) -> &'static str {
                match self { $( Exit::$name => $word, )* }
            }

            /// What it means: a sentence or two.
            pub const fn means(self) -> &'static str {
                match self { $( Exit::$name => $means, )* }
            }

            /// What to do about it: a sentence or two, in Markdown.
            pub const fn advice(self) -> &'static str {
                match self { $( Exit::$name => $advice, )* }
            }
        }
    };
}

statuses! {
    Success = 0 "success"
        "Done. Everything that was verified passed."
        then "Nothing. `result` is `PASS`, or `PASS (qualified)` with the reasons in `qualified`; with `--strict`, the latter is status 9.";
    Usage = 1 "usage"
        "The command line is wrong, or names something that is not there."
        then "Correct the command line. The message says what was expected and what was found.";
    Corrupt = 2 "corrupt"
        "The capture or the file of records cannot be read, or is damaged; a log lacks rows that it accounts for."
        then "`omniprobe fsck FILE` lists the damage of a capture. `--dispatch N` chooses dispatches that are whole.";
    Environment = 3 "environment"
        "The machine lacks a GPU like the captured one, a runtime, or memory."
        then "`omniprobe doctor` lists ROCm and GPUs. `--emulate ARCH`, `--backend emu` and `--rocm DIR` choose something else.";
    Placement = 4 "placement"
        "Memory could not be placed at the captured addresses."
        then "Run it again, with a larger `--place-retries` or without `--no-relocate`. `--backend emu` has every address.";
    Fault = 5 "fault"
        "The GPU reported a fault, or the process of a replay crashed."
        then "The message names the nearest buffer.";
    Mismatch = 6 "mismatch"
        "The results differ from the application's. `diff`: dispatches differ, or a dispatch has no partner. `analyze`: a check found something."
        then "Look at `buffers[]`: the first element that differs, or a buffer that was not written; or at `findings[]`.";
    Unsupported = 7 "unsupported"
        "The dispatch or the code needs an unsupported feature, or a kernel does not fit in the other's place."
        then "The message names the instruction, the hidden argument, or the rule that refuses the kernel.";
    Timeout = 8 "timeout"
        "A kernel did not end in time."
        then "Give a larger `--timeout`, in seconds, if the kernel ends at all.";
    Incomplete = 9 "incomplete"
        "The capture lacks data for the replay, or was not finished. With `--strict`: a PASS is qualified."
        then "Capture again with `--capture-scope all --capture-after 1`. If a chunk is in no store, `--capture-store DIR` says where the store is.";
    Inconclusive = 10 "inconclusive"
        "The comparison decides nothing: the application's own kernel is not deterministic."
        then "Give a tolerance (`--tol`), more `--repetitions`, or make the order of the kernel's operations deterministic.";
    NothingToCompare = 11 "nothing-to-compare"
        "There is nothing to compare: a dispatch changed no memory, or no kernel has a counterpart of its name."
        then "Choose a dispatch that changes memory, or a folder with kernels of these names.";
}

impl Exit {
    /// The status of several ends: the first failure; else inconclusive, if one is; else success, if one is. Nothing to
    /// compare is the status only where no end says more. Numbers that are no status are failures.
    pub fn of_all(ends: impl IntoIterator<Item = u8>) -> u8 {
        let rank = |end: u8| match end {
            end if end == Exit::NothingToCompare as u8 => 0,
            end if end == Exit::Success as u8 => 1,
            end if end == Exit::Inconclusive as u8 => 2,
            _ => 3,
        };
        ends.into_iter()
            .reduce(|first, end| if rank(end) > rank(first) { end } else { first })
            .unwrap_or(Exit::Success as u8)
    }

    /// The statuses as `--help` shows them, a line each.
    pub fn help() -> String {
        let mut text = "Exit status:\n".to_owned();
        for status in Exit::ALL {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {:>2}  {}", *status as u8, status.means().replace('`', ""));
        }
        text
    }

    /// The statuses as a table of Markdown.
    pub fn table() -> String {
        let mut text = "| status | name | what it means | what to do |\n|---|---|---|---|\n".to_owned();
        for status in Exit::ALL {
            let (number, word) = (*status as u8, status.word());
            // As above.
            let _ = writeln!(text, "| {number} | `{word}` | {} | {} |", status.means(), status.advice());
        }
        text
    }

    /// The page of statuses, `docs/statuses.md`.
    pub fn page() -> String {
        format!("{HEAD}{}{TAIL}", Exit::table())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Beginning of the page.
const HEAD: &str = "\
<!-- Printed by `cargo xtask docs` from omniprobe/exit. -->
# Exit statuses

Every subcommand of `omniprobe` ends with one of these statuses. `omniprobe -- APP` ends as the application ended: with its status, or by
the signal that killed it. An error before the start of the application has a status of the table.

";

/// End of the page.
const TAIL: &str = "
If a capture is damaged, the status of a success is 2; if it was not finished, 9. A dispatch that is whole and chosen by `--dispatch` may
end with 0: its PASS is qualified.

With several dispatches, the status is that of the first failure. If none failed, it is 10 if one is inconclusive, else 0 if one passed.
It is 11 only if all dispatches are 11. `diff` gives 6 before 9. `doctor` gives 0 if the runtime loads the library, else 3;
with `--self-test`, 0 if no check failed, else 3.

`cache check` gives 0 if a kernel would be swapped, 7 if a kernel of the name does not fit or must be chosen, and 11 if the folder has no
kernel of these names.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_from_zero_and_names_are_unique() {
        let numbers: Vec<u8> = Exit::ALL.iter().map(|exit| *exit as u8).collect();
        assert_eq!(numbers, (0..=11).collect::<Vec<u8>>());
        let words: std::collections::BTreeSet<&str> = Exit::ALL.iter().map(|exit| exit.word()).collect();
        assert_eq!(words.len(), Exit::ALL.len());
    }

    #[test]
    fn the_first_failure_of_several_is_told_and_a_dispatch_without_results_fails_nothing() {
        assert_eq!(Exit::of_all([0, 11, 8, 6]), 8);
        assert_eq!(Exit::of_all([10, 11, 0]), 10);
        assert_eq!(Exit::of_all([11, 0, 11]), 0);
        assert_eq!(Exit::of_all([11, 11]), 11);
        assert_eq!(Exit::of_all([0, 10, 101, 6]), 101);
        assert_eq!(Exit::of_all([]), 0);
    }
}
