//! `omniprobe fsck`: whether every byte of a capture is as it was written, and what its dispatches lack.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_capture::{End, FileStorage, Finding};
use logdur_captured::{CapturedError, lacks};
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use crate::captured::{StoreArgs, ending};
use crate::output::{file, lines};
use crate::progress;

/// What is looked at.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The capture.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
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
    let reader = options.store.opened(&options.file)?;
    let output = options.repair.as_deref().map(|to| Output::begin(to, Readers::Owner, &[&options.file])).transpose()?;
    let bar = progress::bar("{bytes} of {total_bytes}", reader.bytes())?;
    let report = reader.check_with(&mut |done| bar.set_position(done));
    bar.reset();
    let repair = |output: Output| -> Result<Vec<Finding>> {
        let storage = FileStorage::of(output.file().try_clone()?);
        let lost = reader.repair_into(storage, &mut |done| bar.set_position(done)).map_err(CapturedError::from)?;
        output.finish()?;
        Ok(lost)
    };
    let repaired = output.map(repair).transpose()?;
    bar.finish_and_clear();
    let finished = *reader.end() == End::Finished;
    let lacks: Vec<(u64, Vec<String>)> =
        reader.dispatches().iter().map(|d| (d.id, lacks(&reader, d))).filter(|(_, what)| !what.is_empty()).collect();
    if options.json {
        let finding = |f: &Finding| json!({ "offset": f.offset, "text": f.text });
        let findings: Vec<Value> = report.findings.iter().map(finding).collect();
        let lost: Option<Vec<Value>> = repaired.map(|lost| lost.iter().map(finding).collect());
        let all = json!({
            "frames": report.frames, "chunks": report.chunks, "finished": finished, "findings": findings, "lost": lost,
            "lost_dispatches": reader.lost_dispatches(),
            "lacks": lacks.iter().map(|(id, what)| json!({ "dispatch": id, "what": what })).collect::<Vec<_>>(),
        });
        lines([all.to_string()])?;
    } else {
        let end = ending(reader.end());
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
        if reader.lost_dispatches() > 0 {
            all.push(format!("the records of {} dispatches cannot be read", reader.lost_dispatches()));
        }
        if let (Some(lost), Some(to)) = (repaired, &options.repair) {
            all.extend(lost.iter().map(|f| format!("lost: {f}")));
            all.push(format!("{}: written", file(to)));
        }
        lines(all)?;
    }
    Ok(match (report.is_clean(), finished && lacks.is_empty()) {
        (false, _) => Exit::Corrupt,
        (true, false) => Exit::Incomplete,
        (true, true) => Exit::Success,
    })
}
