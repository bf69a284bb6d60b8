//! What parts of a search have measured, for the search that puts them together.
//!
//! The parts and the whole number their configurations differently, and divide repetitions into other rounds. So what a part
//! has measured is a sequence of times of a configuration, known by what it is; a round of the whole takes the next of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::journal::{Identity, Line, read};
use super::{Config, Outcome, Sources};
use crate::error::{ReplayError, Result};

/// Where a search keeps its code, in its folder.
const CODE: &str = "code";

/// The measurements of the parts of a search.
#[derive(Debug, Default)]
pub struct Merged {
    known: BTreeMap<String, Known>,
    /// Commands that failed to compile, and why.
    failed: BTreeMap<String, Outcome>,
    sources: Vec<Sources>,
}

#[derive(Debug, Default)]
struct Known {
    gpu_ns: Vec<u64>,
    /// What came of it after those times, if it failed.
    failed: Option<Outcome>,
    /// True after a round that was not the next one.
    gap: bool,
}

impl Merged {
    /// Reads the journals of folders, in their order, and copies the code that they have compiled into a folder.
    ///
    /// # Errors
    /// When one cannot be read, is of another search, or twice of the same part.
    pub fn read(folders: &[PathBuf], identity: &Identity, code: &Path) -> Result<Merged> {
        let mut merged = Merged::default();
        let mut seen = BTreeSet::new();
        for folder in folders {
            let (path, head, lines) = read(folder)?;
            let refuse = |expected: String, found: String| {
                Err(ReplayError::Usage { what: path.display().to_string(), expected, found })
            };
            if (Identity { shard: None, ..head.identity.clone() }) != (Identity { shard: None, ..identity.clone() }) {
                return refuse(format!("a part of the search of {identity}"), head.identity.to_string());
            }
            let Some(shard) = head.identity.shard else {
                return refuse("a part of a search, by --shard".to_owned(), "a whole one".to_owned());
            };
            if !seen.insert(shard.to_string()) {
                return refuse("each part once".to_owned(), format!("part {shard} twice"));
            }
            merged.sources.push(head.sources);
            merged.add(lines);
            copy_code(&folder.join(CODE), code)?;
        }
        Ok(merged)
    }

    /// Adds the lines of a part: its times, in the order of its rounds. The captured configuration is in every part: the first
    /// one's times count.
    fn add(&mut self, mut lines: Vec<Line>) {
        lines.sort_by_key(|line| (line.config.number, line.round));
        let before: BTreeSet<String> = self.known.keys().cloned().collect();
        let mut rounds: BTreeMap<String, u32> = BTreeMap::new();
        for Line { round, config, outcome } in lines {
            if let (Some(command), Outcome::CompileFailed { .. }) = (&config.command, &outcome) {
                self.failed.insert(command.clone(), outcome.clone());
            }
            let name = name(&config);
            if before.contains(&name) {
                continue;
            }
            let next = rounds.entry(name.clone()).or_default();
            let known = self.known.entry(name).or_default();
            known.gap |= round != *next;
            *next = round + 1;
            match outcome {
                _ if known.gap || known.failed.is_some() => {}
                Outcome::Measured { gpu_ns, .. } => known.gpu_ns.extend(gpu_ns),
                failed => known.failed = Some(failed),
            }
        }
    }

    /// What came of so many repetitions of a configuration that has had `done` of them; `None` if no part has run them all.
    pub(super) fn recorded(&self, config: &Config, done: usize, wanted: u32) -> Option<Outcome> {
        let known = self.known.get(&name(config))?;
        let times = known.gpu_ns.get(done..done + wanted as usize);
        times.map(|times| Outcome::measured(times.to_vec())).or_else(|| known.failed.clone())
    }

    /// What failed when a command was run.
    pub(super) fn failed(&self, command: &str) -> Option<&Outcome> {
        self.failed.get(command)
    }

    /// The sources that were others when a part was begun.
    pub(super) fn changed(&self, now: &Sources) -> Vec<PathBuf> {
        let changed: BTreeSet<PathBuf> = self.sources.iter().flat_map(|sources| sources.changed(now)).collect();
        changed.into_iter().collect()
    }
}

/// A configuration without what depends on the part: its number, and the folder of what was compiled. The captured one is known
/// by its number alone: it may have the values of a choice that is the same.
fn name(config: &Config) -> String {
    if config.number == 0 {
        return "captured".to_owned();
    }
    let compiled = config.command.is_some();
    let code =
        config.code.as_ref().map(|path| path.file_name().filter(|_| compiled).map_or(path.clone(), PathBuf::from));
    serde_json::to_string(&Config { number: 1, code, ..config.clone() }).unwrap_or_default()
}

/// Copies the files of a folder that are not there yet. A part that compiled nothing has no such folder.
fn copy_code(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| ReplayError::File { path, source }
    };
    fs::create_dir_all(to).map_err(failed(to))?;
    for entry in fs::read_dir(from).map_err(failed(from))? {
        let name: OsString = entry.map_err(failed(from))?.file_name();
        let (from, to) = (from.join(&name), to.join(&name));
        if !to.exists() {
            fs::copy(&from, &to).map_err(failed(&from))?;
        }
    }
    Ok(())
}
