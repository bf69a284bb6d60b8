//! The checks, in the order in which they run.

mod capture;
mod cost;
mod identity;
mod memory;
mod queue;
mod times;

use crate::{Check, CheckProcess, Way};

/// The checks: the one table of the order, the report and the documents. One whose `needs` do not hold is not run: its answer
/// would be wrong.
pub const CHECKS: &[Check] = &[
    Check {
        number: 1,
        name: "identity",
        question: "Is there a GPU that this user may use, and what is it?",
        consequence: "the library is off",
        needs: &[],
        parts: &[
            CheckProcess { name: "agents", way: Way::Bare, body: identity::agents },
            CheckProcess { name: "queue", way: Way::Bare, body: identity::queue },
        ],
    },
    Check {
        number: 2,
        name: "loading",
        question: "Does the runtime load the library, by `omniprobe` and by the bare variable?",
        consequence: "the library is off",
        needs: &["identity"],
        parts: &[
            CheckProcess { name: "omniprobe", way: Way::Watched, body: identity::loaded },
            CheckProcess { name: "variable", way: Way::Variable, body: identity::loaded_by_variable },
        ],
    },
    Check {
        number: 4,
        name: "order",
        question: "Are a dispatch's times written before its signal is decremented?",
        consequence: "do not trust times",
        needs: &["identity"],
        parts: &[CheckProcess { name: "signals", way: Way::Bare, body: times::order }],
    },
    Check {
        number: 5,
        name: "hold",
        question: "Does a valid packet behind the write index wait, also while 40 queues are made and destroyed?",
        consequence: "packets must not be held: `LOGDUR_QUEUE_MODE=intercept`, where the runtime's intercept queues work",
        needs: &["identity"],
        parts: &[CheckProcess { name: "packets", way: Way::Bare, body: queue::hold }],
    },
    Check {
        number: 6,
        name: "read-index",
        question: "Is each slot that the read index has passed invalid?",
        consequence: "as for `hold`",
        needs: &["identity"],
        parts: &[CheckProcess { name: "slots", way: Way::Bare, body: queue::read_index }],
    },
    // After the checks that explain why rows are missing or wrong.
    Check {
        number: 3,
        name: "rows",
        question: "Has each of 10000 dispatches one row, with times in order?",
        consequence: "see its reasons",
        needs: &["loading", "order", "hold", "read-index"],
        parts: &[CheckProcess { name: "empty", way: Way::Watched, body: queue::rows }],
    },
    Check {
        number: 7,
        name: "latch",
        question: "Do dispatches on queues and signals of every kind have times?",
        consequence: "some rows are without times",
        needs: &["order", "rows"],
        parts: &[CheckProcess { name: "queues", way: Way::Bare, body: times::latch }],
    },
    Check {
        number: 8,
        name: "clocks",
        question: "Do the GPU's times agree with the host's?",
        consequence: "do not compare rows of different GPUs",
        needs: &["order", "rows"],
        parts: &[CheckProcess { name: "kernels", way: Way::Bare, body: times::clocks }],
    },
    Check {
        number: 9,
        name: "cost",
        question: "What does a dispatch cost, without the library and with it?",
        consequence: "a queue stops under load: nothing can be measured",
        needs: &["order"],
        parts: &[
            CheckProcess { name: "bare", way: Way::Bare, body: cost::dispatches },
            CheckProcess { name: "watched", way: Way::Watched, body: cost::dispatches },
        ],
    },
    Check {
        number: 10,
        name: "signals",
        question: "What do signals cost, and how soon does the host see them?",
        consequence: "rows come late, and captures take long",
        needs: &["identity"],
        parts: &[CheckProcess { name: "own", way: Way::Bare, body: cost::signals }],
    },
    Check {
        number: 11,
        name: "bypass",
        question: "Does the library notice packets that are written around it?",
        consequence: "rows can be missing without a notice",
        needs: &["rows"],
        parts: &[CheckProcess { name: "index", way: Way::Watched, body: queue::bypass }],
    },
    Check {
        number: 12,
        name: "scratch",
        question: "Do kernels get their scratch, and new code, while another queue is held?",
        consequence: "captures can hang the application",
        needs: &["identity"],
        parts: &[
            CheckProcess { name: "bare", way: Way::Bare, body: memory::scratch },
            CheckProcess { name: "watched", way: Way::Watched, body: memory::scratch },
        ],
    },
    Check {
        number: 13,
        name: "reading",
        question: "Is the GPU's memory read right, and how fast?",
        consequence: "do not capture",
        needs: &["identity"],
        parts: &[CheckProcess { name: "copies", way: Way::Bare, body: memory::reading }],
    },
    Check {
        number: 14,
        name: "capture",
        question: "Is a captured dispatch verified when it is replayed?",
        consequence: "do not trust verdicts",
        needs: &["rows", "reading"],
        parts: &[
            CheckProcess { name: "add", way: Way::Captured, body: capture::add },
            CheckProcess { name: "verify", way: Way::Verify, body: capture::verified },
        ],
    },
    Check {
        number: 15,
        name: "placement",
        question: "Does memory come to captured addresses each time, and is a fault reported?",
        consequence: "replays are qualified",
        needs: &["capture"],
        parts: &[
            CheckProcess { name: "add", way: Way::Captured, body: capture::add },
            CheckProcess { name: "first", way: Way::Verify, body: capture::placed },
            CheckProcess { name: "second", way: Way::Verify, body: capture::placed },
            CheckProcess { name: "third", way: Way::Verify, body: capture::placed },
            CheckProcess { name: "fault", way: Way::Bare, body: capture::fault },
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_check_needs_comes_before_it_and_numbers_are_those_of_the_list() {
        let mut numbers: Vec<u32> = CHECKS.iter().map(|check| check.number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=15));
        for (at, check) in CHECKS.iter().enumerate() {
            for need in check.needs {
                assert!(CHECKS[..at].iter().any(|before| before.name == *need), "{} needs {need}", check.name);
            }
            let names: std::collections::BTreeSet<&str> = check.parts.iter().map(|part| part.name).collect();
            assert_eq!(names.len(), check.parts.len(), "{}", check.name);
        }
    }

    #[test]
    fn the_documents_have_the_table_of_checks() {
        let row = |c: &Check| format!("| {} | `{}` | {} | {} |\n", c.number, c.name, c.question, c.consequence);
        let table: String = CHECKS.iter().map(row).collect();
        let page = include_str!("../../../../docs/first-run-on-hardware.md");
        assert!(page.contains(&format!("|---|---|---|---|\n{table}\n")), "expected this table:\n{table}");
    }
}
