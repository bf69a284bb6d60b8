//! Diagnostics of the library itself (`LOGDUR_LOG`), always into a file of their own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use env_logger::{Builder, Target};
use logdur_settings::{Interceptor, LogLocation};

use crate::guarded::Guarded;

/// Names that are tried, for processes whose number an earlier one had.
const NAMES: usize = 100;

/// Starts writing diagnostics if they are asked for. A file that cannot be made means that there are none.
pub(crate) fn start(settings: &Interceptor) {
    let Some(level) = &settings.log else { return };
    let Ok((path, file)) = open(settings) else { return };
    let Ok(file) = Guarded::of(&file) else { return };
    let mut builder = Builder::new();
    builder.parse_filters(level).target(Target::Pipe(Box::new(Diagnostics { path, file })));
    // A host that has a logger in this very copy of the crate does not exist; still, two sessions must not panic.
    let _ = builder.try_init();
}

/// The file, in a process whose application may close any descriptor, and open another file in its place.
struct Diagnostics {
    path: PathBuf,
    file: Guarded,
}

impl Write for Diagnostics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.reopen(&self.path)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(settings: &Interceptor) -> io::Result<(PathBuf, File)> {
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
    // The application may go to another folder.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let named = |name: String| {
        let path = folder.join(name);
        options.open(&path).map(|file| (path, file))
    };
    let first = named(format!("logdur.{pid}.log"));
    let taken = |result: &io::Result<_>| matches!(result, Err(e) if e.kind() == io::ErrorKind::AlreadyExists);
    let others = (1..NAMES).map(|number| named(format!("logdur.{pid}.{number}.log")));
    std::iter::once(first)
        .chain(others)
        .find(|result| !taken(result))
        .unwrap_or(Err(io::ErrorKind::AlreadyExists.into()))
}
