//! Checks on a GPU of what the interceptor relies on: `omniprobe doctor --self-test`.
//!
//! A [`Check`] is made of [`CheckProcess`]s. Each part runs in a process of its own, with a time limit, because what is checked can
//! fault, hang, or end the process. The parent merges what they find into a [`Report`].

mod checks;
mod code;
mod device;
mod finding;
mod kernels;
mod log;
mod process;
mod report;

use std::path::{Path, PathBuf};

pub use checks::CHECKS;
pub use device::DeviceError;
pub use finding::{CheckError, Findings};
pub use process::{Launch, run};
pub use report::{Report, Result, Verdict};

/// What a process has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The runtime alone.
    Bare,
    /// The library, by `HSA_TOOLS_LIB` alone.
    Variable,
    /// The library, as `omniprobe` loads it; its log is in the file [`LOG`] of the check's folder.
    Watched,
    /// As before, and the dispatches of the kernel `add` are captured into the file [`CAPTURE`].
    Captured,
    /// `omniprobe verify` of that file.
    Verify,
}

/// The log of a [`Way::Watched`] process, as JSON, in the check's folder.
pub const LOG: &str = "log.json";
/// The capture of a [`Way::Captured`] process, in the check's folder.
pub const CAPTURE: &str = "run.ldcap";
/// The file that the library writes a line to when it is loaded, in the check's folder.
pub const HELLO: &str = "hello";

/// One process of a check.
#[derive(Debug)]
pub struct CheckProcess {
    /// Its name among the check's parts.
    pub name: &'static str,
    /// What is in the process.
    pub way: Way,
    body: finding::Body,
}

/// The named checks and those that they need, in their order; all if none is named.
///
/// # Errors
/// A name that no check has.
pub fn selection(names: &[String]) -> std::result::Result<Vec<&'static Check>, String> {
    let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(unknown) = wanted.iter().find(|name| !CHECKS.iter().any(|check| check.name == **name)) {
        let known: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        return Err(format!("there is no check {unknown:?}, expected some of {}", known.join(", ")));
    }
    if wanted.is_empty() {
        return Ok(CHECKS.iter().collect());
    }
    // What a check needs comes before it.
    for check in CHECKS.iter().rev() {
        if wanted.contains(&check.name) {
            wanted.extend(check.needs);
        }
    }
    Ok(CHECKS.iter().filter(|check| wanted.contains(&check.name)).collect())
}

/// One question.
#[derive(Debug)]
pub struct Check {
    /// Its number in the report.
    pub number: u32,
    /// Its name in the report.
    pub name: &'static str,
    /// What is asked.
    pub question: &'static str,
    /// What it means for a user if the check fails.
    pub consequence: &'static str,
    /// The checks without which this one would say nothing, or something wrong.
    pub needs: &'static [&'static str],
    /// Its processes, one after the other.
    pub parts: &'static [CheckProcess],
}

/// Where a part runs.
#[derive(Debug)]
pub struct Site {
    /// The check's folder.
    folder: PathBuf,
}

impl Site {
    /// The folder of a check.
    pub fn of(folder: &Path) -> Site {
        Site { folder: folder.to_owned() }
    }

    /// The log of this process. The runtime is shut down.
    fn log(&self) -> std::result::Result<log::Log, CheckError> {
        let text = std::fs::read_to_string(self.folder.join(LOG));
        log::Log::parse(&text.map_err(|error| CheckError::File { what: "the log of the library", error })?)
    }
}

/// Runs a part in this process.
///
/// # Errors
/// When there is no such part, or it could not be made.
pub fn part(check: &str, name: &str, site: &Site) -> std::result::Result<Findings, CheckError> {
    let part = CHECKS.iter().filter(|c| c.name == check).flat_map(|c| c.parts).find(|p| p.name == name);
    match part {
        Some(part) => (part.body)(site),
        None => Ok(Findings::not_applicable(format!("there is no check {check} with a part {name}"))),
    }
}
