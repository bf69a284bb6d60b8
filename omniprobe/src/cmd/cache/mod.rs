//! `omniprobe cache`: what is in folders of code objects, and whether it would be used.

mod add;
mod check;
mod ls;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use logdur_journal::names;
use logdur_kernel_cache::{Cache, Candidate, Indexing, Trust, index_folder};
use logdur_settings::{Interceptor, TRUST_ALL};
use logdur_system::trust;
use omniprobe_exit::Exit;
use regex::Regex;

use super::Example;
use crate::environment::Environment;
use crate::output::tell;
use crate::progress;

/// An index that is made within this time is made at once.
const AT_ONCE: Duration = Duration::from_millis(300);

/// What is done with code objects.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum CacheCommand {
    /// List the kernels of folders and files: hash, target, sizes, arguments.
    Ls(ls::Options),
    /// Tell which kernels of an application or code object would be swapped, and why others would not.
    Check(check::Options),
    /// Copy code objects out of programs, libraries and bundles into a folder.
    Add(add::Options),
}

/// The examples of these.
pub(super) const EXAMPLES: &[Example] = &[
    ("ls", "List the kernels of a program and of a folder", "omniprobe cache ls ./app faster"),
    ("check", "Would gemm kernels of a folder be swapped, and why not?", "omniprobe cache check faster ./app -k gemm"),
    ("add", "Take the code objects out of a program", "omniprobe cache add faster ./app"),
];

/// Which kernels.
#[derive(Args, Clone, Debug)]
struct KernelFilter {
    /// Only kernels with a matching name: mangled, demangled, or without arguments.
    #[arg(short, long, value_name = "REGEX")]
    kernels: Option<Regex>,
    /// Only code for this processor, like gfx90a.
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
}

impl KernelFilter {
    fn takes(&self, candidate: &Candidate) -> bool {
        let interface = &candidate.interface;
        self.arch.as_ref().is_none_or(|arch| *arch == interface.target.processor)
            && self.kernels.as_ref().is_none_or(|r| names::is_named(&interface.name, r))
    }
}

/// Runs the command.
///
/// # Errors
/// When a folder or file is not there, or cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    match &options.command {
        CacheCommand::Ls(options) => ls::run(options),
        CacheCommand::Check(options) => check::run(options),
        CacheCommand::Add(options) => add::run(options),
    }
}

/// Opens folders and files that the user named, with the index that runs use; what cannot be read in them is said on stderr.
fn open(paths: &[PathBuf]) -> Result<Cache> {
    open_with(paths, Trust::Everybody)
}

/// Opens a folder as a run does: what the run would not trust is refused, and said on stderr.
fn open_as_cache(path: &Path) -> Result<Cache> {
    let (settings, _) = Interceptor::from_environment();
    open_with(&[path.to_owned()], Trust::of(trust::user(), settings.kernel_cache_trust != 0, TRUST_ALL))
}

fn open_with(paths: &[PathBuf], trust: Trust) -> Result<Cache> {
    for path in paths {
        path.metadata().with_context(|| path.display().to_string())?;
    }
    let folder = index_folder();
    let mut cache = indexed(paths, folder.as_deref(), trust);
    if let Some(folder) = folder {
        cache.take_hashes(&folder);
    }
    let Indexing { problems, .. } = cache.indexing();
    for problem in cache.problems().iter().chain(problems) {
        tell(format_args!("{}: {}", problem.path.display(), problem.reason));
    }
    Ok(cache)
}

/// Opens folders and files; a bar shows how far their index is, if it is not made at once.
fn indexed(paths: &[PathBuf], folder: Option<&Path>, trust: Trust) -> Cache {
    let (start, mut bar) = (Instant::now(), None);
    let cache = Cache::open_with(paths, folder, trust, &mut |files, all| {
        if bar.is_none() && start.elapsed() > AT_ONCE {
            bar = progress::bar("{pos} of {len} files indexed", all as u64).ok();
        }
        if let Some(bar) = &bar {
            // Each of several folders has its own number.
            bar.set_length(all as u64);
            bar.set_position(files as u64);
        }
    });
    bar.iter().for_each(ProgressBar::finish_and_clear);
    cache
}

/// Makes the index of the folders that a run will search for kernels, so that the application does not wait for it in silence.
pub(crate) fn prepare(environment: &Environment) {
    // Without a folder for it, the application's process makes it all the same.
    let Some(folder) = index_folder() else { return };
    let (settings, _) = Interceptor::from(|name| environment.value(name));
    let roots = &settings.kernel_cache.0;
    if !roots.is_empty() {
        indexed(roots, Some(&folder), Trust::of(trust::user(), settings.kernel_cache_trust != 0, TRUST_ALL));
    }
}

/// Keeps the hashes that were computed, so that the next command does not read the code again.
fn keep_hashes(caches: &[&Cache]) {
    let Some(folder) = index_folder() else { return };
    for cache in caches {
        if let Err(error) = cache.keep_hashes(&folder) {
            tell(format_args!("hashes cannot be kept in {}: {error}", folder.display()));
        }
    }
}
