//! Debian packages of any suite, fetched through private apt lists and unpacked into the cache: nothing is installed
//! and the machine's own lists are left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{self, output};

/// A private set of apt lists for one suite.
pub(crate) struct Suite {
    name: String,
    state: PathBuf,
}

impl Suite {
    /// Prepares (and refreshes) the lists of a suite. `experimental` is not complete without `sid`.
    ///
    /// # Errors
    /// When apt is missing or the lists cannot be fetched.
    pub(crate) fn open(name: &str) -> Result<Suite> {
        let state = shell::cache().join("apt").join(name);
        for folder in ["lists/partial", "cache/archives/partial", "empty"] {
            fs::create_dir_all(state.join(folder))
                .with_context(|| format!("creating {folder} in {}", state.display()))?;
        }
        let suites: &[&str] = if name == "experimental" { &["experimental", "sid"] } else { &[name] };
        let sources: String = suites.iter().map(|s| format!("deb http://deb.debian.org/debian {s} main\n")).collect();
        fs::write(state.join("sources.list"), sources)?;
        fs::write(state.join("status"), "")?;
        let suite = Suite { name: name.to_owned(), state };
        output(suite.apt("apt-get").arg("update")).with_context(|| format!("fetching the package lists of {name}"))?;
        Ok(suite)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = |p: &str| self.state.join(p).display().to_string();
        for (key, value) in [
            ("Dir::Etc::sourcelist", path("sources.list")),
            ("Dir::Etc::sourceparts", path("empty")),
            ("Dir::State::Lists", path("lists")),
            ("Dir::State::status", path("status")),
            ("Dir::Cache", path("cache")),
            // Root would otherwise hand the download to a user who may not write here.
            ("APT::Sandbox::User", "root".to_owned()),
        ] {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        command
    }

    /// The version of a package that the suite offers.
    ///
    /// # Errors
    /// When the suite has no such package.
    pub(crate) fn version(&self, package: &str) -> Result<String> {
        let text = output(self.apt("apt-cache").args(["madison", package]))?;
        let offered = text
            .lines()
            .find(|line| line.contains(&format!("/{}/", self.name)) || line.contains(&format!(" {}/", self.name)));
        let version = offered.and_then(|line| line.split('|').nth(1)).map(|v| v.trim().to_owned());
        version.with_context(|| format!("{} offers no package {package}", self.name))
    }

    /// Unpacks a package and returns the folder that now holds its files and its version.
    ///
    /// # Errors
    /// When it cannot be downloaded or unpacked.
    pub(crate) fn unpack(&self, package: &str) -> Result<(PathBuf, String)> {
        let version = self.version(package)?;
        let folder = self.state.join("unpacked").join(format!("{package}_{}", version.replace([':', '~', '+'], "_")));
        if folder.join("usr").is_dir() {
            return Ok((folder, version));
        }
        let downloads = self.state.join("downloads");
        fs::create_dir_all(&downloads)?;
        output(self.apt("apt-get").args(["download", &format!("{package}={version}")]).current_dir(&downloads))
            .with_context(|| format!("downloading {package} {version}"))?;
        let deb = newest_deb(&downloads, package)?;
        fs::create_dir_all(&folder)?;
        output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&folder))?;
        fs::remove_file(&deb).ok();
        Ok((folder, version))
    }
}

fn newest_deb(folder: &Path, package: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&format!("{package}_")) && name.ends_with(".deb") {
            return Ok(path);
        }
    }
    bail!("apt-get said that it downloaded {package}, but there is no such file in {}", folder.display())
}
