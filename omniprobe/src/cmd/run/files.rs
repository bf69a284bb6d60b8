//! The files that a run writes: none of them is another one, or what the run reads.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use logdur_settings::{Emulator, Interceptor, LogLocation, Value};
use logdur_system::path::Target;

use super::check::option_of;
use crate::environment::Environment;
use crate::output::file;

/// What tells one file from another.
#[derive(PartialEq, Eq)]
enum Identity {
    Inode(u64, u64),
    /// There is no file yet.
    Name(PathBuf),
}

/// Checks that the run's outputs are files of their own. `inputs` are what it reads.
///
/// # Errors
/// When two are one: which options name it.
pub(crate) fn check(environment: &Environment, trace: Option<&Path>, inputs: &[&Path]) -> Result<()> {
    let outputs = outputs(environment).into_iter().chain(trace.map(|path| ("--trace".to_owned(), path.to_owned())));
    let mut known: Vec<(String, Identity)> = Vec::new();
    for (option, path) in outputs {
        let shown = file(&path);
        let Some(identity) = identity(&path).with_context(|| format!("{option} {shown}"))? else { continue };
        for input in inputs {
            if self::identity(input).is_ok_and(|input| input.as_ref() == Some(&identity)) {
                bail!("{option} {shown}: expected another file than {}, which is read", file(input));
            }
        }
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == identity) {
            bail!("{option} {shown}: expected another file than that of {other}");
        }
        known.push((option, identity));
    }
    Ok(())
}

/// The files that the application's process writes, by the options or variables that name them.
fn outputs(environment: &Environment) -> Vec<(String, PathBuf)> {
    let value = |name: &str| environment.value(name).filter(|value| !value.is_empty());
    let rows =
        [Interceptor::log_location, Interceptor::handler_output].into_iter().filter_map(
            |name| match LogLocation::parse(&value(name)?) {
                Ok(LogLocation::File(path)) => Some((option_of(name), path)),
                _ => None,
            },
        );
    let capture = value(Interceptor::capture).map(PathBuf::from).filter(|path| !path.is_dir());
    let words = ["stderr", "none"].map(Path::new);
    let emulator = [Emulator::log, Emulator::trace].into_iter().filter_map(|name| {
        let path = PathBuf::from(value(name)?);
        (!words.contains(&path.as_path())).then(|| (name.to_owned(), path))
    });
    rows.chain(capture.map(|path| (option_of(Interceptor::capture), path))).chain(emulator).collect()
}

/// Nothing for a descriptor that is open already, and for a device: several may write there.
fn identity(path: &Path) -> Result<Option<Identity>> {
    let Target::File(place) = Target::of(path)? else { return Ok(None) };
    Ok(match fs::metadata(&place) {
        Ok(data) if data.file_type().is_char_device() => None,
        Ok(data) => Some(Identity::Inode(data.dev(), data.ino())),
        Err(_) => Some(Identity::Name(place)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outputs_of_a_run_are_two_files_and_none_of_those_that_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("app"), "program").expect("it can be written");
        std::os::unix::fs::symlink("rows.csv", at("link")).expect("a link");
        let said = |log: &Path, capture: &Path, output: &Path, trace: &Path| {
            let mut environment = Environment::default();
            environment.set(Interceptor::log_location, log);
            environment.set(Interceptor::capture, capture);
            environment.set(Interceptor::handler_output, output);
            check(&environment, Some(trace), &[&at("app")]).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let [rows, capture, report, trace, app, link] =
            ["rows.csv", "a.ldcap", "report", "t.json", "app", "link"].map(at);
        let null = Path::new("/dev/null");
        assert_eq!(said(&rows, &capture, &report, &trace), "");
        assert_eq!(said(null, folder.path(), Path::new("console"), null), "");
        for (said, options) in [
            (said(&rows, &rows, &report, &trace), ["--capture ", "that of --log-location"]),
            (said(&rows, &capture, &link, &trace), ["--analyzer-output ", "that of --log-location"]),
            (said(&rows, &capture, &report, &capture), ["--trace ", "that of --capture"]),
            (said(&rows, &app, &report, &trace), ["--capture ", "/app, which is read"]),
        ] {
            assert!(said.starts_with(options[0]) && said.ends_with(options[1]), "{said}");
        }
    }
}
