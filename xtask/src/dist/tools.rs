//! Subcommands of Cargo that pack and check: built from the crates' registry, once, into the cache.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// A subcommand: its crate, and the version.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Makes packages of Debian.
pub(crate) const DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };
/// Checks licences, sources and known weaknesses of dependencies.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

impl Tool {
    /// A command that runs the subcommand in the root of the checkout; it is built if it is not there.
    ///
    /// # Errors
    /// When it cannot be built.
    pub(crate) fn command(&self) -> Result<Command> {
        let folder = shell::cache().join("tools");
        let program = folder.join("bin").join(self.name);
        let stamp = folder.join(format!("{}.version", self.name));
        if !program.is_file() || fs::read_to_string(&stamp).ok().as_deref() != Some(self.version) {
            println!("building {} {}", self.name, self.version);
            let mut install = Command::new(shell::cargo());
            // Unoptimised, since they run rarely and are built for minutes otherwise.
            install.args(["install", "--quiet", "--locked", "--debug", "--force", "--root"]).arg(&folder);
            install.args([self.name, "--version", self.version]);
            install.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_TARGET_DIR", folder.join("build"));
            shell::output(install.current_dir(shell::root())).with_context(|| format!("building {}", self.name))?;
            fs::write(&stamp, self.version)?;
        }
        let mut command = Command::new(program);
        command.arg(self.word()).current_dir(shell::root());
        Ok(command)
    }

    /// What Cargo calls the subcommand.
    fn word(&self) -> &'static str {
        self.name.trim_start_matches("cargo-")
    }
}
