//! Which library a function is of.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr;

/// The path of the library that has the function at an address, as the loader knows it; `None` if none has.
pub fn path_of(function: usize) -> Option<&'static [u8]> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let function = ptr::without_provenance(function);
    // SAFETY: the call reads nothing at the address, and fills the structure if it returns anything but 0.
    if unsafe { libc::dladdr(function, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: all zeros is a value of the structure, and so is what was filled in.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is a string of the loader's that lives as long as the library, which holds functions of the process.
    Some(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes())
}

/// True when the library that has the function at an address exports a symbol.
pub fn exports(function: usize, symbol: &CStr) -> bool {
    let Some(path) = path_of(function).and_then(|path| CString::new(path).ok()) else { return false };
    // SAFETY: the path is a string; nothing is loaded, a library that is loaded gets a reference.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return false;
    }
    // SAFETY: the handle is the loader's, and the name a string.
    let found = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    // SAFETY: the handle is ours to give back.
    unsafe { libc::dlclose(library) };
    // The loader also looks into what the library needs: a symbol of another library does not count.
    !found.is_null() && path_of(found.addr()) == path_of(function)
}

/// True when the function at an address is one of ROCr's library, also under a name with a hash, as Python's wheels have it:
/// `libhsa-runtime64-1a2b.so.1`.
pub(crate) fn is_of_the_runtime(function: usize) -> bool {
    let name = path_of(function).and_then(|path| path.rsplit(|&b| b == b'/').next());
    name.is_some_and(|name| name.starts_with(b"libhsa-runtime64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_their_libraries() {
        let path = path_of(libc::getpid as *const () as usize).unwrap();
        assert!(path.windows(4).any(|part| part == b"libc"), "{:?}", String::from_utf8_lossy(path));
        assert!(!is_of_the_runtime(libc::getpid as *const () as usize));
        assert_eq!(path_of(0x10), None);
        let getpid = libc::getpid as *const () as usize;
        assert!(exports(getpid, c"getuid") && !exports(getpid, c"hsa_init") && !exports(0x10, c"getuid"));
    }
}
