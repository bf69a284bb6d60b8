//! Finds what is wrong with the records of a region: steps that are lost or out of their order, and what they refer to in vain.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use logdur_capture::{Completed, Dispatch, Id, Placed, Reader, SnapshotId, Step, StepKind};

use super::has_packet;
use crate::dispatch::symbol;
use crate::error::{CapturedError, Result};

/// What records of a region can refer to.
pub(super) struct Check<'r> {
    reader: &'r Reader,
    region: u64,
    /// The snapshots, each with its parent.
    snapshots: HashMap<SnapshotId, Option<SnapshotId>>,
    code_objects: HashSet<Id>,
}

impl<'r> Check<'r> {
    pub(super) fn new(reader: &'r Reader, region: u64) -> Check<'r> {
        let records = reader.records();
        Check {
            reader,
            region,
            snapshots: records.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.parent)).collect(),
            code_objects: records.code_objects.iter().map(|code| code.id).collect(),
        }
    }

    /// An error of the region.
    pub(super) fn wrong(&self, why: String) -> CapturedError {
        CapturedError::Region { region: self.region, why }
    }

    /// The steps have the numbers 1, 2, 3, … in the order in which they are written.
    pub(super) fn is_next(&self, step: &Step, number: u64) -> Result<()> {
        if step.sequence == number {
            return Ok(());
        }
        let found = step.sequence;
        Err(self.wrong(format!("expected step {number}, found step {found}: steps are lost, or not in their order")))
    }

    /// A snapshot is in the capture, and has no parent.
    pub(super) fn has_snapshot(&self, what: &str, id: SnapshotId) -> Result<()> {
        match self.snapshots.get(&id) {
            Some(None) => Ok(()),
            Some(Some(parent)) => {
                Err(self.wrong(format!("{what}: expected snapshot {} without a parent, found {}", id.0, parent.0)))
            }
            None => Err(self.wrong(format!("{what}: snapshot {} is not in the capture", id.0))),
        }
    }

    /// A step has what its kind needs.
    pub(super) fn step(&self, step: &Step) -> Result<()> {
        let name = format!("step {}", step.sequence);
        step.delta.map_or(Ok(()), |delta| self.has_snapshot(&name, delta))?;
        match (step.kind, &step.dispatch) {
            (StepKind::Dispatch, None) => Err(self.wrong(format!("{name}: expected its dispatch, found none"))),
            (StepKind::Dispatch, Some(dispatch)) => self.dispatch(&name, dispatch),
            (StepKind::Copy | StepKind::Fill, _) => {
                let ends = [step.to, step.from].map(|at| at.checked_add(step.bytes));
                if ends.contains(&None) {
                    return Err(self.wrong(format!("{name}: {} bytes at {:#x} have no end", step.bytes, step.to)));
                }
                Ok(())
            }
            (StepKind::Barrier | StepKind::Vendor, _) => Ok(()),
            (StepKind::Other(number), _) => {
                Err(CapturedError::Unsupported(format!("region {}: {name} is of kind {number}", self.region)))
            }
        }
    }

    fn dispatch(&self, name: &str, dispatch: &Dispatch) -> Result<()> {
        let symbol = symbol(self.reader, dispatch);
        let code = dispatch.code_object;
        match () {
            () if symbol.is_empty() => {
                Err(self.wrong(format!("{name}: kernel {} is not in the capture", dispatch.kernel)))
            }
            () if !code.is_none() && !self.code_objects.contains(&code) => {
                Err(self.wrong(format!("{name}: code object {code} of {symbol} is not in the capture")))
            }
            () => Ok(()),
        }
    }

    /// Packets of a queue follow each other as in the queue, and what a step has waited for is before it.
    pub(super) fn order(&self, steps: &[&Placed<Step>]) -> Result<()> {
        let (mut packets, mut last) = (BTreeMap::<(u64, u64), u64>::new(), HashMap::<u64, (u64, u64)>::new());
        for step in steps.iter().filter(|step| has_packet(step)) {
            let Step { queue, index, sequence, .. } = step.value;
            if let Some((before, of)) = last.insert(queue, (index, sequence)).filter(|(before, _)| *before >= index) {
                return Err(self.wrong(format!(
                    "step {sequence} is packet {index} of queue {queue}, and step {of} before it packet {before}: they are not in their \
                     order"
                )));
            }
            packets.insert((queue, index), sequence);
        }
        for step in steps {
            for &Completed { queue, index } in &step.waited {
                let before = packets.range((queue, 0)..(queue, index)).next_back();
                if let Some((_, later)) = before.filter(|(_, sequence)| **sequence >= step.sequence) {
                    let sequence = step.sequence;
                    return Err(
                        self.wrong(format!("step {sequence} has waited for step {later}, which is not before it"))
                    );
                }
            }
        }
        Ok(())
    }
}

/// Packets that are no steps, though steps behind them in their queue are, or waited for them: a line for each queue.
pub(super) fn missing(steps: &[&Placed<Step>]) -> Vec<String> {
    let mut queues = BTreeMap::<u64, (BTreeMap<u64, u64>, u64)>::new();
    for step in steps.iter().filter(|step| has_packet(step)) {
        let (packets, end) = queues.entry(step.queue).or_default();
        packets.insert(step.index, step.sequence);
        *end = (*end).max(step.index.saturating_add(1));
    }
    for waited in steps.iter().flat_map(|step| &step.waited) {
        // What was before the first step of a queue was before the region.
        if let Some((_, end)) = queues.get_mut(&waited.queue) {
            *end = (*end).max(waited.index);
        }
    }
    let mut all = Vec::new();
    for (queue, (packets, end)) in queues {
        let (mut next, mut lost) = (None, Vec::<Range<u64>>::new());
        for index in packets.keys().copied().chain([end]) {
            lost.extend(next.filter(|next| *next < index).map(|next| next..index));
            next = Some(index.saturating_add(1));
        }
        let count: u64 = lost.iter().map(|range| range.end - range.start).sum();
        if let Some(first) = lost.first() {
            all.push(format!(
                "{count} packets of queue {queue}, the first of them {}, are no steps, though steps came behind them or waited for them: what \
                 they did is not replayed",
                first.start
            ));
        }
    }
    all
}
