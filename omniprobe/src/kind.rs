//! What a file is that a subcommand cannot read, and which subcommand reads it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use amdgpu_code_object::container;
use logdur_capture::CAPTURE_MAGIC;
use logdur_journal::layout::RECORDS_MAGIC;
use logdur_journal::packed;

use super::output::file;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Capture,
    Records,
    Code,
    Log,
    /// Of SQLite.
    Database,
}

/// How files of a kind begin, and what reads them. A log begins with its header, or with an object.
const KINDS: &[(Kind, &[&[u8]], &str)] = &[
    (Kind::Capture, &[&CAPTURE_MAGIC], "a capture, which `omniprobe info` reads"),
    (Kind::Records, &[&RECORDS_MAGIC], "a file of records, which `omniprobe log` reads"),
    (
        Kind::Code,
        container::BEGINNINGS,
        "a program, a library or code, which `omniprobe isa` and `omniprobe cache ls` read",
    ),
    (Kind::Log, &[b"kernel,", b"{\"", &packed::MAGIC], "a log, which `omniprobe summary` reads"),
    (Kind::Database, &[logdur_rocprof::database::MAGIC], "a database of rocpd, which `omniprobe summary` reads"),
];

/// Most bytes of a beginning.
const BEGIN: u64 = 24;

/// A file's name as the beginning of an error: with what the file is, if it is not of the kind that is read.
pub(crate) fn named(path: &Path, expected: Kind) -> String {
    other(path, expected).map_or_else(|| file(path), |kind| format!("{}: {kind}", file(path)))
}

/// What a file seems to be.
pub(crate) fn of(path: &Path) -> Option<Kind> {
    row(path).map(|(kind, ..)| *kind)
}

/// True for a log in records.
pub(crate) fn is_packed(path: &Path) -> bool {
    let mut begin = Vec::new();
    // To open a pipe could wait for ever.
    let opened = path.is_file().then(|| File::open(path).ok()).flatten();
    opened.is_some_and(|file| file.take(BEGIN).read_to_end(&mut begin).is_ok()) && begin.starts_with(&packed::MAGIC)
}

fn row(path: &Path) -> Option<&'static (Kind, &'static [&'static [u8]], &'static str)> {
    let mut begin = Vec::new();
    File::open(path).ok()?.take(BEGIN).read_to_end(&mut begin).ok()?;
    KINDS.iter().find(|(_, begins, _)| begins.iter().any(|bytes| begin.starts_with(bytes)))
}

fn other(path: &Path, expected: Kind) -> Option<String> {
    let data = path.metadata().ok()?;
    if data.is_dir() {
        return Some("this is a folder".to_owned());
    }
    // To open a pipe could wait for ever.
    if !data.is_file() {
        return Some("this is neither a file nor a folder".to_owned());
    }
    let (kind, _, what) = row(path)?;
    (*kind != expected).then(|| format!("this seems to be {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_kind_is_named_with_what_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let said = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            named(&path, Kind::Code).trim_start_matches(&file(&path)).to_owned()
        };
        assert_eq!(said(b"LDCAP\r\n\x1a rest"), ": this seems to be a capture, which `omniprobe info` reads");
        assert!(said(b"kernel,dispatch\n").ends_with("a log, which `omniprobe summary` reads"));
        assert_eq!(said(b"\x7fELF\x02"), "");
        assert!(named(&path, Kind::Log).contains("`omniprobe isa`"));
        assert!(said(b"LDRECORD").contains("`omniprobe log`"));
        assert_eq!((said(b""), said(b"text")), (String::new(), String::new()));
        assert!(named(folder.path(), Kind::Log).ends_with(": this is a folder"));
        assert_eq!(named(Path::new("/nonexistent/a"), Kind::Log), "/nonexistent/a");
    }
}
