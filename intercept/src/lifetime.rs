//! How far the process and the runtime have come: what of the runtime may be called.
//!
//! # Threads
//! The runtime's own start and end, and the exiting thread, set the states; any thread reads them.

use std::sync::atomic::{AtomicBool, Ordering};

/// What of the runtime may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    Full,
    /// The process is ending: functions on signals only.
    Signals,
    /// The runtime's destructors have run: only its memory is still there.
    Memory,
}

/// The runtime is between `OnLoad` and `OnUnload`.
static UP: AtomicBool = AtomicBool::new(false);
/// The process has begun to end: nothing is made ahead of need.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The process exits; the runtime's destructors have not run.
static EXITING: AtomicBool = AtomicBool::new(false);
/// The runtime's destructors have run.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The process has had another runtime, which is not watched, at any time.
static HAD_ANOTHER: AtomicBool = AtomicBool::new(false);

/// The runtime has been started, or is about to go.
pub fn runtime_is_up(up: bool) {
    UP.store(up, Ordering::Release);
}

/// True between the runtime's start and its end.
pub fn is_runtime_up() -> bool {
    UP.load(Ordering::Acquire)
}

/// Another runtime of the process has been started, which is not watched.
pub fn another_runtime_started() {
    HAD_ANOTHER.store(true, Ordering::Release);
}

/// True if the process has had another runtime, which is not watched.
pub fn had_another_runtime() -> bool {
    HAD_ANOTHER.load(Ordering::Acquire)
}

/// The process begins to end: from now on nothing is made ahead of need, since the runtime takes it from the application's heap.
pub fn ending() {
    ENDING.store(true, Ordering::Release);
}

/// True when the process has begun to end.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// The process exits: from now on only functions on signals are called.
pub fn exiting() {
    EXITING.store(true, Ordering::Release);
}

/// The runtime's destructors have run: from now on its memory is read, and none of its functions is called.
pub fn ended() {
    ENDED.store(true, Ordering::Release);
}

/// What of the runtime the library's threads may call now.
pub fn access() -> Access {
    if ENDED.load(Ordering::Acquire) {
        Access::Memory
    } else if EXITING.load(Ordering::Acquire) {
        Access::Signals
    } else {
        Access::Full
    }
}
