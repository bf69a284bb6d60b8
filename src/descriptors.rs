//! Descriptors of the process: the application's need comes first.

use logdur_settings::Interceptor;

/// Where fewer descriptors are free, the library opens none that it could do without: the runtime and the application are going
/// to need them. A start of HIP takes up to ten.
const ROOM: u64 = 16;

/// Turns off the features that hold descriptors, if the process has few left; what is to be said of that.
pub(crate) fn leave_room(settings: &mut Interceptor) -> Option<String> {
    let (limit, open) = (limit(), open());
    if limit.saturating_sub(open) >= ROOM {
        return None;
    }
    let features = [
        (Interceptor::capture, settings.capture.take().is_some()),
        (Interceptor::kernel_cache, !std::mem::take(&mut settings.kernel_cache).0.is_empty()),
        (Interceptor::log, settings.log.take().is_some()),
    ];
    let off: Vec<&str> = features.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name).collect();
    (!off.is_empty()).then(|| {
        format!(
            "{}: off, because {open} of {limit} descriptors are in use and the application needs the rest; `ulimit -n` raises the limit",
            off.join(", ")
        )
    })
}

/// How many descriptors the process may have.
fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit`.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if failed == 0 { limit.rlim_cur } else { u64::MAX }
}

/// How many it has: all of them, if there is none left to look with.
fn open() -> u64 {
    match std::fs::read_dir("/proc/self/fd") {
        // One of them is the folder's own.
        Ok(entries) => (entries.count() as u64).saturating_sub(1),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => limit(),
        // No such folder: nothing is known, and nothing given up.
        Err(_) => 0,
    }
}
