//! The system's number of the calling thread.

use std::cell::Cell;

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

#[cfg(test)]
mod tests {
    use super::*;

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
