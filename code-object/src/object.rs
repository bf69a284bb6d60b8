//! A code object: the bytes of an ELF for the GPU.

use crate::error::{Result, Unreadable};
use crate::global::{AddressTaken, Global};
use crate::kernel::Kernel;
use crate::target::Target;
use crate::value::Value;

/// Version of the code object's ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Abi {
    /// Version 2: YAML metadata, `amd_kernel_code_t`.
    V2,
    /// Version 3.
    V3,
    /// Version 4: `xnack` and `sramecc` may be "any".
    V4,
    /// Version 5: more hidden arguments.
    V5,
    /// Version 6: code for families of processors.
    V6,
    /// A later one, by the number in the ELF's header; it is read like version 6.
    Later(u8),
}

/// What is in a code object.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeObject {
    /// Version of the ABI.
    pub abi: Abi,
    /// What it was compiled for.
    pub target: Target,
    /// Kernels, in the order of the metadata.
    pub kernels: Vec<Kernel>,
    /// Variables, by address.
    pub globals: Vec<Global>,
    /// Functions whose address is stored in memory.
    pub address_taken: Vec<AddressTaken>,
    /// Formats of printf: `amdhsa.printf`.
    pub printf: Vec<String>,
    /// Version of the metadata, like 1 and 2.
    pub metadata_version: Vec<u32>,
    /// Keys of the metadata that are not known, with their values.
    pub unknown: Vec<(String, Value)>,
    /// What was left out because it could not be understood: kernels, notes. The rest is as it should be.
    pub problems: Vec<Unreadable>,
}

impl CodeObject {
    /// Reads a code object.
    ///
    /// # Errors
    /// When it is no ELF for AMD's GPUs under HSA, or is damaged. What is wrong with single kernels is in
    /// [`problems`](CodeObject::problems).
    pub fn parse(bytes: &[u8]) -> Result<CodeObject> {
        Err(Unreadable::unexpected("code object", 0, "a reader", format!("{} bytes and none yet", bytes.len())))
    }
}
