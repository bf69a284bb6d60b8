//! Who besides GPUs may write a GPU's memory, as the Linux kernel shows it: the host, if it has the memory mapped, and other devices,
//! such as network adapters. Their drivers accept addresses of a GPU's memory without a call of the runtime.
//!
//! # Threads
//! The capture thread.

use std::fs;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;

/// Character devices that write only the buffer of a system call: the major number, and the minor numbers. Source:
/// `Documentation/admin-guide/devices.txt` of Linux.
const HARMLESS: &[(u32, &[u32])] = &[
    // null, zero, full, random, urandom
    (1, &[3, 5, 7, 8, 9]),
];
/// Major numbers whose devices all are harmless in this way: terminals, and the GPUs' nodes (226), through which the runtime maps memory.
const HARMLESS_MAJORS: &[u32] = &[4, 5, 136, 137, 138, 139, 140, 141, 142, 143, 226];
/// The driver of the GPUs' queues. Linux assigns its major number when the driver is loaded.
const KFD: &str = "/dev/kfd";

/// Bytes of the list of a process's mappings, as a rule.
const USUAL: usize = 128 << 10;

/// The addresses that the host can read or write, in order.
pub(super) struct HostMappings(Vec<(u64, u64)>);

impl HostMappings {
    /// The mappings of this process now; `None` if `/proc` cannot be read.
    pub(super) fn now() -> Option<HostMappings> {
        // The kernel writes a page of the list for each read, and none twice if the reads are large.
        let mut maps = String::with_capacity(USUAL);
        fs::File::open("/proc/self/maps").ok()?.read_to_string(&mut maps).ok()?;
        HostMappings::of(&maps)
    }

    fn of(maps: &str) -> Option<HostMappings> {
        let mut all = Vec::new();
        for line in maps.lines() {
            let mut words = line.split_ascii_whitespace();
            let (range, permissions) = (words.next()?, words.next()?);
            let (start, end) = range.split_once('-')?;
            if permissions.starts_with("---") {
                continue;
            }
            all.push((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?));
        }
        Some(HostMappings(all))
    }

    /// True if the host can access any address of a range.
    pub(super) fn overlap(&self, start: u64, end: u64) -> bool {
        let behind = self.0.partition_point(|(_, mapping_end)| *mapping_end <= start);
        self.0.get(behind).is_some_and(|(mapping_start, _)| *mapping_start < end)
    }
}

/// True if the process has no device open, other than the GPUs, that could write a GPU's memory. False if `/proc` cannot be read.
pub(super) fn has_only_harmless_devices() -> bool {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return false };
    let kfd = fs::metadata(KFD).map(|about| about.rdev()).ok();
    descriptors.into_iter().all(|entry| {
        let number = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse().ok());
        number.is_some_and(|number| is_harmless(number, kfd))
    })
}

/// True for files, and for devices that do not write memory by themselves. `kfd` is the major number of the GPUs' driver.
fn is_harmless(descriptor: libc::c_int, kfd: Option<u64>) -> bool {
    let mut about = MaybeUninit::<libc::statx>::zeroed();
    // The call must not query a network file system, which may not answer.
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the name is a string of C, and the kernel writes the structure.
    let failed = unsafe { libc::statx(descriptor, c"".as_ptr(), flags, libc::STATX_TYPE, about.as_mut_ptr()) } != 0;
    if failed {
        // Closed meanwhile.
        return std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF);
    }
    // SAFETY: all zeros are a valid `statx`, and so is what the kernel has written.
    let about = unsafe { about.assume_init() };
    if u32::from(about.stx_mode) & libc::S_IFMT != libc::S_IFCHR {
        return true;
    }
    let (major, minor) = (about.stx_rdev_major, about.stx_rdev_minor);
    HARMLESS_MAJORS.contains(&major)
        || HARMLESS.iter().any(|(harmless, minors)| *harmless == major && minors.contains(&minor))
        || kfd == Some(libc::makedev(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_access_where_any_byte_of_a_mapping_can_be_read_or_written() {
        let maps = "1000-2000 r--p 00000000 00:00 0  /usr/bin/x\n\
                    2000-4000 ---p 00000000 00:00 0 \n\
                    4000-5000 -w-s 00000000 00:00 5  /dev/dri/renderD128\n";
        let mappings = HostMappings::of(maps).unwrap();
        let overlap = |start, end| mappings.overlap(start, end);
        assert_eq!([overlap(0, 0x1000), overlap(0, 0x1001), overlap(0x1fff, 0x2000)], [false, true, true]);
        assert_eq!([overlap(0x2000, 0x4000), overlap(0x2000, 0x4001), overlap(0x5000, 0x6000)], [false, true, false]);
        assert!(HostMappings::of("what").is_none());
        let here = [0_u8; 8];
        let at = here.as_ptr().expose_provenance() as u64;
        assert!(HostMappings::now().unwrap().overlap(at, at + 8));
    }

    #[test]
    fn null_and_files_are_harmless_and_other_devices_are_not() {
        use std::os::fd::AsRawFd;
        let harmless = |path: &str| {
            let file = fs::File::open(path).unwrap();
            is_harmless(file.as_raw_fd(), None)
        };
        assert!(harmless("/dev/null") && harmless("/proc/self/maps") && harmless("/"));
        // Each machine has some harmless device that everybody may open.
        for other in ["/dev/fuse", "/dev/net/tun", "/dev/kvm"] {
            assert!(fs::File::open(other).is_err() || !harmless(other), "{other}");
        }
        assert!(is_harmless(9_999, None), "it was closed");
    }
}
