//! Where the records of this process are.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use logdur_journal::lines::Format;
use logdur_journal::{Origin, Records};
use logdur_settings::{Interceptor, RecordsLocation};

use crate::log::Sink;

/// Makes the records, in a file if there is a log whose rows could be missing. Says what is to be said.
pub(crate) fn open(settings: &Interceptor, sink: &Sink) -> (&'static Records, Vec<String>) {
    let (records, said) = make(settings, sink);
    (Box::leak(Box::new(records)), said)
}

fn make(settings: &Interceptor, sink: &Sink) -> (Records, Vec<String>) {
    let folders = match &settings.records {
        _ if sink.is_nowhere() => Vec::new(),
        RecordsLocation::Nowhere => Vec::new(),
        RecordsLocation::Folder(folder) => vec![folder.clone()],
        RecordsLocation::Default => default_folders(),
    };
    let origin =
        Origin { format: format(settings), log: sink.path().map(Path::to_owned), filter: settings.log_filter.clone() };
    let mut said = Vec::new();
    for folder in &folders {
        // A relative path is of no use to the log's reader.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        match Records::create(&folder, &origin) {
            Ok((records, earlier)) => {
                let told = if records.are_in_memory() { Vec::new() } else { vec![on_disk(&records)] };
                return (records, earlier.into_iter().filter(|p| is_ours(p)).map(of_earlier).chain(told).collect());
            }
            Err(error) => said.push(format!("{}: {error}", folder.display())),
        }
    }
    if said.is_empty() {
        return (Records::private(), said);
    }
    let reason = said.join("; ");
    (Records::private(), vec![format!("rows that are not yet written would not survive a crash: {reason}")])
}

fn default_folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
    runtime.into_iter().chain(["/dev/shm".into(), std::env::temp_dir()]).collect()
}

/// How the log's lines are written.
pub(crate) fn format(settings: &Interceptor) -> Format {
    match settings.log_format {
        logdur_settings::Format::Csv => Format::Csv,
        logdur_settings::Format::CsvSafe => Format::CsvSafe,
        logdur_settings::Format::Json => Format::Json,
    }
}

fn is_ours(path: &Path) -> bool {
    // SAFETY: the call cannot fail and touches no memory.
    let user = unsafe { libc::geteuid() };
    path.symlink_metadata().is_ok_and(|m| m.uid() == user)
}

fn of_earlier(path: PathBuf) -> String {
    let path = path.display();
    format!(
        "an earlier process with this number left its records: `omniprobe log {path}` has the rows that it could not write"
    )
}

fn on_disk(records: &Records) -> String {
    let path = records.path().unwrap_or(Path::new("")).display();
    format!(
        "dispatches may have to wait for the disk that their records are on ({path}); LOGDUR_RECORDS can name a folder in memory"
    )
}
