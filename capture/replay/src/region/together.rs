//! Runs the steps of a part without waiting for each: beside each other, on as many queues as the application had, or back to back.

use std::ops::Range;
use std::time::Instant;

use logdur_captured::region::{CapturedPart, Work};

use super::PartTimes;
use super::run::{LoadedPart, Side};
use super::schedule::{Needs, Next, Schedule};
use crate::device::IN_FLIGHT;
use crate::error::{ReplayError, Result};
use crate::loaded::LoadedDispatch;
use crate::placed::PlacedRange;

/// How packets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Each behind all before it, in one queue.
    Submitted,
    /// Each behind what it depended on, on as many queues as the application had.
    Dependencies,
}

/// How the steps of a part ran beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// On how many queues.
    pub queues: usize,
    /// How many dispatches were in flight at a time, at most.
    pub most: usize,
    /// How many steps were alone: copies, and steps before which the host had changed memory.
    pub alone: usize,
}

/// The parts of ranges that were in other ranges, which are sorted and do not touch.
fn known_parts(areas: &[PlacedRange], known: &[Range<u64>]) -> Vec<PlacedRange> {
    let mut all = Vec::new();
    for area in areas {
        let first = known.partition_point(|range| range.end <= area.captured.start);
        for range in known.iter().skip(first).take_while(|range| range.start < area.captured.end) {
            let captured = range.start.max(area.captured.start)..range.end.min(area.captured.end);
            let placed = area.placed.plus(captured.start - area.captured.start);
            all.push(PlacedRange { captured, placed });
        }
    }
    all
}

/// Adds ranges to ranges that are sorted and do not touch.
fn learn(known: &mut Vec<Range<u64>>, more: impl Iterator<Item = Range<u64>>) {
    known.extend(more.filter(|range| !range.is_empty()));
    known.sort_by_key(|range| range.start);
    known.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
}

/// Finds what of the memory before each step had changed: without what the part reaches there first, which is there from the beginning. A
/// step before that writes it has reached what the capture does not know of, and the memory after it tells.
///
/// # Errors
/// When the capture cannot be read.
pub(super) fn changed(part: &CapturedPart<'_>, loaded: &LoadedDispatch<'_>) -> Result<Vec<Vec<PlacedRange>>> {
    let start = part.part.start.map(|start| part.region.reader.snapshot(start)).transpose()?;
    let mut known = start.map_or_else(Vec::new, |start| start.ranges());
    let mut all = Vec::new();
    for step in &part.steps {
        let areas = step.delta.as_ref().map_or_else(Vec::new, |delta| loaded.areas_of(delta));
        all.push(known_parts(&areas, &known));
        if let Some(delta) = &step.delta {
            learn(&mut known, delta.ranges().into_iter());
        }
    }
    Ok(all)
}

impl LoadedPart<'_> {
    /// Steps can run beside each other.
    ///
    /// # Errors
    /// When the capture does not say what steps depended on.
    pub(super) fn has_dependencies(&self) -> Result<()> {
        let region = &self.part.region.record;
        if region.has_dependencies {
            return Ok(());
        }
        Err(ReplayError::Unsupported(format!(
            "region {}: the capture does not say what its steps depended on, as captures do from version 1.7 of the format on: it is replayed \
             in its order, without --concurrent",
            region.id
        )))
    }

    /// True for a step that has nothing to be done.
    fn is_nothing(&self, number: usize, order: Order) -> bool {
        let may_be = self.part.steps.get(number).is_some_and(|step| match step.work {
            Work::Barrier => order == Order::Submitted,
            _ => step.is_meanwhile(),
        });
        may_be && self.changed.get(number).is_none_or(Vec::is_empty)
    }

    fn needs(&self, side: &Side, order: Order) -> Vec<Needs> {
        let steps = self.part.steps.iter().zip(&side.launches).zip(&self.changed).enumerate();
        let needs = steps.map(|(number, ((step, launch), changed))| {
            let (queue, index, waited) = match order {
                Order::Submitted => (0, number as u64, Vec::new()),
                Order::Dependencies => (step.step.queue, step.step.index, step.step.waited.clone()),
            };
            let is_packet = match step.work {
                Work::Dispatch { .. } => true,
                // In one queue, there is nothing to be ordered.
                Work::Barrier => order == Order::Dependencies,
                Work::Copy { .. } | Work::Fill { .. } => false,
            };
            Needs {
                packet: is_packet.then_some((queue, index)),
                waited,
                is_barrier: matches!(step.work, Work::Barrier),
                is_alone: !self.is_nothing(number, order)
                    && (!is_packet || !changed.is_empty() || launch.as_ref().is_some_and(|launch| launch.meets())),
            }
        });
        needs.collect()
    }

    /// Runs all steps of the part on restored memory, with arguments that have memory of their own, and calls `each` with the number of each
    /// dispatch that is complete, and its nanoseconds on the GPU.
    ///
    /// # Errors
    /// What a step has ended with, and which one it was; of several that ran, the first.
    pub(super) fn run_queued(
        &mut self,
        side: &Side,
        order: Order,
        each: &mut dyn FnMut(usize, u64),
    ) -> Result<PartTimes> {
        let mut schedule = Schedule::new(self.needs(side, order), IN_FLIGHT);
        self.loaded.make_queues(schedule.queues())?;
        self.loaded.put_own_variables()?;
        for (launch, at) in side.launches.iter().zip(&side.arguments) {
            launch.as_ref().map_or(Ok(()), |launch| self.loaded.write_arguments(launch, *at))?;
        }
        (0..self.part.steps.len())
            .filter(|number| self.is_nothing(*number, order))
            .for_each(|number| schedule.has_completed(number));
        let mut together = Together { queues: schedule.queues(), alone: schedule.alone(), most: 0 };
        let (start, mut gpu_ns, mut in_flight) = (Instant::now(), 0, Vec::<usize>::new());
        loop {
            match schedule.next() {
                Next::Alone(number) => {
                    if let Some(areas) = self.changed.get(number).filter(|areas| !areas.is_empty())
                        && let Some(delta) = self.part.steps.get(number).and_then(|step| step.delta.as_ref())
                    {
                        self.loaded.write(delta, areas)?;
                    }
                    match self.part.steps.get(number).map(|step| step.work) {
                        Some(Work::Copy { .. } | Work::Fill { .. }) => {
                            self.step(side, number)?;
                            schedule.has_completed(number);
                        }
                        Some(Work::Dispatch { .. }) => {
                            let launch = side.launches.get(number).and_then(Option::as_ref);
                            launch.map_or(Ok(()), |launch| self.loaded.meet(launch))?;
                        }
                        Some(Work::Barrier) if order == Order::Submitted => schedule.has_completed(number),
                        Some(Work::Barrier) | None => {}
                    }
                }
                Next::Launch(number, queue) => {
                    let launch = side.launches.get(number).and_then(Option::as_ref);
                    let (Some(launch), Some(at)) = (launch, side.arguments.get(number)) else {
                        schedule.has_completed(number);
                        continue;
                    };
                    // SAFETY: the schedule has fewer packets of a queue in flight.
                    unsafe { self.loaded.submit(queue, launch, *at, order == Order::Submitted, number) }?;
                    in_flight.push(number);
                    together.most = together.most.max(in_flight.len());
                }
                Next::Wait => {
                    let done = self.loaded.completed().map_err(|error| self.first_of(side, &in_flight, error))?;
                    for (number, took) in done {
                        gpu_ns += took;
                        each(number, took);
                        in_flight.retain(|other| *other != number);
                        schedule.has_completed(number);
                    }
                }
                Next::Over => break,
                Next::Never(number) => {
                    let step = self.part.steps.get(number).map_or(0, |step| step.step.sequence);
                    return Err(ReplayError::Unsupported(format!(
                        "region {}: step {step} waits for what no step before it does",
                        self.part.region.record.id
                    )));
                }
            }
        }
        self.together = (order == Order::Dependencies).then_some(together);
        Ok(PartTimes { gpu_ns, host_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) })
    }

    /// An error by the first of the steps that were in flight.
    fn first_of(&self, side: &Side, in_flight: &[usize], error: ReplayError) -> ReplayError {
        let Some(first) = in_flight.iter().min() else { return error };
        let (Some(step), Some(Some(launch))) = (self.part.steps.get(*first), side.launches.get(*first)) else {
            return error;
        };
        self.at(step, self.loaded.explained(launch, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placed::Placed;

    #[test]
    fn only_memory_that_was_known_before_is_changed_by_the_host() {
        let mut known = Vec::new();
        learn(&mut known, [0x3000..0x4000, 0x1000..0x2000, 0x2000..0x2800].into_iter());
        assert_eq!(known, [0x1000..0x2800, 0x3000..0x4000]);
        let area = PlacedRange { captured: 0x2000..0x3010, placed: Placed(0x9000) };
        let found: Vec<_> =
            known_parts(&[area], &known).into_iter().map(|part| (part.captured, part.placed.0)).collect();
        assert_eq!(found, [(0x2000..0x2800, 0x9000), (0x3000..0x3010, 0xa000)]);
        let new = PlacedRange { captured: 0x5000..0x6000, placed: Placed(0) };
        assert!(known_parts(&[new], &known).is_empty());
    }
}
