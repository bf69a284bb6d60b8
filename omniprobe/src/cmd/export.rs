//! `omniprobe export LOG... --parquet FILE`: rows as columns with types.

use std::fs::Permissions;
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use logdur_replay::Exit;
use logdur_report::export::Exporter;

use super::input;

/// Which logs, and where the columns go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs, in CSV or JSON; `-` is the standard input.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The file, in Apache Parquet's format. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    parquet: PathBuf,
}

/// Writes the rows of logs.
///
/// # Errors
/// When a file cannot be read or written, or is no log.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let logs = input::logs(&options.logs)?;
    let path = super::file(&options.parquet);
    let context = || path.clone();
    let folder = options.parquet.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file is whole, or what it was before: it may be one of the logs by mistake.
    let permissions = Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder).with_context(context)?;
    let mut exporter = Exporter::new(BufWriter::new(file.as_file())).with_context(context)?;
    for log in &logs {
        input::read(log, |name, log| exporter.read(name, log))?;
    }
    let exported = exporter.finish().with_context(context)?;
    file.persist(&options.parquet).map_err(|error| error.error).with_context(context)?;
    if let Some(first) = &exported.first_unreadable {
        super::tell(format_args!("{} lines are no rows; the first: {first}", exported.unreadable));
    }
    super::tell(format_args!("{path}: {} rows", exported.rows));
    Ok(if exported.rows == 0 { Exit::NothingToCompare } else { Exit::Success })
}
