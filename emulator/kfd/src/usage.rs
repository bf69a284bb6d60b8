//! How much memory of each GPU is allocated, by this process and by others that have the same GPUs.
//!
//! Every process keeps its sums in the first page of the file that is the GPU's memory; a reader looks at the files
//! of all processes that it may look at, as tools for the whole machine do.
//!
//! # Threads
//! Any; a sum is stored by the one that holds the lock of the buffers' table.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memfile::{self, Mapping, identity};

/// The name of the files that are memory of a GPU; only they begin with [`Sums`].
const MEMORY: &CStr = memfile::MEMORY;

/// Bytes that are allocated, at the beginning of the memory's file.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Sums {
    /// [`machine`] of the process.
    machine: AtomicU64,
    /// The GPU's number for the driver.
    gpu_id: AtomicU64,
    video: AtomicU64,
    system: AtomicU64,
}

/// This process's sums of one GPU.
pub(crate) struct Account(Arc<Mapping>);

impl Account {
    /// The sums in a mapping of the first page of a GPU's memory.
    pub(crate) fn new(page: Arc<Mapping>, machine: u64, gpu_id: u32) -> Account {
        let account = Account(page);
        account.sums().gpu_id.store(gpu_id.into(), Ordering::Relaxed);
        account.sums().machine.store(machine, Ordering::Release);
        account
    }

    fn sums(&self) -> &Sums {
        // SAFETY: a page that is mapped as long as its Arc, of which everything is accessed through atomics.
        unsafe { &*self.0.base().cast() }
    }

    /// Publishes how much is allocated now.
    pub(crate) fn set(&self, video: u64, system: u64) {
        self.sums().video.store(video, Ordering::Relaxed);
        self.sums().system.store(system, Ordering::Relaxed);
    }
}

/// What a machine is told by: the name of its device tree, which is made of all that the runtime reads.
pub(crate) fn machine(tree: &std::path::Path) -> u64 {
    let name = tree.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    u64::from_str_radix(name, 16).unwrap_or(0)
}

/// The sums of all processes for a GPU of a machine, as far as they may be looked at.
pub(crate) fn everywhere(machine: u64, gpu_id: u32) -> (u64, u64) {
    let (mut video, mut system) = (0, 0);
    let mut seen = HashSet::new();
    let entries = |path: &str| fs::read_dir(path).into_iter().flatten().flatten();
    let processes = entries("/proc").filter_map(|p| p.file_name().to_str()?.parse::<u32>().ok());
    for process in processes {
        for descriptor in entries(&format!("/proc/{process}/fd")) {
            let Some(path) = descriptor.path().to_str().map(str::to_owned) else { continue };
            let Ok(file) = memfile::open_named(&path, MEMORY, libc::O_RDONLY) else { continue };
            if !identity(file.as_raw_fd()).is_some_and(|file| seen.insert(file)) {
                continue;
            }
            let mut words = [0u64; 4];
            // SAFETY: a valid descriptor, and room for as many bytes as are asked for.
            let got = unsafe { libc::pread(file.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words), 0) };
            if got == size_of_val(&words) as isize && words[0] == machine && words[1] == u64::from(gpu_id) {
                video += words[2];
                system += words[3];
            }
        }
    }
    (video, system)
}
