//! Where ranges and marks go.

use logdur_journal::Operation;
use logdur_journal::markers::{Marker, Receive};
use logdur_system::lock;

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
