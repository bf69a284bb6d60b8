//! Which process this is, and its place in a parallel job.

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
