//! What runs the trials of `omniprobe tune`.

use anyhow::{Result, bail};
use logdur_replay::Case;
use logdur_replay::tune::Bench;

use super::Options;

/// Something that runs configurations of a dispatch on the device that the options name.
///
/// # Errors
/// When there is no such device.
pub(super) fn bench(_options: &Options, case: &Case<'_>) -> Result<Box<dyn Bench>> {
    bail!("dispatch {}: what runs trials is not available", case.dispatch.id)
}
