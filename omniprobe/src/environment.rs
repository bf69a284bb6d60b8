//! The variables that `omniprobe` sets for the application.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use logdur_journal::names;
use logdur_replay::emulated_processors;
use logdur_replay::tune::shell_word;
use logdur_settings::{Emulator, GpuList, Interceptor, Value};

use crate::private_folder::PrivateFolder;
use crate::{PlaceOptions, RunOptions, find};

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
    /// What an application needs to be watched.
    ///
    /// # Errors
    /// When a library or the ROCm cannot be found, or its path cannot be passed on.
    pub(crate) fn of(options: &RunOptions) -> Result<Environment> {
        let library = find::library("liblogdur.so")?;
        let mut all = Environment::default();
        all.place(&options.place, Some(&library))?;
        if options.markers {
            let markers = find::library("liblogdur_markers.so")?;
            let markers = all.preloadable(&markers).context("liblogdur_markers.so has to be preloaded")?;
            all.prepend("LD_PRELOAD", &[markers])?;
        }
        all.set("HSA_TOOLS_LIB", quoted(&library)?);
        // ROCr 6.1 and later ask rocprofiler-register first, and then may not look at HSA_TOOLS_LIB at all.
        all.set("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
        // HIP 7 could ring the doorbell itself, past every tool.
        all.set("DEBUG_CLR_DIRECT_DOORBELL", "0");
        // HIP and ROCr 7 could put rings into the memory of the GPU, where they cannot be watched.
        all.set("DEBUG_CLR_AQL_DEV_QUEUE", "0");
        all.set("HSA_ALLOCATE_QUEUE_DEV_MEM", "0");
        let capture = &options.capture;
        // Without clones, they are of an exact analysis, which needs nothing in the application.
        let handler = options.is_instrumented();
        let ours = [
            (Interceptor::log_location, options.log_location.clone()),
            (Interceptor::log_format, options.log_format.clone().map(Into::into)),
            (Interceptor::log_format, options.csv_safe.then(|| "csv-safe".into())),
            (Interceptor::log_filter, options.log_filter.clone().map(Into::into)),
            (Interceptor::ranks, options.ranks.clone().map(Into::into)),
            (Interceptor::kernel_cache, caches(&options.cache_location)?),
            (Interceptor::copies, options.copies.then(|| "1".into())),
            (Interceptor::filter, options.kernels.clone().map(Into::into)),
            (Interceptor::kernel_cache_mode, options.cache_mode.clone().map(Into::into)),
            (Interceptor::kernel_cache_pick, options.cache_pick.clone().map(Into::into)),
            (Interceptor::kernel_cache_trust, options.cache_trust.then(|| "1".into())),
            (Interceptor::instrumented, options.instrumented.then(|| "true".into())),
            (Interceptor::dispatches, options.dispatches.clone().map(Into::into)),
            (Interceptor::handlers, if handler { handlers(&options.analyzers)? } else { None }),
            (Interceptor::handler_options, if handler { joined_options(&options.analyzer_option)? } else { None }),
            (Interceptor::handler_output, options.analyzer_output.clone()),
            (Interceptor::handler_format, options.analyzer_format.clone().map(Into::into)),
            (Interceptor::library_filter, options.library_filter.as_deref().map(absolute).transpose()?),
            (Interceptor::instrument_buffers, options.instrument_buffers.clone()),
            (Interceptor::capture, capture.capture.clone()),
            (Interceptor::capture_kernels, capture.capture_kernels.clone()),
            (Interceptor::capture_dispatches, capture.capture_dispatches.clone()),
            (Interceptor::capture_grid, capture.capture_grid.clone()),
            (Interceptor::capture_device, capture.capture_device.clone()),
            (Interceptor::capture_scope, capture.capture_scope.clone().map(Into::into)),
            (Interceptor::capture_after, capture.capture_after.clone().map(Into::into)),
            (Interceptor::capture_max_bytes, capture.capture_max_bytes.clone()),
            (Interceptor::capture_max_seconds, capture.capture_max_seconds.clone()),
            (Interceptor::capture_max_hold, capture.capture_max_hold.clone()),
            (Interceptor::capture_max_stall, capture.capture_max_stall.clone()),
            (Interceptor::capture_quit, capture.capture_quit.clone()),
            (Interceptor::capture_compress, capture.capture_compress.clone().map(Into::into)),
            (Interceptor::capture_quiesce, capture.capture_quiesce.clone().map(Into::into)),
            (Interceptor::capture_mode, capture.capture_mode.clone()),
            (Interceptor::capture_tell, capture.capture_tell.clone().map(Into::into)),
        ];
        for (name, value) in ours {
            if let Some(value) = value {
                all.set(name, value);
            }
        }
        Ok(all)
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
        if !preload.is_empty() {
            self.prepend("LD_PRELOAD", &preload)?;
        }
        Ok(())
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

    /// A path as `LD_PRELOAD` takes it: spaces and colons separate there, so a link without them stands for one with them.
    fn preloadable(&mut self, path: &Path) -> Result<PathBuf> {
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
        self.iter().map(|(name, value)| format!("{}={}\n", name.to_string_lossy(), one_shell_line(value))).collect()
    }
}

/// A value as a shell reads it. One with control characters, which would command the terminal, is written with escapes.
fn one_shell_line(value: &OsStr) -> String {
    let text = value.to_string_lossy();
    if names::escaped(&text) == text {
        return shell_word(&text);
    }
    let escape = |&byte: &u8| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    };
    let escaped: String = value.as_bytes().iter().map(escape).collect();
    // Source: POSIX 2024, "Dollar-Single-Quotes".
    format!("$'{escaped}'")
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

/// Folders as `LOGDUR_KERNEL_CACHE` takes them, wherever the application goes.
fn caches(folders: &[PathBuf]) -> Result<Option<OsString>> {
    if folders.is_empty() {
        return Ok(None);
    }
    let absolute =
        |folder: &PathBuf| folder.canonicalize().with_context(|| format!("--cache-location {}", folder.display()));
    let folders: Vec<PathBuf> = folders.iter().map(absolute).collect::<Result<_>>()?;
    let joined = std::env::join_paths(&folders).context("--cache-location: a folder's name has a colon")?;
    Ok(Some(joined))
}

/// Analyzers as `LOGDUR_HANDLERS` takes them: names as they are, libraries wherever the application goes.
fn handlers(analyzers: &[OsString]) -> Result<Option<OsString>> {
    if analyzers.is_empty() {
        return Ok(None);
    }
    let place = |analyzer: &OsString| {
        let bytes = analyzer.as_bytes();
        if !bytes.contains(&b'/') && !bytes.ends_with(b".so") {
            return Ok(analyzer.into());
        }
        Path::new(analyzer).canonicalize().with_context(|| format!("--analyzers {}", analyzer.display()))
    };
    let places: Vec<PathBuf> = analyzers.iter().map(place).collect::<Result<_>>()?;
    Ok(Some(std::env::join_paths(&places).context("--analyzers: a name has a colon")?))
}

/// A file's path, wherever the application goes.
fn absolute(file: &Path) -> Result<OsString> {
    file.canonicalize().map(Into::into).with_context(|| format!("--library-filter {}", file.display()))
}

/// Options as `LOGDUR_HANDLER_OPTIONS` takes them.
fn joined_options(options: &[String]) -> Result<Option<OsString>> {
    match options.iter().find(|option| option.contains(':') || !option.contains('=')) {
        Some(wrong) => bail!("--analyzer-option {wrong}: expected KEY=VALUE without a colon"),
        None if options.is_empty() => Ok(None),
        None => Ok(Some(options.join(":").into())),
    }
}

/// A path as `HSA_TOOLS_LIB` takes it: the separator there is a space, quotes and backslashes are honoured (ROCr's
/// `parse_tool_names`).
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    if !text.contains([' ', '"', '\\']) {
        return Ok(text.to_owned());
    }
    let escaped: String =
        text.chars().flat_map(|c| [(c == '"' || c == '\\').then_some('\\'), Some(c)]).flatten().collect();
    Ok(format!("\"{escaped}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_spaces_and_quotes_reach_the_runtime_whole() {
        assert_eq!(quoted(Path::new("/a/b.so")).unwrap(), "/a/b.so");
        assert_eq!(quoted(Path::new("/a b/\"c\\.so")).unwrap(), r#""/a b/\"c\\.so""#);
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
