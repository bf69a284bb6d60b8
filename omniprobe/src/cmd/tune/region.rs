//! Tunes a kernel in all its dispatches of a region: the time of all launches of the region decides.

use anyhow::Result;
use logdur_captured::CapturedError;
use logdur_captured::region::{CapturedPart, Region, Work};
use logdur_replay::Setup;
use logdur_replay::region::RegionVariants;
use omniprobe_exit::Exit;

use super::{Options, process, tuned};
use crate::output::demangled;

/// Tunes it, or answers requests in this process.
///
/// # Errors
/// When the capture cannot be read, the region has no such kernel or several, or there is nothing to choose.
pub(super) fn run(options: &Options, number: Option<u64>, setup: &Setup) -> Result<Exit> {
    let target = &options.target;
    if target.device.worker().is_some() {
        let served = || {
            let reader = target.captured.reopened()?;
            let region = Region::of(&reader, number)?;
            let part = CapturedPart::of(&region, region.whole())?;
            let kernel = kernel(options, &part)?;
            process::serve(RegionVariants::set(&part, kernel, setup))
        };
        target.device.leave("the region", served(), |_, _| None);
    }
    let reader = target.captured.open()?;
    let region = Region::of(&reader, number)?;
    let part = CapturedPart::of(&region, region.whole())?;
    let kernel = kernel(options, &part)?;
    let dispatches = region.dispatches().map(|(_, dispatch)| dispatch);
    target.device.tell_runtime(&target.device.environment()?, &reader, dispatches)?;
    let Some(captured) = part.kernels.get(kernel) else { return Ok(Exit::NothingToCompare) };
    let limit = captured.limit(target.setup().limit, true);
    let launches = u32::try_from(part.steps.len()).unwrap_or(u32::MAX);
    tuned(options, &reader, captured, (0, limit.saturating_mul(launches)))
}

/// The number of the kernel that is asked for, among those of the part.
fn kernel(options: &Options, part: &CapturedPart<'_>) -> Result<usize> {
    let name = |number: &usize| part.kernels.get(*number).map_or("", |kernel| &kernel.original.kernel.name);
    let all = 0..part.kernels.len();
    let found: Vec<usize> = all.clone().filter(|number| options.target.captured.wants(name(number), None)).collect();
    let is_used = |number: &usize| {
        part.steps.iter().any(|step| matches!(step.work, Work::Dispatch { kernel, .. } if kernel == *number))
    };
    let list = |numbers: &[usize]| numbers.iter().map(|number| demangled(name(number))).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [one] if is_used(one) => Ok(*one),
        several => {
            let (what, expected) = ("--kernel".to_owned(), "one kernel of the region".to_owned());
            let found = if several.is_empty() {
                format!("none among {}", list(&all.collect::<Vec<_>>()))
            } else {
                list(several)
            };
            Err(CapturedError::Usage { what, expected, found }.into())
        }
    }
}
