//! `omniprobe isa`: the instructions of a kernel.

use std::path::PathBuf;

use amdgpu_listing::{Listing, Wanted, Which, choose};
use anyhow::Result;
use clap::Args;
use logdur_journal::names::names;
use omniprobe_exit::Exit;

use crate::listing;
use crate::output::{lines, tell};

/// Which code is shown, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// A code object, bundle, program or library.
    #[arg(value_name = "CODE-OBJECT")]
    file: PathBuf,
    /// The kernel's name, mangled or demangled, with or without arguments [default: the only kernel].
    #[arg(value_name = "KERNEL")]
    kernel: Option<String>,
    /// The code for this processor or target ID, if a file has code for several.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Print all code of the code object, also functions and what lies between.
    #[arg(long)]
    all: bool,
    /// Print one JSON object for each instruction, one a line.
    #[arg(long)]
    json: bool,
}

/// Shows the instructions.
///
/// # Errors
/// When the file has no such kernel, or several, or is for a processor whose instructions are not known.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let wanted = Wanted { kernel: options.kernel.as_deref(), target: options.target.as_deref(), any: options.all };
    let chosen = choose(&options.file, wanted, &names)?;
    let which = if options.all { Which::All } else { Which::Kernel(&chosen.kernel) };
    let listing = Listing::of(&chosen.place, &chosen.bytes, which)?;
    if let Some(problem) = &listing.problem {
        tell(format_args!("{}: source lines: {problem}", chosen.place));
    }
    if options.json {
        lines(listing.parts.iter().flat_map(|part| listing::json(&listing, part)).map(|value| value.to_string()))?;
    } else {
        lines(listing.parts.iter().flat_map(|part| listing::text(&listing, part)))?;
    }
    Ok(Exit::Success)
}
