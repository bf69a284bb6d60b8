//! File descriptors of the process: the library leaves them to an application that is short of them.

use std::os::fd::RawFd;

use logdur_settings::Interceptor;

/// With fewer free descriptors, the library keeps none open: the runtime and the application will need them. A start of HIP takes up to
/// ten.
const ROOM: u64 = 16;
/// With this many free descriptors, the library may open one briefly while the application runs.
const SPARE: u64 = 8;
/// More are not counted: with a higher limit, there is room.
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
        let limit = limit();
        let free = free(limit, ROOM);
        (free < ROOM).then(|| DescriptorShortage { open: limit.saturating_sub(free), limit })
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
    free(limit(), SPARE) >= SPARE
}

/// How many descriptors the process may have.
fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit`.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if failed == 0 { limit.rlim_cur } else { u64::MAX }
}

/// How many more it may have, as far as they are `wanted`. To list `/proc/self/fd` would take another one.
fn free(limit: u64, wanted: u64) -> u64 {
    if limit >= COUNTED + wanted {
        return wanted;
    }
    // SAFETY: asks about a number; no memory is involved.
    let is_free = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0;
    (0..limit as RawFd).filter(is_free).take(wanted as usize).count() as u64
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn free_descriptors_are_counted_below_the_limit_as_far_as_they_are_wanted() {
        assert_eq!(free(u64::MAX, ROOM), ROOM);
        assert_eq!(free(0, ROOM), 0);
        // Below this one, each is open or free; others of this process may come and go meanwhile.
        let held = File::open("/dev/null").unwrap();
        let number = held.as_raw_fd() as u64;
        assert!(free(number + 1, u64::MAX - COUNTED) <= number);
        assert_eq!(free(number + 1 + COUNTED, 1), 1);
    }
}
