//! `omniprobe store gc`: which files of a store no capture needs.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use logdur_capture::{CAPTURE_MAGIC, Id, Store};
use logdur_captured::CapturedError;
use omniprobe_exit::Exit;
use serde_json::json;

use crate::captured::opened;
use crate::kind::{self, Kind};
use crate::output::{file, lines, tell};

/// The least limit: a writer takes a chunk as young for ten minutes, and clocks of machines differ.
const LEAST: Duration = Duration::from_secs(3600);
/// The extension of captures.
const EXTENSION: &str = "ldcap";

/// What is removed from where.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The store.
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// Captures, or folders with captures and folders. What one of them needs stays.
    #[arg(required = true, value_name = "CAPTURE|DIR")]
    captures: Vec<PathBuf>,
    /// Keep what is younger, since a capture that is being written may need it: a number of seconds (s), minutes (m), hours (h) or
    /// days (d), at least 1h.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = age)]
    older_than: Duration,
    /// Remove the files. Without it, only say what would be removed.
    #[arg(long)]
    remove: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn age(text: &str) -> Result<Duration, String> {
    let refuse = || format!("expected a time like 36h or 7d, at least 1h, found {text:?}");
    let unit = text.chars().next_back().and_then(|unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    });
    let number = text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse::<u64>().ok());
    let seconds = unit.zip(number).and_then(|(unit, number)| number.checked_mul(unit)).ok_or_else(refuse)?;
    Some(Duration::from_secs(seconds)).filter(|age| *age >= LEAST).ok_or_else(refuse)
}

/// Says what no capture needs, and removes it if that is asked for.
///
/// # Errors
/// When a capture or a folder cannot be read: it may need anything. When there is no capture.
pub(super) fn run(options: &Options) -> Result<Exit> {
    let mut found = Found::default();
    for path in &options.captures {
        found.add(path, true)?;
    }
    let mut needed = HashSet::<Id>::new();
    for path in &found.captures {
        let reader = opened(path)?;
        let named = |error| anyhow::Error::from(CapturedError::from(error)).context(kind::named(path, Kind::Capture));
        reader.shared(&mut needed).map_err(named)?;
    }
    if needed.is_empty() {
        return Err(CapturedError::Usage {
            what: file(&options.store),
            expected: "captures that need a store: without one, everything would be removed".to_owned(),
            found: format!("none among {} captures", found.captures.len()),
        }
        .into());
    }
    let all = Store::open(&options.store).collect(&needed, options.older_than, options.remove);
    let all = all.map_err(CapturedError::from)?;
    let pair = |(files, bytes): (u64, u64)| json!({ "files": files, "bytes": bytes });
    let said = if options.json {
        let said = json!({
            "captures": found.captures.len(), "needed": pair(all.needed), "young": pair(all.young), "removed": pair(all.removed),
            "unfinished": pair(all.parts), "missing": all.missing, "is_dry": !options.remove,
        });
        vec![said.to_string()]
    } else {
        let does = if options.remove { "removed" } else { "would be removed (--remove)" };
        let line = |what: &str, (files, bytes): (u64, u64)| format!("{files} {what}, {bytes} bytes");
        vec![
            format!("{} captures need {}", found.captures.len(), line("chunks", all.needed)),
            line("chunks are not needed and too young to be removed", all.young),
            line(&format!("chunks {does}"), all.removed),
            line(&format!("files of killed writers {does}"), all.parts),
        ]
    };
    lines(said)?;
    if all.missing > 0 {
        tell(format_args!(
            "{}: {} chunks that captures need are not there; `omniprobe fsck` names them",
            file(&options.store),
            all.missing
        ));
        return Ok(Exit::Incomplete);
    }
    Ok(Exit::Success)
}

/// The captures in folders.
#[derive(Default)]
struct Found {
    captures: Vec<PathBuf>,
    /// Folders that were looked at: links may lead back to one.
    folders: HashSet<(u64, u64)>,
}

impl Found {
    /// Looks at a file or a folder. One that is asked for has to be a capture or a folder.
    fn add(&mut self, path: &Path, is_asked: bool) -> Result<()> {
        let named = || file(path);
        let about = match path.metadata() {
            // A link that leads nowhere is no capture.
            Err(_) if !is_asked && path.is_symlink() => return Ok(()),
            about => about.with_context(named)?,
        };
        if about.is_dir() {
            if self.folders.insert((about.dev(), about.ino())) {
                for entry in fs::read_dir(path).with_context(named)? {
                    self.add(&entry.with_context(named)?.path(), false)?;
                }
            }
            return Ok(());
        }
        let is_named = path.extension().is_some_and(|extension| extension == EXTENSION);
        // An empty file with the name is one that is begun.
        if about.is_file()
            && (is_asked || (is_named && about.len() > 0) || begins_as_capture(path).with_context(named)?)
        {
            self.captures.push(path.to_owned());
        }
        Ok(())
    }
}

fn begins_as_capture(path: &Path) -> std::io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(CAPTURE_MAGIC.len() as u64).read_to_end(&mut bytes)?;
    Ok(bytes == CAPTURE_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit_and_is_an_hour_at_least() {
        assert_eq!(age("1d"), Ok(Duration::from_secs(86_400)));
        assert_eq!(age("90m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "1", "59m", "d", "-1d", "1w", "99999999999999999999d"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
