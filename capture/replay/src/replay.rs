//! A dispatch, replayed and compared.

use std::io::Write;
use std::path::{Path, PathBuf};

use logdur_capture::{Id, Scope};
use logdur_captured::CapturedDispatch;
use logdur_captured::regions::PAGE;
use logdur_captured::verify::{Buffer, BufferReport, Judged, Overall};
use logdur_system::output::{Output, Readers};

use crate::device::{Description, Times};
use crate::error::{ReplayError, Result};
use crate::judge::{Judgement, KernelRuns, judge};
use crate::loaded::{LoadedDispatch, LoadedVariant, Variant};
use crate::masks;
use crate::placed::Pages;
use crate::refilled;
use crate::setup::Setup;

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
    /// The code object that ran in the application in the place of its own.
    pub ran_instead: Option<Id>,
    /// True when not all memory and code is at its address.
    pub relocated: bool,
    /// Why a PASS says less than it could, one line each.
    pub qualified: Vec<String>,
    /// How long the application's dispatch took.
    pub recorded_ns: Option<u64>,
    /// The repetitions; more than were asked for where these did not decide it.
    pub repetitions: Vec<Repetition>,
    /// How many were asked for.
    pub asked: usize,
    /// How often the application's own kernel was replayed to judge another one in its place.
    pub own_replays: usize,
    /// True for another kernel that passed on the captured bytes alone: what it does on others, the device cannot compare.
    pub one_pattern: bool,
    /// The result; `None` when nothing was compared.
    pub overall: Option<Overall>,
    /// What was found of each buffer.
    pub buffers: Vec<BufferReport>,
}

/// Whose kernel was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The application's own; no other ran in its place.
    Applications,
    /// The application's own, in whose place another ran.
    Original,
    /// The one that ran in the place of the application's.
    Captured,
    /// Another one.
    Other,
}

impl Report {
    /// Whose kernel was replayed.
    pub fn whose(&self) -> Whose {
        match (&self.replaced, self.ran_instead) {
            (None, None) => Whose::Applications,
            (None, Some(_)) => Whose::Original,
            (Some((id, _)), Some(ran)) if *id == ran => Whose::Captured,
            (Some(_), _) => Whose::Other,
        }
    }
}

/// Replays a dispatch in this process, which has not started the runtime yet and does so here, once.
///
/// # Errors
/// What keeps it from being replayed: see [`ReplayError`]. After a fault or a kernel that does not end, the process should end
/// without shutting the runtime down.
pub fn replay(captured: &CapturedDispatch<'_>, options: &Options) -> Result<Report> {
    let mut loaded = LoadedDispatch::set(captured, &options.setup)?;
    let own = loaded.launch(&Variant::default())?;
    let launch = loaded.launch(&options.variant)?;
    let (mut repetitions, mut judged) = (Vec::new(), None);
    let plan = loaded.plan(&own, &launch, options.verified);
    let (mut of_own, mut of_other) = (KernelRuns::default(), KernelRuns::default());
    if options.verified > 0 {
        let mut replays = LoadedVariant::new(&mut loaded, &own, &launch);
        judged = Some(judge(&mut replays, &mut of_own, &mut of_other, &plan)?);
        repetitions.extend(replays.times.into_iter().map(|times| Repetition { times, verified: true }));
        let left = if plan.judged == Judged::Own { &of_own } else { &of_other };
        if let (Some(folder), Some(first)) = (&options.save, left.runs.first()) {
            save(captured, folder, loaded.buffers(), first)?;
        }
    }
    while repetitions.len() < options.repetitions.max(1) as usize {
        // What a launch changes is not known before one was looked at.
        if judged.is_none() { loaded.restore_all() } else { loaded.restore() }?;
        repetitions.push(Repetition { times: loaded.run(&launch)?, verified: false });
    }
    let mut one_pattern = false;
    if let Some(judgement) = &mut judged {
        let masks = masks::explained(&mut loaded, &own, &of_own, &judgement.buffers)?;
        judgement.qualified.extend(masks);
        one_pattern = !refilled::check(&mut loaded, [&own, &launch], &of_own, &plan, judgement)?;
    }
    let (overall, buffers) = match judged {
        Some(Judgement { overall, buffers, qualified }) => {
            loaded.qualified.extend(loaded.strayed(&buffers));
            loaded.qualified.extend(qualified);
            (Some(overall), buffers)
        }
        None => (None, Vec::new()),
    };
    Ok(Report {
        dispatch: captured.dispatch.id,
        kernel: captured.original.kernel.name.clone(),
        scope: captured.dispatch.scope,
        device: loaded.device().description().clone(),
        code: captured.original.id,
        ran_instead: captured.ran_instead.as_ref().map(|ran| ran.id),
        relocated: loaded.is_relocated(),
        qualified: loaded.qualified,
        replaced: launch.replaced,
        recorded_ns: captured.duration_ns(),
        asked: options.repetitions.max(1) as usize,
        own_replays: if of_other.runs.is_empty() { 0 } else { of_own.runs.len() },
        repetitions,
        one_pattern,
        overall,
        buffers,
    })
}

/// Writes what a repetition left in each buffer that it changed, a file for each.
fn save(captured: &CapturedDispatch<'_>, folder: &Path, buffers: &[Buffer], pages: &Pages) -> Result<()> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| ReplayError::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    for buffer in buffers {
        let mut bytes = vec![0; (buffer.end - buffer.start) as usize];
        captured.before.read(buffer.start, &mut bytes)?;
        let mut changed = false;
        for (start, page) in pages.range(buffer.start / PAGE * PAGE..buffer.end) {
            for (address, byte) in (*start..).zip(page.iter()) {
                let to = address.checked_sub(buffer.start).and_then(|at| bytes.get_mut(at as usize));
                if let Some(to) = to.filter(|to| **to != *byte) {
                    *to = *byte;
                    changed = true;
                }
            }
        }
        if changed {
            let name = format!("dispatch-{}-{:x}.bin", captured.dispatch.id, buffer.start);
            let mut file = Output::begin_in(folder, &name, Readers::Owner, &[captured.reader.path()])?;
            file.write_all(&bytes).map_err(failed(&folder.join(&name)))?;
            file.finish()?;
        }
    }
    Ok(())
}
