//! The ranges and marks of the process so far.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once};

use crate::open::Ranges;
use crate::receiver::Receiver;

/// Ranges that have not ended, and where the others go.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) ranges: Mutex<Ranges>,
    pub(crate) receiver: Mutex<Receiver>,
}

/// Null in a new process, and in the child of a fork: markers of the parent are not the child's, and a thread that does not exist
/// there may hold the locks.
static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());
static AT_FORK: Once = Once::new();

/// Runs code of ours for a C caller: no panic passes it.
pub(crate) fn guard<T>(fallback: T, body: impl FnOnce(&'static State) -> T) -> T {
    catch_unwind(AssertUnwindSafe(|| body(current()))).unwrap_or(fallback)
}

fn current() -> &'static State {
    // SAFETY: the pointer is null or comes from a leaked box, below.
    if let Some(state) = unsafe { STATE.load(Ordering::Acquire).as_ref() } {
        return state;
    }
    AT_FORK.call_once(|| {
        // SAFETY: the function takes nothing, returns nothing and never unwinds; a preloaded library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(child_of_fork)) };
    });
    let new = Box::into_raw(Box::<State>::default());
    let state = match STATE.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(first) => {
            // SAFETY: the box was made above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
            first
        }
    };
    // SAFETY: the pointer is not null, and its box is never freed.
    unsafe { &*state }
}

unsafe extern "C" fn child_of_fork() {
    STATE.store(std::ptr::null_mut(), Ordering::Release);
}
