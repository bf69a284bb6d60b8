//! What a kernel can get to, by following its code: what the emulated GPU's tables do not have, and whether it has an operation.
//!
//! Padding, and data behind a kernel's end, are no instructions: only what control can get to is looked at.

use std::collections::BTreeMap;
use std::fmt;

use amdgpu_code_object::{CodeObject, Image};
use amdgpu_isa::action::Action;
use amdgpu_isa::coverage::is_formatted;
use amdgpu_isa::decode::DecodeError;
use amdgpu_isa::flow::{Step, Walk};
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::{Access, Family, Op};
use amdgpu_isa::{Arch, Decoder};

use crate::error::{ListingError, Result};
use crate::unreadable;

/// Words of a kernel that are no instruction of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Their address, before the code is loaded.
    pub address: u64,
    /// The words.
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

/// True when a kernel can get to an operation that does this.
///
/// # Errors
/// As for [`missing`].
pub fn reaches(bytes: &[u8], arch: Arch, kernel: &str, action: Action) -> Result<bool> {
    Ok(walked(bytes, arch, kernel)?.operations.values().any(|op| op.action == action))
}

/// True when a kernel can get to a call or a jump whose target is the value of registers.
///
/// # Errors
/// As for [`missing`].
pub fn goes_by_address(bytes: &[u8], arch: Arch, kernel: &str) -> Result<bool> {
    Ok(walked(bytes, arch, kernel)?.goes_by_address)
}

/// The fewest bytes that a store to memory which a kernel can get to has for a lane: 1 where some of its code is unknown, 16 without any
/// store.
///
/// # Errors
/// As for [`missing`].
pub fn narrowest_store(bytes: &[u8], arch: Arch, kernel: &str) -> Result<u8> {
    let walked = walked(bytes, arch, kernel)?;
    Ok(if walked.missing.is_empty() { walked.narrowest.unwrap_or(16) } else { 1 })
}

/// An operation that a kernel can get to and that finds memory by a descriptor in memory, as of a texture or a surface.
///
/// # Errors
/// As for [`missing`].
pub fn by_descriptor(bytes: &[u8], arch: Arch, kernel: &str) -> Result<Option<&'static str>> {
    let walked = walked(bytes, arch, kernel)?;
    let missing = walked.missing.iter().filter_map(|missing| missing.name);
    Ok(walked.operations.into_keys().chain(missing).find(|name| is_formatted(name)))
}

/// Follows all code that a kernel can get to.
fn walked(bytes: &[u8], arch: Arch, kernel: &str) -> Result<Walked> {
    const PLACE: &str = "the code object";
    let mut object = CodeObject::parse(bytes).map_err(unreadable(PLACE))?;
    if object.kernel(kernel).is_none() {
        // Without metadata, there is its descriptor.
        object.kernels.extend(CodeObject::described(bytes, kernel).map_err(unreadable(PLACE))?);
    }
    let image = Image::parse(bytes).map_err(unreadable(PLACE))?;
    let functions = image.functions(&object).map_err(unreadable(PLACE))?;
    let found = functions.iter().find(|f| f.is_kernel && f.name == kernel);
    let function = found.ok_or_else(|| ListingError::Usage {
        what: PLACE.to_owned(),
        expected: format!("code of a kernel {kernel}"),
        found: "none".to_owned(),
    })?;
    let decoder = Decoder::new(arch);
    let mut walk = Walk::new(&decoder, |at| image.code(at));
    walk.start(function.address);
    let mut walked = Walked::default();
    while let Some(Step { address, words, inst }) = walk.next() {
        let words = words.words().to_vec();
        match inst {
            Ok(inst) => {
                walked.operations.insert(inst.op.name, inst.op);
                walked.narrowest = [walked.narrowest, stored(&inst)].into_iter().flatten().min();
                // Where a kernel jumps to itself is computed: all of it counts.
                if inst.is_indirect() && !inst.falls_through() && address.wrapping_sub(function.address) < function.size
                {
                    walk.all(function.address, function.size).into_iter().for_each(|at| walk.start(at));
                }
                if inst.is_indirect() && !walked.goes_by_address {
                    walked.goes_by_address = true;
                    functions.iter().filter(|f| !f.is_kernel).for_each(|f| walk.start(f.address));
                }
            }
            // No instruction, so none that is missing: code may end with a call that does not return, of `abort` for instance. What gets
            // there faults.
            Err(_) if words.is_empty() => {}
            Err(why) => {
                let name = name(why);
                walked.missing.push(Missing { address, words, name, why });
            }
        }
    }
    Ok(walked)
}

/// What was met in the code that a kernel can get to.
#[derive(Default)]
struct Walked {
    /// By name.
    operations: BTreeMap<&'static str, &'static Op>,
    missing: Vec<Missing>,
    /// The fewest bytes of a store.
    narrowest: Option<u8>,
    /// A target is the value of registers.
    goes_by_address: bool,
}

/// Bytes that an instruction stores to memory for a lane; `None` if it stores nothing there.
fn stored(inst: &Inst) -> Option<u8> {
    match inst.op.access {
        _ if inst.op.family == Family::Ds => None,
        Access::Store(bytes, _) | Access::Atomic(_, bytes, _) => Some(bytes),
        // The format is in a descriptor, in registers.
        Access::StoreFormat(..) => Some(1),
        _ => None,
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
