//! Diagnostics of the library itself (`LOGDUR_LOG`), always into a file of their own.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use env_logger::{Builder, Target};
use logdur_settings::{Interceptor, LogLocation};

/// Names that are tried, for processes whose number an earlier one had.
const NAMES: usize = 100;

/// Starts writing diagnostics if they are asked for. A file that cannot be made means that there are none.
pub(crate) fn start(settings: &Interceptor) {
    let Some(level) = &settings.log else { return };
    let Ok(file) = open(settings) else { return };
    let mut builder = Builder::new();
    builder.parse_filters(level).target(Target::Pipe(Box::new(file)));
    // A host that has a logger in this very copy of the crate does not exist; still, two sessions must not panic.
    let _ = builder.try_init();
}

fn open(settings: &Interceptor) -> io::Result<File> {
    let folder = match &settings.log_location {
        LogLocation::File(path) => {
            path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
        }
        LogLocation::Console | LogLocation::Nowhere => std::env::temp_dir(),
    };
    let pid = std::process::id();
    let mut options = OpenOptions::new();
    // Names in the folder for temporary files can be guessed: what is there already may be another user's trap.
    options.append(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    let first = options.open(folder.join(format!("logdur.{pid}.log")));
    let taken = |result: &io::Result<File>| matches!(result, Err(e) if e.kind() == io::ErrorKind::AlreadyExists);
    let others = (1..NAMES).map(|number| options.open(folder.join(format!("logdur.{pid}.{number}.log"))));
    std::iter::once(first)
        .chain(others)
        .find(|result| !taken(result))
        .unwrap_or(Err(io::ErrorKind::AlreadyExists.into()))
}
