//! Replays run in processes of their own: a new layout of addresses for each, and a fault ends only one.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Variables of the runtime with which addresses are free to choose: every allocation its own, no pages between, and at any
/// page. And of glibc's allocator: all threads have the heap of the first one. Heaps of their own would need gaps of addresses,
/// which a replay fills, and without a heap glibc ends the process.
const VARIABLES: [(&str, &str); 4] = [
    ("HSA_DISABLE_FRAGMENT_ALLOCATOR", "1"),
    ("HSA_SVM_GUARD_PAGES", "0"),
    ("HSA_MAX_VA_ALIGN", "0"),
    ("MALLOC_ARENA_MAX", "1"),
];

/// A command for this program or, with the dynamic loader of another C library and the folders of its libraries, for this
/// program by that. The first attempt has a layout of addresses that is always the same, and much free; later ones have
/// one that the kernel draws.
pub fn worker(program: &Path, loader: Option<(&Path, &OsStr)>, attempt: u32) -> Command {
    let mut command = match loader {
        Some((loader, libraries)) => {
            let mut command = Command::new(loader);
            command.arg("--library-path").arg(libraries).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.envs(VARIABLES);
    if attempt == 0 {
        let fixed = || {
            // SAFETY: the call changes flags of the process and no memory. Where it is not allowed, as in some containers,
            // the layout is drawn like the later ones.
            unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
            Ok(())
        };
        // SAFETY: the closure allocates nothing and only makes a system call.
        unsafe { command.pre_exec(fixed) };
    }
    command
}

/// How many bytes of addresses this process and those that it starts may have (`ulimit -v`); `None` without a limit.
pub fn address_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written during the call, to a struct of ours.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } == 0;
    Some(limit.rlim_cur).filter(|limit| known && *limit != libc::RLIM_INFINITY)
}

/// Ends the process without the runtime's own end, which may wait for a kernel that does not come to its.
pub fn leave(status: u8) -> ! {
    // SAFETY: nothing of this process runs afterwards.
    unsafe { libc::_exit(status.into()) }
}
