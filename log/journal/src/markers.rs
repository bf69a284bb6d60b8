//! What passes between `liblogdur_markers.so` and `liblogdur.so`, which are built from one source.

use std::ffi::{CStr, c_void};

use crate::names::Operation;

/// A range that has ended, or a mark.
#[derive(Debug)]
#[repr(C)]
pub struct Marker {
    /// [`Operation::Range`] or [`Operation::Mark`].
    pub operation: Operation,
    /// The system's number of the thread that began it.
    pub thread: u32,
    /// UTF-8, `length` bytes.
    pub text: *const u8,
    /// Of `text`.
    pub length: usize,
    /// In nanoseconds of `CLOCK_BOOTTIME`.
    pub start: u64,
    /// The same as `start` for a mark; 0 for a range that was open when the process ended.
    pub end: u64,
}

/// Takes a marker; false if it has to wait. The pointer and its text are valid during the call.
pub type Receive = unsafe extern "C" fn(*const Marker) -> bool;

/// The function that connects a receiver, or with `None` none.
pub type Connect = extern "C" fn(Option<Receive>);
/// Its name.
pub const CONNECT: &CStr = c"logdur_markers_connect";

/// The function that passes on the ranges that are open, and returns how many markers were not taken.
pub type End = extern "C" fn() -> u64;
/// Its name.
pub const END: &CStr = c"logdur_markers_end";

/// What an application passes that a condition may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Passage {
    /// A range begins.
    Begins,
    /// A range ends.
    Ends,
    /// A range ended before the watcher was connected.
    Missed,
    /// `roctxProfilerResume`.
    Resumes,
    /// `roctxProfilerPause`.
    Pauses,
}

/// Takes the name of a range, UTF-8 with so many bytes, which is valid during the call; the pointer is the caller's.
pub type Visit = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// The function that visits the ranges that are open, in the order in which they began: those that the calling thread has pushed, and
/// those that any thread may end.
pub type Open = unsafe extern "C" fn(Visit, *mut c_void);
/// Its name.
pub const OPEN: &CStr = c"logdur_markers_open";

/// Takes a passage, and the name of the range: UTF-8 with so many bytes, valid during the call.
pub type Pass = unsafe extern "C" fn(Passage, *const u8, usize);

/// The function that connects what takes passages, or with `None` nothing. Ranges that are open begin for it.
pub type Watch = extern "C" fn(Option<Pass>);
/// Its name.
pub const WATCH: &CStr = c"logdur_markers_watch";
