//! The file with the results of a search: a line for each finished round of a configuration. It survives the process.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use logdur_capture::PRIVATE;
use logdur_system::path::Target;
use serde::{Deserialize, Serialize};

use super::{Config, Job, Merged, Outcome, Shard, Sources};
use crate::error::{ReplayError, Result};

/// The file's name in the folder of a search.
const NAME: &str = "trials.jsonl";

/// What a search is about: its journal is of use to the same one only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The capture.
    pub capture: PathBuf,
    /// The dispatch.
    pub dispatch: u64,
    /// The hash of the captured kernel's code object.
    pub kernel: String,
    /// The hash of everything else that the search depends on.
    pub options: String,
    /// Which part of the search it is; `None` for all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { capture, dispatch, kernel, options, shard } = self;
        write!(f, "{}, dispatch {dispatch}, kernel {kernel}, options {options}", capture.display())?;
        shard.map_or(Ok(()), |shard| write!(f, ", part {shard}"))
    }
}

/// The first line.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    #[serde(flatten)]
    pub(super) identity: Identity,
    /// What code was compiled from when the search began.
    pub(super) sources: Sources,
}

/// A finished round of a configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// The first is 0.
    pub(super) round: u32,
    pub(super) config: Config,
    /// Of this round alone.
    pub(super) outcome: Outcome,
}

/// A journal, open for more.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: BTreeMap<(usize, u32), Line>,
    changed: Vec<PathBuf>,
    /// What parts of the search have measured.
    merged: Merged,
}

impl Journal {
    /// Opens the journal of a folder, which is made; `sources` are those of now. With `resume` it may be there; a last line that was not written to its
    /// end is cut off.
    ///
    /// # Errors
    /// When there is one and `resume` is not set, another process has it, it is of another search, or it is damaged.
    pub fn open(folder: &Path, identity: &Identity, sources: &Sources, resume: bool) -> Result<Journal> {
        let path = folder.join(NAME);
        let failed = |source: io::Error| ReplayError::File { path: path.display().to_string(), source };
        let refuse = |what: String, expected: &str, found: String| {
            Err(ReplayError::Usage { what, expected: expected.to_owned(), found })
        };
        fs::create_dir_all(folder).map_err(failed)?;
        if path.exists() && !resume {
            return refuse(path.display().to_string(), "no such file, or --resume", "one".to_owned());
        }
        // It has the command line that compiles, which may contain private names.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
        // A link that another user may have made is not followed.
        let options = match Target::of(&path).map_err(failed)? {
            Target::File(place) => options.open(place),
            Target::Descriptor(_) => options.open(&path),
        };
        let mut file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return refuse(path.display().to_string(), "a journal that no process writes", "one in use".to_owned());
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        text.truncate(whole);
        let mut journal = Journal {
            path: path.clone(),
            file,
            lines: BTreeMap::new(),
            changed: Vec::new(),
            merged: Merged::default(),
        };
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let place = |number: usize| format!("{}, line {number}", path.display());
        match lines.next().map(serde_json::from_slice::<Head>) {
            None => journal.write(&Head { identity: identity.clone(), sources: sources.clone() })?,
            Some(Ok(found)) if found.identity == *identity => journal.changed = found.sources.changed(sources),
            Some(Ok(found)) => {
                return refuse(place(1), &format!("the journal of {identity}"), found.identity.to_string());
            }
            Some(Err(error)) => return refuse(place(1), "the journal of a search", error.to_string()),
        }
        for (number, line) in lines.enumerate() {
            match serde_json::from_slice::<Line>(line) {
                Ok(line) => journal.lines.insert((line.config.number, line.round), line),
                Err(error) => return refuse(place(number + 2), "a round of a configuration", error.to_string()),
            };
        }
        Ok(journal)
    }

    /// Adds what parts of the search have measured: it is not run again.
    pub fn merge(&mut self, merged: Merged, sources: &Sources) {
        self.changed.extend(merged.changed(sources));
        self.changed.sort();
        self.changed.dedup();
        self.merged = merged;
    }

    /// The sources that have changed since the search began: what is in the journal is of the earlier ones.
    pub fn changed(&self) -> &[PathBuf] {
        &self.changed
    }

    /// What came of a configuration in a round, if it has been there.
    ///
    /// # Errors
    /// When the configuration of this number was another.
    pub(super) fn recorded(&self, config: &Config, round: u32) -> Result<Option<Outcome>> {
        let Some(line) = self.lines.get(&(config.number, round)) else { return Ok(None) };
        if line.config == *config {
            return Ok(Some(line.outcome.clone()));
        }
        Err(ReplayError::Usage {
            what: format!("{}, configuration {}", self.path.display(), config.number),
            expected: serde_json::to_string(config).unwrap_or_default(),
            found: serde_json::to_string(&line.config).unwrap_or_default(),
        })
    }

    /// What came of repetitions of a configuration that has had `done` of them, if a part of the search has run them.
    pub(super) fn merged(&self, config: &Config, done: usize, wanted: u32) -> Option<Outcome> {
        self.merged.recorded(config, done, wanted)
    }

    /// What failed when a job was done.
    pub(super) fn failed(&self, job: &Job) -> Option<&Outcome> {
        let command = job.to_string();
        let line = self.lines.values().find(|line| line.config.command.as_ref() == Some(&command));
        let failed = line.map(|line| &line.outcome).filter(|outcome| matches!(outcome, Outcome::CompileFailed { .. }));
        failed.or_else(|| self.merged.failed(&command))
    }

    /// Adds a finished round of a configuration.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn add(&mut self, config: &Config, round: u32, outcome: &Outcome) -> Result<()> {
        self.write(&Line { round, config: config.clone(), outcome: outcome.clone() })
    }

    /// Writes a line at once: what the kernel has outlives this process.
    fn write(&mut self, line: &impl Serialize) -> Result<()> {
        let failed = |source: io::Error| ReplayError::File { path: self.path.display().to_string(), source };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(failed)
    }
}

/// Reads the journal of a folder: its path, the first line and the others. A last line that was not written to its end is left out.
///
/// # Errors
/// When it cannot be read, or is no journal.
pub(super) fn read(folder: &Path) -> Result<(PathBuf, Head, Vec<Line>)> {
    let path = folder.join(NAME);
    let failed = |source: io::Error| ReplayError::File { path: path.display().to_string(), source };
    let text = fs::read(&path).map_err(failed)?;
    let refuse = |number: usize, expected: &str, found: String| ReplayError::Usage {
        what: format!("{}, line {number}", path.display()),
        expected: expected.to_owned(),
        found,
    };
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let first = lines.next().ok_or_else(|| refuse(1, "the journal of a search", "nothing".to_owned()))?;
    let head = serde_json::from_slice(first).map_err(|e| refuse(1, "the journal of a search", e.to_string()))?;
    let rounds = lines.enumerate().map(|(number, line)| {
        serde_json::from_slice(line).map_err(|e| refuse(number + 2, "a round of a configuration", e.to_string()))
    });
    let rounds = rounds.collect::<Result<_>>()?;
    Ok((path, head, rounds))
}
