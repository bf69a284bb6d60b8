//! Loading libraries. One that is loaded with `RTLD_DEEPBIND` finds the C library's functions before ours: they are bound again. In a
//! namespace of its own (`dlmopen`) there is another C library, with its own descriptors of streams and its own error numbers, so that
//! ours cannot take the place of its functions: that is said.
//!
//! The loader looks along the paths of the library that calls `dlopen`. So all other calls continue at the next definition with the
//! caller's return address.

use std::arch::naked_asm;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;

use super::bind::{self, LinkMap};
use super::guard;
use super::next::{Next, next};
use crate::plan;
use crate::process_log::ProcessLog;
use crate::runtime;

static DLOPEN: Next = Next::new(c"dlopen");

/// Looks the next definition up.
pub(super) fn prepare() {
    DLOPEN.address();
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "test esi, {deep}",
        "jnz 2f",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        // The return address, as a third argument.
        "mov rdx, qword ptr [rsp]",
        "jmp {otherwise}",
        deep = const libc::RTLD_DEEPBIND,
        next = sym DLOPEN,
        otherwise = sym open_for,
    )
}

/// As in C.
///
/// # Safety
/// As in C.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlmopen(namespace: libc::Lmid_t, path: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!("mov rcx, qword ptr [rsp]", "jmp {function}", function = sym open_in)
}

/// `dlopen` for code at `caller`.
unsafe extern "C" fn open_for(path: *const c_char, flags: c_int, caller: *const c_void) -> *mut c_void {
    // SAFETY: as the caller promises.
    let found = guard(None, || unsafe { as_seen_by(path, caller) });
    let path = found.as_ref().map_or(path, |found| found.as_ptr());
    let before = guard(Vec::new(), bind::objects);
    let library = next!(c"dlopen" as fn(*const c_char, c_int) -> *mut c_void, std::ptr::null_mut(); path, flags);
    if !library.is_null() && flags & libc::RTLD_DEEPBIND != 0 {
        guard((), || bind::bind_new(&before));
    }
    library
}

/// `dlmopen` for code at `caller`.
unsafe extern "C" fn open_in(
    namespace: libc::Lmid_t,
    path: *const c_char,
    flags: c_int,
    caller: *const c_void,
) -> *mut c_void {
    if namespace == libc::LM_ID_BASE {
        // SAFETY: as the caller promises.
        return unsafe { open_for(path, flags, caller) };
    }
    // SAFETY: as the caller promises.
    let found = guard(None, || unsafe { as_seen_by(path, caller) });
    let path = found.as_ref().map_or(path, |found| found.as_ptr());
    let library = next!(c"dlmopen" as fn(libc::Lmid_t, *const c_char, c_int) -> *mut c_void, std::ptr::null_mut(); namespace, path, flags);
    if !library.is_null() {
        guard((), || tell_of_runtime(LinkMap::of(library)));
    }
    library
}

/// Says that the runtime is in a namespace where it finds none of our functions.
fn tell_of_runtime(library: Option<LinkMap>) {
    let mut all = library.into_iter().flat_map(LinkMap::of_namespace);
    let Some(runtime) = all.find(|path| runtime::is_runtime(path)) else { return };
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        ProcessLog::open(plan::settings().log.as_deref()).line(format!(
            "{} was loaded by dlmopen into a namespace of its own, which preloaded libraries are not in: it sees no emulated GPU. \
             dlopen works, also with RTLD_DEEPBIND",
            runtime.display()
        ));
    });
}

/// The path of a library that is given without a folder, if it is in one of the folders that the library at `caller` names: the loader
/// looks along those of its own caller. Nothing if that library is in the process already.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn as_seen_by(path: *const c_char, caller: *const c_void) -> Option<CString> {
    if path.is_null() {
        return None;
    }
    // SAFETY: a C string.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    if name.is_empty() || name.contains(&b'/') {
        return None;
    }
    // SAFETY: a C string; the library is not loaded by this.
    let there = unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if !there.is_null() {
        // SAFETY: the handle was just given.
        unsafe { libc::dlclose(there) };
        return None;
    }
    let folders = LinkMap::at(caller)?.folders();
    let found = folders.iter().map(|folder| folder.join(OsStr::from_bytes(name))).find(|path| path.is_file())?;
    CString::new(found.into_os_string().as_bytes()).ok()
}
