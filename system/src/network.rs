//! File systems that another machine or another process keeps: each call may have to wait for its answer, and so may a page of a mapping.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Their numbers in `statfs(2)`. Sources: linux/magic.h, and the headers of file systems that are not in Linux.
const NUMBERS: &[u32] = &[
    0x6969,      // NFS
    0x517b,      // SMB
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB 2 and later
    0x564c,      // NCP
    0x7375_7245, // Coda
    0x5346_414f, // OpenAFS
    0x6b41_4653, // AFS of Linux
    0x0102_1997, // 9P
    0x6573_5546, // FUSE
    0x00c3_6400, // Ceph
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS, Storage Scale
    0x1983_0326, // BeeGFS
    0xaad7_aaea, // PanFS
    0x2003_0528, // OrangeFS
    0x0116_1970, // GFS2
    0x7461_636f, // OCFS2
];

/// True if a path is on such a file system, or its folder if nothing has the path yet.
pub fn has_path(path: &Path) -> bool {
    let folder = path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    number_of_path(path).or_else(|| number_of_path(folder?)).is_some_and(is_one)
}

fn number_of_path(path: &Path) -> Option<u32> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut about = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path ends with a zero, and the kernel writes the structure.
    let failed = unsafe { libc::statfs(path.as_ptr(), about.as_mut_ptr()) };
    // SAFETY: zeros are a value of the structure, and so is what the kernel wrote.
    let about = unsafe { about.assume_init() };
    // Some C libraries have it signed, or wider.
    (failed == 0).then_some(about.f_type as u32)
}

fn is_one(number: u32) -> bool {
    NUMBERS.contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_and_in_memory_are_on_no_network_and_each_number_is_there_once() {
        for path in ["/proc", "/dev/shm", "/dev/shm/a name that nothing has", "/nonexistent/folder/file"] {
            assert!(!has_path(Path::new(path)), "{path}");
        }
        let mut numbers = NUMBERS.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), NUMBERS.len());
    }
}
