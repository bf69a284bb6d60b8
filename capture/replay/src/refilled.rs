//! Other bytes where the application's kernel writes before it reads: a kernel in its place may depend on none of them.
//!
//! A kernel that leaves out stores leaves the right values if memory already held them. One that adds to its output is right on zeroed
//! memory. On the memory of the application neither shows. So both kernels are replayed on memory in which the bytes that the
//! application's kernel overwrites hold a pattern, and compared with each other. Around captured memory the pattern is another one, too.

use logdur_captured::verify::{BufferReport, Judged, Overall, Verdict};

use crate::error::{ReplayError, Result};
use crate::judge::{Judgement, KernelRuns, Plan, judge};
use crate::loaded::{Launch, LoadedDispatch, LoadedVariant};

/// Replays a kernel that passed on memory in which the bytes that the application's own overwrites are others, and takes the PASS
/// back if it computes something else there. Nothing else can be done with the dispatch afterwards. False if that was not compared, since
/// the device does not know which bytes these are.
///
/// # Errors
/// What a replay of the kernel ends with, by these words; when the capture is damaged.
pub(crate) fn check(
    loaded: &mut LoadedDispatch<'_>,
    [own, other]: [&Launch; 2],
    of_own: &KernelRuns,
    plan: &Plan,
    judgement: &mut Judgement,
) -> Result<bool> {
    let first = of_own.runs.first();
    let Some(first) = first.filter(|_| judgement.overall == Overall::Pass && plan.judged == Judged::Other) else {
        return Ok(true);
    };
    if !loaded.knows_stores() {
        return Ok(false);
    }
    if !loaded.fill(first)? {
        return Ok(true);
    }
    let plan = Plan { repetitions: 1, ..*plan };
    let mut replays = LoadedVariant::new(loaded, own, other);
    let found = match judge(&mut replays, &mut KernelRuns::default(), &mut KernelRuns::default(), &plan) {
        Ok(found) => found,
        Err(error) if replays.is_at_own() => {
            judgement
                .qualified
                .push(format!("not replayed with other bytes where the kernel writes before it reads: {error}"));
            return Ok(true);
        }
        Err(ReplayError::Fault(mut fault)) => {
            fault.what = format!("{WHERE}: {}", fault.what);
            return Err(ReplayError::Fault(fault));
        }
        Err(error) => return Err(error),
    };
    match found.overall {
        Overall::Fail => {
            judgement.overall = Overall::Fail;
            let failed = found.buffers.into_iter().filter(|report| report.verdict.is_failure());
            for report in failed.map(renamed) {
                let is_same = |known: &&mut BufferReport| known.buffer == report.buffer;
                match judgement.buffers.iter_mut().find(is_same) {
                    Some(known) => *known = report,
                    None => judgement.buffers.push(report),
                }
            }
            judgement
                .qualified
                .push(format!("FAIL only {WHERE}: a PASS on the captured bytes would be by their chance"));
        }
        Overall::Inconclusive => judgement.qualified.push(format!("{WHERE} the comparison decides nothing")),
        Overall::Pass | Overall::NotReproduced | Overall::NothingWritten | Overall::NoReference => {}
    }
    Ok(true)
}

/// Where the replays of [`check`] are.
const WHERE: &str =
    "with other bytes where the application's kernel writes before it reads, and around captured memory";

/// A report with the verdict that says what the kernel depends on.
fn renamed(mut report: BufferReport) -> BufferReport {
    let is_left = report.first.as_ref().is_some_and(|first| first.found == first.before);
    report.verdict = if is_left { Verdict::NotStored } else { Verdict::ReadsOld };
    report
}
