//! Stacks: how much of a thread's the C library takes, and one of our own for what threads of the application have no room for.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::guard::guard;

/// Bytes of a stack of our own. Pages that are not touched cost nothing.
const BYTES: usize = 1 << 20;
/// Bytes at its end that cannot be touched: an overflow is no silent damage.
const GUARD: usize = 64 << 10;

/// Bytes that glibc takes out of each thread's stack: the application's static thread-local storage, and what it needs itself.
pub(crate) fn taken_by_the_c_library() -> usize {
    type Least = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
    // SAFETY: glibc's function of this name has this type, and null is `None`.
    let least = unsafe { std::mem::transmute::<*mut c_void, Option<Least>>(found) };
    // SAFETY: the attributes are not looked at. Source: glibc's `nptl/nptl-stack.c`.
    least.map_or(0, |least| unsafe { least(std::ptr::null()) })
}

/// As [`guard`], on a stack of our own: fibers, coroutines and threads of other languages may have 16 KiB. For what happens seldom: two
/// threads that do it at once make another stack. On the stack of the caller if there is no memory for one.
pub fn guard_large<T, F: FnOnce() -> T>(fallback: T, body: F) -> T {
    let mut task = Task { body: Some(body), value: fallback };
    let data = (&raw mut task).cast();
    match Stack::new() {
        Some(stack) => stack.run(run::<T, F>, data),
        // SAFETY: the data is the task of this type.
        None => unsafe { run::<T, F>(data) },
    }
    task.value
}

/// What runs on another stack, and its result.
struct Task<T, F> {
    body: Option<F>,
    value: T,
}

/// Runs a task.
///
/// # Safety
/// `task` is a `Task<T, F>` that nothing else uses.
unsafe extern "C" fn run<T, F: FnOnce() -> T>(task: *mut c_void) {
    // SAFETY: the caller's promise.
    let task = unsafe { &mut *task.cast::<Task<T, F>>() };
    if let Some(value) = task.body.take().and_then(|body| guard(None, || Some(body()))) {
        task.value = value;
    }
}

/// A stack that no thread uses, for the next call: to make and to remove one makes the kernel interrupt the process's other processors.
static SPARE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Memory for a stack.
struct Stack(*mut c_void);

impl Stack {
    fn new() -> Option<Stack> {
        let spare = SPARE.swap(null_mut(), Ordering::Acquire);
        if !spare.is_null() {
            return Some(Stack(spare));
        }
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let flags = flags | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: new memory at a free place.
        let start = unsafe { libc::mmap(null_mut(), BYTES, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the first bytes of the mapping above, which nothing uses yet.
        if unsafe { libc::mprotect(start, GUARD, libc::PROT_NONE) } != 0 {
            // SAFETY: the mapping above.
            unsafe { remove(start) };
            return None;
        }
        Some(Stack(start))
    }

    /// Calls a function on the stack.
    fn run(&self, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
        let end = self.0.wrapping_byte_add(BYTES);
        // SAFETY: the end of unused, writable memory, and a function that takes this data and does not unwind.
        unsafe { call_on(end, function, data) };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if SPARE.compare_exchange(null_mut(), self.0, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: this one owned it, and it is not kept.
            unsafe { remove(self.0) };
        }
    }
}

/// Gives the memory of a stack back.
///
/// # Safety
/// `start` is a mapping that [`Stack::new`] has made, and no code uses it any more.
unsafe fn remove(start: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(start, BYTES) };
}

/// Calls `function` with `data` on the stack that ends at `end`, a multiple of 16. Debuggers find the caller's frames by the frame pointer.
///
/// # Safety
/// The memory before `end` is the function's while it runs, and enough for it. It does not unwind.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn call_on(end: *mut c_void, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// The same on the stack of the caller.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" fn call_on(_: *mut c_void, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { function(data) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_a_stack_of_our_own_gives_its_result_and_a_panic_stays_inside() {
        let here = 0u8;
        let place = |local: &u8| std::ptr::from_ref(local).addr();
        let far = guard_large(0, || {
            let large = std::hint::black_box([1u8; 100 << 10]);
            place(&large[0]).abs_diff(place(&here)) + usize::from(large[7]) - 1
        });
        assert!(far > BYTES / 2, "it ran {far} bytes from its caller");
        assert_eq!(guard_large("fallback", || panic!("as ordered")), "fallback");
        assert_eq!(guard_large(String::new(), || guard_large(String::new(), || "deep".to_owned())), "deep");
        // Threads that need one at once have one each, again and again.
        let meet = std::sync::Barrier::new(4);
        let on_own = |n: usize| {
            guard_large(0, || {
                let mine = std::hint::black_box([n; 1 << 10]);
                meet.wait();
                mine.iter().sum::<usize>()
            })
        };
        std::thread::scope(|scope| {
            for n in 0..4 {
                scope.spawn(move || (0..100).for_each(|_| assert_eq!(on_own(n), n << 10)));
            }
        });
    }
}
