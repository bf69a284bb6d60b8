//! What a kernel can get to, by following its code: what the emulated GPU's tables do not have, and whether it has an operation.
//!
//! Padding, and data behind a kernel's end, are no instructions: only what control can get to is looked at.

use std::collections::BTreeSet;
use std::fmt;

use amdgpu_code_object::{CodeObject, Function, Image};
use amdgpu_emu::isa::decode::DecodeError;
use amdgpu_emu::isa::{Arch, Decoder};

use super::{WORD, decode, unreadable};
use crate::error::{ReplayError, Result};

/// Words of a kernel that are no instruction of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Their address, before the code is loaded.
    pub address: u64,
    /// The words; none where control leads out of the code.
    pub words: Vec<u32>,
    /// The operation's name, where that is known.
    pub name: Option<&'static str>,
    /// Why they are refused.
    pub why: DecodeError,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.words.iter().map(|word| format!("{word:08x}")).collect();
        match (self.name, &*words) {
            (_, []) => write!(f, "at {:#x}: no code", self.address),
            (Some(name), words) => write!(f, "{name} at {:#x} ({})", self.address, words.join(" ")),
            (None, words) => write!(f, "{} at {:#x} ({})", self.why, self.address, words.join(" ")),
        }
    }
}

/// The instructions that a kernel can get to and that a processor's tables do not have, by address. A kernel that calls by
/// address can get to every function of its code object, and one that jumps by address to all of its own code.
///
/// # Errors
/// When the bytes are no code object, or have no code of such a kernel.
pub fn missing(bytes: &[u8], arch: Arch, kernel: &str) -> Result<Vec<Missing>> {
    let mut missing = walked(bytes, arch, kernel)?.missing;
    missing.sort_by_key(|missing| missing.address);
    Ok(missing)
}

/// True when a kernel can get to an operation of this name.
///
/// # Errors
/// As for [`missing`].
pub(crate) fn reaches(bytes: &[u8], arch: Arch, kernel: &str, operation: &str) -> Result<bool> {
    Ok(walked(bytes, arch, kernel)?.operations.contains(operation))
}

/// Follows all code that a kernel can get to.
fn walked<'a>(bytes: &'a [u8], arch: Arch, kernel: &str) -> Result<Walk<'a>> {
    const PLACE: &str = "the code object";
    let object = CodeObject::parse(bytes).map_err(unreadable(PLACE))?;
    let image = Image::parse(bytes).map_err(unreadable(PLACE))?;
    let functions = image.functions(&object).map_err(unreadable(PLACE))?;
    let found = functions.iter().find(|f| f.is_kernel && f.name == kernel);
    let function = found.ok_or_else(|| ReplayError::Usage {
        what: PLACE.to_owned(),
        expected: format!("code of a kernel {kernel}"),
        found: "none".to_owned(),
    })?;
    let mut walk = Walk {
        image,
        decoder: Decoder::new(arch),
        seen: BTreeSet::new(),
        operations: BTreeSet::new(),
        missing: Vec::new(),
    };
    if walk.from(function.address, function) {
        for called in functions.iter().filter(|f| !f.is_kernel) {
            walk.from(called.address, function);
        }
    }
    Ok(walk)
}

struct Walk<'a> {
    image: Image<'a>,
    decoder: Decoder,
    seen: BTreeSet<u64>,
    operations: BTreeSet<&'static str>,
    missing: Vec<Missing>,
}

impl Walk<'_> {
    /// Follows code from an address on; true when it calls or jumps by address.
    fn from(&mut self, start: u64, kernel: &Function) -> bool {
        let mut indirect = false;
        let mut starts = vec![start];
        while let Some(mut at) = starts.pop() {
            while self.seen.insert(at) {
                let code = self.image.code(at).filter(|code| !code.is_empty());
                let Some((words, inst)) = code.map(|code| decode(&self.decoder, code)) else {
                    let (words, name, why) = (Vec::new(), None, DecodeError::Truncated);
                    self.missing.push(Missing { address: at, words, name, why });
                    break;
                };
                let size = (words.len() * WORD) as u64;
                match inst {
                    Ok(inst) => {
                        self.operations.insert(inst.op.name);
                        starts.extend(inst.target(at));
                        if inst.is_indirect() {
                            indirect = true;
                            // Where a kernel jumps to itself is computed: all of it counts.
                            if !inst.goes_on() && at.wrapping_sub(kernel.address) < kernel.size {
                                starts.extend(self.all(kernel));
                            }
                        }
                        if !inst.goes_on() {
                            break;
                        }
                    }
                    Err(why) => {
                        let name = name(why);
                        self.missing.push(Missing { address: at, words, name, why });
                    }
                }
                at = at.wrapping_add(size);
            }
        }
        indirect
    }

    /// The addresses of a function's instructions, if they lie one behind the other.
    fn all(&self, function: &Function) -> Vec<u64> {
        let code = self.image.code(function.address).unwrap_or_default();
        let size = usize::try_from(function.size).unwrap_or(usize::MAX).min(code.len());
        let (mut rest, mut at) = (code.get(..size).unwrap_or_default(), function.address);
        let mut all = Vec::new();
        while !rest.is_empty() {
            all.push(at);
            let size = (decode(&self.decoder, rest).0.len() * WORD).min(rest.len());
            rest = rest.get(size..).unwrap_or_default();
            at = at.wrapping_add(size as u64);
        }
        all
    }
}

/// The name of an operation that was refused, where it has one here.
fn name(why: DecodeError) -> Option<&'static str> {
    match why {
        DecodeError::Absent(name)
        | DecodeError::Form(name)
        | DecodeError::Reserved(name)
        | DecodeError::Operand(name, _) => Some(name),
        DecodeError::Opcode(..) | DecodeError::Encoding | DecodeError::Truncated => None,
    }
}
