//! What a capture is read from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that can be read from anywhere.
pub trait Source: Send + Sync {
    /// How many there are.
    ///
    /// # Errors
    /// When that is not known.
    fn length(&self) -> io::Result<u64>;

    /// Fills a buffer with the bytes from an offset on.
    ///
    /// # Errors
    /// When there are not that many, or they cannot be read.
    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(to, offset)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|at| self.get(at..)).and_then(|rest| rest.get(..to.len()));
        to.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
