//! The binaries of a release.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{exports, shell};

/// A binary, and what it may be.
pub(crate) struct Binary {
    /// The name of its file.
    pub(crate) file: &'static str,
    /// The package that it is built from.
    pub(crate) package: &'static str,
    /// The folder that it is installed in.
    pub(crate) folder: &'static str,
    /// What it may show to other code.
    pub(crate) exports: Exports,
    /// Most bytes without debug information: 20 % more than those of the first build for old systems.
    pub(crate) budget: u64,
}

/// What a binary may show to other code.
pub(crate) enum Exports {
    /// These names, and no others.
    Only(&'static [&'static str]),
    /// Functions that the C library has, too, whose place they take, and these.
    OfTheCLibraryAnd(&'static [&'static str]),
}

impl Exports {
    /// The names that are shown and may not be, or may be and are not.
    ///
    /// # Errors
    /// When the names of the machine's C library cannot be read.
    pub(crate) fn differ(&self, found: &BTreeSet<String>) -> Result<Vec<String>> {
        match self {
            Exports::Only(names) => {
                let expected = names.iter().map(|&name| name.to_owned()).collect();
                Ok(found.symmetric_difference(&expected).cloned().collect())
            }
            Exports::OfTheCLibraryAnd(names) => {
                let text = shell::output(Command::new("cc").arg("-print-file-name=libc.so.6"))?;
                let mut known = exports::exported(Path::new(text.trim()))?;
                known.extend(names.iter().map(|&name| name.to_owned()));
                Ok(found.difference(&known).cloned().collect())
            }
        }
    }
}

/// Packages that one call of Cargo builds each: with others they would have the semantics of instructions, which only those need.
const ALONE: &[&str] = &["logdur", "logdur-analyzers"];
/// The library of the Python package is built with the others: by itself, all that it needs would be built once more.
const IN_NO_BINARY: &str = "logdur-python";

/// The packages of all binaries, divided into those that are built together.
pub(crate) fn packages() -> Vec<Vec<&'static str>> {
    let together = BINARIES.iter().map(|binary| binary.package).filter(|package| !ALONE.contains(package));
    let alone = ALONE.iter().map(|package| vec![*package]);
    alone.chain([together.chain([IN_NO_BINARY]).collect()]).collect()
}

/// Every binary.
pub(crate) const BINARIES: &[Binary] = &[
    Binary {
        file: "liblogdur.so",
        package: "logdur",
        folder: "lib",
        exports: Exports::Only(exports::OF_A_TOOL),
        budget: 5_000_000,
    },
    Binary {
        file: "libkfdemu.so",
        package: "kfd-emu",
        folder: "lib",
        exports: Exports::OfTheCLibraryAnd(exports::OF_THE_DRIVER),
        budget: 7_840_000,
    },
    Binary {
        file: "liblogdur_markers.so",
        package: "logdur-markers",
        folder: "lib",
        exports: Exports::Only(exports::OF_MARKERS),
        budget: 443_000,
    },
    Binary {
        file: "liblogdur_analyzers.so",
        package: "logdur-analyzers",
        folder: "lib",
        exports: Exports::Only(exports::OF_ANALYZERS),
        budget: 1_690_000,
    },
    Binary { file: "omniprobe", package: "omniprobe", folder: "bin", exports: Exports::Only(&[]), budget: 18_350_000 },
];
