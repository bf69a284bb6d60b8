//! The index: which kernels are in which files.
//!
//! A [`Block`] is one piece of bytes, the same in memory and in a file. It is built once ([`Builder`]) and never changed;
//! kernels of files that are no longer what they were are marked in memory only. Nothing of it is decoded before somebody
//! asks for a kernel's name. A block from a file is taken only if its checksum, its format and its root are right.

mod block;
mod builder;
mod record;
mod store;
mod wire;

pub(crate) use block::{Block, FileRow};
pub(crate) use builder::{Builder, Carried, FileBuilder, TooLarge};
pub(crate) use record::Shared;
pub(crate) use store::{load, save};

/// The first eight bytes of a hash, as a number.
fn first_word(hash: &blake3::Hash) -> u64 {
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// By which names are sorted.
fn name_hash(name: &str) -> u64 {
    first_word(&blake3::hash(name.as_bytes()))
}

/// Checks an index file's bytes and decodes all of it: for fuzzing. How many kernels there are.
///
/// # Errors
/// What is wrong with it, in words.
pub fn examine(bytes: Vec<u8>, root: &std::path::Path) -> Result<usize, String> {
    let block = Block::parse(bytes, root).map_err(|damage| damage.to_string())?;
    Ok(block.candidates().count())
}
