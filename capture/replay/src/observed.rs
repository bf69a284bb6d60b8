//! A dispatch that runs once on the emulated GPU while its instructions are observed.

use std::ops::Range;
use std::sync::Arc;

use amdgpu_emu::Arch;
use amdgpu_emu::observer::Observe;
use logdur_captured::{Backend, CapturedDispatch, Code, buffers, name, processor};

use crate::device::Description;
use crate::error::{Fault, ReplayError, Result};
use crate::loaded::{LoadedDispatch, Variant};
use crate::setup::Setup;

/// Memory of a dispatch with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// What arguments, variables or addresses call it.
    pub name: String,
    /// Its addresses.
    pub range: Range<u64>,
}

/// Code of another code object than the kernel's, as it was loaded.
#[derive(Clone, Debug)]
pub struct CalledCode {
    /// What it is called.
    pub place: String,
    /// The code object.
    pub bytes: Vec<u8>,
    /// What is added to its addresses where it was loaded.
    pub moved: u64,
}

/// A dispatch that was observed.
#[derive(Debug)]
pub struct Observed {
    /// The device.
    pub device: Description,
    /// The code that ran.
    pub code: Code,
    /// The code object that ran instead of the application's, and where it came from.
    pub replaced: Option<(logdur_capture::Id, String)>,
    /// What is added to the code object's addresses where it was loaded.
    pub moved: u64,
    /// The other code objects that were loaded: the dispatch leads to them.
    pub called: Vec<CalledCode>,
    /// Why less was observed than what the application did, one line each.
    pub qualified: Vec<String>,
    /// How long the run took on the host, in nanoseconds.
    pub host_ns: u64,
    /// What ended it too early, if it did not end by itself.
    pub fault: Option<Fault>,
}

/// The processor that a dispatch is emulated on.
///
/// # Errors
/// When it is none that is emulated.
pub fn emulated_processor(captured: &CapturedDispatch<'_>) -> Result<Arch> {
    let of_agent = captured.agent.map(|agent| agent.isa.clone()).filter(|isa| !isa.is_empty());
    let isa = of_agent.unwrap_or_else(|| captured.original.object.target.to_string());
    processor(&isa).parse().map_err(|error| ReplayError::Unsupported(format!("{error}")))
}

/// The memory of a dispatch, sorted by address, without overlaps.
///
/// # Errors
/// When the capture's names cannot be read.
pub fn named(captured: &CapturedDispatch<'_>) -> Result<Vec<Named>> {
    // The variables of other code objects have names as well.
    captured.look_for_called()?;
    let buffers = buffers(captured, &[])?;
    let mut all: Vec<Named> =
        buffers.into_iter().map(|buffer| Named { name: buffer.name, range: buffer.start..buffer.end }).collect();
    all.sort_by_key(|named| named.range.start);
    all.dedup_by(|next, last| next.range.start < last.range.end);
    Ok(all)
}

/// Runs a dispatch once, on the emulated GPU whatever the setup says, in this process. A fault is part of what was observed.
///
/// # Errors
/// What keeps it from being replayed: see [`replay`](crate::replay()).
pub fn observed(
    captured: &CapturedDispatch<'_>,
    setup: &Setup,
    variant: &Variant,
    observe: Arc<dyn Observe>,
) -> Result<Observed> {
    let setup = Setup { backend: Backend::Emulated, observe: Some(observe), ..setup.clone() };
    let mut loaded = LoadedDispatch::set(captured, &setup)?;
    let launch = loaded.launch(variant)?;
    loaded.restore_all()?;
    let called = loaded.called().map(|(called, bias)| CalledCode {
        place: format!("code object {}", name(&called.loaded)),
        bytes: called.bytes.clone(),
        moved: bias.0,
    });
    let called = called.collect();
    let (host_ns, fault) = match loaded.run(&launch) {
        Ok(times) => (times.host_ns, None),
        Err(ReplayError::Fault(fault)) => (0, Some(fault)),
        Err(error) => return Err(error),
    };
    let (code, bias) = loaded.code(&launch);
    Ok(Observed {
        device: loaded.device().description().clone(),
        code: code.clone(),
        replaced: launch.replaced.clone(),
        moved: bias.0,
        called,
        qualified: loaded.qualified.clone(),
        host_ns,
        fault,
    })
}
