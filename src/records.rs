//! Where the records of this process are.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use logdur_journal::{Origin, Records, left};
use logdur_settings::{Interceptor, RecordsLocation};
use logdur_system::network;
use logdur_system::text::shell_word;
use logdur_system::trust::user;

use crate::descriptors::DescriptorShortage;
use crate::log::{Sink, format, naming, row_filter};
use crate::process;

/// The records, as they were made.
pub(crate) struct Opened {
    pub(crate) records: &'static Records,
    /// Notices.
    pub(crate) said: Vec<String>,
    /// Why rows that cannot be written end with the process, if there is a log.
    pub(crate) no_file: Option<String>,
}

/// Makes the records, in a file if there is a log whose rows could be missing.
pub(crate) fn open(settings: &Interceptor, sink: &Sink, shortage: Option<DescriptorShortage>) -> Opened {
    let (records, said, no_file) = make(settings, sink, shortage);
    Opened { records: Box::leak(Box::new(records)), said, no_file }
}

fn make(
    settings: &Interceptor,
    sink: &Sink,
    shortage: Option<DescriptorShortage>,
) -> (Records, Vec<String>, Option<String>) {
    let mut named_on_a_network = None;
    let folders = match &settings.records {
        _ if sink.is_nowhere() => return (Records::private(), Vec::new(), None),
        RecordsLocation::Nowhere => {
            let chosen = format!("{} is empty", Interceptor::records);
            return (Records::private(), Vec::new(), Some(chosen));
        }
        RecordsLocation::Folder(folder) => {
            let folder = process::with_marks(folder);
            if network::has_path(&folder) {
                named_on_a_network = Some(folder);
                left::default_folders()
            } else {
                vec![folder]
            }
        }
        RecordsLocation::Default => left::default_folders(),
    };
    let origin = Origin {
        format: format(settings),
        log: sink.name().map(Path::to_owned),
        filter: row_filter(settings),
        rank: process::rank(),
        naming: naming(settings),
    };
    let mut said = Vec::new();
    if let Some(shortage) = shortage {
        // It is opened whenever it grows, beside the application.
        return private(&shortage.reason());
    }
    for folder in &folders {
        // A relative path is of no use to the log's reader.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        match Records::create(&folder, &origin) {
            Ok((records, earlier)) => {
                let mut told = Vec::new();
                told.extend(named_on_a_network.map(|named| elsewhere(&named, &records)));
                told.extend(earlier.into_iter().filter(|path| is_ours(path)).map(of_earlier));
                told.extend((!records.are_in_memory()).then(|| on_disk(&records)));
                return (records, told, None);
            }
            Err(error) => said.push(format!("{}: {error}", folder.display())),
        }
    }
    private(&said.join("; "))
}

fn private(reason: &str) -> (Records, Vec<String>, Option<String>) {
    let notice = format!("rows that are not yet written would not survive a crash: {reason}");
    (Records::private(), vec![notice], Some(reason.to_owned()))
}

fn is_ours(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|m| m.uid() == user())
}

fn of_earlier(path: PathBuf) -> String {
    let path = shell_word(&path);
    format!(
        "an earlier process with this number left its records: `omniprobe log {path}` has the rows that it could not write"
    )
}

fn elsewhere(named: &Path, records: &Records) -> String {
    let (named, path) = (named.display(), records.path().unwrap_or(Path::new("")).display());
    format!(
        "{} names a folder on a network ({named}), where dispatches would have to wait for pages: their records are in {path}",
        Interceptor::records
    )
}

fn on_disk(records: &Records) -> String {
    let path = records.path().unwrap_or(Path::new("")).display();
    format!(
        "dispatches may have to wait for the disk that their records are on ({path}); LOGDUR_RECORDS can name a folder in memory"
    )
}
