//! The HSA runtime of this process: whether it knows a processor.
//!
//! A runtime that does not know the processor of a GPU node crashes, or ends its process, instead of reporting an error.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How the file names of the runtime begin, in all versions and in wheels.
const FILE: &str = "libhsa-runtime64";

/// The path of the runtime that is loaded in this process.
pub(crate) fn path() -> Option<PathBuf> {
    let mut found: Option<PathBuf> = None;
    // SAFETY: the function calls back before it returns, with the pointer that it is given.
    unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut found).cast()) };
    found
}

/// True for the path of a runtime.
pub(crate) fn is_runtime(path: &Path) -> bool {
    path.file_name().is_some_and(|file| file.as_bytes().starts_with(FILE.as_bytes()))
}

/// Keeps the path of the first object that is the runtime.
///
/// # Safety
/// `info` is of the loader, and `found` points to an `Option<PathBuf>` that nothing else uses.
unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid structure.
    let name = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names end with a zero, and stay while it calls back.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    if !is_runtime(path) {
        return 0;
    }
    // SAFETY: as promised.
    unsafe { *found.cast::<Option<PathBuf>>() = Some(path.to_owned()) };
    1
}

/// True if the file of a runtime has the name of a processor. A file that cannot be read, or that names no processor at all,
/// is believed to know each.
pub(crate) fn knows(runtime: &Path, processor: &str) -> bool {
    let Ok(bytes) = std::fs::read(runtime) else { return true };
    has_word(&bytes, processor) || !has_word(&bytes, "gfx900")
}

/// True if a name is in the bytes that no letter and no digit follows.
fn has_word(bytes: &[u8], name: &str) -> bool {
    let mut rest = bytes;
    while let Some(at) = find(rest, name.as_bytes()) {
        rest = &rest[at + name.len()..];
        if rest.first().is_none_or(|b| !b.is_ascii_alphanumeric()) {
            return true;
        }
    }
    false
}

fn find(bytes: &[u8], name: &[u8]) -> Option<usize> {
    // SAFETY: both pointers are valid for the lengths behind them.
    let found = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), name.as_ptr().cast(), name.len()) };
    (!found.is_null()).then(|| found.addr() - bytes.as_ptr().addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_known_by_its_whole_name() {
        let bytes = b"\0amdgcn-amd-amdhsa--gfx90a\0gfx9\0gfx942";
        let known = |name| has_word(bytes, name);
        assert!(known("gfx90a") && known("gfx942") && known("gfx9"));
        assert!(!known("gfx90") && !known("gfx94") && !known("gfx900"));
    }
}
