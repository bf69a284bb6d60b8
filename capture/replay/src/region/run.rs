//! Runs the steps of a part on a device.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use logdur_capture::Dispatch;
use logdur_captured::Code;
use logdur_captured::region::{CapturedPart, PartStep, Work};
use logdur_captured::verify::{BufferReport, Judged, Score};

use super::meanwhile::undecided;
use super::together::{Order, Together, changed};
use super::{Launched, PartTimes, Replaced, Reshaped, mask_limit};
use crate::error::{ReplayError, Result};
use crate::geometry::Geometry;
use crate::judge::Replays;
use crate::loaded::{Launch, LoadedDispatch, Variant};
use crate::placed::{Pages, Placed, PlacedRange};
use crate::setup::Setup;

/// A part on a device, ready to be run repeatedly.
pub(super) struct LoadedPart<'c> {
    pub(super) part: &'c CapturedPart<'c>,
    /// Its memory and its code.
    pub(super) loaded: LoadedDispatch<'c>,
    /// The share of what is written that may be masked.
    pub(super) mask_limit: f64,
    /// Where each kernel is.
    pub(super) kernels: Vec<Placed>,
    /// Where the memory is that is written before each step: what of memory that was known before had changed.
    pub(super) changed: Vec<Vec<PlacedRange>>,
    /// What of that is not decided yet: of each step with what changed while the dispatch before it ran.
    pub(super) undecided: Vec<Vec<PlacedRange>>,
    /// Steps run beside each other.
    pub(super) is_concurrent: bool,
    /// How they ran beside each other the last time.
    pub(super) together: Option<Together>,
}

/// The launches of a part: with the application's kernels, or with others.
pub(super) struct Side {
    /// The application's own kernels, as it launched them.
    pub(super) is_own: bool,
    /// Of each step, if it is a dispatch.
    pub(super) launches: Vec<Option<Launch>>,
    /// Memory for the arguments of each, where several are in flight.
    pub(super) arguments: Vec<Placed>,
    /// The kernels that are others.
    pub(super) replaced: Vec<Replaced>,
    /// Those whose dispatches have another geometry.
    pub(super) reshaped: Vec<Reshaped>,
}

impl Side {
    /// True when the same code runs.
    pub(super) fn is_like(&self, other: &Side) -> bool {
        let is_like = |pair: (&Option<Launch>, &Option<Launch>)| match pair {
            (Some(a), Some(b)) => a.is_like(b),
            (None, None) => true,
            _ => false,
        };
        self.launches.iter().zip(&other.launches).all(is_like)
    }
}

/// What is called behind each step: the step's number among those of the part.
type Each<'e, 'c> = &'e mut dyn FnMut(&mut LoadedDispatch<'c>, usize, Option<u64>) -> Result<()>;

impl<'c> LoadedPart<'c> {
    /// Puts code and memory on a device.
    ///
    /// # Errors
    /// What keeps the part from being replayed.
    pub(super) fn set(part: &'c CapturedPart<'c>, setup: &Setup) -> Result<LoadedPart<'c>> {
        let mut loaded = LoadedDispatch::set(&part.captured, setup)?;
        let kernels = part.kernels.iter().map(|kernel| loaded.kernel_of(kernel)).collect::<Result<Vec<Placed>>>()?;
        let mut changed = changed(part, &loaded)?;
        let undecided = undecided(part, &mut changed);
        let (mask_limit, is_concurrent) = (mask_limit(setup), setup.concurrent);
        let set = LoadedPart { part, loaded, mask_limit, kernels, changed, undecided, is_concurrent, together: None };
        if is_concurrent {
            set.has_dependencies()?;
        }
        Ok(set)
    }

    /// True if the capture does not have the memory after the last step.
    pub(super) fn is_without_reference(&self) -> bool {
        self.part.captured.after.is_none()
    }

    /// Makes the launches of all steps. What no file has a kernel for runs as in the application.
    ///
    /// # Errors
    /// When another kernel may not take the place of the application's, or files have none for any dispatch; when a kernel does not allow
    /// the geometry, or one grid is to take the place of several; when a dispatch needs what replays do not have.
    pub(super) fn side(&mut self, variant: &Variant) -> Result<Side> {
        let mut side = Side {
            is_own: false,
            launches: Vec::new(),
            arguments: Vec::new(),
            replaced: Vec::new(),
            reshaped: Vec::new(),
        };
        let (mut lacking, mut is_for_one) = (None, false);
        // What takes the place of a kernel is the same in all of its dispatches.
        let mut others = HashMap::new();
        for step in &self.part.steps {
            let Work::Dispatch { kernel, dispatch } = step.work else {
                side.launches.push(None);
                continue;
            };
            let (Some(captured), Some(own)) = (self.part.kernels.get(kernel), self.kernels.get(kernel)) else {
                side.launches.push(None);
                continue;
            };
            let symbol = &captured.original.kernel.name;
            let is_shaped = variant.reshaped.as_ref().is_none_or(|kernels| kernels.contains(symbol));
            let geometry = if is_shaped { variant.geometry } else { Geometry::default() };
            if geometry.is_other() {
                reshape(&mut side.reshaped, symbol, dispatch, geometry).map_err(|error| self.at(step, error))?;
            }
            let other = match others.get(&kernel) {
                Some(other) => Arc::clone(other),
                None => {
                    let found = match self.loaded.other(captured, &variant.replacements) {
                        Err(error @ ReplayError::Lacking { .. }) => {
                            lacking.get_or_insert_with(|| self.at(step, error));
                            self.loaded.other(captured, &[])
                        }
                        found => {
                            is_for_one = true;
                            found
                        }
                    };
                    let other = Arc::new(found.map_err(|error| self.at(step, error))?);
                    others.insert(kernel, Arc::clone(&other));
                    other
                }
            };
            let launch = self.loaded.launch_with(captured, *own, dispatch, &geometry, (*other).as_ref());
            let launch = launch.map_err(|error| self.at(step, error))?;
            if let Some((id, place)) = &launch.replaced {
                let replaced = Replaced { kernel: symbol.clone(), id: *id, place: place.clone() };
                if !side.replaced.contains(&replaced) {
                    side.replaced.push(replaced);
                }
            }
            side.launches.push(Some(launch));
        }
        if let Some(error) = lacking.filter(|_| !is_for_one) {
            return Err(error);
        }
        side.is_own = side.replaced.is_empty() && side.reshaped.is_empty();
        if self.is_concurrent { self.with_arguments(side) } else { Ok(side) }
    }

    /// Gives the arguments of each launch memory of their own.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn with_arguments(&mut self, mut side: Side) -> Result<Side> {
        if side.arguments.is_empty() {
            side.arguments = self.loaded.place_arguments(side.launches.iter().map(Option::as_ref))?;
        }
        Ok(side)
    }

    /// Makes the launches of a variant, and what they need to be known of the memory: what the host wrote while the application's own ran.
    ///
    /// # Errors
    /// As for [`LoadedPart::side`] and [`LoadedPart::run`].
    pub(super) fn side_with_memory(&mut self, variant: &Variant) -> Result<Side> {
        let side = self.side(variant)?;
        if self.is_undecided() && (self.is_concurrent || !side.is_own) {
            let own = self.side(&Variant::default())?;
            self.decide_all(&own)?;
        }
        Ok(side)
    }

    /// Adds to an error at which step it was.
    pub(super) fn at(&self, step: &PartStep<'_>, error: ReplayError) -> ReplayError {
        let dispatch = step.step.dispatch.as_ref().map_or(0, |dispatch| dispatch.id);
        ReplayError::Step {
            step: step.step.sequence,
            dispatch,
            kernel: self.part.symbol(step).to_owned(),
            error: Box::new(error),
        }
    }

    /// Puts back what replays have changed.
    ///
    /// # Errors
    /// When the capture cannot be read, or the device not be written to.
    pub(super) fn restore(&mut self) -> Result<()> {
        self.loaded.restore()
    }

    /// Runs all steps on restored memory: one after the other, or beside each other.
    ///
    /// # Errors
    /// As for [`LoadedPart::run`].
    pub(super) fn run_all(&mut self, side: &Side) -> Result<PartTimes> {
        match self.is_concurrent {
            true => self.run_queued(side, Order::Dependencies, &mut |_, _| ()),
            false => self.run(side, self.part.steps.len(), &mut |_, _, _| Ok(())),
        }
    }

    /// Runs the first steps of the part on restored memory, and calls `each` behind each of them, with how long its kernel took on the GPU.
    ///
    /// # Errors
    /// What a step has ended with, and which one it was.
    pub(super) fn run(&mut self, side: &Side, steps: usize, each: Each<'_, 'c>) -> Result<PartTimes> {
        self.loaded.put_own_variables()?;
        let (start, mut gpu_ns) = (Instant::now(), 0);
        for number in 0..steps {
            self.prepare(number)?;
            let took = self.step(side, number)?;
            gpu_ns += took.unwrap_or(0);
            each(&mut self.loaded, number, took)?;
        }
        Ok(PartTimes { gpu_ns, host_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) })
    }

    /// Writes what the host had changed before a step.
    ///
    /// # Errors
    /// When the capture cannot be read, or the device not be written to.
    pub(super) fn prepare(&mut self, number: usize) -> Result<()> {
        let step = self.part.steps.get(number).and_then(|step| step.delta.as_ref()).zip(self.changed.get(number));
        match step {
            Some((delta, areas)) if !areas.is_empty() => self.loaded.write(delta, areas),
            _ => Ok(()),
        }
    }

    /// Does a step; how long its kernel took on the GPU, if it has one.
    ///
    /// # Errors
    /// As for [`LoadedPart::run`].
    pub(super) fn step(&mut self, side: &Side, number: usize) -> Result<Option<u64>> {
        let Some(step) = self.part.steps.get(number) else { return Ok(None) };
        let done = match step.work {
            Work::Dispatch { .. } => match side.launches.get(number) {
                Some(Some(launch)) => {
                    let before = self.before_dispatch(side, number)?;
                    let times = self.loaded.run_on(launch);
                    times.and_then(|times| self.decide(number, before).map(|()| Some(times.gpu_ns)))
                }
                _ => Ok(None),
            },
            Work::Copy { to, from, bytes } => {
                self.loaded.put(to, bytes, |loaded, at, piece| loaded.read(from + at, piece)).map(|()| None)
            }
            Work::Fill { to, bytes, value } => {
                let pattern = value.to_le_bytes();
                let fill = |_: &LoadedDispatch<'_>, at: u64, piece: &mut [u8]| {
                    let bytes = pattern.iter().cycle().skip((at % 4) as usize);
                    piece.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                    Ok(())
                };
                self.loaded.put(to, bytes, fill).map(|()| None)
            }
            Work::Barrier => Ok(None),
        };
        done.map_err(|error| self.at(step, error))
    }

    /// Restores memory, and runs the first steps of the part: the pages that are not as before.
    ///
    /// # Errors
    /// As for [`LoadedPart::run`].
    pub(super) fn after(&mut self, side: &Side, steps: usize) -> Result<Pages> {
        self.restore()?;
        self.run(side, steps, &mut |_, _, _| Ok(()))?;
        self.loaded.changed()
    }

    /// The first dispatch after which two replays of the application's own kernels differ, as far as these two show.
    ///
    /// # Errors
    /// As for [`LoadedPart::run`].
    pub(super) fn mask_begins(&mut self, own: &Side) -> Result<Option<Launched>> {
        let steps = self.part.steps.iter().enumerate();
        let dispatches: Vec<usize> =
            steps.filter(|(_, step)| matches!(step.work, Work::Dispatch { .. })).map(|(number, _)| number).collect();
        let mut differ =
            |last: usize| Ok::<bool, ReplayError>(self.after(own, last + 1)? != self.after(own, last + 1)?);
        // The first of them with a difference is at `from` or behind, if there is one.
        let (mut from, mut to) = (0, dispatches.len());
        while from < to {
            let middle = from + (to - from) / 2;
            let Some(last) = dispatches.get(middle) else { break };
            if differ(*last)? { to = middle } else { from = middle + 1 }
        }
        let step = dispatches.get(to).and_then(|number| self.part.steps.get(*number));
        Ok(step.map(|step| self.launched(step)))
    }

    /// A step by name.
    pub(super) fn launched(&self, step: &PartStep<'_>) -> Launched {
        let dispatch = step.step.dispatch.as_ref().map_or(0, |dispatch| dispatch.id);
        Launched { step: step.step.sequence, dispatch, kernel: self.part.symbol(step).to_owned() }
    }
}

/// Counts a dispatch that has another geometry. One grid takes the place of one: dispatches of several have their own work.
///
/// # Errors
/// When a grid is given, and dispatches of the kernel have several.
fn reshape(all: &mut Vec<Reshaped>, kernel: &str, dispatch: &Dispatch, geometry: Geometry) -> Result<()> {
    let packet = logdur_captured::packet(dispatch);
    let own = (packet.grid_size(), packet.workgroup_size().map(u32::from));
    let Some(known) = all.iter_mut().find(|of| of.kernel == kernel) else {
        all.push(Reshaped { kernel: kernel.to_owned(), dispatches: 1, first: dispatch.id, own, geometry });
        return Ok(());
    };
    known.dispatches += 1;
    if geometry.grid.is_none() || known.own == own {
        return Ok(());
    }
    let shape = |([x, y, z], [a, b, c]): ([u32; 3], [u32; 3])| format!("{x},{y},{z} by {a},{b},{c}");
    Err(ReplayError::Usage {
        what: format!("--grid of {kernel}"),
        expected: format!("dispatches of one grid and workgroup, as {} of {}", shape(known.own), known.first),
        found: format!("{} of {}", shape(own), dispatch.id),
    })
}

/// Replays of a part: with the application's own kernels, or with those that are judged in their place.
pub(super) struct PartReplays<'s, 'c> {
    loaded: &'s mut LoadedPart<'c>,
    own: &'s Side,
    other: Option<&'s Side>,
    /// How often all memory was looked at after each of the two.
    looked: [u32; 2],
    /// How long each replay of the kernels that are judged took.
    pub(super) times: Vec<PartTimes>,
}

impl<'s, 'c> PartReplays<'s, 'c> {
    pub(super) fn new(loaded: &'s mut LoadedPart<'c>, own: &'s Side, other: &'s Side) -> PartReplays<'s, 'c> {
        let other = Some(other).filter(|other| !other.is_like(own));
        PartReplays { loaded, own, other, looked: [0; 2], times: Vec::new() }
    }

    fn replay(&mut self, side: &Side, is_own: bool) -> Result<(Pages, PartTimes)> {
        self.loaded.restore()?;
        // Other kernels may not change what the application's own leave alone.
        let records = is_own && self.other.is_some() && self.loaded.loaded.wants_stores();
        if records {
            self.loaded.loaded.record_stores();
        }
        let times = self.loaded.run_all(side)?;
        if records {
            let codes: Vec<&Code> = self.loaded.part.kernels.iter().map(|kernel| &*kernel.original).collect();
            self.loaded.loaded.take_stores(&codes)?;
        }
        Ok((self.loaded.loaded.pages(&mut self.looked[usize::from(!is_own)])?, times))
    }
}

impl Replays for PartReplays<'_, '_> {
    fn own(&mut self) -> Result<Pages> {
        let (pages, times) = self.replay(self.own, true)?;
        if self.other.is_none() {
            self.times.push(times);
        }
        Ok(pages)
    }

    fn other(&mut self) -> Result<Pages> {
        let (pages, times) = self.replay(self.other.unwrap_or(self.own), false)?;
        self.times.push(times);
        Ok(pages)
    }

    fn compare(&self, own: &[Pages], other: &[Pages], judged: Judged) -> Result<Vec<BufferReport>> {
        self.loaded.loaded.compare(own, other, judged)
    }

    fn scores(&self, reference: &[Pages], runs: &[Pages]) -> Result<Vec<Score>> {
        self.loaded.loaded.scores(reference, runs)
    }
}

#[cfg(test)]
mod tests {
    use hsa::sys::abi::aql;
    use logdur_capture::Packet;

    use super::*;

    #[test]
    fn one_grid_takes_the_place_of_one_and_a_workgroup_of_any() {
        let dispatch = |id, grid| {
            let mut packet = aql::Packet([0; 16]);
            packet.0[..6].copy_from_slice(&[0x0001_0b02, 64 | 1 << 16, 1, grid, 1, 1]);
            Dispatch { id, packet: Packet(packet.to_bytes()), ..Dispatch::default() }
        };
        let counted = |geometry, grids: [u32; 2]| {
            let mut all = Vec::new();
            for (id, grid) in (7..).zip(grids) {
                reshape(&mut all, "k", &dispatch(id, grid), geometry)?;
            }
            Ok::<_, ReplayError>(all.iter().map(|of| of.dispatches).collect::<Vec<_>>())
        };
        let group = Geometry { workgroup: Some([32, 1, 1]), ..Geometry::default() };
        assert_eq!(counted(group, [256, 512]).unwrap(), [2]);
        let grid = Geometry { grid: Some([128, 1, 1]), ..Geometry::default() };
        assert_eq!(counted(grid, [256, 256]).unwrap(), [2]);
        let refused = counted(grid, [256, 512]).unwrap_err().to_string();
        let said = "--grid of k: expected dispatches of one grid and workgroup, as 256,1,1 by 64,1,1 of 7, found 512,1,1 by 64,1,1 of 8";
        assert_eq!(refused, said);
    }
}
