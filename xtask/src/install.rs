//! `cargo xtask install --prefix DIR`: builds what people install for this machine, and puts it into a folder.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::dist::{self, tree};
use crate::shell;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let prefix = match args {
        [option, prefix] if option == "--prefix" => std::path::absolute(prefix)?,
        other => bail!("install takes --prefix DIR, found {other:?}"),
    };
    dist::for_this_machine()?;
    for binary in tree::put_binaries(shell::built, &prefix)? {
        stripped(&binary)?;
        println!("{}: {:.1} MB", binary.display(), binary.metadata()?.len() as f64 / 1e6);
    }
    tree::put_shared(&shell::built("omniprobe"), &prefix)
}

/// Removes the debug information.
fn stripped(binary: &Path) -> Result<()> {
    shell::output(Command::new("strip").arg("--strip-unneeded").arg(binary)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_built_for_a_place_that_is_not_named() {
        for wrong in [&[][..], &["--prefix"], &["/usr"], &["--prefix", "/a", "/b"]] {
            let args: Vec<String> = wrong.iter().map(|&arg| arg.to_owned()).collect();
            assert!(run(&args).is_err_and(|error| error.to_string().starts_with("install takes --prefix DIR")));
        }
    }
}
