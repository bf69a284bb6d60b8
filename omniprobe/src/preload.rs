//! The order of the libraries that the dynamic loader is told to load first.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, elf, elf::FileHeader64};

/// How the file names of the runtimes of sanitizers begin: GCC's, and LLVM's, of which the name of the sanitizer follows.
const SANITIZERS: &[&str] = &["libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so", "libubsan.so", "libclang_rt."];

/// A value of `LD_PRELOAD` with more libraries: before those of the old value, but behind runtimes of sanitizers. These replace
/// functions of the C library, must see each call first, and refuse to start if they are not first. Source: `ld.so(8)`: spaces and
/// colons separate.
pub(crate) fn with(libraries: &[PathBuf], old: &OsStr) -> OsString {
    let old: Vec<&[u8]> = old.as_bytes().split(|b| b" :".contains(b)).filter(|part| !part.is_empty()).collect();
    let first = old.iter().rposition(|path| is_sanitizer(path)).map_or(0, |last| last + 1);
    let ours = libraries.iter().map(|library| library.as_os_str().as_bytes());
    let all: Vec<&[u8]> = old[..first].iter().copied().chain(ours).chain(old[first..].iter().copied()).collect();
    OsString::from_vec(all.join(&b':'))
}

fn is_sanitizer(path: &[u8]) -> bool {
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer.as_bytes()))
}

/// True for a program that needs the runtime of AddressSanitizer. False for what is no ELF file, as a script.
pub(crate) fn needs_asan(program: &Path) -> bool {
    let bytes = std::fs::read(program).unwrap_or_default();
    let needed = needed(&bytes).unwrap_or_default();
    needed.iter().any(|name| is_sanitizer(name) && name.windows(4).any(|part| part == b"asan"))
}

/// The names of the libraries that an ELF file needs.
fn needed(bytes: &[u8]) -> object::Result<Vec<&[u8]>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, bytes, link)?;
    let needed = entries.iter().filter(|entry| entry.d_tag(endian) == elf::DT_NEEDED);
    Ok(needed.filter_map(|entry| strings.get(u32::try_from(entry.d_val(endian)).ok()?).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_preloaded_before_others_and_behind_runtimes_of_sanitizers() {
        let ours = [PathBuf::from("/o/a.so"), PathBuf::from("/o/b.so")];
        for (old, expected) in [
            ("", "/o/a.so:/o/b.so"),
            ("/x/libhook.so libm.so.6", "/o/a.so:/o/b.so:/x/libhook.so:libm.so.6"),
            ("/x/libasan.so.8:/x/libhook.so", "/x/libasan.so.8:/o/a.so:/o/b.so:/x/libhook.so"),
            (
                "/x/libhook.so /y/libclang_rt.asan-x86_64.so",
                "/x/libhook.so:/y/libclang_rt.asan-x86_64.so:/o/a.so:/o/b.so",
            ),
            (
                "libasan.so.8::libubsan.so.1 /x/libasan/hook.so",
                "libasan.so.8:libubsan.so.1:/o/a.so:/o/b.so:/x/libasan/hook.so",
            ),
        ] {
            assert_eq!(with(&ours, old.as_ref()), expected);
        }
    }

    #[test]
    fn the_libraries_that_a_program_needs_are_found_and_a_script_needs_none() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(needed(&program).unwrap().iter().any(|name| name.starts_with(b"libc.so")));
        assert!(needed(b"#!/bin/sh\n").is_err() && !needs_asan(Path::new("/nowhere")));
    }
}
