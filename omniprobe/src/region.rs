//! What the tools that replay regions have in common: which region, and a process for each part of it.

use anyhow::{Context, Result};
use clap::Args;
use logdur_capture::{Placed, Reader};
use logdur_captured::region::{CapturedPart, Part, Region};
use logdur_captured::{CapturedError, symbol};
use logdur_replay::region::Together;
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::captured::Captured;
use super::worker::{DeviceArgs, TargetArgs, VariantArgs};
use crate::headings;

/// Which region.
#[derive(Args, Clone, Debug)]
pub(crate) struct RegionArgs {
    /// A region of the capture, by its number or as the only one, instead of single dispatches. With --dispatch N, the steps from
    /// the nearest checkpoint up to that dispatch.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0", help_heading = headings::DISPATCHES)]
    region: Option<u64>,
}

/// A capture, which region of it, and on what that is replayed: the options of tools that write another capture.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) captured: Captured,
    #[command(flatten)]
    pub(crate) region: RegionArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

impl SourceArgs {
    /// The parts of the region, with the application's own kernels.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts { captured: &self.captured, region: &self.region, device: &self.device, variant: None, json: false }
    }
}

/// In which order the steps of a region run.
#[derive(Args, Clone, Debug)]
pub(crate) struct OrderArgs {
    /// Run the steps of the region beside each other, on as many queues as the application had, as far as what they depended on in the
    /// application allows. Without it, they run one after the other.
    #[arg(long, requires = "region", help_heading = headings::REPLAY)]
    pub(crate) concurrent: bool,
}

impl OrderArgs {
    /// Refuses steps beside each other.
    ///
    /// # Errors
    /// When they are asked for: with the option that needs their order, and the reason.
    pub(crate) fn in_order(&self, option: &str, why: &str) -> Result<()> {
        in_order(self.concurrent, option, why)
    }
}

/// Refuses steps beside each other, if they are asked for.
///
/// # Errors
/// As for [`OrderArgs::in_order`].
pub(crate) fn in_order(concurrent: bool, option: &str, why: &str) -> Result<()> {
    if !concurrent {
        return Ok(());
    }
    let (what, found) = ("--concurrent".to_owned(), option.to_owned());
    Err(CapturedError::Usage { what, expected: format!("steps one after the other: {why}"), found }.into())
}

impl RegionArgs {
    /// The only region of a capture.
    pub(crate) fn only() -> RegionArgs {
        RegionArgs { region: Some(0) }
    }

    /// The number of the region, if one is asked for; `None` in it means the only one.
    pub(crate) fn asked(&self) -> Option<Option<u64>> {
        self.region.map(|number| Some(number).filter(|number| *number > 0))
    }

    /// The region of a capture, if one is asked for.
    ///
    /// # Errors
    /// When the capture has no such region, or records of it are lost or contradict each other.
    pub(crate) fn of<'r>(&self, reader: &'r Reader) -> Result<Option<Region<'r>>> {
        Ok(self.asked().map(|number| Region::of(reader, number)).transpose()?)
    }
}

/// The part that ends with the dispatch that is asked for, else what `all` takes of the region.
///
/// # Errors
/// When the region has no such dispatch.
pub(crate) fn parts(
    last: Option<u64>,
    region: &Region<'_>,
    all: impl Fn(&Region<'_>) -> Vec<Part>,
) -> Result<Vec<Part>> {
    match last {
        Some(dispatch) => Ok(vec![region.until(dispatch)?]),
        None => Ok(all(region)),
    }
}

/// How a part is called in messages.
pub(crate) fn name(region: u64, part: &Part) -> String {
    format!("region {region}, {}", part.steps())
}

/// How steps ran beside each other, in words.
pub(crate) fn beside(together: &Together, steps: u64) -> String {
    let Together { queues, most, alone } = together;
    format!("  concurrent: {queues} queues, up to {most} dispatches at a time, {alone} of {steps} steps alone")
}

/// The same, for programs.
pub(crate) fn beside_json(together: Together) -> Value {
    json!({ "queues": together.queues, "most_in_flight": together.most, "steps_alone": together.alone })
}

/// Where the host could decide by what GPUs had computed, in words; none where it could not. What it has decided is the application's in each
/// replay.
pub(crate) fn decided(brought: &[(u64, u64)]) -> Option<String> {
    let (first, _) = brought.first()?;
    let bytes: u64 = brought.iter().map(|(_, bytes)| bytes).sum();
    Some(format!(
        "host: copies had brought {bytes} bytes of GPUs to it before {} steps, the first of them {first}: what the host did from there on may \
         depend on them, and is done as in the application",
        brought.len()
    ))
}

/// The same, for programs.
pub(crate) fn brought_json(brought: &[(u64, u64)]) -> Value {
    brought.iter().map(|(step, bytes)| json!({ "step": step, "bytes": bytes })).collect()
}

/// What is done with the parts of a region.
pub(crate) struct Parts<'a> {
    /// Where the capture is.
    pub(crate) captured: &'a Captured,
    /// Which region.
    pub(crate) region: &'a RegionArgs,
    /// On what they are replayed.
    pub(crate) device: &'a DeviceArgs,
    /// What is other than it was.
    pub(crate) variant: Option<&'a VariantArgs>,
    /// Errors are told to programs, too.
    pub(crate) json: bool,
}

impl<'a> Parts<'a> {
    /// Of a tool that replays dispatches.
    pub(crate) fn of(target: &'a TargetArgs, region: &'a RegionArgs, variant: &'a VariantArgs) -> Parts<'a> {
        Parts { captured: &target.captured, region, device: &target.device, variant: Some(variant), json: target.json }
    }

    /// Does work for each part, in a process of its own, and ends with the status of all ([`Exit::of_all`]).
    ///
    /// # Errors
    /// When the capture cannot be read, when a file is for none of the kernels, or this program cannot be started again.
    pub(crate) fn each(
        &self,
        all: impl Fn(&Region<'_>) -> Vec<Part>,
        of_one: impl FnOnce(&CapturedPart<'_>) -> Result<Exit>,
    ) -> Result<Exit> {
        if let Some(number) = self.device.worker() {
            self.work(number, &all, of_one);
        }
        let reader = self.captured.open()?;
        let region = self.region.of(&reader)?.context("no region is asked for")?;
        let parts = parts(self.last()?, &region, &all)?;
        let environment = self.device.environment()?;
        let dispatches: Vec<&Placed<_>> = region.dispatches().map(|(_, dispatch)| dispatch).collect();
        self.variant.map_or(Ok(()), |variant| variant.is_used(&self.captured.file, &reader, &dispatches))?;
        if let Some(variant) = self.reshaping() {
            let is_replayed = |step: u64| parts.iter().any(|part| (part.first..=part.last).contains(&step));
            let launched = region.dispatches().filter(|(step, _)| is_replayed(*step));
            variant.reshapes(self.captured, &launched.map(|(_, dispatch)| symbol(&reader, dispatch)).collect())?;
        }
        self.device.tell_runtime(&environment, &reader, dispatches)?;
        let numbers: Vec<u64> = (0..).take(parts.len()).collect();
        let of = |number: u64| parts.get(number as usize).map_or_else(String::new, |part| name(region.record.id, part));
        let mut ends = self.device.each(&environment, &numbers, "parts of a region", of)?;
        ends.extend(self.captured.damage(&reader).map(|exit| exit as u8));
        // Statuses of workers are passed on as they are.
        std::process::exit(Exit::of_all(ends).into())
    }

    /// What says which kernels have another geometry, if some do.
    fn reshaping(&self) -> Option<&VariantArgs> {
        self.variant.filter(|variant| variant.has_geometry())
    }

    /// The dispatch that a part is to end with. Names of kernels say which have another geometry, and nothing else.
    fn last(&self) -> Result<Option<u64>> {
        if self.reshaping().is_some() { self.captured.last() } else { self.captured.last_of_region() }
    }

    /// Does the work of a part in this process, and ends it.
    fn work(
        &self,
        number: u64,
        all: &impl Fn(&Region<'_>) -> Vec<Part>,
        of_one: impl FnOnce(&CapturedPart<'_>) -> Result<Exit>,
    ) -> ! {
        let mut called = format!("part {number} of the region");
        let mut steps = None;
        let done = (|| {
            // What is wrong with it was told by the process that started this one.
            let reader = self.captured.reopened()?;
            let region = self.region.of(&reader)?.context("no region is asked for")?;
            let parts = parts(self.last()?, &region, all)?;
            let part = *parts.get(number as usize).context("the part is no longer there")?;
            called = name(region.record.id, &part);
            steps = Some((region.record.id, part));
            of_one(&CapturedPart::of(&region, part)?)
        })();
        let said = |error: &anyhow::Error, status: Exit| {
            let (region, part) = steps.filter(|_| self.json)?;
            let said = json!({
                "region": region, "first_step": part.first, "last_step": part.last, "result": format!("{status:?}"),
                "status": status as u8, "error": format!("{error:#}"),
            });
            Some(said.to_string())
        };
        self.device.leave(&called, done, said)
    }
}
