//! `omniprobe completions` and `omniprobe man`: from the same definitions as `--help`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;
use logdur_replay::Exit;

use crate::help;

/// Which shell.
#[derive(Args, Clone, Debug)]
pub(crate) struct Completions {
    /// The shell, for example `omniprobe completions bash > ~/.local/share/bash-completion/completions/omniprobe`.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Where manual pages go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Pages {
    /// An existing folder for omniprobe.1 and a page for each subcommand [default: print omniprobe.1].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints what a shell needs to complete our command line.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn completions(options: &Completions) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut help::command(), "omniprobe", &mut text);
    print(&text)
}

/// Prints or writes manual pages.
///
/// # Errors
/// When a page cannot be written.
pub(crate) fn pages(options: &Pages) -> Result<Exit> {
    match &options.folder {
        Some(folder) => {
            anyhow::ensure!(folder.is_dir(), "{}: expected an existing folder", folder.display());
            clap_mangen::generate_to(help::command(), folder)
                .with_context(|| format!("writing manual pages into {}", folder.display()))?;
            Ok(Exit::Success)
        }
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(help::command()).render(&mut text).context("rendering the manual page")?;
            print(&text)
        }
    }
}

fn print(text: &[u8]) -> Result<Exit> {
    match io::stdout().lock().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _ => Ok(Exit::Success),
    }
}
