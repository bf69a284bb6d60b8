//! Writes the records of a region.
//!
//! # Threads
//! The capture thread.

use std::sync::atomic::Ordering;

use hsa_sys::abi::aql::Packet;
use logdur_capture::{
    Changed, Checkpoint, Completed, Evidence, Region, RegionEnd, Scope, Severity, SnapshotId, Step, StepKind,
};
use logdur_intercept::{Interceptor, queue};

use super::{Failed, File, Taken, Write, number_of};
use crate::capture::copies::{Content, Moved};
use crate::capture::region::AtDoorbell;
use crate::kernels::Kernels;

/// The number of the region: a file has one.
const REGION: u64 = 1;

impl File {
    /// Writes that the region begins.
    pub(in crate::capture) fn region(
        &mut self,
        interceptor: &Interceptor,
        trigger: &str,
        agent: usize,
    ) -> Result<(), Failed> {
        self.begin(interceptor)?;
        let (trigger, agent) = (trigger.to_owned(), number_of(agent));
        self.writer()?.region(&Region { id: REGION, trigger, scope: Scope::Reachable, agent, has_dependencies: true })
    }

    /// Writes a step that is a dispatch, and notes what a replay of it lacks. Returns that text the first time.
    pub(in crate::capture) fn step(
        &mut self,
        interceptor: &Interceptor,
        kernels: &Kernels,
        taken: &Taken,
        (sequence, known, changed): (u64, AtDoorbell, Option<Vec<Changed>>),
    ) -> Result<Vec<String>, Failed> {
        self.queue(taken.target.0)?;
        let mut dispatch = self.record(interceptor, taken);
        let (delta, held_ns) = (dispatch.before.take(), dispatch.held_ns);
        let step = Step {
            region: REGION,
            sequence,
            kind: StepKind::Dispatch,
            delta,
            evidence: Evidence::Idle,
            queue: dispatch.queue,
            index: dispatch.index,
            waited: known.completed,
            ranges: known.ranges,
            host_had: known.host_had,
            held_ns,
            has_changed: changed.is_some(),
            changed: changed.unwrap_or_default(),
            dispatch: Some(dispatch.clone()),
            ..Step::default()
        };
        self.writer()?.step(&step)?;
        self.lacks(kernels, taken, &dispatch)
    }

    /// Writes what `changes` passes on, in the order of its addresses; `None` if that is nothing.
    pub(in crate::capture) fn changes(
        &mut self,
        changes: impl FnOnce(&mut Write<'_>) -> Result<(), Failed>,
    ) -> Result<Option<SnapshotId>, Failed> {
        let (mut snapshot, mut has_any) = (self.writer()?.snapshot(None), false);
        changes(&mut |at, bytes| {
            has_any = true;
            snapshot.bytes(at, bytes)
        })?;
        if has_any { snapshot.finish().map(Some) } else { Ok(None) }
    }

    /// Writes a step that does nothing: memory before it was changed by what is no step.
    pub(in crate::capture) fn changed_step(
        &mut self,
        sequence: u64,
        delta: SnapshotId,
        evidence: Evidence,
    ) -> Result<(), Failed> {
        let (kind, delta) = (StepKind::Copy, Some(delta));
        self.writer()?.step(&Step { region: REGION, sequence, kind, delta, evidence, ..Step::default() })
    }

    /// Writes a step that is a copy or a fill.
    pub(in crate::capture) fn copy_step(
        &mut self,
        moved: &Moved,
        (sequence, delta, waited): (u64, Option<SnapshotId>, Vec<Completed>),
    ) -> Result<(), Failed> {
        let (kind, from, value) = match moved.content {
            Content::From(from) => (StepKind::Copy, from, 0),
            Content::Word(value) => (StepKind::Fill, 0, value),
        };
        self.writer()?.step(&Step {
            region: REGION,
            sequence,
            kind,
            delta,
            evidence: Evidence::Idle,
            to: moved.to,
            from,
            bytes: moved.bytes,
            value,
            waited,
            ..Step::default()
        })
    }

    /// Writes a step that is another packet.
    pub(in crate::capture) fn other_step(
        &mut self,
        (kind, packet): (StepKind, &Packet),
        (queue, index): (&queue::Queue, u64),
        (sequence, delta, known): (u64, Option<SnapshotId>, AtDoorbell),
    ) -> Result<(), Failed> {
        self.queue(queue)?;
        self.writer()?.step(&Step {
            region: REGION,
            sequence,
            kind,
            delta,
            evidence: Evidence::Idle,
            packet: logdur_capture::Packet(packet.to_bytes()),
            queue: queue.id.load(Ordering::Relaxed),
            index,
            waited: known.completed,
            host_had: known.host_had,
            ..Step::default()
        })
    }

    /// Writes that a snapshot is the memory after a step.
    pub(in crate::capture) fn checkpoint(&mut self, sequence: u64, snapshot: SnapshotId) -> Result<(), Failed> {
        self.writer()?.checkpoint(&Checkpoint { region: REGION, sequence, snapshot })
    }

    /// Writes that the region has ended. A reason is a note, too.
    pub(in crate::capture) fn region_end(
        &mut self,
        steps: u64,
        after: Option<SnapshotId>,
        reason: Option<&str>,
    ) -> Result<(), Failed> {
        let (is_complete, reason) = (reason.is_none(), reason.unwrap_or_default().to_owned());
        if !is_complete {
            let text = format!("the region ended after {steps} steps: {reason}");
            self.note(Severity::Loss, "region", &text)?;
        }
        self.region_has_ended = Some((steps, reason.clone()));
        self.writer()?.region_end(&RegionEnd {
            region: REGION,
            steps,
            after,
            is_complete,
            reason,
            ..RegionEnd::default()
        })
    }

    /// What a reader of the region has to be told.
    pub(in crate::capture) fn tell_of_region(&mut self, severity: Severity, text: &str) -> Result<(), Failed> {
        self.note(severity, "region", text)
    }
}
