//! What a step of a snapshot is read into: bytes of the writer's own, or bytes that are lent to it.

use std::fmt::Debug;
use std::io;

/// Bytes that are asked for at a time: steps end where an address is a multiple of it, and where a range ends. Half of a processor's
/// second cache has one, so that what the hash has read is still there when it is copied into a pack.
pub const STEP: u64 = 512 << 10;

/// Where the step ends that begins at an address, of a range that ends at `end`.
pub fn end_of_step(address: u64, end: u64) -> u64 {
    (address | (STEP - 1)).saturating_add(1).min(end)
}

/// Bytes that a caller lends to a [`SnapshotWriter`](crate::SnapshotWriter). They stay as they are until the writer drops them. It drops them
/// before the call returns to which they were lent.
pub trait Lent: AsRef<[u8]> + Debug + Send {}

impl<T: AsRef<[u8]> + Debug + Send> Lent for T {}

/// The bytes of one step.
#[derive(Debug)]
pub struct Buffer {
    /// How many bytes the step has.
    length: usize,
    /// As many bytes as a step may have, once there are any: a buffer that grows is copied, and filled with zeros.
    own: Vec<u8>,
    content: Content,
}

/// Where the bytes are.
#[derive(Debug)]
enum Content {
    /// Nothing was read so far.
    Nothing,
    Own,
    Lent(Box<dyn Lent>),
}

impl Buffer {
    /// For a step of so many bytes, with the writer's own bytes of an earlier one, or none.
    pub(crate) fn new(length: usize, own: Vec<u8>) -> Buffer {
        Buffer { length, own, content: Content::Nothing }
    }

    /// How many bytes are to be read.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Room for the bytes, all of which are to be written.
    pub fn room(&mut self) -> &mut [u8] {
        self.content = Content::Own;
        if self.own.len() < self.length {
            // Memory that is new from the system has its zeros already.
            self.own = vec![0; self.length.max(STEP as usize)];
        }
        self.own.get_mut(..self.length).unwrap_or_default()
    }

    /// Takes the bytes as they are, without a copy.
    ///
    /// # Errors
    /// When they are not as many as are to be read.
    pub fn lend(&mut self, bytes: Box<dyn Lent>) -> io::Result<()> {
        let found = (*bytes).as_ref().len();
        if found != self.length {
            let text = format!("expected {} bytes of memory, found {found}", self.length);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.content = Content::Lent(bytes);
        Ok(())
    }

    /// What was read; no bytes if nothing was.
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Nothing => &[],
            Content::Own => self.own.get(..self.length).unwrap_or_default(),
            Content::Lent(lent) => (**lent).as_ref(),
        }
    }

    /// # Errors
    /// When nothing was read.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.bytes().len() == self.length { Ok(()) } else { Err(io::Error::other("nothing was read")) }
    }

    /// Gives back what was lent. Returns the writer's own bytes for another step.
    pub(crate) fn into_own(self) -> Vec<u8> {
        self.own
    }
}
