//! Diagnostics of the library itself (`LOGDUR_LOG`), always into a file of their own.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use env_logger::{Builder, Target};
use logdur_settings::{Interceptor, LogLocation};

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
    let path: PathBuf = folder.join(format!("logdur.{}.log", std::process::id()));
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
