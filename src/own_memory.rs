//! Reading the process's own memory where it may not be there: the kernel says so, instead of a fault.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr;

use logdur_system::signals::Quiet;

/// Fills `to` with what is at an address.
///
/// # Errors
/// When not all of it can be read.
pub(crate) fn read(from: u64, to: &mut [u8]) -> io::Result<()> {
    let process = std::process::id().cast_signed();
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let from = ptr::with_exposed_provenance_mut(from as usize + done);
        let remote = libc::iovec { iov_base: from, iov_len: rest.len() };
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        // SAFETY: the kernel writes at most as many bytes as `rest` has, and reads only what is mapped.
        let read = unsafe { libc::process_vm_readv(process, &local, 1, &remote, 1, 0) };
        if read <= 0 {
            return Err(io::Error::last_os_error());
        }
        done += read.cast_unsigned();
    }
    Ok(())
}

/// Reads mappings of devices as well, like the aperture of a GPU's memory, of which `process_vm_readv` gives nothing.
///
/// The kernel copies them into a file in memory, as `write` does with any memory of its caller's.
pub(crate) struct DeviceMappings(File);

impl DeviceMappings {
    /// # Errors
    /// When the file in memory cannot be made.
    pub(crate) fn new() -> io::Result<DeviceMappings> {
        // SAFETY: the name is a string of C.
        let descriptor = unsafe { libc::memfd_create(c"logdur".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and no other code has it.
        Ok(DeviceMappings(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// Fills `to` with what is at an address.
    ///
    /// # Errors
    /// When not all of it can be read.
    pub(crate) fn read(&self, from: u64, to: &mut [u8]) -> io::Result<()> {
        // A limit of file sizes is for files in memory, too.
        let _quiet = Quiet::new();
        let mut done = 0;
        while done < to.len() {
            let from = ptr::with_exposed_provenance(from as usize + done);
            let (rest, at) = (to.len() - done, done.cast_signed() as libc::off_t);
            // SAFETY: the kernel reads only what is mapped.
            let written = unsafe { libc::pwrite(self.0.as_raw_fd(), from, rest, at) };
            if written <= 0 {
                return Err(io::Error::last_os_error());
            }
            done += written.cast_unsigned();
        }
        self.0.read_exact_at(to, 0)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_that_is_there_is_read_and_memory_that_is_not_is_an_error() {
        let from: Vec<u8> = (0..200).collect();
        let mut to = vec![0; 200];
        super::read(from.as_ptr().expose_provenance() as u64, &mut to).unwrap();
        assert_eq!(from, to);
        super::read(0x10, &mut to).unwrap_err();
        super::read(u64::MAX - 0xfff, &mut to).unwrap_err();
        let mappings = super::DeviceMappings::new().unwrap();
        for (first, length) in [(0, 200), (50, 100)] {
            let mut to = vec![0; length];
            mappings.read(from.as_ptr().expose_provenance() as u64 + first, &mut to).unwrap();
            assert_eq!(from[first as usize..][..length], to);
        }
        mappings.read(0x10, &mut to).unwrap_err();
        mappings.read(u64::MAX - 0xfff, &mut to).unwrap_err();
    }
}
