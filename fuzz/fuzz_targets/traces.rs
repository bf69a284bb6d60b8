//! Any bytes as a table of rocprofv3, also of counters, or as a database of rocpd: each row is read, or the first that cannot be is an error.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use logdur_report::{By, Log, Summary};
use logdur_rocprof::trace::{self, Table};
use logdur_rocprof::{counters, database};

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("it can be written");
    let path = file.path();
    // Of counters, rows or an error.
    let _ = counters::read(path);
    let lines = match Table::of_file(path).expect("it can be read") {
        Some(table) => trace::open(path, table),
        None => database::open(path),
    };
    let Ok(lines) = lines else { return };
    let mut summary = Summary::new(By::Kernel);
    if summary.read("fuzzed", &mut Log::new(lines), |_, _| ()).is_ok() {
        let totals = summary.totals();
        assert_eq!(totals.groups.iter().map(|group| group.calls).sum::<u64>(), totals.rows.rows);
    }
});
