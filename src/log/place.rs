//! What others ask of the log: where rows go, and what they add up to.

use std::path::{Path, PathBuf};

use logdur_system::lock;

use super::Log;
use crate::totals::Totals;

/// Where rows go.
pub(crate) enum Place {
    /// To the application's standard output.
    Console,
    /// Into this file.
    File(PathBuf),
    /// Nowhere.
    Nowhere,
}

impl Log {
    /// Where rows go now.
    pub(crate) fn place(&self) -> Place {
        let writer = lock(&self.writer);
        match writer.sink.name().map(Path::to_owned) {
            Some(path) => Place::File(path),
            None if writer.sink.is_nowhere() => Place::Nowhere,
            None => Place::Console,
        }
    }

    /// What is added up as rows are made.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }
}
