//! What the index has of a file.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use amdgpu_code_object::container::{self, Entry, Kind};
use amdgpu_code_object::{CodeObject, Unreadable};

use crate::decision::{Place, Stamp};
use crate::file::Opened;
use crate::index::{Builder, FileBuilder, Shared};
use crate::interface::Interface;
use crate::skim::skim;

/// Beginnings of what else bundles have for GPUs: LLVM's bitcode, bare and wrapped, and SPIR-V. No kernel in them can be
/// dispatched. Source: LLVM's "Bitcode File Format", the SPIR-V specification.
const NOT_YET_CODE: [&[u8]; 3] = [b"BC\xc0\xde", &0x0b17_c0de_u32.to_le_bytes(), &0x0723_0203_u32.to_le_bytes()];

impl Place {
    /// Of an entry.
    pub(crate) fn of(entry: &Entry) -> Place {
        Place {
            kind: entry.kind,
            in_host_elf: entry.in_host_elf,
            id: entry.id.clone(),
            container_offset: entry.container_offset,
            offset: entry.offset,
            length: entry.length,
        }
    }

    /// As what finds it reads it.
    pub(crate) fn entry(&self) -> Entry {
        Entry {
            kind: self.kind,
            in_host_elf: self.in_host_elf,
            id: self.id.clone(),
            container_offset: self.container_offset,
            offset: self.offset,
            length: self.length,
            problem: None,
        }
    }
}

/// Adds a file to an index; `stamp` is what it was like when its folder was looked into. How many bytes were read.
///
/// # Errors
/// When it is not there any more. What else is wrong with it is in the index.
pub(crate) fn add(builder: &mut Builder, path: &Path, stamp: Stamp) -> io::Result<u64> {
    let opened = match Opened::open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Err(error) => {
            let mut file = builder.file(path, stamp, stamp.is_settled());
            file.problems.push(error.to_string());
            file.end();
            return Ok(0);
        }
    };
    let settled = opened.stamp.is_settled();
    let mut file = builder.file(path, opened.stamp, settled);
    match container::entries(&opened) {
        Ok(entries) => entries.iter().for_each(|entry| object(&mut file, &opened, entry)),
        Err(error) => file.problems.push(error.to_string()),
    }
    // Changed meanwhile: it may be half of one and half of another.
    file.settled &= opened.stamp_now().is_ok_and(|now| now == opened.stamp);
    file.end();
    Ok(opened.read.load(Ordering::Relaxed))
}

fn object(file: &mut FileBuilder<'_>, opened: &Opened, entry: &Entry) {
    let place = Place::of(entry);
    let is_host = !entry.id.is_empty() && entry.target().is_none();
    if entry.problem.is_none() && (is_host || entry.length == 0) {
        return;
    }
    match parse(opened, entry) {
        Ok(Some(object)) => {
            file.problems.extend(object.problems.iter().map(|problem| format!("{place}: {problem}")));
            let interfaces: Vec<Interface> = object.kernels.iter().map(|k| Interface::of(&object, k)).collect();
            if let Some(first) = interfaces.first() {
                let shared = Shared {
                    place,
                    abi: object.abi,
                    variables: first.variables.clone(),
                    stored_functions: first.stored_functions.clone(),
                    target: object.target,
                };
                file.object(&shared, &interfaces);
            }
        }
        Ok(None) => {}
        Err(problem) => file.problems.push(format!("{place}: {problem}")),
    }
}

/// `None` for what is no code object, and need not be one.
fn parse(opened: &Opened, entry: &Entry) -> Result<Option<CodeObject>, Unreadable> {
    if let Some(problem) = &entry.problem {
        return Err(problem.clone());
    }
    let bytes = match entry.kind {
        Kind::Bare | Kind::Bundle => skim(opened, entry.offset, entry.length)?,
        _ => entry.read(opened)?,
    };
    if NOT_YET_CODE.iter().any(|magic| bytes.starts_with(magic)) {
        return Ok(None);
    }
    CodeObject::parse(&bytes).map(Some)
}
