//! The documents as a book, by mdBook.

use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{self, root};

/// The version of mdBook that builds the book.
const VERSION: &str = "0.5.4";

/// Builds the book into `target/book`, and installs mdBook into the cache before, if it is not there.
///
/// # Errors
/// When mdBook cannot be installed, or finds something wrong.
pub(super) fn build() -> Result<()> {
    let folder = shell::cache().join("mdbook");
    let program = folder.join("bin/mdbook");
    let version = || shell::output(Command::new(&program).arg("--version"));
    if !version().is_ok_and(|text| text.trim().ends_with(VERSION)) {
        println!("installing mdBook {VERSION}");
        let mut install = Command::new(shell::cargo());
        install.args(["install", "mdbook", "--version", VERSION, "--locked", "--no-default-features", "--quiet"]);
        shell::run(install.arg("--force").arg("--root").arg(&folder)).context("installing mdBook")?;
    }
    shell::run(Command::new(&program).arg("build").arg(root().join("docs")))
}
