//! Writes some captured dispatches as a capture of their own.

use logdur_capture::{Dispatch, FileStorage, Memory, Reader, SnapshotId, Storage, Writer};

use crate::dispatch::CapturedDispatch;
use crate::error::Result;
use crate::told::Told;

/// Bytes of memory that were written, beside those that are as before.
///
/// # Errors
/// When the capture is damaged, or the file cannot be written.
pub fn trim(reader: &Reader, dispatches: &[CapturedDispatch<'_>], storage: FileStorage) -> Result<u64> {
    let mut writer = Writer::new(storage, &logdur_capture::Options::default())?;
    let mut told = Told::of(reader, dispatches.iter());
    let mut bytes = 0;
    let mut in_order: Vec<&CapturedDispatch<'_>> = dispatches.iter().collect();
    in_order.sort_by_key(|captured| captured.dispatch.place);
    for captured in in_order {
        told.write_until(&mut writer, captured.dispatch.place)?;
        let has_memory = captured.dispatch.before.is_some();
        let before = if has_memory { Some(snapshot(&mut writer, None, &captured.before)?) } else { None };
        bytes += captured.before.ranges().iter().map(|range| range.end - range.start).sum::<u64>();
        let after = captured.after.as_ref().map(|after| snapshot(&mut writer, before, after)).transpose()?;
        writer.dispatch(&Dispatch { before, after, ..captured.dispatch.value.clone() })?;
    }
    if let Some(last) = dispatches.iter().map(|captured| captured.dispatch.place).max() {
        // Notes of a dispatch are behind it.
        let behind = logdur_capture::FramePosition { sequence: u64::MAX, ..last };
        told.notes_until(&mut writer, behind)?;
    }
    writer.finish()?;
    Ok(bytes)
}

/// Writes the memory of a snapshot.
fn snapshot<S: Storage>(writer: &mut Writer<S>, parent: Option<SnapshotId>, memory: &Memory<'_>) -> Result<SnapshotId> {
    let mut snapshot = writer.snapshot(parent);
    for range in memory.ranges() {
        let mut read = |at: u64, to: &mut [u8]| memory.read(range.start + at, to).map_err(std::io::Error::other);
        snapshot.range(range.start, range.end - range.start, &mut read)?;
    }
    if !memory.is_complete() {
        snapshot.incomplete();
    }
    Ok(snapshot.finish()?)
}
