//! Ranges and marks of the application, which `liblogdur_markers.so` passes on if it is in the process.
//!
//! # Threads
//! Those of the application that mark something; the one that starts or ends the runtime.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use logdur_intercept::watch::Work;
use logdur_intercept::{Interceptor, guard, lifetime};
use logdur_journal::columns::NO_GPU;
use logdur_journal::markers::{CONNECT, Connect, END, End, Marker, OPEN, Open, Pass, Passage, Receive, WATCH, Watch};
use logdur_journal::{Kernel, flag};

use crate::kernels::Kernels;
use crate::when::Conditions;

/// What markers are recorded with.
struct Recorder {
    interceptor: &'static Interceptor,
    kernels: &'static Kernels,
    conditions: Vec<&'static Conditions>,
}

/// What markers are recorded with: null before the first runtime, and in the child of a fork.
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());

/// The function that takes the ranges that are still open, from when the library of markers was found: a search that finds nothing
/// allocates.
static AT_END: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The function that visits open ranges, found as above.
static OPEN_RANGES: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The names of the ranges that are open in this thread, and of those that any thread may end, in the order in which they began.
pub(crate) fn open_ranges() -> Vec<String> {
    unsafe extern "C" fn visit(to: *mut c_void, name: *const u8, length: usize) {
        guard((), || {
            // SAFETY: the list of the function around, which nothing else uses during the call.
            let all = unsafe { &mut *to.cast::<Vec<String>>() };
            // SAFETY: the library of markers passes a name with that many bytes, which is valid during the call.
            let name = unsafe { std::slice::from_raw_parts(name, length) };
            all.push(String::from_utf8_lossy(name).into_owned());
        });
    }
    let open = OPEN_RANGES.load(Ordering::Acquire);
    let mut all: Vec<String> = Vec::new();
    if !open.is_null() {
        // SAFETY: only our library of markers has this name, and its function this type.
        let open = unsafe { std::mem::transmute::<*mut c_void, Open>(open) };
        // SAFETY: the function takes such a list.
        unsafe { open(visit, (&raw mut all).cast()) };
    }
    all
}

/// The runtime has been started: takes the markers that wait, and those that come.
pub(crate) fn connect(
    interceptor: &'static Interceptor,
    kernels: &'static Kernels,
    conditions: Vec<&'static Conditions>,
) {
    let needed = conditions.iter().any(|conditions| conditions.need_markers());
    if RECORDER.load(Ordering::Acquire).is_null() {
        // Never freed: any thread may be using it.
        RECORDER.store(Box::into_raw(Box::new(Recorder { interceptor, kernels, conditions })), Ordering::Release);
    }
    if needed {
        // First: it learns of the ranges that wait.
        watch(Some(passed));
    }
    connect_to(Some(receive));
}

/// True if the library of markers is in the process.
pub(crate) fn are_there() -> bool {
    find(CONNECT).is_some()
}

fn watch(pass: Option<Pass>) {
    let Some(watch) = find(WATCH) else { return };
    // SAFETY: only our library of markers has this name, and its function this type.
    let watch = unsafe { std::mem::transmute::<*mut c_void, Watch>(watch) };
    watch(pass);
}

unsafe extern "C" fn passed(passage: Passage, name: *const u8, length: usize) {
    guard((), || {
        // SAFETY: the pointer is null or comes from a leaked box, in `connect`.
        let recorder = unsafe { RECORDER.load(Ordering::Acquire).as_ref() };
        let Some(recorder) = recorder else { return };
        // SAFETY: the library of markers passes a name with that many bytes, which is valid during the call.
        let name = unsafe { std::slice::from_raw_parts(name, length) };
        let name = String::from_utf8_lossy(name);
        recorder.conditions.iter().for_each(|conditions| conditions.passed(passage, &name));
    });
}

/// In the child of a fork, markers go nowhere.
pub(crate) fn forked() {
    RECORDER.store(std::ptr::null_mut(), Ordering::Release);
}

/// The runtime goes: markers wait until it is started again.
pub(crate) fn disconnect() {
    connect_to(None);
}

fn connect_to(receive: Option<Receive>) {
    let Some(connect) = find(CONNECT) else { return };
    AT_END.store(find(END).unwrap_or(std::ptr::null_mut()), Ordering::Release);
    OPEN_RANGES.store(find(OPEN).unwrap_or(std::ptr::null_mut()), Ordering::Release);
    // SAFETY: only our library of markers has this name, and its function this type.
    let connect = unsafe { std::mem::transmute::<*mut c_void, Connect>(connect) };
    connect(receive);
}

/// The process ends: takes the ranges that are still open. Those that had to wait have no rows.
pub(crate) fn end(interceptor: &Interceptor) {
    let end = AT_END.load(Ordering::Acquire);
    if end.is_null() {
        return;
    }
    // SAFETY: as above.
    let end = unsafe { std::mem::transmute::<*mut c_void, End>(end) };
    let lost = end();
    if lost > 0 {
        interceptor.notice(format!(
            "{lost} ranges and marks have no rows: they ended when the HSA runtime was not in use, and too many waited or it was \
             not started again"
        ));
    }
}

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    Some(address).filter(|address| !address.is_null())
}

unsafe extern "C" fn receive(marker: *const Marker) -> bool {
    guard(true, || {
        // SAFETY: the pointer is null or comes from a leaked box, in `connect`.
        let Some(with) = (unsafe { RECORDER.load(Ordering::Acquire).as_ref() }) else { return true };
        if !lifetime::is_runtime_up() {
            return false;
        }
        if with.interceptor.is_outside() {
            return true;
        }
        // SAFETY: the library of markers passes a marker that is valid during the call, and that no thread writes.
        let marker = unsafe { &*marker };
        // SAFETY: its text has that many bytes.
        let text = unsafe { std::slice::from_raw_parts(marker.text, marker.length) };
        let kernel = Kernel {
            operation: marker.operation,
            symbol: String::from_utf8_lossy(text).into_owned(),
            ..Kernel::default()
        };
        let clock = &with.interceptor.clock;
        with.interceptor.record_completed(Work {
            agent: NO_GPU,
            kernel: with.kernels.named(kernel),
            bytes: 0,
            thread: marker.thread,
            asked: 0,
            times: (clock.of_boot_time(marker.start), clock.of_boot_time(marker.end)),
            flags: if marker.end == 0 { flag::INCOMPLETE } else { 0 },
        });
        true
    })
}
