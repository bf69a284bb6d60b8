//! `cargo xtask dist`: what people install.
//!
//! `binaries` says which binaries there are, `build` builds them for old systems, and `check` checks what they need and
//! show. Each row of `KINDS` packs the same binaries, in a file of its own, and then installs and uses what it packed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell;

mod binaries;
mod build;
mod check;
mod deb;
pub(crate) mod licenses;
mod old_system;
mod tarball;
mod tools;
pub(crate) mod tree;
pub(crate) mod wheel;

pub use build::for_this_machine;
pub(crate) use build::{Built, packages};

/// A kind of artefact: its option, what it makes and returns the paths of, and how it is tried.
struct Kind {
    option: &'static str,
    make: fn(&Built) -> Result<Vec<PathBuf>>,
    try_out: fn(&Built, &[PathBuf]) -> Result<()>,
}

/// In the order in which they are made.
const KINDS: &[Kind] = &[
    Kind { option: "--tarball", make: tarball::make, try_out: tarball::try_out },
    Kind { option: "--deb", make: deb::make, try_out: deb::try_out },
    Kind { option: "--wheel", make: wheel::make, try_out: wheel::try_out },
];

/// The folder of everything that is made here.
pub(crate) fn folder() -> PathBuf {
    shell::root().join("target/dist")
}

/// The version of all packages. Source: `Cargo.toml`, from which Cargo hands it to every crate.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(args: &[String]) -> Result<()> {
    let full = args.iter().any(|arg| arg == "--full");
    let options: Vec<&str> = args.iter().map(String::as_str).filter(|&arg| arg != "--full").collect();
    if let Some(unknown) = options.iter().find(|option| KINDS.iter().all(|kind| kind.option != **option)) {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.option).collect();
        bail!("dist takes --full, {}; found {unknown}", known.join(", "));
    }
    let wanted: Vec<&Kind> = KINDS.iter().filter(|kind| options.is_empty() || options.contains(&kind.option)).collect();
    make(&wanted, full).map(drop)
}

/// All artefacts, checked as far as can be.
///
/// # Errors
/// What is not as it must be.
pub(crate) fn all() -> Result<Vec<PathBuf>> {
    make(&KINDS.iter().collect::<Vec<_>>(), true)
}

/// Builds, checks, packs and tries out. Returns the artefacts.
fn make(kinds: &[&Kind], full: bool) -> Result<Vec<PathBuf>> {
    let built = timed("binaries", build::build)?;
    timed("checks", || {
        check::run(&built)?;
        old_system::run(&built)
    })?;
    if full {
        timed("the same bytes in another folder", || build::again(&built))?;
    }
    let mut artefacts = Vec::new();
    for kind in kinds {
        let name = kind.option.trim_start_matches('-');
        let made = timed(name, || (kind.make)(&built))?;
        timed(&format!("{name}, installed and used"), || (kind.try_out)(&built, &made))?;
        artefacts.extend(made);
    }
    Ok(artefacts)
}

/// The time that files of an artefact have, in seconds since 1970: that of the newest commit, so that it depends on nothing else.
///
/// # Errors
/// When there is no commit and `SOURCE_DATE_EPOCH` is not set.
pub(crate) fn epoch() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(set) => set,
        Err(_) => shell::output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(shell::root()))?,
    };
    text.trim().parse().with_context(|| format!("expected seconds since 1970, found {text:?}"))
}

fn timed<T>(name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = step().with_context(|| format!("dist: {name}"))?;
    println!("dist: {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(result)
}
