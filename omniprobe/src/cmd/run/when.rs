//! What `--when` needs besides its variable: a file that stands for a signal.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::Result;
use logdur_settings::{Interceptor, Trigger, Value, When};

use crate::environment::Environment;
use crate::output::tell;

/// The triggers that are in the environment; none if they cannot be read, which the check of the settings says.
pub(super) fn of(environment: &Environment) -> When {
    environment.value(Interceptor::when).and_then(|text| When::parse(&text).ok()).unwrap_or_default()
}

/// Makes the paths of files whole: the application may change its folder, and its children may have another one.
///
/// # Errors
/// When a path has no whole form.
pub(super) fn settle(environment: &mut Environment) -> Result<()> {
    let When(mut triggers) = of(environment);
    let is_relative = |trigger: &Trigger| matches!(trigger, Trigger::File(path) if path.is_relative());
    if !triggers.iter().any(is_relative) {
        return Ok(());
    }
    for trigger in &mut triggers {
        if let Trigger::File(path) = trigger {
            *path = std::path::absolute(&*path)?;
        }
    }
    environment.set(Interceptor::when, When(triggers).text());
    Ok(())
}

/// The file that is there while a signal has begun the window.
pub(super) struct Toggle(PathBuf);

impl Toggle {
    /// For an application whose triggers have a signal among them.
    ///
    /// # Errors
    /// When there is no folder for the file.
    pub(super) fn of(environment: &mut Environment) -> Result<Option<Toggle>> {
        let When(mut triggers) = of(environment);
        if !triggers.contains(&Trigger::Signal) {
            return Ok(None);
        }
        let path = environment.folder()?.path().join("when");
        let signals = triggers.iter_mut().filter(|trigger| **trigger == Trigger::Signal);
        signals.for_each(|trigger| *trigger = Trigger::File(path.clone()));
        environment.set(Interceptor::when, When(triggers).text());
        Ok(Some(Toggle(path)))
    }

    /// A signal has come.
    pub(super) fn turn(&self) {
        let Toggle(path) = self;
        let turned = if path.exists() { fs::remove_file(path) } else { File::create_new(path).map(drop) };
        if let Err(error) = turned {
            tell(format_args!("--when signal: {}: {error}", path.display()));
        }
    }
}
