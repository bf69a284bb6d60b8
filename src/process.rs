//! Which process this is, its place in a parallel job, and files that are named after it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use logdur_journal::Process;
use logdur_system::marks;

/// Where launchers of parallel jobs say a process's rank: Open MPI, PMI, PMIx, SLURM, Flux and MVAPICH.
const RANKS: &[&str] =
    &["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "FLUX_TASK_RANK", "MV2_COMM_WORLD_RANK"];

/// Variables that choose the visible GPUs, and their order: of the runtime, and of HIP and OpenCL above it.
const VISIBLE: &[&str] = &["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// The process whose dispatches are watched; 0 before that is known.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// This process is watched from now on.
pub(crate) fn watch() {
    WATCHED.store(std::process::id(), Ordering::Relaxed);
}

/// Something of the process that is watched, unless this is a child that was made without the C library's knowledge: the records are
/// not there.
pub(crate) fn of_watched<T>(of_process: Option<T>) -> Option<T> {
    of_process.filter(|_| WATCHED.load(Ordering::Relaxed) == std::process::id())
}

/// The variables that choose the visible GPUs, as `NAME=VALUE` with blanks in between; those that are not set are left out.
pub(crate) fn visible_agents() -> String {
    let set =
        |name: &&str| Some(format!("{name}={}", std::env::var_os(name)?.to_string_lossy().replace(['\n', ' '], "")));
    VISIBLE.iter().filter_map(set).collect::<Vec<_>>().join(" ")
}

/// The rank; `None` outside of a parallel job.
pub(crate) fn rank() -> Option<u32> {
    RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// This process, as rows name it.
pub(crate) fn this() -> Process {
    Process { pid: std::process::id(), rank: rank() }
}

/// A path with the marks replaced.
pub(crate) fn with_marks(path: &Path) -> PathBuf {
    marks::replaced(path, rank().unwrap_or(0))
}
