//! The licences of what the binaries are made of: collected for those who get the binaries, and checked against a list.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::binaries::BINARIES;
use super::tools::DENY;
use crate::shell;

/// What the names of files with licences begin with.
const FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A crate that a binary is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: String,
    /// Where it is from; `None` for a crate of this project.
    pub(crate) source: Option<String>,
    /// The hash of its archive in the registry.
    pub(crate) checksum: Option<String>,
    folder: PathBuf,
}

/// The crates that the binaries are made of, without those that only build or test them.
///
/// # Errors
/// When Cargo does not tell, or tells of a crate without a licence.
pub(crate) fn dependencies() -> Result<Vec<Dependency>> {
    let cargo = || {
        let mut command = Command::new(shell::cargo());
        command.current_dir(shell::root());
        command
    };
    let mut tree = cargo();
    tree.args([
        "tree",
        "--locked",
        "--offline",
        "--edges=normal",
        "--prefix=none",
        "--target=x86_64-unknown-linux-gnu",
    ]);
    tree.args(["--no-dedupe", "--format={p}"]).args(BINARIES.iter().flat_map(|binary| ["-p", binary.package]));
    let tree = shell::output(&mut tree)?;
    let metadata = shell::output(cargo().args(["metadata", "--locked", "--offline", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let lock = checksums(&fs::read_to_string(shell::root().join("Cargo.lock"))?);
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().context("cargo metadata: expected packages")? {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        let known =
            |key: &str| text(key).with_context(|| format!("cargo metadata: expected {key} of {}", package["id"]));
        let (name, version) = (known("name")?, known("version")?);
        // Source: `cargo tree --help`: {p} is the name, v and the version, and where it is from.
        let words = format!("{name} v{version}");
        if !tree.lines().any(|line| line == words || line.starts_with(&format!("{words} "))) {
            continue;
        }
        found.push(Dependency {
            license: known("license")?,
            source: text("source"),
            checksum: lock.get(&(name.clone(), version.clone())).cloned(),
            folder: Path::new(&known("manifest_path")?).parent().context("a manifest has a folder")?.to_owned(),
            name,
            version,
        });
    }
    found.sort();
    Ok(found)
}

/// The hashes of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let of = |block: &str, key: &str| {
        let value = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        value.map(|value| value.trim_matches('"').to_owned())
    };
    let entry = |block: &str| Some(((of(block, "name")?, of(block, "version")?), of(block, "checksum")?));
    lock.split("[[package]]").filter_map(entry).collect()
}

/// Writes the licences of the crates of others into a file.
///
/// # Errors
/// When one has neither the text of a licence nor one of those that this project has the text of.
pub(crate) fn write(file: &Path) -> Result<()> {
    let mut text = String::from("Licences of the software that logdur is made of, beyond its own.\n");
    for dependency in dependencies()?.iter().filter(|dependency| dependency.source.is_some()) {
        let Dependency { name, version, license, folder, .. } = dependency;
        text += &format!("\n{:=<100}\n{name} {version}: {license}\n", "");
        let mut files: Vec<PathBuf> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.is_file() && is_license(path));
        files.sort();
        // Whoever left the text out means the usual one.
        if files.is_empty() {
            let ours = [("MIT", "LICENSE-MIT"), ("Apache-2.0", "LICENSE-APACHE")];
            let known = ours.into_iter().filter(|(word, _)| license.contains(word));
            files.extend(known.map(|(_, file)| shell::root().join(file)).take(1));
        }
        if files.is_empty() {
            bail!("{name} {version}: expected the text of its licence {license}, found none in {}", folder.display());
        }
        for path in files {
            text +=
                &format!("\n{}\n", fs::read_to_string(&path).with_context(|| path.display().to_string())?.trim_end());
        }
    }
    fs::write(file, text).with_context(|| file.display().to_string())
}

fn is_license(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    FILES.iter().any(|begin| name.starts_with(begin))
}

/// `cargo xtask deny`: licences, sources and versions of dependencies, and known weaknesses if their list can be had.
///
/// # Errors
/// What is not allowed.
pub(crate) fn deny(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("deny takes no arguments, found {args:?}");
    }
    shell::output(DENY.command()?.args([
        "--offline",
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))?;
    println!("licenses, bans, sources: passed");
    match shell::output(DENY.command()?.args(["fetch", "db"])) {
        Ok(_) => {
            shell::output(DENY.command()?.args(["check", "--disable-fetch", "advisories"]))?;
            println!("advisories: passed");
        }
        Err(error) => {
            let text = format!("{error:#}");
            let reason = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            println!("advisories: not run: the list of known weaknesses cannot be fetched: {}", reason.trim());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ab12\"\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let found = checksums(lock);
        assert_eq!(found.get(&("a".to_owned(), "1.0.0".to_owned())).map(String::as_str), Some("ab12"));
        assert_eq!(found.len(), 1);
    }
}
