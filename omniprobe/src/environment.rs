//! The variables that `omniprobe` sets for the application.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use logdur_replay::emulated_processors;
use logdur_settings::{Emulator, GpuList, Interceptor, Value};
use logdur_system::text::shell_word;

use super::private_folder::PrivateFolder;
use super::{find, preload};
use crate::headings;

/// Which ROCm and which device.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = headings::PLACE)]
pub(crate) struct PlaceOptions {
    /// Run on emulated GPUs: gfx90a, gfx906 or another processor; `2*gfx90a` is two of them. Sets KFDEMU_GPUS.
    #[arg(long, value_name = "ARCH")]
    pub(crate) emulate: Option<String>,
    /// Use the ROCm in this folder. Sets ROCM_PATH and LD_LIBRARY_PATH.
    #[arg(long, value_name = "DIR")]
    pub(crate) rocm: Option<PathBuf>,
}

/// Variables that name a file or a folder, or are a word that is none.
const FILES: &[&str] = &[
    Interceptor::log_location,
    Interceptor::records,
    Interceptor::capture,
    Interceptor::handler_output,
    Interceptor::library_filter,
    Emulator::log,
    Emulator::trace,
    Emulator::tree,
];

/// Whether a part of a variable is a path, and no other name.
type IsFile = fn(&Path) -> bool;

/// Variables that name several, and which of their parts are files.
const LISTS: &[(&str, IsFile)] = &[
    (Interceptor::kernel_cache, |_| true),
    (Interceptor::handlers, |part| part.as_os_str().as_bytes().contains(&b'/')),
];

/// Variables to set, in the order in which they are shown.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    variables: Vec<(OsString, OsString)>,
    /// What the variables refer to; removed with this.
    folder: Option<PrivateFolder>,
    /// The same, for what may be large.
    large_folder: Option<PrivateFolder>,
}

impl Environment {
    /// Makes names of files whole, in variables that are set here or from outside: they belong to the folder where they were typed,
    /// wherever the application goes.
    ///
    /// # Errors
    /// When the folder where they were typed is not there.
    pub(crate) fn settle(&mut self) -> Result<()> {
        for name in FILES {
            let Some(value) = self.value(name) else { continue };
            let words = ["", "console", "stderr", "none"];
            if !words.iter().any(|word| value == *word) && Path::new(&value).is_relative() {
                let whole = std::path::absolute(&value).with_context(|| (*name).to_owned())?;
                self.set(name, whole);
            }
        }
        for (name, is_file) in LISTS {
            let Some(value) = self.value(name) else { continue };
            let whole = |part: PathBuf| {
                let relative = !part.as_os_str().is_empty() && part.is_relative() && is_file(&part);
                if relative { std::path::absolute(part) } else { Ok(part) }
            };
            let parts: Vec<PathBuf> = std::env::split_paths(&value).map(whole).collect::<Result<_, _>>()?;
            let parts = std::env::join_paths(parts).with_context(|| (*name).to_owned())?;
            if parts != value {
                self.set(name, parts);
            }
        }
        Ok(())
    }

    /// What is needed to run with some ROCm and on some device, and to have `library` in the process.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn place(&mut self, place: &PlaceOptions, library: Option<&Path>) -> Result<()> {
        if let Some(rocm) = &place.rocm {
            self.prepend("LD_LIBRARY_PATH", &find::rocm_libraries(rocm)?)?;
            self.set("ROCM_PATH", rocm.canonicalize()?);
        }
        let mut preload: Vec<PathBuf> = Vec::new();
        if let Some(gpus) = &place.emulate {
            check_gpus(gpus)?;
            self.set(Emulator::gpus, gpus);
            let library = find::library("libkfdemu.so")?;
            preload.push(self.preloadable(&library).context("libkfdemu.so has to be preloaded")?);
        }
        // ROCr 5.3 and later find a tool that is in the process even when the application overwrites HSA_TOOLS_LIB. Not
        // essential: a path that cannot be preloaded is left out.
        preload.extend(library.and_then(|l| self.preloadable(l).ok()));
        self.preload(&preload);
        Ok(())
    }

    /// Lets a program start whose AddressSanitizer is not the first library of its process. What is preloaded passes all calls on, and
    /// tells it so (`asan` of the libraries), unless the program itself has a function with its options.
    pub(crate) fn start_sanitized(&mut self, program: &Path) {
        if preload::needs_asan(program) {
            let old = self.value("ASAN_OPTIONS").filter(|old| !old.is_empty());
            let all: Vec<OsString> = old.into_iter().chain(["verify_asan_link_order=0".into()]).collect();
            self.set("ASAN_OPTIONS", all.join(":".as_ref()));
        }
    }

    /// The value of a variable that is set here.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.as_os_str())
    }

    /// The value that a variable has in the application.
    pub(crate) fn value(&self, name: &str) -> Option<OsString> {
        self.get(name).map(OsStr::to_owned).or_else(|| std::env::var_os(name))
    }

    /// Sets a variable, again if it was set before.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.retain(|(set, _)| set != name);
        self.variables.push((name.into(), value.into()));
    }

    fn prepend(&mut self, name: &str, paths: &[PathBuf]) -> Result<()> {
        let old = self.get(name).map(OsStr::to_owned).or_else(|| std::env::var_os(name)).unwrap_or_default();
        let old: Vec<PathBuf> = std::env::split_paths(&old).filter(|p| !p.as_os_str().is_empty()).collect();
        let all = std::env::join_paths(paths.iter().chain(&old))
            .with_context(|| format!("{name} cannot hold these paths"))?;
        self.set(name, all);
        Ok(())
    }

    /// Preloads libraries, before all others but the runtimes of sanitizers.
    pub(crate) fn preload(&mut self, libraries: &[PathBuf]) {
        if !libraries.is_empty() {
            let old = self.value("LD_PRELOAD").unwrap_or_default();
            self.set("LD_PRELOAD", preload::with(libraries, &old));
        }
    }

    /// A folder of this run's own.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn folder(&mut self) -> Result<&PrivateFolder> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => PrivateFolder::new()?,
        };
        Ok(self.folder.insert(folder))
    }

    /// A folder of this run's own for what may be large: not in `$XDG_RUNTIME_DIR`, which is memory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn large_folder(&mut self) -> Result<&Path> {
        let folder = match self.large_folder.take() {
            Some(folder) => folder,
            None => PrivateFolder::new_in(&std::env::temp_dir())?,
        };
        Ok(self.large_folder.insert(folder).path())
    }

    /// Leaves that folder on the disk when this is dropped, and says where it is.
    pub(crate) fn keep_large_folder(&mut self) -> Option<PathBuf> {
        self.large_folder.take().map(PrivateFolder::keep)
    }

    /// A path as `LD_PRELOAD` takes it: spaces and colons separate there, so a link without them stands for one with them.
    ///
    /// # Errors
    /// When the link cannot be made.
    pub(crate) fn preloadable(&mut self, path: &Path) -> Result<PathBuf> {
        let text = path.as_os_str().as_encoded_bytes();
        if !text.contains(&b' ') && !text.contains(&b':') {
            return Ok(path.to_owned());
        }
        let link = self.folder()?.path().join(path.file_name().context("a library has a name")?);
        std::os::unix::fs::symlink(path, &link)
            .with_context(|| format!("linking {} to {}", link.display(), path.display()))?;
        Ok(link)
    }

    /// The variables.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The variables as a shell reads them, one a line.
    pub(crate) fn shell(&self) -> String {
        self.iter().map(|(name, value)| format!("{}={}\n", name.to_string_lossy(), shell_word(value))).collect()
    }
}

/// Checks the value of `--emulate`: the driver in the application could only say that there is no GPU.
fn check_gpus(gpus: &str) -> Result<()> {
    let names = GpuList::parse(OsStr::new(gpus)).map_err(|expected| anyhow!("--emulate {gpus}: {expected}"))?.0;
    let processor = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    match names.iter().find(|name| !emulated_processors().any(|known| known == processor(name))) {
        Some(name) => {
            let known: Vec<&str> = emulated_processors().collect();
            bail!("--emulate: {name} cannot be emulated, expected one of {}", known.join(", "))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_names_belong_to_the_folder_where_they_were_typed() {
        let here = std::env::current_dir().unwrap();
        let mut all = Environment::default();
        for (name, value, expected) in [
            (Interceptor::log_location, "a.%p.csv", here.join("a.%p.csv").into_os_string()),
            (Interceptor::capture, "../c", here.join("../c").into_os_string()),
            (Interceptor::handler_output, "console", "console".into()),
            (Interceptor::records, "", "".into()),
            (Emulator::log, "none", "none".into()),
            (Emulator::trace, "/t", "/t".into()),
            (Interceptor::kernel_cache, "/a:b", format!("/a:{}", here.join("b").display()).into()),
            (Interceptor::handlers, "Heatmap:./x.so", format!("Heatmap:{}", here.join("x.so").display()).into()),
        ] {
            all.set(name, value);
            all.settle().unwrap();
            assert_eq!(all.get(name), Some(expected.as_os_str()), "{name}");
        }
    }

    #[test]
    fn variables_are_printed_so_that_a_shell_reads_them_back() {
        let mut all = Environment::default();
        all.set("A", "x=1,y%p");
        all.set("B", "it's two words");
        all.set("C", "a\n\u{1b}[2J'\\");
        assert_eq!(all.shell(), "A=x=1,y%p\nB='it'\\''s two words'\nC=$'a\\012\\033[2J\\'\\\\'\n");
    }
}
