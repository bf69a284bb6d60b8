//! Tries variants of one kernel of a region: in all its dispatches, with the other kernels as they are.

use logdur_captured::region::{CapturedPart, Work};
use logdur_captured::verify::Overall;

use super::run::{LoadedPart, Side};
use super::verify;
use crate::device::Description;
use crate::error::{ReplayError, Result};
use crate::judge::Judgement;
use crate::loaded::{COMPARED, Variant};
use crate::setup::Setup;
use crate::variants::{Ran, Trials};

/// A part of a region on a device, of whose kernels one is tried as variants.
pub struct RegionVariants<'c> {
    loaded: LoadedPart<'c>,
    own: Side,
    /// The number of the kernel among those of the part.
    kernel: usize,
    /// Variants that passed.
    passed: Vec<Variant>,
}

impl<'c> RegionVariants<'c> {
    /// Puts a part on a device, in this process, which has not started the runtime yet.
    ///
    /// # Errors
    /// As for [`replay`](super::replay); when the dispatches of the kernel do not all have one grid and one workgroup.
    pub fn set(part: &'c CapturedPart<'c>, kernel: usize, setup: &Setup) -> Result<RegionVariants<'c>> {
        let mut shapes = part.steps.iter().filter_map(|step| match step.work {
            Work::Dispatch { kernel: of, dispatch } if of == kernel => {
                let packet = logdur_captured::packet(dispatch);
                Some((packet.grid_size(), packet.workgroup_size(), dispatch.id))
            }
            _ => None,
        });
        let Some((grid, workgroup, first)) = shapes.next() else {
            return Err(ReplayError::Unsupported("a kernel without dispatches".to_owned()));
        };
        if let Some((other, group, id)) = shapes.find(|shape| (shape.0, shape.1) != (grid, workgroup)) {
            return Err(ReplayError::Usage {
                what: "--region".to_owned(),
                expected: format!(
                    "dispatches of the kernel with one grid and workgroup, as {grid:?} by {workgroup:?} of {first}"
                ),
                found: format!("{other:?} by {group:?} of {id}"),
            });
        }
        let mut loaded = LoadedPart::set(part, setup)?;
        let own = loaded.side(&Variant::default())?;
        loaded.decide_all(&own)?;
        loaded.qualified().into_iter().for_each(|why| loaded.loaded.qualify(why));
        Ok(RegionVariants { loaded, own, kernel, passed: Vec::new() })
    }

    /// The launches with a variant of the kernel.
    fn side(&mut self, variant: &Variant) -> Result<Side> {
        let mut side = self.loaded.side(&Variant::default())?;
        let part = self.loaded.part;
        let (Some(captured), Some(own)) =
            (part.kernels.get(self.kernel), self.loaded.kernels.get(self.kernel).copied())
        else {
            return Ok(side);
        };
        let other = self.loaded.loaded.other(captured, &variant.replacements)?;
        for (number, step) in part.steps.iter().enumerate() {
            let Work::Dispatch { kernel, dispatch } = step.work else { continue };
            if kernel == self.kernel
                && let Some(launch) = side.launches.get_mut(number)
            {
                let loaded = &mut self.loaded.loaded;
                *launch = Some(loaded.launch_with(captured, own, dispatch, &variant.geometry, other.as_ref())?);
            }
        }
        side.is_own = side.is_like(&self.own);
        Ok(side)
    }
}

impl Trials for RegionVariants<'_> {
    fn device(&self) -> &Description {
        self.loaded.loaded.device().description()
    }

    fn qualified(&self) -> &[String] {
        &self.loaded.loaded.qualified
    }

    fn run(&mut self, variant: &Variant, repetitions: u32) -> Result<Ran> {
        let side = self.side(variant)?;
        let mut ran = Ran { overall: Overall::Pass, buffers: Vec::new(), qualified: Vec::new(), gpu_ns: Vec::new() };
        if !self.passed.contains(variant) {
            let Judgement { overall, buffers, qualified } =
                verify(&mut self.loaded, [&self.own, &side], COMPARED).map_err(alone)?.judgement;
            (ran.overall, ran.qualified) = (overall, qualified);
            if overall != Overall::Pass {
                ran.buffers = buffers;
                return Ok(ran);
            }
            self.passed.push(variant.clone());
        }
        for _ in 0..repetitions {
            self.loaded.restore()?;
            let times = self.loaded.run(&side, self.loaded.part.steps.len(), &mut |_, _, _| Ok(())).map_err(alone)?;
            ran.gpu_ns.push(times.gpu_ns);
        }
        Ok(ran)
    }
}

/// The error of a step, which is that of the variant.
fn alone(error: ReplayError) -> ReplayError {
    match error {
        ReplayError::Step { error, .. } => *error,
        error => error,
    }
}
