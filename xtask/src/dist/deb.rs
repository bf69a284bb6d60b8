//! The package of Debian and its relatives.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::build::Built;
use super::old_system::Root;
use super::tools::DEB;
use super::{VERSION, tree};
use crate::shell;

/// Packs the package, of which `Cargo.toml` says the name and the files.
///
/// # Errors
/// When a file cannot be made.
pub(crate) fn make(built: &Built) -> Result<Vec<PathBuf>> {
    tree::make(built)?;
    let package = super::folder().join(format!("logdur_{VERSION}_amd64.deb"));
    let mut command = DEB.command()?;
    command.args(["--package", "logdur", "--no-build", "--no-strip", "--locked", "--offline", "--quiet"]);
    command.args(["--deb-version", VERSION, "--output"]).arg(&package);
    shell::output(command.env("SOURCE_DATE_EPOCH", super::epoch()?.to_string()))?;
    println!("{}: {} bytes", package.display(), package.metadata()?.len());
    Ok(vec![package])
}

/// Installs the package in an old system, uses it, and removes it.
///
/// # Errors
/// What does not work.
pub(crate) fn try_out(built: &Built, packages: &[PathBuf]) -> Result<()> {
    let [package] = packages else { bail!("expected one package, found {}", packages.len()) };
    if !Root::is_possible() {
        return Ok(());
    }
    let root = Root::fresh("package")?;
    root.put(package, "/root")?;
    root.put(&super::old_system::capture(built)?, "/root")?;
    // What dpkg itself notes of packages stays.
    let files = "find / -xdev -not -path '/var/*' | sort";
    let before = root.sh(files)?;
    root.sh("dpkg --install /root/*.deb && dpkg --verify logdur")?;
    let version = root.sh("omniprobe --version")?;
    if version.trim() != format!("omniprobe {VERSION}") {
        bail!("expected omniprobe {VERSION}, found {version}");
    }
    let variables = root.sh("omniprobe --emulate gfx90a -e -- true")?;
    if !variables.contains("HSA_TOOLS_LIB=/usr/lib/liblogdur.so") {
        bail!("expected /usr/lib/liblogdur.so in HSA_TOOLS_LIB, found\n{variables}");
    }
    root.sh("omniprobe verify /root/dist.ldcap --backend emu")?;
    root.sh(
        "test -s /usr/share/doc/logdur/copyright && grep -q 'MIT License' /usr/share/doc/logdur/THIRD-PARTY-LICENSES",
    )?;
    root.sh("dpkg --purge logdur")?;
    let after = root.sh(files)?;
    if before != after {
        bail!("expected that removal leaves nothing, found before\n{before}\nafter\n{after}");
    }
    Ok(())
}
