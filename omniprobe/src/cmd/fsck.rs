//! `omniprobe fsck`: whether every byte of a capture is as it was written, and what its dispatches lack.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use logdur_capture::End;
use logdur_replay::{Exit, ReplayError, lacks};
use serde_json::{Value, json};

use super::captured::opened;
use super::{file, lines, progress};

/// What is looked at.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The capture.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the undamaged part to another file.
    #[arg(long, value_name = "OUT")]
    repair: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Looks at every byte.
///
/// # Errors
/// When it is no capture, or the other file cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = opened(&options.file)?;
    if let Some(to) = options.repair.as_ref().filter(|to| is_same(to, &options.file)) {
        let (expected, found) = ("another file than the capture".to_owned(), to.display().to_string());
        return Err(ReplayError::Usage { what: "--repair".to_owned(), expected, found }.into());
    }
    let bar = progress::bar("{bytes} of {total_bytes}", reader.bytes())?;
    let report = reader.check_with(&mut |done| bar.set_position(done));
    bar.reset();
    let repair = |to: &PathBuf| reader.repair_with(to, &mut |done| bar.set_position(done));
    let repaired = options.repair.as_ref().map(repair).transpose().map_err(ReplayError::from)?;
    bar.finish_and_clear();
    let finished = *reader.end() == End::Finished;
    let lacks: Vec<(u64, Vec<String>)> =
        reader.dispatches().iter().map(|d| (d.id, lacks(&reader, d))).filter(|(_, what)| !what.is_empty()).collect();
    if options.json {
        let finding = |f: &logdur_capture::Finding| json!({ "offset": f.offset, "text": f.text });
        let findings: Vec<Value> = report.findings.iter().map(finding).collect();
        let lost: Option<Vec<Value>> = repaired.map(|lost| lost.iter().map(finding).collect());
        let all = json!({
            "frames": report.frames, "chunks": report.chunks, "finished": finished, "findings": findings, "lost": lost,
            "lacks": lacks.iter().map(|(id, what)| json!({ "dispatch": id, "what": what })).collect::<Vec<_>>(),
        });
        lines([all.to_string()])?;
    } else {
        let end = if finished { "finished" } else { "not finished" };
        let mut all: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let dispatches = reader.dispatches().len();
        all.push(format!(
            "{}: {} frames, {} chunks, {dispatches} dispatches, {end}, {} findings",
            file(&options.file),
            report.frames,
            report.chunks,
            report.findings.len()
        ));
        all.extend(lacks.iter().flat_map(|(id, what)| what.iter().map(move |what| format!("dispatch {id}: {what}"))));
        if !lacks.is_empty() {
            all.push(format!("{} of {dispatches} dispatches lack what a replay of them needs", lacks.len()));
        }
        if let (Some(lost), Some(to)) = (repaired, &options.repair) {
            all.extend(lost.iter().map(|f| format!("lost: {f}")));
            all.push(format!("{}: written", file(to)));
        }
        lines(all)?;
    }
    Ok(match (report.is_clean(), lacks.is_empty()) {
        (false, _) => Exit::Corrupt,
        (true, false) => Exit::Incomplete,
        (true, true) => Exit::Success,
    })
}

/// True when two paths lead to one file.
fn is_same(a: &Path, b: &Path) -> bool {
    let file = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    file(a).is_some_and(|a| file(b) == Some(a))
}
