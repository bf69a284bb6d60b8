//! `omniprobe completions`: from the same definitions as `--help`.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;
use omniprobe_exit::Exit;

use crate::help;
use crate::output::bytes;

/// Which shell.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The shell, for example `omniprobe completions bash > ~/.local/share/bash-completion/completions/omniprobe`.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints what a shell needs to complete our command line.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut help::command(), "omniprobe", &mut text);
    bytes(&text).map(|()| Exit::Success)
}
