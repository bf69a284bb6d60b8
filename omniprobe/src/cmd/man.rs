//! `omniprobe man`: manual pages from the same definitions as `--help`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;

use crate::help;
use crate::output::bytes;

/// Where manual pages go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// An existing folder for omniprobe.1 and a page for each subcommand [default: print omniprobe.1].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints or writes manual pages.
///
/// # Errors
/// When a page cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    match &options.folder {
        Some(folder) => {
            anyhow::ensure!(folder.is_dir(), "{}: expected an existing folder", folder.display());
            write(folder).with_context(|| format!("writing manual pages into {}", folder.display()))?;
            Ok(Exit::Success)
        }
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(help::command()).render(&mut text).context("rendering the manual page")?;
            bytes(&text).map(|()| Exit::Success)
        }
    }
}

fn write(folder: &Path) -> Result<()> {
    let made = tempfile::tempdir()?;
    clap_mangen::generate_to(help::command(), made.path())?;
    for page in fs::read_dir(made.path())? {
        let page = page?;
        let mut output = Output::begin_in(folder, &page.file_name().to_string_lossy(), Readers::Those, &[])?;
        io::copy(&mut File::open(page.path())?, &mut output)?;
        output.finish()?;
    }
    Ok(())
}
