//! Which process this is, and its place in a parallel job.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use logdur_journal::Process;

/// Where launchers of parallel jobs say a process's rank: Open MPI, PMI, PMIx, SLURM and MVAPICH.
const RANKS: &[&str] = &["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK"];

/// The rank; `None` outside of a parallel job.
pub(crate) fn rank() -> Option<u32> {
    RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// This process, as rows name it.
pub(crate) fn this() -> Process {
    Process { pid: std::process::id(), rank: rank() }
}

/// Replaces every `%p` by the process id.
pub(crate) fn with_pid(path: &Path) -> PathBuf {
    let pid = std::process::id().to_string();
    let mut bytes = Vec::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some(at) = rest.windows(2).position(|w| w == b"%p") {
        bytes.extend_from_slice(&rest[..at]);
        bytes.extend_from_slice(pid.as_bytes());
        rest = &rest[at + 2..];
    }
    bytes.extend_from_slice(rest);
    PathBuf::from(OsString::from_vec(bytes))
}
