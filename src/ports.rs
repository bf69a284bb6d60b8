//! What features ask of each other: a narrow trait for each link. The session puts the features together.

use std::collections::BTreeMap;

use hsa::{Executable, KernelSymbol};
use logdur_intercept::Interceptor;

use crate::code::Objects;

/// Work that has rows and is in no packet. Called by the thread that writes rows.
pub(crate) trait CollectRows: Sync {
    /// Records what is complete; true if some work is not. The runtime is used.
    fn collect(&self, interceptor: &Interceptor) -> bool;
}

/// Kernels that run in place of others. Called by the thread that writes rows.
pub(crate) trait DescribeSwaps: Sync {
    /// Says what was noticed when packets were published.
    fn report(&self, interceptor: &Interceptor);

    /// True when durations of a kernel, by its number, are to be compared.
    fn compares(&self, number: u32) -> bool;

    /// What there is to tell when the process ends: how many of its dispatches were swapped, and why others were not.
    /// `swapped` has numbers of dispatches by the number of the kernel that ran.
    fn end(&self, dispatches: u64, swapped: &BTreeMap<u32, u64>) -> Vec<String>;
}

/// A call site, for the log.
pub(crate) struct Site {
    pub(crate) number: u32,
    /// Return addresses, the innermost first: `MODULE+0xOFFSET`, by the offset in the file; `0xADDRESS` of what is in no file.
    pub(crate) frames: Vec<String>,
}

/// Places that kernels are launched from. Called by the thread that writes rows.
pub(crate) trait DescribeSites: Sync {
    /// Those that were not taken yet, and what is to be said of them.
    fn take(&self) -> (Vec<Site>, Option<String>);
}

/// Variables that a capture needs of a kernel which runs in another one's place.
pub(crate) trait OwnVariables: Sync {
    /// The executable of the kernel that runs in another's place, if it uses variables that the application does not have.
    /// `kernel_object` is the address of the application's kernel.
    fn with_own_variables(&self, kernel_object: u64) -> Option<Executable>;
}

/// What can be turned on and off while the process runs. Called by the session, and by the *control* thread.
pub(crate) trait Switch: Sync {
    /// Turns it on or off; it may be so already.
    fn turn(&self, is_on: bool);
}

/// Learns of code objects that the library itself loads.
pub(crate) trait FollowCode: Sync {
    /// A code object of the kernel cache was loaded for an agent.
    fn loaded_ours(
        &self,
        interceptor: &Interceptor,
        executable: Executable,
        objects: &Objects<'_>,
        bytes: &[u8],
        symbols: &[KernelSymbol],
    );

    /// An executable is about to be unloaded: waits while its memory is being read.
    fn unloaded(&self, executable: Executable);
}

/// Writes rows.
pub(crate) trait WriteRows: Sync {
    /// Writes everything that is left, because the process ends. The runtime converts times.
    fn write_all(&self, interceptor: &Interceptor);
}
