//! Captured regions: dispatches, copies and barriers in their order, and the memory that the host changed between them.
//!
//! A [`Region`] is the records of one, compared with each other. A [`Part`] is some of its steps, from the beginning or from a checkpoint on.
//! [`CapturedPart`] has all that a part needs to be replayed: it looks like one dispatch, whose memory is that of all steps, with the others
//! as its companions.

mod align;
mod check;
mod part;
mod span;

use std::ops::Range;

use logdur_capture::{
    Allocation, Checkpoint, Digests, Dispatch, Evidence, FramePosition, Placed, Reader, RegionEnd, SnapshotId, Step,
    StepKind,
};

use check::Check;

use crate::error::{CapturedError, Result};

pub use align::align;
pub use part::{CapturedPart, PartStep, Work};

/// A region of a capture. Its steps are all there, in their order, and refer to what the capture has.
#[derive(Debug)]
pub struct Region<'r> {
    /// The capture.
    pub reader: &'r Reader,
    /// Its first record.
    pub record: &'r Placed<logdur_capture::Region>,
    /// Its steps: that of number 1 first.
    pub steps: Vec<&'r Placed<Step>>,
    /// The dispatch of each step, if it is one.
    dispatches: Vec<Option<Placed<Dispatch>>>,
    /// Where all of its memory is known, in the order of its steps.
    pub checkpoints: Vec<&'r Placed<Checkpoint>>,
    /// How it ended; `None` if its process did before.
    pub end: Option<&'r Placed<RegionEnd>>,
    /// Whether all of it is as it was written.
    digests: Digests,
}

/// Steps of a region that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// The memory before the first, of a checkpoint; `None` at the beginning of the region.
    pub start: Option<SnapshotId>,
    /// The memory after the last, if the capture has it.
    pub reference: Option<SnapshotId>,
}

impl Part {
    /// Its steps, in words.
    pub fn steps(&self) -> String {
        if self.first == self.last {
            format!("step {}", self.first)
        } else {
            format!("steps {} to {}", self.first, self.last)
        }
    }
}

/// The first version of the format whose steps have digests.
const WITH_DIGESTS: (u16, u16) = (1, 10);

/// True for a step that only has what changed while the dispatch before it ran, in memory of the host that this may have written.
fn is_meanwhile(step: &Step) -> bool {
    step.evidence == Evidence::Either && step.kind == StepKind::Copy && step.bytes == 0
}

/// True for steps that are packets of a queue.
fn has_packet(step: &Step) -> bool {
    matches!(step.kind, StepKind::Dispatch | StepKind::Barrier | StepKind::Vendor)
}

impl<'r> Region<'r> {
    /// The numbers of the regions of a capture.
    pub fn numbers(reader: &Reader) -> Vec<u64> {
        reader.records().regions.iter().map(|region| region.id).collect()
    }

    /// The region of a number, or the only one.
    ///
    /// # Errors
    /// When there is no such region, or several and none is asked for; when records of it are lost, contradict each other, or refer to what
    /// the capture does not have.
    pub fn of(reader: &'r Reader, number: Option<u64>) -> Result<Region<'r>> {
        let records = reader.records();
        let all: Vec<&Placed<logdur_capture::Region>> =
            records.regions.iter().filter(|region| number.is_none_or(|number| region.id == number)).collect();
        let [record] = all.as_slice() else {
            let numbers: Vec<String> = Region::numbers(reader).iter().map(ToString::to_string).collect();
            let found = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
            let expected = match number {
                Some(number) => format!("a region with the number {number}"),
                None => "one region, or the number of one (--region=N)".to_owned(),
            };
            return Err(CapturedError::Usage { what: reader.path().display().to_string(), expected, found });
        };
        let check = Check::new(reader, record.id);
        let steps: Vec<&Placed<Step>> = records.steps.iter().filter(|step| step.region == record.id).collect();
        for (number, step) in (1..).zip(&steps) {
            check.is_next(step, number)?;
            check.step(step)?;
        }
        check.order(&steps)?;
        let count = steps.len() as u64;
        let checkpoints: Vec<&Placed<Checkpoint>> =
            records.checkpoints.iter().filter(|checkpoint| checkpoint.region == record.id).collect();
        let mut last = 0;
        for checkpoint in &checkpoints {
            let name = format!("the checkpoint after step {}", checkpoint.sequence);
            if checkpoint.sequence <= last || checkpoint.sequence > count {
                return Err(check.wrong(format!("{name}: expected a step from {} to {count}", last + 1)));
            }
            last = checkpoint.sequence;
            check.has_snapshot(&name, checkpoint.snapshot)?;
        }
        let end = records.region_ends.iter().find(|end| end.region == record.id);
        if let Some(end) = end {
            if end.steps != count {
                return Err(check.wrong(format!("expected {} steps, found {count}", end.steps)));
            }
            end.after.map_or(Ok(()), |after| check.has_snapshot("the end", after))?;
        }
        let dispatch = |step: &&Placed<Step>| {
            step.dispatch.as_ref().map(|dispatch| Placed { place: step.place, value: dispatch.clone() })
        };
        let dispatches: Vec<Option<Placed<Dispatch>>> = steps.iter().map(dispatch).collect();
        let digests = reader.digests(record.id);
        if let Some(why) = digests.broken() {
            return Err(check.wrong(why));
        }
        let region = Region { reader, record, steps, dispatches, checkpoints, end, digests };
        if region.dispatches().next().is_none() {
            return Err(CapturedError::Unsupported(format!("region {} has no dispatch", record.id)));
        }
        Ok(region)
    }

    /// The dispatches with the numbers of their steps.
    pub fn dispatches(&self) -> impl Iterator<Item = (u64, &Placed<Dispatch>)> {
        (1..).zip(&self.dispatches).filter_map(|(number, dispatch)| Some((number, dispatch.as_ref()?)))
    }

    /// The dispatch of a step.
    fn dispatch_of(&self, step: u64) -> Option<&Placed<Dispatch>> {
        self.dispatches.get((step as usize).checked_sub(1)?)?.as_ref()
    }

    /// The number of the last step.
    pub fn count(&self) -> u64 {
        self.steps.len() as u64
    }

    /// All steps.
    pub fn whole(&self) -> Part {
        Part { first: 1, last: self.count(), start: None, reference: self.reference(self.count()) }
    }

    /// The last step that belongs to a step: what changed while it ran is told behind it.
    fn with_meanwhile(&self, step: u64) -> u64 {
        let next = self.steps.get(step as usize);
        if next.is_some_and(|next| is_meanwhile(next)) { step + 1 } else { step }
    }

    /// The memory after a step, if the capture has it.
    fn reference(&self, step: u64) -> Option<SnapshotId> {
        let at_end = self.end.filter(|_| step == self.count()).and_then(|end| end.after);
        let checkpoint = || self.checkpoints.iter().find(|checkpoint| checkpoint.sequence == step);
        at_end.or_else(|| checkpoint().map(|checkpoint| checkpoint.snapshot))
    }

    /// The parts between checkpoints. Each has a dispatch.
    pub fn parts(&self) -> Vec<Part> {
        let has_dispatch =
            |steps: Range<u64>| self.dispatches().any(|(step, _)| steps.start < step && step <= steps.end);
        let (mut parts, mut before, mut start) = (Vec::new(), 0, None);
        for checkpoint in &self.checkpoints {
            let rest = checkpoint.sequence..self.count();
            if has_dispatch(before..checkpoint.sequence) && has_dispatch(rest) {
                let reference = Some(checkpoint.snapshot);
                parts.push(Part { first: before + 1, last: checkpoint.sequence, start, reference });
                (before, start) = (checkpoint.sequence, reference);
            }
        }
        parts.push(Part { first: before + 1, last: self.count(), start, reference: self.reference(self.count()) });
        parts
    }

    /// The part that ends with a dispatch of a number, from the nearest checkpoint before it on.
    ///
    /// # Errors
    /// When the region has no such dispatch.
    pub fn until(&self, dispatch: u64) -> Result<Part> {
        let found = self.dispatches().find(|(_, found)| found.id == dispatch);
        let Some(last) = found.map(|(step, _)| self.with_meanwhile(step)) else {
            let ids: Vec<u64> = self.dispatches().map(|(_, dispatch)| dispatch.id).collect();
            let (first, end) = (ids.iter().min().unwrap_or(&0), ids.iter().max().unwrap_or(&0));
            return Err(CapturedError::Usage {
                what: format!("region {}", self.record.id),
                expected: format!("a dispatch of it, from {first} to {end}"),
                found: dispatch.to_string(),
            });
        };
        let at = self.checkpoints.iter().rfind(|checkpoint| checkpoint.sequence < last);
        Ok(Part {
            first: at.map_or(1, |at| at.sequence + 1),
            last,
            start: at.map(|at| at.snapshot),
            reference: self.reference(last),
        })
    }

    /// Why results of the region say less than they could, one line each.
    pub fn qualified(&self) -> Vec<String> {
        let id = self.record.id;
        let mut all = Vec::new();
        match self.end {
            None => all.push(format!("region {id} has no end: its process ended, or still runs")),
            Some(end) if !end.is_complete => {
                let why = if end.reason.is_empty() { "the capture does not say why" } else { &end.reason };
                all.push(format!("region {id} is not complete: {why}"));
            }
            Some(_) => {}
        }
        if let Digests::None(step) = self.digests
            && self.reader.header().version >= WITH_DIGESTS
        {
            let from = step.map_or_else(|| "its end".to_owned(), |step| format!("step {step}"));
            all.push(format!(
                "region {id} has no digests from {from} on: whether something was taken out is not known"
            ));
        }
        // What a part of a region has kept is said at its beginning.
        if self.record.has_dependencies {
            all.extend(check::missing(&self.steps));
        }
        let is_sure = |step: &Step| matches!(step.evidence, Evidence::Idle | Evidence::Page) || is_meanwhile(step);
        let either: Vec<u64> =
            self.steps.iter().filter(|step| step.delta.is_some() && !is_sure(step)).map(|step| step.sequence).collect();
        if let Some(first) = either.first() {
            all.push(format!(
                "what the host changed before {} steps, the first of them {first}, may hold bytes that a GPU wrote",
                either.len()
            ));
        }
        all
    }

    /// Steps of which the host had more of what GPUs had computed than of those before: the number of a step, and how many bytes more copies
    /// had brought to the host when it rang for it. What the host did from there on may depend on them.
    pub fn brought(&self) -> Vec<(u64, u64)> {
        let packets = self.steps.iter().filter(|step| has_packet(step));
        let mut had = None;
        let more = packets.filter_map(|step| {
            let before = had.unwrap_or(step.host_had);
            had = Some(before.max(step.host_had));
            Some((step.sequence, step.host_had.checked_sub(before)?)).filter(|(_, more)| *more > 0)
        });
        more.collect()
    }

    /// The allocations that there are at one of some steps, by address.
    fn allocations(&self, steps: &[&'r Placed<Step>]) -> Vec<&'r Placed<Allocation>> {
        let Some(first) = steps.first() else { return Vec::new() };
        let last = steps.last().map_or(FramePosition::default(), |step| step.place);
        let mut all = self.reader.allocations_at(first.place);
        let later = self.reader.records().allocations.iter();
        all.extend(later.filter(|a| first.place < a.place && a.place < last));
        all.sort_by_key(|a| (a.base, a.place));
        all
    }
}

#[cfg(test)]
mod tests;
