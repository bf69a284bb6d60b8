//! `cargo xtask release --dry-run`: everything that a release needs, but its publication.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::dist::licenses::{Dependency, dependencies};
use crate::dist::{self, VERSION};
use crate::shell;

/// The crates that are of use to other projects, each after those that it depends on.
const PUBLISHED: &[&str] = &["amdgpu-processor", "hsa-sys", "amdgpu-code-object", "amdgpu-isa", "logdur-capture"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let [option] = args else { bail!("release takes --dry-run, found {args:?}") };
    if option != "--dry-run" {
        bail!("release takes --dry-run, found {option}: people publish, with the commands that it prints");
    }
    oldest_compiler()?;
    let mut missing = not_ready()?;
    packages()?;
    let mut artefacts = dist::all()?;
    artefacts.push(bill_of_materials()?);
    let sums = sums(&artefacts)?;
    artefacts.push(sums);
    for artefact in &artefacts {
        println!("{}: {} bytes", artefact.display(), artefact.metadata()?.len());
    }
    println!("\nto release {VERSION}:");
    missing.iter_mut().for_each(|text| println!("  first: {text}"));
    println!("  git tag --sign v{VERSION} && git push origin v{VERSION}");
    let packages: Vec<String> = PUBLISHED.iter().map(|package| format!("--package {package}")).collect();
    println!("  cargo publish {}", packages.join(" "));
    println!("  attach the files above to the release v{VERSION}");
    Ok(())
}

/// What has to be done by people before this version can be released.
fn not_ready() -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let changelog = fs::read_to_string(shell::root().join("CHANGELOG.md"))?;
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ["));
    let newest =
        newest.and_then(|line| line.split(']').next()).context("CHANGELOG.md: expected a heading `## [VERSION]`")?;
    if newest != VERSION {
        missing.push(format!("CHANGELOG.md: expected [{VERSION}] as the newest version, found [{newest}]"));
    }
    // An address that is no one's: the field has to be there.
    if fs::read_to_string(shell::root().join("Cargo.toml"))?.contains("@localhost>") {
        missing
            .push("Cargo.toml: expected the address of a maintainer of the package, found one of localhost".to_owned());
    }
    let git = |args: &[&str]| shell::output(Command::new("git").args(args).current_dir(shell::root()));
    if !git(&["tag", "--list", &format!("v{VERSION}")])?.is_empty() {
        missing.push(format!("the tag v{VERSION} is there already: raise the version in Cargo.toml"));
    }
    let changed = git(&["status", "--porcelain"])?.lines().count();
    if changed > 0 {
        missing.push(format!("{changed} files differ from those of the commit"));
    }
    Ok(missing)
}

/// Checks that the compiler that everything is tested with is the oldest one that the packages claim to need, so that the claim is
/// true.
///
/// # Errors
/// When they differ.
pub(crate) fn oldest_compiler() -> Result<()> {
    let channel = value(&fs::read_to_string(shell::root().join("rust-toolchain.toml"))?, "channel")?;
    let claimed = value(&fs::read_to_string(shell::root().join("Cargo.toml"))?, "rust-version")?;
    if channel != claimed && channel.strip_prefix(&claimed).is_none_or(|rest| !rest.starts_with('.')) {
        bail!("rust-toolchain.toml: expected Rust {claimed}, the rust-version of Cargo.toml, found {channel}");
    }
    println!("oldest Rust: {claimed}, the one that all is built with");
    Ok(())
}

/// The value of a key in a simple TOML file.
fn value(text: &str, key: &str) -> Result<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    Ok(line.with_context(|| format!("expected {key}, found none"))?.trim().trim_matches('"').to_owned())
}

/// Packages the crates, and builds each from its package alone.
///
/// # Errors
/// What Cargo says, warnings too.
fn packages() -> Result<()> {
    let mut command = Command::new(shell::cargo());
    command
        .args(["package", "--locked", "--allow-dirty", "--target-dir"])
        .arg(shell::root().join("target/package-check"));
    command.args(PUBLISHED.iter().flat_map(|package| ["--package", package])).current_dir(shell::root());
    let output = command.output().context("cargo package")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let warning = said.lines().find(|line| line.starts_with("warning"));
    if !output.status.success() || warning.is_some() {
        bail!("cargo package: expected no error and no warning, found\n{said}");
    }
    said.lines().filter(|line| line.contains("Packaged")).for_each(|line| println!("{}", line.trim()));
    Ok(())
}

/// Writes what the binaries are made of. Source: CycloneDX 1.5, JSON.
fn bill_of_materials() -> Result<PathBuf> {
    let path = dist::folder().join(format!("logdur-{VERSION}.cdx.json"));
    let component = |dependency: &Dependency| {
        let Dependency { name, version, license, source, checksum, .. } = dependency;
        let mut component = json!({
            "type": "library",
            "name": name,
            "version": version,
            "scope": "required",
            "licenses": [{ "expression": license.replace('/', " OR ") }],
        });
        if source.is_some() {
            let purl = format!("pkg:cargo/{name}@{version}");
            component["bom-ref"] = json!(purl);
            component["purl"] = json!(purl);
        }
        if let Some(checksum) = checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let components: Vec<Value> = dependencies()?.iter().map(component).collect();
    println!("{}: {} crates", path.display(), components.len());
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "logdur", "version": VERSION } },
        "components": components,
    });
    fs::write(&path, serde_json::to_string_pretty(&bill)? + "\n")?;
    Ok(path)
}

/// Writes the SHA-256 sums of files, as `sha256sum --check` reads them.
fn sums(files: &[PathBuf]) -> Result<PathBuf> {
    let path = dist::folder().join("SHA256SUMS");
    let mut text = String::new();
    for file in files {
        let folder = file.parent().unwrap_or(Path::new("."));
        let name = file.file_name().context("an artefact has a name")?;
        text += &shell::output(Command::new("sha256sum").arg(name).current_dir(folder))?;
    }
    fs::write(&path, text)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_from_the_manifest() {
        let text = "[workspace.package]\nversion = \"0.1.0\"\nrust-version = \"1.95\"\n";
        assert_eq!(value(text, "rust-version").unwrap(), "1.95");
        assert!(value(text, "channel").is_err());
        assert!(oldest_compiler().is_ok());
    }
}
