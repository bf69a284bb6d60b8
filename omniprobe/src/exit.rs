//! How this program ends: with the status of a subcommand, or with that of its error.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use amdgpu_listing::ListingError;
use anyhow::Result;
use logdur_capture::CaptureError;
use logdur_captured::CapturedError;
use logdur_journal::snapshot::Unreadable;
use logdur_replay::ReplayError;
use logdur_replay::tune::Outcome;
use omniprobe_exit::Exit;

use super::output::tell;

/// An error whose status is known where it occurs.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failure {}

/// The status of a subcommand that is done. An error is printed, and has a status of its own.
pub(crate) fn end(done: Result<Exit>) -> ExitCode {
    done.unwrap_or_else(|error| {
        tell(format_args!("{error:#}"));
        of(&error)
    })
    .into()
}

/// The status of an error. Errors that no library has named are of the command line.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    if let Some(Failure { exit, .. }) = error.downcast_ref() {
        return *exit;
    }
    if let Some(error) = error.downcast_ref() {
        return of_replay(error);
    }
    if let Some(error) = error.downcast_ref::<CapturedError>() {
        return error.into();
    }
    if let Some(error) = error.downcast_ref::<ListingError>() {
        return error.into();
    }
    match error.downcast_ref::<Unreadable>() {
        Some(Unreadable::Io(error)) if error.kind() == ErrorKind::NotFound => Exit::Usage,
        Some(_) => Exit::Corrupt,
        None if error.is::<CaptureError>() => Exit::Corrupt,
        None => Exit::Usage,
    }
}

/// The status of an error of a replay.
pub(crate) fn of_replay(error: &ReplayError) -> Exit {
    match error {
        ReplayError::Captured(error) => error.into(),
        ReplayError::Usage { .. } | ReplayError::File { .. } | ReplayError::Output(_) => Exit::Usage,
        ReplayError::CodeObject { .. } => Exit::Corrupt,
        ReplayError::Listing(error) => error.into(),
        ReplayError::Step { error, .. } => of_replay(error),
        ReplayError::LeftOut { .. } => Exit::Incomplete,
        ReplayError::Runtime { .. } | ReplayError::OtherRuntime { .. } | ReplayError::Environment { .. } => {
            Exit::Environment
        }
        ReplayError::Placement { .. } => Exit::Placement,
        ReplayError::Fault(_) => Exit::Fault,
        ReplayError::Unsupported(_) | ReplayError::Refused { .. } | ReplayError::Lacking { .. } => Exit::Unsupported,
        ReplayError::Timeout { .. } | ReplayError::Stuck { .. } | ReplayError::Copy { .. } => Exit::Timeout,
    }
}

/// The status of a configuration that was tried.
pub(crate) fn of_outcome(outcome: &Outcome) -> Exit {
    match outcome {
        Outcome::Measured { .. } => Exit::Success,
        Outcome::Mismatch { .. } => Exit::Mismatch,
        Outcome::Inconclusive { .. } => Exit::Inconclusive,
        Outcome::NothingWritten { .. } => Exit::NothingToCompare,
        Outcome::NoReference { .. } => Exit::Incomplete,
        Outcome::Fault { .. } | Outcome::Crash { .. } => Exit::Fault,
        Outcome::Hang { .. } => Exit::Timeout,
        Outcome::Invalid { .. } | Outcome::CompileFailed { .. } => Exit::Usage,
        Outcome::Refused { .. } => Exit::Unsupported,
    }
}
