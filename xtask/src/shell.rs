//! Running other programs, and where things are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where downloads and unpacked packages are kept between runs.
pub(crate) fn cache() -> PathBuf {
    root().join("target").join("xtask")
}

/// Where `cargo xtask` puts what it builds: optimised, since the emulated GPU is slow otherwise.
pub(crate) fn built(name: &str) -> PathBuf {
    root().join("target").join("release").join(name)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs a command, its output going where ours goes.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed: {status}") }
}

/// Runs a command and returns what it printed on stdout; its stderr is shown only when it fails.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
