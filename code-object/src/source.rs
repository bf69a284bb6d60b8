//! Bytes that can be read anywhere: a file that its owner reads, or a slice.

use std::io;

use crate::error::{Result, Unreadable};

/// Bytes that can be read at any place. Files are the caller's: this crate opens none.
pub trait Source {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// True when there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills the buffer with the bytes from `at` on.
    ///
    /// # Errors
    /// When it cannot be filled completely.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Source for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(at).ok().and_then(|at| self.get(at..at.checked_add(buffer.len())?));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(at, buffer)
    }
}

/// Reads a piece that has to be there. Memory is taken only for what the source has.
pub(crate) fn read(source: &dyn Source, what: &'static str, at: u64, length: u64) -> Result<Vec<u8>> {
    let there = source.len().saturating_sub(at);
    if length > there {
        return Err(Unreadable::Short { what, at, expected: length, found: there });
    }
    let size = usize::try_from(length).map_err(|_| Unreadable::TooLarge {
        what,
        at,
        limit: usize::MAX as u64,
        found: length,
    })?;
    let no_memory = || Unreadable::Read { at, length, reason: NO_MEMORY.to_owned() };
    let mut bytes = zeroed(size).ok_or_else(no_memory)?;
    source.read_at(at, &mut bytes).map_err(|e| Unreadable::Read { at, length, reason: e.to_string() })?;
    Ok(bytes)
}

/// What a reason says where memory is missing.
pub const NO_MEMORY: &str = "the system has no memory left for them";

/// So many zeros; `None` if the system has no memory left for them. Those that are never written take no room.
pub fn zeroed(size: usize) -> Option<Vec<u8>> {
    // An allocation that fails ends the process, unless it is asked for in this way, which gives no zeros.
    Vec::<u8>::new().try_reserve_exact(size).ok()?;
    Some(vec![0; size])
}
