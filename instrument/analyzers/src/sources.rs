//! Source positions for all handlers: what `liblogdur.so` opens when the first of them asks.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use amdgpu_listing::Sources;
use logdur_handler::abi;

use crate::code::hashes;

/// Debug information of a code object.
struct Opened {
    sources: Sources,
    /// The files' paths, by each hash by which messages may name them.
    files: HashMap<u64, CString>,
    /// The same paths, by themselves.
    paths: HashMap<String, CString>,
}

static TABLE: abi::SourcesTable = abi::SourcesTable {
    size: size_of::<abi::SourcesTable>() as u64,
    open: Some(open),
    file: Some(file),
    position: Some(position),
    close: Some(close),
};

/// Debug information of code objects.
#[unsafe(no_mangle)]
pub extern "C" fn logdur_sources() -> *const abi::SourcesTable {
    &raw const TABLE
}

unsafe extern "C" fn open(code: *const u8, code_bytes: u64) -> *mut c_void {
    if code.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller has so many bytes there, which nothing writes until `close`.
    let code = unsafe { std::slice::from_raw_parts(code, code_bytes as usize) };
    let Ok(sources) = Sources::of("code object", code) else { return ptr::null_mut() };
    let (mut files, mut paths) = (HashMap::new(), HashMap::new());
    for path in sources.files() {
        let Ok(text) = CString::new(path) else { continue };
        for hash in hashes(path) {
            files.entry(hash).or_insert_with(|| text.clone());
        }
        paths.insert(path.to_owned(), text);
    }
    Box::into_raw(Box::new(Opened { sources, files, paths })).cast()
}

unsafe extern "C" fn file(sources: *mut c_void, hash: u64) -> *const c_char {
    // SAFETY: the pointer is null, or from `open` and not closed; nothing changes what it points to.
    let opened = unsafe { sources.cast::<Opened>().as_ref() };
    opened.and_then(|opened| opened.files.get(&hash)).map_or(ptr::null(), |path| path.as_ptr())
}

unsafe extern "C" fn position(sources: *mut c_void, address: u64, position: *mut abi::SourcePosition) -> c_int {
    // SAFETY: as above.
    let opened = unsafe { sources.cast::<Opened>().as_ref() };
    let Some((opened, place)) = opened.and_then(|opened| Some((opened, opened.sources.at(address)?))) else { return 1 };
    // SAFETY: the pointer is null or the caller's, with all fields of version 1.
    let Some(position) = (unsafe { position.as_mut() }) else { return 1 };
    position.file = opened.paths.get(place.file).map_or(ptr::null(), |path| path.as_ptr());
    position.line = place.line as u32;
    position.column = place.column as u32;
    0
}

unsafe extern "C" fn close(sources: *mut c_void) {
    if !sources.is_null() {
        // SAFETY: the pointer is from `open`, and is not used afterwards.
        drop(unsafe { Box::from_raw(sources.cast::<Opened>()) });
    }
}
