//! What `--when` needs besides its variable: a file that stands for a signal.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::Result;
use logdur_settings::{Interceptor, Region, Trigger, Value, When};

use crate::environment::Environment;
use crate::output::tell;

/// The triggers that are in the environment; none if they cannot be read, which the check of the settings says.
pub(super) fn of(environment: &Environment) -> When {
    environment.value(Interceptor::when).and_then(|text| When::parse(&text).ok()).unwrap_or_default()
}

/// The region that is captured, if one is in the environment and can be read.
pub(super) fn region_of(environment: &Environment) -> Option<Region> {
    environment.value(Interceptor::capture_region).and_then(|text| Option::<Region>::parse(&text).ok()).flatten()
}

/// Makes the paths of files whole: the application may change its folder, and its children may have another one.
///
/// # Errors
/// When a path has no whole form.
pub(super) fn settle(environment: &mut Environment) -> Result<()> {
    let mut when = of(environment);
    if make_whole(when.0.iter_mut())? {
        environment.set(Interceptor::when, when.text());
    }
    if let Some(mut region) = region_of(environment)
        && make_whole(region.triggers_mut())?
    {
        environment.set(Interceptor::capture_region, region.text());
    }
    Ok(())
}

/// The same for some triggers; true if a path was not whole.
fn make_whole<'a>(triggers: impl Iterator<Item = &'a mut Trigger>) -> Result<bool> {
    let mut was_relative = false;
    for trigger in triggers {
        if let Trigger::File(path) = trigger
            && path.is_relative()
        {
            *path = std::path::absolute(&*path)?;
            was_relative = true;
        }
    }
    Ok(was_relative)
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
