//! A dispatch of a region as if it had been captured alone, for the tools that look at single dispatches.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use logdur_capture::Reader;
use logdur_captured::CapturedError;
use omniprobe_exit::Exit;

use super::captured::{Captured, StoreArgs, opened};
use super::region::RegionArgs;

/// Opens a capture: all of it, or of a region the dispatch that is asked for.
///
/// # Errors
/// When it cannot be read, and where a region is asked for without a dispatch of it.
pub(crate) fn reader(captured: &Captured, region: &RegionArgs) -> Result<Reader> {
    let Some(number) = region.asked() else { return captured.open() };
    match captured.last_of_region()? {
        Some(dispatch) => of_region(&captured.store, &captured.file, number, dispatch),
        None => {
            let (what, expected) = ("--region".to_owned(), "a dispatch of the region, by --dispatch N".to_owned());
            Err(CapturedError::Usage { what, expected, found: "none".to_owned() }.into())
        }
    }
}

/// A dispatch of another capture, which may be of a region.
///
/// # Errors
/// As for [`reader`].
pub(crate) fn other(store: &StoreArgs, file: &Path, region: &RegionArgs, dispatch: Option<u64>) -> Result<Reader> {
    let reader = store.open(file)?;
    match (region.asked(), dispatch) {
        (Some(number), Some(dispatch)) if !reader.records().regions.is_empty() => {
            of_region(store, file, number, dispatch)
        }
        _ => Ok(reader),
    }
}

/// Replays the steps before a dispatch on the emulated GPU, in a process of its own: a capture of the dispatch. Ends this process with the
/// status of that one if it fails, which has said why.
fn of_region(store: &StoreArgs, file: &Path, number: Option<u64>, dispatch: u64) -> Result<Reader> {
    let folder = tempfile::tempdir().context("a folder for the dispatch of the region")?;
    let to = folder.path().join("dispatch.ldcap");
    let program = std::env::current_exe().context("where this program is")?;
    let region = number.map_or_else(|| "--region".to_owned(), |number| format!("--region={number}"));
    let mut extract = Command::new(program);
    extract.arg("extract").arg(file).args([region, format!("--dispatch={dispatch}"), "--backend=emu".to_owned()]);
    extract.args(store.words()).arg("-o").arg(&to).stdout(Stdio::null());
    let ended = extract.status().context("starting the process that replays the region")?;
    if !ended.success() {
        drop(folder);
        std::process::exit(ended.code().unwrap_or(i32::from(Exit::Fault as u8)));
    }
    // The file is open: the folder may go.
    opened(&to)
}
