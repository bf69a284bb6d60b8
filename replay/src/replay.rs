//! A dispatch, replayed and compared.

use std::path::{Path, PathBuf};

use logdur_capture::{Id, Scope};

use crate::case::Case;
use crate::device::{Description, Times};
use crate::error::{ReplayError, Result};
use crate::exit::Exit;
use crate::memory::Pages;
use crate::place::PAGE;
use crate::stage::{Setup, Stage, Variant};
use crate::verify::{Buffer, BufferReport, Overall};

/// How a dispatch is replayed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How often; 0 is once.
    pub repetitions: u32,
    /// How many of the repetitions, from the first on, are compared; 0 is none.
    pub verified: u32,
    /// What it is replayed on.
    pub setup: Setup,
    /// What is other than it was.
    pub variant: Variant,
    /// A folder for what the first repetition left in each buffer that it changed.
    pub save: Option<PathBuf>,
}

/// One repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// How long it took.
    pub times: Times,
    /// True when what it wrote was compared.
    pub verified: bool,
}

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Report {
    /// The dispatch's number in its process.
    pub dispatch: u64,
    /// The kernel's symbol.
    pub kernel: String,
    /// What of the memory was captured.
    pub scope: Scope,
    /// The device.
    pub device: Description,
    /// The application's code object.
    pub code: Id,
    /// The code object that was replayed instead, and where it came from.
    pub replaced: Option<(Id, String)>,
    /// True when not all memory and code is at its address.
    pub relocated: bool,
    /// Why a PASS says less than it could, one line each.
    pub weaknesses: Vec<String>,
    /// How long the application's dispatch took.
    pub recorded_ns: Option<u64>,
    /// The repetitions.
    pub repetitions: Vec<Repetition>,
    /// The result; `None` when nothing was compared.
    pub overall: Option<Overall>,
    /// What was found of each buffer.
    pub buffers: Vec<BufferReport>,
}

impl Report {
    /// The status that says it. With `strict`, a result that says less than it could is no success.
    pub fn exit(&self, strict: bool) -> Exit {
        match self.overall {
            Some(Overall::Pass) if strict && !self.weaknesses.is_empty() => Exit::Incomplete,
            overall => overall.map_or(Exit::Success, Overall::exit),
        }
    }
}

/// Replays a dispatch in this process, which has not started the runtime yet and does so here, once.
///
/// # Errors
/// What keeps it from being replayed: see [`ReplayError`]. After a fault or a kernel that does not end, the process should end
/// without shutting the runtime down.
pub fn replay(case: &Case<'_>, options: &Options) -> Result<Report> {
    let mut stage = Stage::set(case, &options.setup)?;
    let launch = stage.launch(&options.variant)?;
    let (mut repetitions, mut runs) = (Vec::new(), Vec::<Pages>::new());
    for number in 0..options.repetitions.max(1) {
        // What a launch changes is not known before one was looked at.
        if runs.is_empty() { stage.restore_all() } else { stage.restore() }?;
        let times = stage.run(&launch)?;
        let verified = number < options.verified;
        if verified {
            runs.push(stage.changed()?);
        }
        repetitions.push(Repetition { times, verified });
    }
    if let (Some(folder), Some(first)) = (&options.save, runs.first()) {
        save(case, folder, stage.buffers(), first)?;
    }
    let compared = if runs.is_empty() { Vec::new() } else { stage.compare(&runs)? };
    Ok(Report {
        dispatch: case.dispatch.id,
        kernel: case.original.kernel.name.clone(),
        scope: case.dispatch.scope,
        device: stage.device().description().clone(),
        code: case.original.id,
        relocated: stage.is_relocated(),
        weaknesses: stage.weaknesses,
        replaced: launch.replaced,
        recorded_ns: case.duration_ns(),
        repetitions,
        overall: (!runs.is_empty()).then(|| Overall::of(&compared)),
        buffers: compared,
    })
}

/// Writes what a repetition left in each buffer that it changed, a file for each.
fn save(case: &Case<'_>, folder: &Path, buffers: &[Buffer], pages: &Pages) -> Result<()> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| ReplayError::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    for buffer in buffers {
        let mut bytes = vec![0; (buffer.end - buffer.start) as usize];
        case.before.read(buffer.start, &mut bytes)?;
        let mut changed = false;
        for (start, page) in pages.range(buffer.start / PAGE * PAGE..buffer.end) {
            for (address, byte) in (*start..).zip(page) {
                let to = address.checked_sub(buffer.start).and_then(|at| bytes.get_mut(at as usize));
                if let Some(to) = to.filter(|to| **to != *byte) {
                    *to = *byte;
                    changed = true;
                }
            }
        }
        if changed {
            let path = folder.join(format!("dispatch-{}-{:x}.bin", case.dispatch.id, buffer.start));
            std::fs::write(&path, bytes).map_err(failed(&path))?;
        }
    }
    Ok(())
}
