//! Debian packages of any suite, fetched through private apt lists and unpacked into the cache: nothing is installed
//! and the machine's own lists are left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{self, fetched, output};

/// Downloads a file and compares its hash; apt's packages put it there.
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// A private set of apt lists for one suite.
pub struct Suite {
    name: String,
    state: PathBuf,
}

/// A package of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// As Debian writes it.
    pub version: String,
    /// Bytes to download.
    pub size: u64,
}

/// A package that a suite's packages need and the suite itself does not have: that of another archive.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// Its name.
    pub name: &'static str,
    /// As Debian writes it.
    pub version: &'static str,
    /// Where it stays: of a release, not of a suite that moves.
    pub uri: &'static str,
    /// Hexadecimal.
    pub sha256: &'static str,
}

impl Package {
    /// From a line of `apt-get --print-uris`: `'URI' NAME_VERSION_ARCH.deb SIZE HASH`. A colon in the version is `%3a`.
    fn parse(line: &str) -> Option<Package> {
        let mut words = line.strip_prefix('\'')?.split_whitespace().skip(1);
        let mut parts = words.next()?.strip_suffix(".deb")?.split('_');
        let (name, version) = (parts.next()?.to_owned(), parts.next()?.replace("%3a", ":"));
        Some(Package { name, version, size: words.next()?.parse().ok()? })
    }
}

impl Suite {
    /// Prepares (and refreshes) the lists of a suite. `experimental` is not complete without `sid`.
    ///
    /// # Errors
    /// When apt is missing or the lists cannot be fetched.
    pub fn open(name: &str) -> Result<Suite> {
        Suite::with_lists(name, "deb", shell::cache().join("apt").join(name))
    }

    /// As [`Suite::open`], for source packages.
    ///
    /// # Errors
    /// When apt is missing or the lists cannot be fetched.
    pub fn open_sources(name: &str) -> Result<Suite> {
        Suite::with_lists(name, "deb-src", shell::cache().join("apt").join(format!("{name}-sources")))
    }

    fn with_lists(name: &str, kind: &str, state: PathBuf) -> Result<Suite> {
        for folder in ["lists/partial", "cache/archives/partial", "empty"] {
            fs::create_dir_all(state.join(folder))
                .with_context(|| format!("creating {folder} in {}", state.display()))?;
        }
        let suites: &[&str] = if name == "experimental" { &["experimental", "sid"] } else { &[name] };
        let sources: String =
            suites.iter().map(|s| format!("{kind} http://deb.debian.org/debian {s} main\n")).collect();
        fs::write(state.join("sources.list"), sources)?;
        fs::write(state.join("status"), "")?;
        let suite = Suite { name: name.to_owned(), state };
        // Without the option, a list that cannot be fetched is only a warning and yesterday's stays.
        fetched(suite.apt("apt-get").args(["-o", "APT::Update::Error-Mode=any", "update"]))
            .with_context(|| format!("fetching the package lists of {name}"))?;
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
            ("APT::Default-Release", self.name.clone()),
            // Root would otherwise hand the download to a user who may not write here.
            ("APT::Sandbox::User", "root".to_owned()),
        ] {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        command
    }

    /// Takes packages of other archives for installed: what needs them can be had then.
    ///
    /// # Errors
    /// When the list of installed packages cannot be written.
    pub fn take_for_installed(&self, packages: &[Foreign]) -> Result<()> {
        let entry = |p: &Foreign| {
            format!(
                "Package: {}\nStatus: install ok installed\nVersion: {}\nArchitecture: amd64\n\n",
                p.name, p.version
            )
        };
        Ok(fs::write(self.state.join("status"), packages.iter().map(entry).collect::<String>())?)
    }

    /// Downloads a package of another archive and unpacks it into a folder.
    ///
    /// # Errors
    /// When it cannot be downloaded, or is not the one that is meant.
    pub fn unpack_foreign(&self, package: &Foreign, folder: &Path) -> Result<()> {
        let deb = self.state.join("cache").join(format!("{}.deb", package.name));
        let hash = format!("SHA256:{}", package.sha256);
        fetched(Command::new(APT_HELPER).args(["download-file", package.uri]).arg(&deb).arg(hash))
            .with_context(|| format!("downloading {}", package.uri))?;
        extract(&deb, folder, &["*"]).with_context(|| format!("unpacking {} {}", package.name, package.version))?;
        Ok(fs::remove_file(deb)?)
    }

    /// The packages that an installation of `name` onto an empty machine would bring, itself among them.
    ///
    /// # Errors
    /// When the suite has no such package, or its dependencies cannot be met.
    pub fn closure(&self, name: &str) -> Result<Vec<Package>> {
        let options = ["install", "-qq", "--yes", "--no-install-recommends", "--print-uris"];
        let text = output(self.apt("apt-get").args(options).arg(name))
            .with_context(|| format!("what {name} of {} depends on", self.name))?;
        let found: Vec<Package> = text.lines().filter_map(Package::parse).collect();
        if !found.iter().any(|p| p.name == name) {
            bail!("{} offers no package {name}", self.name);
        }
        Ok(found)
    }

    /// Downloads packages and unpacks them into a folder. Links to folders that are there already are followed.
    ///
    /// # Errors
    /// When one cannot be downloaded or unpacked.
    pub fn unpack(&self, packages: &[Package], folder: &Path) -> Result<()> {
        self.unpack_only(packages, folder, &["*"])
    }

    /// As [`Suite::unpack`], but only the files that one of the patterns matches.
    ///
    /// # Errors
    /// When one cannot be downloaded or unpacked, or a pattern matches nothing.
    pub fn unpack_only(&self, packages: &[Package], folder: &Path, patterns: &[&str]) -> Result<()> {
        let downloads = self.state.join("downloads");
        fs::remove_dir_all(&downloads).ok();
        fs::create_dir_all(&downloads)?;
        let names = packages.iter().map(|p| format!("{}={}", p.name, p.version));
        fetched(self.apt("apt-get").args(["-qq", "download"]).args(names).current_dir(&downloads))
            .with_context(|| format!("downloading {} packages of {}", packages.len(), self.name))?;
        fs::create_dir_all(folder)?;
        for package in packages {
            let deb = self.downloaded(&downloads, package)?;
            extract(&deb, folder, patterns)
                .with_context(|| format!("unpacking {} {}", package.name, package.version))?;
        }
        fs::remove_dir_all(&downloads)?;
        Ok(())
    }

    /// Downloads the upstream archive of a source package into a new folder of its own.
    ///
    /// # Errors
    /// When the suite has no such package, or it cannot be downloaded.
    pub fn upstream(&self, package: &str) -> Result<PathBuf> {
        let folder = self.state.join("upstream");
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder)?;
        let options = ["-qq", "source", "--download-only", "--tar-only"];
        fetched(self.apt("apt-get").args(options).arg(package).current_dir(&folder))
            .with_context(|| format!("downloading the source of {package} from {}", self.name))?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|n| n.to_string_lossy().contains(".orig.tar.")) {
                return Ok(path);
            }
        }
        bail!("apt-get said that it downloaded {package}, but there is no archive in {}", folder.display())
    }

    fn downloaded(&self, folder: &Path, package: &Package) -> Result<PathBuf> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&format!("{}_", package.name)) && name.ends_with(".deb") {
                return Ok(path);
            }
        }
        bail!("apt-get said that it downloaded {}, but there is no such file in {}", package.name, folder.display())
    }
}

/// `dpkg-deb -x` would replace links to folders by folders.
fn extract(deb: &Path, folder: &Path, patterns: &[&str]) -> Result<()> {
    let mut archive = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(deb).stdout(Stdio::piped()).spawn()?;
    let contents = archive.stdout.take().context("dpkg-deb has no output")?;
    let options = ["-x", "--no-same-owner", "--keep-directory-symlink", "--wildcards", "-C"];
    shell::run(Command::new("tar").args(options).arg(folder).args(patterns).stdin(contents))?;
    let status = archive.wait()?;
    if status.success() { Ok(()) } else { bail!("dpkg-deb --fsys-tarfile {}: {status}", deb.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_what_apt_prints() {
        let line = "'http://deb.debian.org/debian/pool/main/l/l/libllvm17t64_17.0.6-22%2bb2_amd64.deb' \
                    libllvm17t64_1%3a17.0.6-22+b2_amd64.deb 23648856 MD5Sum:f995552c643c67363adf4f6614c2a002";
        let version = "1:17.0.6-22+b2".to_owned();
        assert_eq!(Package::parse(line), Some(Package { name: "libllvm17t64".to_owned(), version, size: 23_648_856 }));
        assert_eq!(Package::parse("Reading package lists..."), None);
    }
}
