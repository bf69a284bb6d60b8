//! Reading the process's own memory where it may not be there: the kernel says so, instead of a fault.

use std::io;
use std::ptr;

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
    }
}
