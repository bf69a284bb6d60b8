//! `-t rocpd`: a run whose rows are in databases at its end. Until then the library writes them into a folder of this run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use logdur_settings::{Interceptor, LogLocation, Value};
use logdur_system::marks;

use super::check::{has_folder, option_of};
use super::options::{ROCPD, RunOptions};
use crate::cmd::export;
use crate::environment::Environment;
use crate::input::Position;
use crate::output::{file, tell};

/// The rows of a process: its id, its rank, its host. No id and no rank has a comma.
const ROWS: &str = "%p,%r,%h";

/// The databases of a run.
pub(super) struct Database {
    /// The file; with marks, a file for each process.
    output: PathBuf,
}

impl Database {
    /// Where the options say, if they ask for a database. The rows go to a folder that is removed after the run.
    ///
    /// # Errors
    /// When no file is named, or none can be made there.
    pub(super) fn of(options: &RunOptions, environment: &mut Environment) -> Result<Option<Database>> {
        if options.log_format.as_deref() != Some(ROCPD) {
            return Ok(None);
        }
        let given = environment.value(Interceptor::log_location);
        let output = match given.as_deref().map(LogLocation::parse) {
            Some(Ok(LogLocation::File(path))) => path,
            _ => {
                let found = given.map_or("none".into(), |given| given.to_string_lossy().into_owned());
                bail!("-t {ROCPD} writes a database at the end: expected -l FILE, found {found}");
            }
        };
        let option = option_of(Interceptor::log_location);
        if output.is_dir() {
            bail!("{option} {}: expected a file, found a folder", output.display());
        }
        has_folder(&option, &output)?;
        let rows = environment.large_folder()?.join(ROWS);
        environment.set(Interceptor::log_location, rows);
        Ok(Some(Database { output }))
    }

    /// Writes the rows of logs. Processes that make the same name of the file share a database.
    ///
    /// # Errors
    /// When a log cannot be read, or a database cannot be written.
    pub(super) fn write(&self, logs: &[Position]) -> Result<()> {
        let mut databases: BTreeMap<PathBuf, Vec<Position>> = BTreeMap::new();
        for log in logs {
            databases.entry(self.of_process(&log.path)).or_default().push(log.clone());
        }
        if databases.is_empty() {
            tell(format_args!("{}: no process has logged rows, no database is made", file(&self.output)));
        }
        databases.iter().try_for_each(|(output, logs)| export::rocpd(output, logs).map(drop))
    }

    /// The database of the process whose rows are in a file that is named as [`ROWS`] says.
    fn of_process(&self, rows: &Path) -> PathBuf {
        let name = rows.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let mut parts = name.splitn(3, ',').map(OsStr::new);
        let mut next = || parts.next().unwrap_or_default();
        marks::replaced_by(&self.output, [next(), next(), next()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_of_a_database_are_those_of_the_process_that_logged() {
        let of = |output: &str| Database { output: output.into() }.of_process(Path::new("/tmp/x/17,3,node,1"));
        assert_eq!(of("/a/%r/%p.db"), Path::new("/a/3/17.db"));
        assert_eq!(of("%h-%p%%.db"), Path::new("node,1-17%%.db"));
        assert_eq!(of("out.db"), Path::new("out.db"));
    }
}
