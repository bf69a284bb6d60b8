//! Where a thread of the application is: the return addresses of its stack.
//!
//! The unwinder is that of `libgcc_s`, which the library is linked to for its own panics: it follows the tables that compilers make for
//! exceptions, so that code without frame pointers is unwound, too. It waits for no lock of the application: the dynamic linker's list of
//! libraries, which older versions walk, is locked only while a library is added or removed, not while constructors run.
//! Source: glibc's `elf/dl-iteratephdr.c` and `elf/dl-load.c`; Itanium C++ ABI, "Exception Handling", 1.6.

use std::ffi::{c_int, c_void};
use std::hash::{BuildHasher, Hasher, RandomState};

/// Frames that are kept of a stack, the innermost ones.
pub const MOST_FRAMES: usize = 64;

/// `_URC_NO_REASON`: the unwinder goes on.
const GO_ON: c_int = 0;
/// `_URC_END_OF_STACK`: it stops.
const STOP: c_int = 5;

type Callback = extern "C" fn(context: *mut c_void, data: *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(callback: Callback, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Return addresses, the innermost first.
#[derive(Clone, Debug)]
pub struct Stack {
    addresses: [usize; MOST_FRAMES],
    depth: usize,
}

impl Stack {
    /// That of the calling thread. Code without tables, as some compilers at run time make it, ends the stack.
    #[inline(never)]
    pub fn here() -> Stack {
        let mut stack = Stack { addresses: [0; MOST_FRAMES], depth: 0 };
        // SAFETY: the callback does not unwind, and the data is the stack that it expects, which lives during the call.
        unsafe { _Unwind_Backtrace(add, (&raw mut stack).cast()) };
        stack
    }

    /// Its return addresses.
    pub fn addresses(&self) -> &[usize] {
        self.addresses.get(..self.depth).unwrap_or_default()
    }

    /// A number that differs for another stack, with all but certainty, in this process.
    pub fn hash(&self, with: &RandomState) -> u64 {
        let mut hasher = with.build_hasher();
        self.addresses().iter().for_each(|address| hasher.write_usize(*address));
        hasher.finish()
    }
}

extern "C" fn add(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: the stack of `here`, which nothing else uses meanwhile.
    let stack = unsafe { &mut *data.cast::<Stack>() };
    // SAFETY: the context is the unwinder's, during its call.
    let address = unsafe { _Unwind_GetIP(context) };
    match stack.addresses.get_mut(stack.depth) {
        Some(to) if address != 0 => {
            *to = address;
            stack.depth += 1;
            GO_ON
        }
        _ => STOP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deep(levels: usize) -> Stack {
        let stack = if levels == 0 { Stack::here() } else { deep(levels - 1) };
        std::hint::black_box(stack)
    }

    #[test]
    fn a_stack_has_its_innermost_frames_and_each_call_site_is_another_one() {
        let hash = RandomState::new();
        let (here, deeper, again) = (deep(0), deep(3), [0; 2].map(|_| deep(5)));
        assert!(here.addresses().len() > 3, "{here:x?}");
        let extra = deeper.addresses().len().abs_diff(here.addresses().len());
        assert!(extra == 3 || deeper.addresses().len() == MOST_FRAMES, "{extra}");
        assert_ne!(here.hash(&hash), deeper.hash(&hash));
        assert_eq!(again[0].hash(&hash), again[1].hash(&hash), "the same call twice");
        assert_eq!(deep(500).addresses().len(), MOST_FRAMES);
    }

    #[test]
    fn a_thread_with_a_small_stack_has_room_for_it() {
        let small = std::thread::Builder::new().stack_size(16 << 10).spawn(|| Stack::here().addresses().len());
        assert!(small.expect("a thread").join().expect("it ends in order") > 1);
    }
}
