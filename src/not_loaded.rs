//! What `omniprobe` is told when a process ends whose runtime has not loaded the library, although it was preloaded.
//!
//! # Threads
//! The thread that exits.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use logdur_intercept::guard;
use logdur_settings::{HelloLine, Interceptor};
use logdur_system::text::one_line;

use crate::log::handshake;

/// Some runtime of this process, or of the one that it was forked from, has called `OnLoad`.
static LOADED: AtomicBool = AtomicBool::new(false);

/// The loader calls it when the process exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// Variables that decide whether the runtime loads a tool, and which it is. The application may have changed them.
const DECISIVE: &[&str] =
    &["HSA_TOOLS_LIB", "HSA_TOOLS_ROCPROFILER_V1_TOOLS", "ROCP_TOOL_LIBRARIES", "ROCPROFILER_REGISTER_LIBRARY"];

/// A runtime has called `OnLoad`.
pub(crate) fn loaded() {
    LOADED.store(true, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    guard((), || {
        let Some(path) = std::env::var_os(Interceptor::hello).filter(|_| !LOADED.load(Ordering::Relaxed)) else {
            return;
        };
        let mut found = Libraries::default();
        let data = std::ptr::from_mut(&mut found).cast();
        // SAFETY: the function is called with what the loader knows, before this call returns.
        unsafe { libc::dl_iterate_phdr(Some(look_at), data) };
        let Some(runtime) = found.runtime.or_else(elsewhere) else { return };
        let set = |name: &&str| {
            let value = std::env::var_os(name);
            value.map_or_else(|| format!("no {name}"), |value| format!("{name}={}", value.to_string_lossy()))
        };
        let variables = DECISIVE.iter().map(set).collect::<Vec<_>>().join(", ");
        let sdk =
            found.sdk.map(|sdk| format!(" and {sdk}, which may decide which tools are loaded")).unwrap_or_default();
        let text = format!("{runtime} did not load liblogdur.so. At its end the process had {variables}{sdk}");
        handshake::add(Path::new(&path), &[HelloLine::NotLoaded(one_line(&text))]);
    });
}

/// The runtime in another namespace of the loader, whose libraries are not told here.
fn elsewhere() -> Option<String> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let lines = maps.split(|&byte| byte == b'\n');
    let mut paths = lines.filter_map(|line| line.splitn(6, |&byte| byte == b' ').nth(5)).map(<[u8]>::trim_ascii_start);
    let runtime = paths.find(|path| file_name(path).starts_with(RUNTIME))?;
    Some(format!(
        "{}, in a namespace of its own (dlmopen) that preloaded libraries are not in,",
        String::from_utf8_lossy(runtime)
    ))
}

/// How the file names of the runtime begin.
const RUNTIME: &[u8] = b"libhsa-runtime64";

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Paths of libraries of the process.
#[derive(Default)]
struct Libraries {
    runtime: Option<String>,
    /// Of rocprofiler.
    sdk: Option<String>,
}

unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader gives the description of a library.
    let name = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the name is a string of C while this is called.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes();
    let file = file_name(path);
    // SAFETY: the caller of `dl_iterate_phdr` gave a pointer to this, which is its own.
    let found = unsafe { &mut *data.cast::<Libraries>() };
    let place = if file.starts_with(RUNTIME) {
        &mut found.runtime
    } else if file.starts_with(b"librocprofiler-sdk") {
        &mut found.sdk
    } else {
        return 0;
    };
    place.get_or_insert_with(|| OsStr::from_bytes(path).to_string_lossy().into_owned());
    0
}
