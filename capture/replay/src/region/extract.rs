//! Writes a dispatch of a region as a capture of its own: the memory before and after it is that of a replay.

use std::io;
use std::ops::Range;
use std::path::Path;

use logdur_capture::{CodeObject, Dispatch, FileStorage, Note, Severity, SnapshotId, Storage, Writer};
use logdur_captured::region::{CapturedPart, Work};

use super::run::LoadedPart;
use crate::error::{ReplayError, Result};
use crate::loaded::{LoadedDispatch, Variant};
use crate::setup::Setup;

/// The code of the note that says that memory is a replay's.
pub(super) const BY_REPLAY: &str = "by-replay";

/// Writes the last dispatch of a part into a file, which is a capture of this dispatch alone. The steps before it are replayed in this
/// process, which has not started the runtime yet.
///
/// # Errors
/// What keeps the part from being replayed; when the file cannot be written.
pub fn extract(part: &CapturedPart<'_>, setup: &Setup, path: &Path) -> Result<()> {
    let Some(last) = part.last() else {
        return Err(ReplayError::Unsupported("a part without steps".to_owned()));
    };
    let Some((kernel, dispatch)) = part.steps.get(last).and_then(|step| match step.work {
        Work::Dispatch { kernel, dispatch } => Some((part.kernels.get(kernel)?, dispatch)),
        Work::Copy { .. } | Work::Fill { .. } | Work::Barrier => None,
    }) else {
        return Err(ReplayError::Unsupported("a part whose last step is no dispatch".to_owned()));
    };
    let mut loaded = LoadedPart::set(part, setup)?;
    let own = loaded.side(&Variant::default())?;
    loaded.restore()?;
    loaded.run(&own, last, &mut |_, _, _| Ok(()))?;
    loaded.prepare(last)?;
    let mut writer = Writer::create(path, &logdur_capture::Options::default())?;
    records(&mut writer, part, kernel, dispatch)?;
    let live = part.live();
    let before = snapshot(&mut writer, None, &loaded.loaded, &live)?;
    loaded.step(&own, last)?;
    let after = snapshot(&mut writer, Some(before), &loaded.loaded, &live)?;
    let region = part.region.record.id;
    let said = |text: String| Note {
        severity: Severity::Info,
        code: BY_REPLAY.to_owned(),
        text,
        dispatch: Some(dispatch.id),
        time_ns: 0,
    };
    let replayed = format!("memory before and after is that of a replay of region {region}, {}", part.part.steps());
    writer.note(&said(replayed))?;
    for why in loaded.qualified() {
        writer.note(&Note { severity: Severity::Loss, ..said(why) })?;
    }
    let (before, after) = (Some(before), Some(after));
    writer.dispatch(&Dispatch { before, after, scope: part.region.record.scope, ..dispatch.value.clone() })?;
    writer.finish()?;
    Ok(())
}

/// Writes what the capture says of the process, of the code and of what memory there is.
fn records(
    writer: &mut Writer<FileStorage>,
    part: &CapturedPart<'_>,
    kernel: &logdur_captured::CapturedDispatch<'_>,
    dispatch: &Dispatch,
) -> Result<()> {
    let reader = part.region.reader;
    let all = reader.records();
    let place = part.steps.last().map_or(part.region.record.place, |step| step.step.place);
    reader.sessions().iter().filter(|session| session.place < place).try_for_each(|session| writer.session(session))?;
    all.agents.iter().try_for_each(|agent| writer.agent(agent))?;
    all.queues.iter().filter(|queue| queue.id == dispatch.queue).try_for_each(|queue| writer.queue(queue))?;
    for loaded in &kernel.all_loaded {
        if let Some(about) = all.code_objects.iter().find(|about| about.id == loaded.code_object) {
            let about = CodeObject { extents: Vec::new(), ..about.value.clone() };
            writer.code_object(&about, &reader.code_object(loaded.code_object)?)?;
        }
        writer.loaded(loaded)?;
        let of = |executable, code_object| (executable, code_object) == (loaded.executable, loaded.code_object);
        all.globals.iter().filter(|g| of(g.executable, g.code_object)).try_for_each(|global| writer.global(global))?;
    }
    // Of a kernel whose place in memory is not known, the code is there all the same.
    let used = [Some(dispatch.code_object), dispatch.replaced].into_iter().flatten().filter(|id| !id.is_none());
    for id in used {
        if let Some(about) = all.code_objects.iter().find(|about| about.id == id) {
            let about = CodeObject { extents: Vec::new(), ..about.value.clone() };
            writer.code_object(&about, &reader.code_object(id)?)?;
        }
    }
    let is_used = |id: u64| id == dispatch.kernel || Some(id) == dispatch.replaced_kernel;
    all.kernels.iter().filter(|kernel| is_used(kernel.id)).try_for_each(|kernel| writer.kernel(kernel))?;
    reader.allocations_at(place).into_iter().try_for_each(|allocation| writer.allocation(allocation))?;
    Ok(())
}

/// Writes what is in memory now.
pub(super) fn snapshot<S: Storage>(
    writer: &mut Writer<S>,
    parent: Option<SnapshotId>,
    loaded: &LoadedDispatch<'_>,
    ranges: &[Range<u64>],
) -> Result<SnapshotId> {
    let mut snapshot = writer.snapshot(parent);
    for range in ranges {
        // Of loaded code, that is variables and what is looked at after launches.
        for piece in loaded.restored_of(range) {
            let mut read =
                |at: u64, to: &mut [u8]| loaded.read_captured(piece.start + at, to).map_err(io::Error::other);
            snapshot.range(piece.start, piece.end - piece.start, &mut read)?;
        }
    }
    Ok(snapshot.finish()?)
}
