//! Prints an object of JSON: the pages that are made from tables of the libraries, by their files. `FILE#NAME` is a part of a page that
//! is written by hand. `cargo xtask docs` puts them in their places.

mod header;

use std::collections::BTreeMap;

use anyhow::Result;

/// What prints a page or a part of one.
type Print = fn() -> String;

const PAGES: &[(&str, Print)] = &[
    ("docs/capture-format.md", logdur_capture::page),
    ("docs/environment.md", logdur_settings::page),
    ("docs/isa-coverage.md", amdgpu_isa::coverage::page),
    ("docs/kernel-cache.md", logdur_kernel_cache::page),
    ("docs/statuses.md", omniprobe_exit::Exit::page),
    ("docs/agents.md#statuses", omniprobe_exit::Exit::table),
    ("docs/bench.md#counters", logdur_observe::counters::table),
    ("docs/analysis.md#analyses", logdur_observe::Analysis::table),
    ("docs/analysis.md#checks", logdur_observe::Check::table),
    ("docs/analysis.md#peaks", logdur_observe::peaks),
];

fn main() -> Result<()> {
    let mut all: BTreeMap<&str, String> = PAGES.iter().map(|(file, print)| (*file, print())).collect();
    all.insert("instrument/include/logdur_handler.h", header::text()?);
    println!("{}", serde_json::to_string(&all)?);
    Ok(())
}
