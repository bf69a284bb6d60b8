//! What is on in a running process.

use std::fmt;
use std::path::PathBuf;

use logdur_settings::{Answer, Feature, Switched};
use serde_json::{Map, Value, json};

use crate::output::file;

/// What a process has said of itself.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pid: u32,
    program: Option<PathBuf>,
    /// Where rows go.
    log: Option<PathBuf>,
    is_nowhere: bool,
    rows: bool,
    features: Vec<(Feature, Switched)>,
    seen: u64,
    outside: u64,
}

impl Status {
    /// What the answers of a process say.
    pub(crate) fn of(pid: u32, answers: Vec<Answer>) -> Status {
        let mut status = Status {
            pid,
            program: None,
            log: None,
            is_nowhere: false,
            rows: false,
            features: Vec::new(),
            seen: 0,
            outside: 0,
        };
        for answer in answers {
            match answer {
                Answer::Program(path) => status.program = Some(path),
                Answer::Log(path) => status.log = Some(path),
                Answer::Nowhere => status.is_nowhere = true,
                Answer::Rows(are_on) => status.rows = are_on,
                Answer::Feature(feature, switched) => status.features.push((feature, switched)),
                Answer::Seen { all, outside } => (status.seen, status.outside) = (all, outside),
                Answer::Error(_) | Answer::Totals { .. } | Answer::Kernel { .. } => {}
            }
        }
        status
    }

    /// One object; `log` is null for standard output, and empty if rows go nowhere.
    pub(crate) fn json(&self) -> Value {
        let word = |switched: Switched| match switched {
            Switched::On => "on",
            Switched::Off => "off",
            Switched::Impossible => "impossible",
        };
        let features: Map<String, Value> = self
            .features
            .iter()
            .map(|(feature, switched)| (feature.name().to_owned(), word(*switched).into()))
            .collect();
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        json!({
            "pid": self.pid, "program": path(&self.program), "rows": self.rows,
            "log": if self.is_nowhere { Some(String::new()) } else { path(&self.log) },
            "features": features, "seen": self.seen, "outside": self.outside,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.program.as_deref().and_then(|path| path.file_name());
        let program = name.map_or(String::new(), |name| format!(" ({})", file(name.as_ref())));
        let log = match &self.log {
            Some(log) => file(log),
            None if self.is_nowhere => "nowhere".to_owned(),
            None => "standard output".to_owned(),
        };
        write!(f, "{}{program}: rows {}, to {log}", self.pid, if self.rows { "on" } else { "off" })?;
        for (feature, switched) in &self.features {
            match switched {
                Switched::On => write!(f, ", {} on", feature.name())?,
                Switched::Off => write!(f, ", {} off", feature.name())?,
                Switched::Impossible => {}
            }
        }
        write!(f, "; {} seen, {} outside", self.seen, self.outside)
    }
}
