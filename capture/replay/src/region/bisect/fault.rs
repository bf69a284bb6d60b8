//! The first dispatch that ends with a fault, or does not end.

use super::super::run::{LoadedPart, Side};
use super::Found;
use crate::error::{ReplayError, Result};

/// Runs the steps of a part, until one ends so.
pub(super) fn first(loaded: &mut LoadedPart<'_>, side: &Side) -> Result<Option<Found>> {
    loaded.restore()?;
    loaded.loaded.put_own_variables()?;
    for number in 0..loaded.part.steps.len() {
        loaded.prepare(number)?;
        let Err(error) = loaded.step(side, number) else { continue };
        let ReplayError::Step { error, .. } = &error else { return Err(error) };
        match **error {
            ReplayError::Fault(_)
            | ReplayError::LeftOut { .. }
            | ReplayError::Timeout { .. }
            | ReplayError::Stuck { .. } => {}
            _ => return Err(ReplayError::Unsupported(error.to_string())),
        }
        let step = loaded.part.steps.get(number);
        return Ok(step.map(|step| Found {
            launched: loaded.launched(step),
            element: None,
            stored: None,
            fault: Some(error.to_string()),
        }));
    }
    Ok(None)
}
