//! Checks options before the application starts: later, the library could only report errors in its log.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use logdur_capture::{FileStorage, PRIVATE};
use logdur_journal::names::one_line;
use logdur_settings::Interceptor;
use regex::Regex;

use super::input;
use crate::environment::Environment;

/// Checks the values of options, and that a capture can be written. `force` allows a capture in the place of a file.
///
/// # Errors
/// What is wrong, with the variable or the file.
pub(crate) fn check(environment: &Environment, force: bool) -> Result<()> {
    let (settings, problems) = Interceptor::from(|name| environment.get(name).map(OsStr::to_owned));
    if let Some(problem) = problems.first() {
        bail!("{}: {}", problem.name, problem.reason.trim_end_matches("; it is ignored"));
    }
    let expressions = [
        (Interceptor::log_filter, &settings.log_filter),
        (Interceptor::filter, &settings.filter),
        (Interceptor::capture_kernels, &settings.capture_kernels),
    ];
    for (name, text) in expressions {
        let Some(text) = text else { continue };
        if let Err(error) = Regex::new(text) {
            bail!("{name}: expected a regular expression, found {text:?}: {}", one_line(&error.to_string()));
        }
    }
    settings.capture.as_deref().map_or(Ok(()), |path| can_capture(path, force))
}

/// Checks that a capture can be made where it is asked for, and takes away the file that it replaces.
fn can_capture(path: &Path, force: bool) -> Result<()> {
    let shown = || format!("--capture {}", path.display());
    let trial = if path.is_dir() {
        path.join(trial_name())
    } else if input::has_marks(path) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if input::has_marks(folder) {
            return Ok(());
        }
        folder.join(trial_name())
    } else {
        match path.symlink_metadata() {
            Ok(_) if !force => bail!("{}: the file exists; --force replaces it", shown()),
            Ok(data) if !data.is_file() => {
                bail!("{}: expected a file that can be replaced, found something else", shown())
            }
            Ok(_) => fs::remove_file(path).with_context(shown)?,
            Err(_) => {}
        }
        path.to_owned()
    };
    drop(FileStorage::create_new(&trial, PRIVATE).with_context(shown)?);
    fs::remove_file(&trial).with_context(shown)
}

/// A name that no other process uses.
fn trial_name() -> OsString {
    format!(".omniprobe-{}.trial", std::process::id()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_that_is_there_is_replaced_only_on_request_and_the_place_is_tried() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.ldcap");
        let said = |path: &Path, force| can_capture(path, force).err().map(|error| format!("{error:#}"));
        assert_eq!(said(&file, false), None);
        assert!(!file.exists(), "the trial is gone");
        fs::write(&file, b"mine").expect("it can be written");
        let exists = format!("--capture {}: the file exists; --force replaces it", file.display());
        assert_eq!(said(&file, false), Some(exists));
        assert_eq!(fs::read(&file).expect("it is there"), b"mine");
        assert_eq!((said(&file, true), file.exists()), (None, false));
        assert_eq!(said(folder.path(), false), None);
        assert_eq!(said(&folder.path().join("%p.ldcap"), false), None);
        assert_eq!(said(&folder.path().join("%p/a.ldcap"), false), None);
        for missing in ["missing/a.ldcap", "missing/%p.ldcap"] {
            let error = said(&folder.path().join(missing), true).expect("no such folder");
            assert!(error.contains("No such file or directory"), "{error}");
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn values_that_are_not_understood_stop_before_anything_starts() {
        for (name, value, expected) in [
            (Interceptor::log_filter, "(", "LOGDUR_LOG_FILTER: expected a regular expression"),
            (Interceptor::filter, "a[", "LOGDUR_FILTER: expected a regular expression"),
            (Interceptor::capture_kernels, "*", "LOGDUR_CAPTURE_KERNELS: expected a regular expression"),
            (Interceptor::kernel_cache_mode, "never", "LOGDUR_KERNEL_CACHE_MODE: expected swap"),
        ] {
            let mut environment = Environment::default();
            environment.set(name, value);
            let error = check(&environment, false).expect_err(name).to_string();
            assert!(error.starts_with(expected) && !error.contains("ignored"), "{error}");
        }
    }
}
