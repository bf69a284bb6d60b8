//! The index: which kernels are in which files.
//!
//! A `Block` is one piece of bytes, the same in memory and in a file. It is built once (`Builder`) and never changed;
//! kernels of files that are no longer what they were are marked in memory only. Nothing of it is decoded before a caller
//! asks for a kernel's name. A block from a file is taken only if its checksum, its format and its root are right.

mod block;
mod builder;
pub(crate) mod hashes;
mod record;
mod store;
mod wire;

use std::path::Path;

use crate::candidate::Candidate;

pub(crate) use block::{Block, FileRow};
pub(crate) use builder::{Builder, Carried, FileBuilder, TooLarge};
pub(crate) use record::Shared;
pub use store::index_folder;
pub(crate) use store::{load, save};

/// The first eight bytes of a hash, as a number.
fn first_word(hash: &blake3::Hash) -> u64 {
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// By which names are sorted.
fn name_hash(name: &str) -> u64 {
    first_word(&blake3::hash(name.as_bytes()))
}

/// An index file that has some kernels, each in a file of its own: for fuzzing.
pub fn made(root: &Path, kernels: &[Candidate]) -> Vec<u8> {
    let mut builder = Builder::new(root);
    for Candidate { path, stamp, place, interface } in kernels {
        let mut file = builder.file(path, *stamp, true);
        file.problems.push(format!("{place}: a problem"));
        let shared = Shared {
            place: place.clone(),
            abi: interface.abi,
            target: interface.target.clone(),
            common: crate::interface::Common {
                variables: interface.variables.clone(),
                stored_functions: interface.stored_functions.clone(),
                initialisers: interface.initialisers.clone(),
            },
        };
        file.object(&shared, std::slice::from_ref(interface));
        file.end();
    }
    builder.finish().map_or_else(|_| Vec::new(), |block| block.bytes().to_vec())
}

/// Decodes all of an index file, whose length and checksum are made right before: for fuzzing, which would never get past
/// them. How many kernels there are.
///
/// # Errors
/// What is wrong with it, in words.
pub fn examine(mut bytes: Vec<u8>, root: &Path) -> Result<usize, String> {
    builder::seal(&mut bytes);
    let block = Block::parse(bytes, root).map_err(|damage| damage.to_string())?;
    let rebuilt = rebuilt(&block, root).map_err(|error| error.to_string())?;
    let found = block.candidates().count();
    let named = |candidate: Candidate| block.candidates_named(&candidate.interface.name).count();
    let _ = (block.candidates().map(named).max(), block.problems().count(), block.below(root));
    let _ = rebuilt.candidates().count();
    Ok(found)
}

/// A block with the unchanged files of another.
fn rebuilt(block: &Block, root: &Path) -> Result<Block, TooLarge> {
    let (carried, mut builder) = (Carried::new(block), Builder::new(root));
    for (n, _) in carried.live() {
        builder.carry(&carried, n);
    }
    builder.finish()
}
