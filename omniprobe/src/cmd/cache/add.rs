//! `omniprobe cache add`: code objects into a folder.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use logdur_kernel_cache::Added;
use omniprobe_exit::Exit;

use super::KernelFilter;
use crate::output::{file, lines};

/// What is added where.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The folder, which is created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Programs, libraries, bundles, code objects, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    filter: KernelFilter,
}

/// Adds the code objects that have a kernel that was asked for, and says where each is.
///
/// # Errors
/// When a file is not there or has none, or the folder cannot be written.
pub(super) fn run(options: &Options) -> Result<Exit> {
    let cache = super::open(&options.files)?;
    let mut kernels = cache.kernels();
    kernels.retain(|k| options.filter.takes(k));
    if kernels.is_empty() {
        let files: Vec<String> = options.files.iter().map(|p| p.display().to_string()).collect();
        bail!("{}: expected kernels, found none", files.join(", "));
    }
    let added = logdur_kernel_cache::add(&options.folder, &cache, kernels)?;
    let line = |a: &Added| {
        let target = a.kernels.first().map_or_else(String::new, |k| k.interface.target.to_string());
        let there = if a.was_there { ", was there" } else { "" };
        format!("{}: {target}, {} kernels{there}", file(&a.path), a.kernels.len())
    };
    lines(added.iter().map(line))?;
    Ok(Exit::Success)
}
