//! `cargo xtask docs`: the pages that are printed from tables.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell::root;

/// A page: its file, and what prints it.
type Page = (&'static str, fn() -> String);

const PAGES: &[Page] = &[
    ("docs/capture-format.md", logdur_capture::page),
    ("docs/environment.md", logdur_settings::page),
    ("docs/isa-coverage.md", amdgpu_isa::coverage::page),
    ("docs/kernel-cache.md", logdur_kernel_cache::page),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        other => bail!("docs takes --check or nothing, found {other:?}"),
    };
    for (file, print) in PAGES {
        let path = root().join(file);
        if !check {
            fs::create_dir_all(path.parent().context("a page has a folder")?)?;
            fs::write(&path, print()).with_context(|| format!("writing {}", path.display()))?;
        } else if fs::read_to_string(&path).unwrap_or_default() != print() {
            bail!("{file} differs from the tables that it is printed from: run `cargo xtask docs`");
        }
        println!("{file}");
    }
    Ok(())
}
