//! Where ranges and marks go.

use std::ffi::c_void;

use logdur_journal::Operation;
use logdur_journal::markers::{Marker, Pass, Passage, Receive, Visit};
use logdur_system::lock;

use crate::open::{passes, thread};
use crate::state::{State, guard};

/// Markers that wait at most. A program that marks more before it uses a GPU loses the rest, which are counted.
const MOST_WAITING: usize = 1 << 16;

/// A range that has ended, or a mark.
pub(crate) struct Ended {
    pub(crate) operation: Operation,
    pub(crate) thread: u32,
    pub(crate) text: Box<str>,
    /// Start and end; 0 for an end that never came.
    pub(crate) times: (u64, u64),
}

/// `liblogdur.so`, or what waits for it.
#[derive(Default)]
pub(crate) struct Receiver {
    receive: Option<Receive>,
    waiting: Vec<Ended>,
    lost: u64,
}

/// Passes a marker on, or lets it wait.
pub(crate) fn pass(state: &State, ended: Ended) {
    let receive = lock(&state.receiver).receive;
    if receive.is_some_and(|receive| give(receive, &ended)) {
        return;
    }
    let mut receiver = lock(&state.receiver);
    if receiver.waiting.len() < MOST_WAITING {
        receiver.waiting.push(ended);
    } else {
        receiver.lost += 1;
    }
}

/// False if it was not taken.
fn give(receive: Receive, ended: &Ended) -> bool {
    let marker = Marker {
        operation: ended.operation,
        thread: ended.thread,
        text: ended.text.as_ptr(),
        length: ended.text.len(),
        start: ended.times.0,
        end: ended.times.1,
    };
    // SAFETY: the text lives during the call, and `liblogdur.so` is never unloaded.
    unsafe { receive(&marker) }
}

/// Connects `liblogdur.so`, and gives it what waits; without a function, markers wait from now on.
#[unsafe(no_mangle)]
pub extern "C" fn logdur_markers_connect(receive: Option<Receive>) {
    guard((), |state| {
        let waiting = {
            let mut receiver = lock(&state.receiver);
            receiver.receive = receive;
            if receive.is_some() { std::mem::take(&mut receiver.waiting) } else { Vec::new() }
        };
        waiting.into_iter().for_each(|ended| pass(state, ended));
    });
}

/// Connects what watches ranges. A first watcher is told of ranges that have ended, as missed, and of open ones, as if they began now.
/// When a runtime is started again, its watcher knows them.
#[unsafe(no_mangle)]
pub extern "C" fn logdur_markers_watch(watch: Option<Pass>) {
    guard((), |state| {
        // None begins or ends meanwhile.
        let mut ranges = lock(&state.ranges);
        if ranges.watch(watch) {
            return;
        }
        let receiver = lock(&state.receiver);
        let missed = receiver.waiting.iter().filter(|ended| ended.operation == Operation::Range);
        missed.for_each(|ended| passes(watch, Passage::Missed, &ended.text));
        ranges.names().for_each(|name| passes(watch, Passage::Begins, name));
    });
}

/// Visits the ranges that are open in the calling thread, and those that any thread may end, in the order in which they began.
///
/// # Safety
/// The function may be called with the pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logdur_markers_open(visit: Visit, to: *mut c_void) {
    guard((), |state| {
        // No lock is held while another library is called.
        let open = lock(&state.ranges).open_in(thread());
        for name in open {
            // SAFETY: the caller's promise; the name lives during the call.
            unsafe { visit(to, name.as_ptr(), name.len()) };
        }
    });
}

/// The process ends: ranges that are open are passed on without an end. Returns how many markers were not taken.
#[unsafe(no_mangle)]
pub extern "C" fn logdur_markers_end() -> u64 {
    guard(0, |state| {
        let open = lock(&state.ranges).take_all();
        open.into_iter().for_each(|ended| pass(state, ended));
        let receiver = lock(&state.receiver);
        receiver.lost + receiver.waiting.len() as u64
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::roctx::{roctxRangePop, roctxRangePushA};

    static TOLD: Mutex<Vec<(Passage, String)>> = Mutex::new(Vec::new());

    unsafe extern "C" fn told(passage: Passage, name: *const u8, length: usize) {
        // SAFETY: the library passes a name with that many bytes.
        let name = unsafe { std::slice::from_raw_parts(name, length) };
        lock(&TOLD).push((passage, String::from_utf8_lossy(name).into_owned()));
    }

    unsafe extern "C" fn visited(to: *mut c_void, name: *const u8, length: usize) {
        // SAFETY: the function below passes its list, which nothing else uses during the call.
        let all = unsafe { &mut *to.cast::<Vec<String>>() };
        // SAFETY: the library passes a name with that many bytes.
        let name = unsafe { std::slice::from_raw_parts(name, length) };
        all.push(String::from_utf8_lossy(name).into_owned());
    }

    fn open() -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        // SAFETY: the function takes such a list.
        unsafe { logdur_markers_open(visited, (&raw mut all).cast()) };
        all
    }

    #[test]
    fn ranges_of_the_calling_thread_are_open_for_it_alone() {
        // SAFETY: the texts end with a zero.
        let push = |name: &'static std::ffi::CStr| unsafe { roctxRangePushA(name.as_ptr()) };
        std::thread::spawn(move || {
            push(c"a step");
            push(c"a layer");
            let is_ours =
                |names: &[String]| names.iter().filter(|name| name.starts_with("a ")).cloned().collect::<Vec<_>>();
            assert_eq!(is_ours(&open()), ["a step", "a layer"]);
            assert_eq!(is_ours(&std::thread::spawn(open).join().unwrap()), [""; 0]);
            roctxRangePop();
            assert_eq!(is_ours(&open()), ["a step"]);
            roctxRangePop();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_watcher_that_is_connected_again_is_not_told_twice_of_a_range() {
        // SAFETY: the text ends with a zero.
        let push = |name: &'static std::ffi::CStr| unsafe { roctxRangePushA(name.as_ptr()) };
        push(c"early");
        roctxRangePop();
        push(c"open");
        logdur_markers_watch(Some(told));
        logdur_markers_watch(Some(told));
        roctxRangePop();
        let expected = [(Passage::Missed, "early"), (Passage::Begins, "open"), (Passage::Ends, "open")];
        // It is told of ranges of all threads, also of those of the other test.
        let is_ours = |(_, name): &&(Passage, String)| ["early", "open"].contains(&&**name);
        let told: Vec<(Passage, String)> = lock(&TOLD).iter().filter(is_ours).cloned().collect();
        assert_eq!(told, expected.map(|(passage, name)| (passage, name.to_owned())));
    }
}
