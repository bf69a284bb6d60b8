//! Where a suite's programs come from, and the folder that they are unpacked into.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;

use xtask::debian::{Foreign, Package, Suite as Lists};
use xtask::rocm::{self, Generation, Unpacked};
use xtask::{setup, shell};

/// Where programs come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Debian packages, with all that they need and the ROCm has not.
    Debian {
        /// The version of the HSA runtime, which names a generation and its Debian suite.
        rocm: &'static str,
        packages: &'static [&'static str],
        /// Packages of which only the files are unpacked that one of the patterns matches.
        parts: &'static [(&'static str, &'static [&'static str])],
        /// What Python's index has in addition, to prepare the tests with.
        python: &'static [&'static str],
        /// What the packages need and their suite does not have.
        foreign: &'static [Foreign],
    },
    /// Python packages at fixed versions, run by the machine's Python on a ROCm.
    Python { rocm: &'static str, packages: &'static [&'static str] },
    /// Programs of this repository, compiled for the machine's own ROCm when they are listed.
    Machine,
}

impl Source {
    /// Whole Debian packages that need nothing but their suite.
    pub(crate) const fn debian(rocm: &'static str, packages: &'static [&'static str]) -> Source {
        Source::Debian { rocm, packages, parts: &[], python: &[], foreign: &[] }
    }

    /// The generation of ROCm that the programs run on; `None` for the machine's own.
    fn generation(&self) -> Result<Option<&'static Generation>> {
        match self {
            Source::Debian { rocm, .. } | Source::Python { rocm, .. } => Ok(rocm::named(rocm)?.into_iter().next()),
            Source::Machine => Ok(None),
        }
    }

    /// True when the packages still change, so that a day without them is no failure.
    pub(crate) fn is_moving(&self) -> bool {
        self.generation().is_ok_and(|generation| generation.is_some_and(|g| g.moving))
    }
}

/// The number grows with every change of what this file makes of packages.
const LAYOUT: u32 = 2;
/// Names the source, the ROCm and every package with its version. Written last: the sign that a place is complete.
const LIST: &str = "packages";
/// The folder of a place that is a Python environment.
const PYTHON: &str = "python";
/// Folders of libraries that Debian's alternatives would make reachable from `lib`.
const ALTERNATIVES: &[&str] = &["lib/blas", "lib/lapack"];

/// A suite's programs, ready to be run.
pub(crate) struct InstalledSuite {
    /// Files of packages are below it as they would be below `/usr`.
    pub(crate) folder: PathBuf,
    /// The ROCm that the programs run on; `None` for the machine's own.
    pub(crate) rocm: Option<PathBuf>,
    /// One line: what it is made of.
    pub(crate) made_of: String,
}

impl InstalledSuite {
    /// Sees to it that a source is unpacked into the cache. `fetch` asks for it anew.
    ///
    /// # Errors
    /// When its packages cannot be had or unpacked.
    pub(crate) fn of(name: &str, source: &Source, wanted: &[&str], fetch: bool) -> Result<InstalledSuite> {
        let folder = shell::cache().join("suites").join(name);
        let key = format!("layout {LAYOUT} {source:?}");
        if !fetch && let Some(place) = InstalledSuite::read(&folder, &key) {
            return Ok(place);
        }
        let rocm = source.generation()?.map(rocm::unpack).transpose()?;
        // Scripts of a Python environment name its folder, so it is made where it stays.
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let mut contents = String::new();
        match source {
            Source::Debian { rocm: version, packages, parts, python, foreign } => {
                let generation = rocm::named(version)?[0];
                let rocm = rocm.as_ref().context("Debian's packages need a ROCm")?;
                let lists = Lists::open(generation.suite)?;
                lists.take_for_installed(foreign)?;
                contents += &unpack(&folder, generation, &lists, rocm, packages, parts)?;
                for package in *foreign {
                    lists.unpack_foreign(package, &folder)?;
                    writeln!(contents, "{} {}", package.name, package.version)?;
                }
                contents += &environment(&folder, python)?;
            }
            Source::Python { packages, .. } => contents += &environment(&folder, packages)?,
            Source::Machine => {}
        }
        let runtime = rocm.as_ref().map_or("of the machine", |r| &r.version);
        let at = rocm.as_ref().map_or_else(String::new, |r| r.folder.display().to_string());
        let wanted: Vec<&str> = contents.lines().filter(|line| wanted.iter().any(|w| line.starts_with(w))).collect();
        let made_of = if wanted.is_empty() { "programs of this repository".to_owned() } else { wanted.join(", ") };
        let made_of = format!("{made_of}; HSA runtime {runtime}");
        fs::write(folder.join(LIST), format!("{key}\n{at}\n{made_of}\n{contents}"))?;
        let place = InstalledSuite::read(&folder, &key).context("a place that was just made is not complete")?;
        place.write_run()?;
        place.write_headers()?;
        Ok(place)
    }

    fn read(folder: &Path, key: &str) -> Option<InstalledSuite> {
        let list = fs::read_to_string(folder.join(LIST)).ok()?;
        let mut lines = list.lines();
        let is_same = lines.next()? == key;
        let rocm = Some(lines.next()?).filter(|path| !path.is_empty()).map(PathBuf::from);
        let made_of = lines.next()?.to_owned();
        let is_there = rocm.as_ref().is_none_or(|rocm| rocm.join("lib").is_dir());
        (is_same && is_there).then(|| InstalledSuite { folder: folder.to_owned(), rocm, made_of })
    }

    /// The words that start a program with the libraries of the place. Relative programs are in the place's folder.
    pub(crate) fn words(&self, program: &Path) -> Vec<String> {
        let program = self.folder.join(program).display().to_string();
        let Some(rocm) = &self.rocm else { return vec![program] };
        let alternatives = ALTERNATIVES.iter().map(|a| self.folder.join(a)).filter(|folder| folder.is_dir());
        let folders = [rocm.join("lib"), self.folder.join("lib")].into_iter().chain(alternatives);
        let path = folders.map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":");
        if rocm::owns_libc(rocm) {
            let loader = rocm::loader(rocm).display().to_string();
            vec![loader, "--argv0".to_owned(), program.clone(), "--library-path".to_owned(), path, program]
        } else {
            vec!["env".to_owned(), format!("LD_LIBRARY_PATH={path}"), program]
        }
    }

    /// The same for a program that looks for its data beside `/proc/self/exe`, which is the loader's file where one starts the
    /// program: there is a link to that file in `folder`.
    pub(super) fn words_beside(&self, folder: &Path, program: &Path) -> Result<Vec<String>> {
        let mut words = self.words(program);
        let started = if words.first().is_some_and(|word| word == "env") { words.len() - 1 } else { 0 };
        let link = folder.join("started");
        fs::remove_file(&link).ok();
        fs::hard_link(&words[started], &link).with_context(|| format!("linking {}", words[started]))?;
        words[started] = link.display().to_string();
        Ok(words)
    }

    /// Writes the script `run` of the place, for tests that start programs themselves.
    fn write_run(&self) -> Result<()> {
        let mut words = self.words(Path::new("PROGRAM"));
        // The program is the last word, and may be the name that the loader gives it.
        let program = words.pop().unwrap_or_default();
        let quoted = |word: String| if word == program { "\"$program\"".to_owned() } else { format!("'{word}'") };
        let words: Vec<String> = words.into_iter().map(quoted).collect();
        let text = format!("#!/bin/sh\nprogram=$1\nshift\nexec {} \"$program\" \"$@\"\n", words.join(" "));
        let file = self.folder.join("run");
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Writes where the compiler of OpenCL finds the sources of the headers that it has precompiled, for Clang's `-ivfsoverlay`: what
    /// it has precompiled names them below the machine's `/usr`.
    fn write_headers(&self) -> Result<()> {
        let Some(rocm) = &self.rocm else { return Ok(()) };
        let mut roots = Vec::new();
        for entry in fs::read_dir(rocm.join("lib"))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("llvm-") {
                roots.push(json!({
                    "type": "directory-remap",
                    "name": Path::new("/usr/lib").join(entry.file_name()),
                    "external-contents": entry.path(),
                }));
            }
        }
        let overlay = json!({ "version": 0, "roots": roots });
        fs::write(self.folder.join("headers.json"), overlay.to_string()).context("writing headers.json")
    }

    /// The values of variables, with the place's folder for `{place}`.
    pub(crate) fn filled<'v>(&self, variables: &[(&'v str, &str)]) -> Vec<(&'v str, String)> {
        let folder = self.folder.display().to_string();
        variables.iter().map(|(name, value)| (*name, value.replace("{place}", &folder))).collect()
    }

    /// The Python of the place's environment.
    pub(crate) fn python(&self) -> PathBuf {
        self.folder.join(PYTHON).join("bin/python")
    }
}

/// Unpacks packages and what they need, and returns their names and versions, one a line.
fn unpack(
    folder: &Path,
    generation: &Generation,
    lists: &Lists,
    rocm: &Unpacked,
    names: &[&str],
    parts: &[(&str, &[&str])],
) -> Result<String> {
    let there = fs::read_to_string(rocm.folder.join("packages")).unwrap_or_default();
    let mut packages: Vec<Package> = Vec::new();
    for name in names {
        for package in lists.closure(name)? {
            let is_there = there.lines().any(|line| line.split(' ').next() == Some(&package.name));
            let is_base = !rocm::owns_libc(&rocm.folder) && rocm::BASE.contains(&package.name.as_str());
            if !is_there && !is_base && !packages.contains(&package) {
                packages.push(package);
            }
        }
    }
    let bytes: u64 = packages.iter().map(|p| p.size).sum();
    eprintln!("fetching {} packages of {}, {} MB: {}", packages.len(), generation.suite, bytes / 1_000_000, {
        packages.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(" ")
    });
    // The layout of the unpacked ROCms.
    fs::create_dir_all(folder.join("lib"))?;
    symlink(".", folder.join("usr"))?;
    symlink(".", folder.join("lib/x86_64-linux-gnu"))?;
    let mut text = String::new();
    for package in packages {
        let patterns =
            parts.iter().find(|(name, _)| *name == package.name).map_or(&["*"][..], |(_, patterns)| patterns);
        writeln!(text, "{} {}", package.name, package.version)?;
        lists.unpack_only(&[package], folder, patterns)?;
    }
    Ok(text)
}

/// Makes a Python environment in a place and returns its packages, one a line.
fn environment(folder: &Path, packages: &[&str]) -> Result<String> {
    if packages.is_empty() {
        return Ok(String::new());
    }
    eprintln!("fetching {}", packages.join(" "));
    setup::environment(&folder.join(PYTHON), packages)?;
    let mut lines = String::new();
    for package in packages {
        let Some((name, version)) = package.split_once("==") else { bail!("{package}: expected NAME==VERSION") };
        writeln!(lines, "{name} {version}")?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_of_opencl_finds_its_headers_in_the_unpacked_rocm() {
        let folder = std::env::temp_dir().join(format!("logdur-place-{}", std::process::id()));
        let rocm = folder.join("rocm");
        fs::create_dir_all(rocm.join("lib/llvm-17")).unwrap();
        let place = InstalledSuite { folder: folder.clone(), rocm: Some(rocm.clone()), made_of: String::new() };
        place.write_headers().unwrap();
        let variables = place.filled(&[("OPTIONS", "-ivfsoverlay{place}/headers.json")]);
        let file = variables[0].1.strip_prefix("-ivfsoverlay").unwrap();
        let overlay: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(overlay["roots"][0]["name"], "/usr/lib/llvm-17");
        assert_eq!(overlay["roots"][0]["external-contents"], rocm.join("lib/llvm-17").to_str().unwrap());
        fs::remove_dir_all(&folder).unwrap();
    }
}
