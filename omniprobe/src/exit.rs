//! How this program ends: with the status of a subcommand, or with that of its error.

use std::io::ErrorKind;
use std::process::ExitCode;

use amdgpu_listing::ListingError;
use anyhow::Result;
use logdur_capture::CaptureError;
use logdur_journal::snapshot::Unreadable;
use logdur_replay::{Exit, ReplayError};

use crate::cmd::tell;

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
    if let Some(error) = error.downcast_ref::<ReplayError>() {
        return error.exit();
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
