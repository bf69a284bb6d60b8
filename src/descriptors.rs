//! File descriptors of the process: the library leaves them to an application that is short of them.

use std::os::fd::RawFd;

use logdur_settings::Interceptor;

/// With fewer free descriptors, the library keeps none open: the runtime and the application will need them. A start of HIP takes up to
/// ten.
const ROOM: u64 = 16;
/// With this many free descriptors, the library may open one briefly while the application runs.
const SPARE: u64 = 8;
/// Limits beyond this one are not reached by counting.
const COUNTED: u64 = 4096;

/// How many descriptors a process with few left has, and how many it may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptorShortage {
    open: u64,
    limit: u64,
}

impl DescriptorShortage {
    /// Present if the process has few descriptors left.
    pub(crate) fn now() -> Option<DescriptorShortage> {
        let (limit, open) = (limit(), open());
        (limit.saturating_sub(open) < ROOM).then_some(DescriptorShortage { open, limit })
    }

    /// Turns off the features that hold descriptors; what is to be said of that.
    pub(crate) fn turn_off(self, settings: &mut Interceptor) -> Option<String> {
        let features = [
            (Interceptor::capture, settings.capture.take().is_some()),
            (Interceptor::kernel_cache, !std::mem::take(&mut settings.kernel_cache).0.is_empty()),
            (Interceptor::log, settings.log.take().is_some()),
        ];
        let off: Vec<&str> = features.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name).collect();
        (!off.is_empty()).then(|| format!("{}: off, because {}", off.join(", "), self.reason()))
    }

    /// Why something is not done.
    pub(crate) fn reason(self) -> String {
        let DescriptorShortage { open, limit } = self;
        format!(
            "{open} of {limit} descriptors are in use and the application needs the rest; `ulimit -n` raises the limit"
        )
    }
}

/// True while the application is not likely to miss a descriptor that is opened for a moment.
pub(crate) fn may_borrow_one() -> bool {
    limit().saturating_sub(open()) >= SPARE
}

/// How many descriptors the process may have.
fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit`.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if failed == 0 { limit.rlim_cur } else { u64::MAX }
}

/// How many it has below its limit. To list `/proc/self/fd` would take another one.
fn open() -> u64 {
    let numbers = 0..limit().min(COUNTED) as RawFd;
    // SAFETY: asks about a number; no memory is involved.
    numbers.filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0).count() as u64
}
