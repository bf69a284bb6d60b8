//! Reads a file for the index.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use amdgpu_code_object::container::{self, Entry, Kind};
use amdgpu_code_object::{CodeObject, Unreadable};

use crate::candidate::Stamp;
use crate::file::Opened;
use crate::index::{Builder, FileBuilder, Shared};
use crate::interface::{Common, Interface};
use crate::skim::skim;

/// Beginnings of what else bundles have for GPUs: LLVM's bitcode, bare and wrapped, and SPIR-V. No kernel in them can be
/// dispatched. Source: LLVM's "Bitcode File Format", the SPIR-V specification.
const NOT_YET_CODE: [&[u8]; 3] = [b"BC\xc0\xde", &0x0b17_c0de_u32.to_le_bytes(), &0x0723_0203_u32.to_le_bytes()];

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
        Ok(entries) => objects(&mut file, &opened, entries),
        Err(error) => file.problems.push(error.to_string()),
    }
    // Changed meanwhile: it may be half of one and half of another.
    file.settled &= opened.stamp_now().is_ok_and(|now| now == opened.stamp);
    file.end();
    Ok(opened.read.load(Ordering::Relaxed))
}

fn objects(file: &mut FileBuilder<'_>, opened: &Opened, mut entries: Vec<Entry>) {
    // Entries for the host are no code objects, and what is broken has said so itself.
    for entry in entries.iter().filter(|e| e.problem.is_some()) {
        file.problems.extend(entry.problem.iter().map(|problem| format!("{}: {problem}", entry.place)));
    }
    entries.retain(|entry| entry.problem.is_none() && entry.is_code_object());
    let (packed, bare): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.kind == Kind::CompressedBundle);
    for entry in &bare {
        object(file, entry, skim(opened, entry.offset, entry.length));
    }
    container::read_each(opened, &packed, &mut |n, bytes| {
        if let Some(entry) = packed.get(n) {
            object(file, entry, bytes);
        }
    });
}

fn object(file: &mut FileBuilder<'_>, entry: &Entry, bytes: Result<Vec<u8>, Unreadable>) {
    let place = entry.place.clone();
    let is_code = |bytes: &Vec<u8>| !NOT_YET_CODE.iter().any(|magic| bytes.starts_with(magic));
    let object = match bytes.map(|bytes| is_code(&bytes).then(|| CodeObject::parse(&bytes)).transpose()) {
        Ok(Ok(Some(object))) => object,
        Ok(Ok(None)) => return,
        Ok(Err(problem)) | Err(problem) => return file.problems.push(format!("{place}: {problem}")),
    };
    file.problems.extend(object.problems.iter().map(|problem| format!("{place}: {problem}")));
    let common = Common::of(&object);
    let interfaces: Vec<Interface> = object.kernels.iter().map(|k| common.interface(&object, k)).collect();
    if !interfaces.is_empty() {
        let shared = Shared { place, abi: object.abi, common, target: object.target };
        file.object(&shared, &interfaces);
    }
}
