//! The calling thread: the system's number of it, and whether it preempts others when it wakes.

use std::cell::Cell;
use std::io;

use logdur_system::signals::Blocked;

use crate::guard::guard;
use crate::stack;

thread_local! {
    /// 0 before it is known. In the child of a fork it is the parent's: a child has no records.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// The number of the calling thread, as `gettid` has it: one system call for each thread.
#[inline]
pub fn number() -> u32 {
    match NUMBER.get() {
        0 => ask(),
        number => number,
    }
}

#[cold]
fn ask() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    let number = unsafe { libc::gettid() }.unsigned_abs();
    NUMBER.set(number);
    number
}

/// Starts a thread of the library, which gets no signal of the process, with so much stack beside what the C library takes of it.
///
/// # Errors
/// When the system has no thread left.
pub fn spawn(name: &str, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _blocked = Blocked::all();
    let guarded = move || guard((), body);
    let stack = stack + stack::taken_by_the_c_library();
    std::thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(guarded).map(drop)
}

/// Gives the calling thread the policy `SCHED_BATCH`, whatever policy its creator had: a thread that wakes then preempts none. A thread
/// of `SCHED_IDLE` could not leave that policy without privilege, and would hold locks as long as others fill the processors.
/// Source: sched(7).
pub fn wake_without_preempting() {
    set_policy(libc::SCHED_BATCH);
}

/// How exactly the kernel keeps to short sleeps of a thread that asks for it; it is 50 µs late otherwise. In nanoseconds.
const TIMER_SLACK: libc::c_ulong = 1000;

/// The calling thread sleeps in short naps from now on, and is to be awake when they are over.
pub fn sleep_exactly() {
    // SAFETY: the call takes two numbers and concerns this thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK) };
}

/// Whether the calling thread preempts others when it wakes. It leaves a thread alone whose creator had a policy of its own.
#[derive(Debug)]
pub(crate) struct Preempts(Option<bool>);

impl Preempts {
    pub(crate) fn of_this_thread() -> Preempts {
        // SAFETY: the call takes a number and concerns this thread alone.
        let is_ordinary = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
        Preempts(is_ordinary.then_some(true))
    }

    /// Makes it so: a system call for each change.
    pub(crate) fn set(&mut self, preempts: bool) {
        if let Some(now) = &mut self.0
            && *now != preempts
        {
            set_policy(if preempts { libc::SCHED_OTHER } else { libc::SCHED_BATCH });
            *now = preempts;
        }
    }
}

fn set_policy(policy: i32) {
    let lowest = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is read during the call, which concerns this thread alone. If it is refused, nothing has changed.
    unsafe { libc::sched_setscheduler(0, policy, &lowest) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_the_ordinary_policy_preempts_as_it_is_told_and_another_one_keeps_its_policy() {
        // SAFETY: the call takes a number and concerns the calling thread alone.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let policies = std::thread::spawn(move || {
            let mut preempts = Preempts::of_this_thread();
            let ordinary = [false, false, true, false].map(|set| {
                preempts.set(set);
                policy()
            });
            let mut of_batch = Preempts::of_this_thread();
            of_batch.set(true);
            (ordinary, policy())
        });
        let (ordinary, of_batch) = policies.join().expect("the thread ends in order");
        let (batch, other) = (libc::SCHED_BATCH, libc::SCHED_OTHER);
        assert_eq!((ordinary, of_batch), ([batch, batch, other, batch], batch));
    }

    #[test]
    fn each_thread_has_the_number_that_the_system_lists_it_by() {
        let is_listed = |number: u32| std::path::Path::new(&format!("/proc/self/task/{number}")).exists();
        let of_another = std::thread::spawn(move || {
            let own = number();
            assert!(is_listed(own) && number() == own);
            own
        });
        let of_another = of_another.join().expect("the thread ends in order");
        assert!(is_listed(number()) && number() != of_another);
    }
}
