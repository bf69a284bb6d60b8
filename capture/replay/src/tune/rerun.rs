//! Reruns the best configuration and the captured one in alternation: neither was chosen by these times, and a drift affects both.

use super::{Config, Journal, Outcome, Runner};
use crate::error::Result;
use crate::stats::{Pairs, pairs};

/// What came of turns.
pub(super) enum Rerun {
    /// Both ran to the end: the best one's times by the captured one's.
    Paired(Option<Pairs>),
    /// The configuration of this number did not compute what the application got, or did not end, although it had before.
    Failed(usize, Outcome),
}

/// Measures the captured configuration and the best one so many times each, one run at a time. They are in the journal as a
/// round of their own; what is there is not run again. `ran` is called after each run.
///
/// # Errors
/// When the journal cannot be written, or is of other configurations.
pub(super) fn paired_rerun(
    [captured, best]: [&Config; 2],
    repetitions: u32,
    round: u32,
    runner: &mut dyn Runner,
    journal: &mut Journal,
    ran: &mut dyn FnMut(),
) -> Result<Rerun> {
    let mut times = [Vec::new(), Vec::new()];
    match [journal.recorded(captured, round)?, journal.recorded(best, round)?] {
        [Some(Outcome::Measured { gpu_ns: first, .. }), Some(Outcome::Measured { gpu_ns: second, .. })] => {
            times = [first, second];
        }
        [Some(failed), _] if failed.times().is_none() => return Ok(Rerun::Failed(captured.number, failed)),
        [_, Some(failed)] if failed.times().is_none() => return Ok(Rerun::Failed(best.number, failed)),
        _ => {
            for number in 0..repetitions {
                // A B, then B A: what drifts, drifts for both.
                let mut order = [captured, best].into_iter().zip(&mut times).collect::<Vec<_>>();
                if number % 2 == 1 {
                    order.reverse();
                }
                for (config, times) in order {
                    match runner.run(config, 1) {
                        Outcome::Measured { gpu_ns, .. } => times.extend(gpu_ns),
                        failed => {
                            journal.add(config, round, &failed)?;
                            return Ok(Rerun::Failed(config.number, failed));
                        }
                    }
                    ran();
                }
            }
            for (config, times) in [captured, best].into_iter().zip(&times) {
                journal.add(config, round, &Outcome::measured(times.clone()))?;
            }
        }
    }
    let [first, second] = times;
    Ok(Rerun::Paired(pairs(&first.into_iter().zip(second).collect::<Vec<_>>())))
}
