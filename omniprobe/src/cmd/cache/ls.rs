//! `omniprobe cache ls`: the kernels of folders and files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_kernel_cache::Hash;
use omniprobe_exit::Exit;

use super::{KernelFilter, table};
use crate::output::{demangled, file, lines, tell};

/// What is listed.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// Folders with all subfolders, or files.
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: KernelFilter,
    /// Print one JSON object for each kernel, one a line.
    #[arg(long)]
    json: bool,
}

/// Lists kernels.
///
/// # Errors
/// When a folder or file is not there, or was changed meanwhile.
pub(super) fn run(options: &Options) -> Result<Exit> {
    let cache = super::open(&options.paths)?;
    let mut kernels = cache.kernels();
    kernels.retain(|k| options.filter.takes(k));
    let hashed = kernels.iter().map(|kernel| Ok((kernel, cache.hash(kernel)?)));
    let hashed: Vec<(_, Hash)> = hashed.collect::<Result<_>>()?;
    super::keep_hashes(&[&cache]);
    if hashed.is_empty() {
        let shown: Vec<String> = options.paths.iter().map(|path| file(path)).collect();
        tell(format_args!("{}: no kernel that is asked for is in it", shown.join(", ")));
    }
    if options.json {
        lines(hashed.iter().map(|(k, hash)| table::json(k, Some(&hash.to_string())).to_string()))?;
        return Ok(Exit::Success);
    }
    let head =
        ["HASH", "TARGET", "ABI", "LDS", "SCRATCH", "VGPR", "AGPR", "SGPR", "GROUP", "ARGUMENTS", "KERNEL", "FILE"];
    let row = |(kernel, hash): &(&logdur_kernel_cache::Candidate, Hash)| {
        let i = &kernel.interface;
        let shape = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        [
            hash.short(),
            i.target.to_string(),
            format!("{:?}", i.abi),
            i.group_size.to_string(),
            i.private_size.to_string(),
            i.vgprs.to_string(),
            i.agprs.to_string(),
            i.sgprs.to_string(),
            i.required_workgroup_size.map_or_else(|| format!("≤{}", i.max_flat_workgroup_size), shape),
            table::arguments(i),
            demangled(&i.name),
            file(&kernel.path),
        ]
    };
    table::print(head, &hashed.iter().map(row).collect::<Vec<_>>())?;
    Ok(Exit::Success)
}
