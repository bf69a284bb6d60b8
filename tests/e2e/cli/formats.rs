//! The documents name the versions of the formats that are written.

use std::fs;

use logdur_journal::lines::Format;
use logdur_journal::{Naming, Origin, Records, RowFilter};

use crate::support::harness::{Run, root};

/// A page of the documents.
fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// The version that the table of formats has for a file.
fn documented(file: &str) -> String {
    let page = page("agents.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| {file}"))).unwrap_or_else(|| panic!("no {file}"));
    row.split('|').nth(2).unwrap().trim().to_owned()
}

#[test]
fn documents_and_files_name_the_same_versions() {
    let run = Run::hsa("signals").args(["none", "4"]);
    let file = run.file("run.ldcap");
    let _folder = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let head = fs::read(file).unwrap();
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (major, minor) = (number(8), number(10));
    let version = format!("{major}.{minor}");
    assert_eq!(documented("capture, "), version);
    assert!(page("capture-format.md").contains(&format!("every byte of version {version}.")), "{version}");
    assert!(page("capture-format.md").contains(&format!("minor version, 0 to {minor} |")), "{version}");
    assert!(page("capture.md").contains(&format!("format {version},")), "{version}");

    let folder = tempfile::tempdir().unwrap();
    let origin =
        Origin { format: Format::Csv, log: None, filter: RowFilter::default(), rank: None, naming: Naming::Demangled };
    let (records, _) = Records::create(folder.path(), &origin).unwrap();
    let bytes = fs::read(records.path().unwrap()).unwrap();
    records.remove();
    assert_eq!(documented("dispatch records, "), u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()).to_string());
}
