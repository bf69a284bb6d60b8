//! The functions of ROCTx. Source: `roctracer/roctx.h` 4.1; `rocprofiler-sdk-roctx` has the same ones.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use logdur_journal::Operation;
use logdur_journal::markers::Passage;
use logdur_system::lock;

use crate::open::{now, passes, thread};
use crate::receiver::{Ended, pass};
use crate::state::{State, guard};

/// The version of the interface without a library behind this one.
const VERSION: (u32, u32) = (4, 1);

/// Calls the next library's function of this name; `None` without one.
macro_rules! next {
    ($name:ident($( $value:expr ),*) as $type:ty) => {{
        static NEXT: OnceLock<Option<$type>> = OnceLock::new();
        let find = || {
            let name = concat!(stringify!($name), "\0").as_ptr().cast::<c_char>();
            // SAFETY: the name ends with a zero.
            let address: *mut c_void = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
            // SAFETY: a function of this name has the type that the header gives it.
            (!address.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, $type>(address) })
        };
        // SAFETY: the arguments are the caller's.
        NEXT.get_or_init(find).map(|next| unsafe { next($( $value ),*) })
    }};
}

/// # Safety
/// `message` must be null or end with a zero.
unsafe fn text(message: *const c_char) -> Box<str> {
    if message.is_null() {
        return Box::from("");
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into()
}

/// The major version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn roctx_version_major() -> u32 {
    next!(roctx_version_major() as unsafe extern "C" fn() -> u32).unwrap_or(VERSION.0)
}

/// The minor version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn roctx_version_minor() -> u32 {
    next!(roctx_version_minor() as unsafe extern "C" fn() -> u32).unwrap_or(VERSION.1)
}

/// Marks a moment.
///
/// # Safety
/// `message` must be null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxMarkA(message: *const c_char) {
    guard((), |state| {
        let time = now();
        // SAFETY: the caller's promise.
        let text = unsafe { text(message) };
        pass(state, Ended { operation: Operation::Mark, thread: thread(), text, times: (time, time) });
    });
    next!(roctxMarkA(message) as unsafe extern "C" fn(*const c_char));
}

/// Begins a range of this thread. Returns how many ranges contain it.
///
/// # Safety
/// `message` must be null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxRangePushA(message: *const c_char) -> c_int {
    let level = next!(roctxRangePushA(message) as unsafe extern "C" fn(*const c_char) -> c_int);
    let ours = guard(0, |state| {
        // SAFETY: the caller's promise.
        let text = unsafe { text(message) };
        lock(&state.ranges).push(thread(), text, now())
    });
    level.unwrap_or(ours as c_int)
}

/// Ends this thread's last range. Returns how many ranges contained it; -1 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn roctxRangePop() -> c_int {
    let ours = guard(-1, |state| {
        let popped = lock(&state.ranges).pop(thread(), now());
        let Some((level, ended)) = popped else { return -1 };
        ends(state, ended);
        level as c_int
    });
    next!(roctxRangePop() as unsafe extern "C" fn() -> c_int).unwrap_or(ours)
}

/// Begins a range that any thread may end. Returns its number.
///
/// # Safety
/// `message` must be null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxRangeStartA(message: *const c_char) -> u64 {
    let number = next!(roctxRangeStartA(message) as unsafe extern "C" fn(*const c_char) -> u64);
    guard(number.unwrap_or(0), |state| {
        // SAFETY: the caller's promise.
        let text = unsafe { text(message) };
        lock(&state.ranges).start(number, thread(), text, now())
    })
}

/// Ends a range.
#[unsafe(no_mangle)]
pub extern "C" fn roctxRangeStop(number: u64) {
    guard((), |state| {
        let ended = lock(&state.ranges).stop(number, now());
        ended.into_iter().for_each(|ended| ends(state, ended));
    });
    next!(roctxRangeStop(number) as unsafe extern "C" fn(u64));
}

/// A range has ended: its row is passed on before anybody learns of the end.
fn ends(state: &State, ended: Ended) {
    let (watch, name) = (lock(&state.ranges).watching(), ended.text.clone());
    pass(state, ended);
    passes(watch, Passage::Ends, &name);
}

fn profiler(state: &State, passage: Passage) {
    let watch = lock(&state.ranges).watching();
    passes(watch, passage, "");
}

/// Asks a profiler to go on. `thread` is 0 for all threads. Returns 0, as a library behind this one does that has a profiler.
#[unsafe(no_mangle)]
pub extern "C" fn roctxProfilerResume(thread: u64) -> c_int {
    guard((), |state| profiler(state, Passage::Resumes));
    next!(roctxProfilerResume(thread) as unsafe extern "C" fn(u64) -> c_int).unwrap_or(0)
}

/// Asks a profiler to pause. `thread` is 0 for all threads. Returns as [`roctxProfilerResume`].
#[unsafe(no_mangle)]
pub extern "C" fn roctxProfilerPause(thread: u64) -> c_int {
    guard((), |state| profiler(state, Passage::Pauses));
    next!(roctxProfilerPause(thread) as unsafe extern "C" fn(u64) -> c_int).unwrap_or(0)
}
