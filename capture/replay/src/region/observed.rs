//! The dispatches of a part on the emulated GPU, one after the other, while their instructions are observed.

use std::sync::Arc;

use amdgpu_emu::observer::Observe;
use logdur_captured::region::{CapturedPart, Work};
use logdur_captured::{Backend, Code};

use super::Launched;
use super::run::LoadedPart;
use crate::device::Description;
use crate::error::{ReplayError, Result};
use crate::loaded::Variant;
use crate::placed::LoadBias;
use crate::setup::Setup;

/// A dispatch that was observed.
pub struct ObservedStep<'s> {
    /// The dispatch.
    pub launched: Launched,
    /// The code that ran.
    pub code: &'s Code,
    /// What is added to the code object's addresses where it was loaded.
    pub moved: u64,
    /// What ended it too early, if it did not end by itself.
    pub fault: Option<String>,
}

/// What was observed on.
#[derive(Clone, Debug)]
pub struct ObservedPart {
    /// The device.
    pub device: Description,
    /// How many dispatches were run.
    pub dispatches: u64,
    /// Why less was observed than what the application did, one line each.
    pub qualified: Vec<String>,
}

/// Runs the steps of a part on the emulated GPU, whatever the setup says, in this process, and calls `each` behind each dispatch until it
/// says false, or a fault ends it.
///
/// # Errors
/// As for [`replay`](super::replay).
pub fn observed(
    part: &CapturedPart<'_>,
    setup: &Setup,
    variant: &Variant,
    observe: Arc<dyn Observe>,
    each: &mut dyn FnMut(&ObservedStep<'_>) -> bool,
) -> Result<ObservedPart> {
    let setup = Setup { backend: Backend::Emulated, observe: Some(observe), ..setup.clone() };
    let mut loaded = LoadedPart::set(part, &setup)?;
    let side = loaded.side_with_memory(variant)?;
    loaded.restore()?;
    loaded.loaded.put_own_variables()?;
    let mut dispatches = 0;
    for (number, step) in part.steps.iter().enumerate() {
        loaded.prepare(number)?;
        let fault = match loaded.step(&side, number) {
            Ok(_) => None,
            Err(ReplayError::Step { error, .. }) if matches!(*error, ReplayError::Fault(_)) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        let Work::Dispatch { kernel, .. } = step.work else { continue };
        dispatches += 1;
        let launch = side.launches.get(number).and_then(Option::as_ref);
        let own = part.kernels.get(kernel).map(|captured| &*captured.original);
        let Some((launch, code)) = launch.and_then(|launch| Some((launch, launch.other.as_deref().or(own)?))) else {
            continue;
        };
        let descriptor = code.kernel.descriptor.map_or(0, |descriptor| descriptor.address);
        let LoadBias(moved) = LoadBias::of(launch.kernel_object(), descriptor);
        let has_ended = fault.is_some();
        let goes_on = each(&ObservedStep { launched: loaded.launched(step), code, moved, fault });
        if has_ended || !goes_on {
            break;
        }
    }
    Ok(ObservedPart { device: loaded.loaded.device().description().clone(), dispatches, qualified: loaded.qualified() })
}
