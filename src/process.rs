//! Which process this is, its place in a parallel job, and files that are named after it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use logdur_journal::Process;

/// Where launchers of parallel jobs say a process's rank: Open MPI, PMI, PMIx, SLURM, Flux and MVAPICH.
const RANKS: &[&str] =
    &["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "FLUX_TASK_RANK", "MV2_COMM_WORLD_RANK"];

/// The rank; `None` outside of a parallel job.
pub(crate) fn rank() -> Option<u32> {
    RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// This process, as rows name it.
pub(crate) fn this() -> Process {
    Process { pid: std::process::id(), rank: rank() }
}

/// A path with the marks replaced: `%p` by the process id, `%r` by the rank, which is 0 outside of a parallel job, `%h` by the
/// name of the host.
pub(crate) fn with_marks(path: &Path) -> PathBuf {
    let mut text = Vec::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some(at) = rest.iter().position(|&b| b == b'%') {
        let (before, from) = rest.split_at(at);
        text.extend_from_slice(before);
        match from.get(1) {
            Some(b'p') => text.extend_from_slice(std::process::id().to_string().as_bytes()),
            Some(b'r') => text.extend_from_slice(rank().unwrap_or(0).to_string().as_bytes()),
            Some(b'h') => text.extend_from_slice(host().as_bytes()),
            // The other character may begin a mark.
            _ => {
                text.push(b'%');
                rest = from.get(1..).unwrap_or(&[]);
                continue;
            }
        }
        rest = from.get(2..).unwrap_or(&[]);
    }
    text.extend_from_slice(rest);
    PathBuf::from(OsString::from_vec(text))
}

/// The name of the host, as a part of a path; `localhost` when the system does not tell it.
fn host() -> OsString {
    let mut name = [0_u8; 256];
    // SAFETY: the call writes at most so many bytes.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    if failed != 0 || name.is_empty() || name.contains(&b'/') {
        "localhost".into()
    } else {
        OsStr::from_bytes(name).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_replaced_and_other_percent_signs_stay() {
        let (pid, host) = (std::process::id(), host().into_string().unwrap());
        assert_eq!(with_marks(Path::new("a%p/b%p.c%d%")), PathBuf::from(format!("a{pid}/b{pid}.c%d%")));
        assert_eq!(with_marks(Path::new("%r-%h%%p")), PathBuf::from(format!("0-{host}%{pid}")));
        assert!(!host.is_empty());
    }
}
