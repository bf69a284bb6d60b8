//! The record of a capture about the process and its place in a parallel job.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use logdur_capture::{Property, Session as Process};
use logdur_intercept::Interceptor;
use logdur_intercept::host_clock::ClockPair;
use logdur_settings::CaptureTell;

use crate::process::rank;

/// Prefixes of the environment variables that a capture records: settings of runtimes and tools, no secrets.
const TOLD: &[&str] = &["HSA_", "HIP_", "AMD_", "ROCR_", "GPU_", "LOGDUR_", "KFDEMU_", "OMP_", "SLURM_PROCID"];

/// The environment variables that a capture records.
fn environment() -> Vec<Property> {
    let told = |name: &str| TOLD.iter().any(|prefix| name.starts_with(prefix));
    let told = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| told(name))?;
        Some(Property { name, value: value.to_string_lossy().into_owned() })
    });
    told.collect()
}

/// The record of this process.
pub(super) fn describe(interceptor: &Interceptor, tell: CaptureTell) -> Process {
    let (exe, arguments) = match tell {
        CaptureTell::None => Default::default(),
        CaptureTell::Command | CaptureTell::Environment => (
            std::fs::read_link("/proc/self/exe").unwrap_or_default().to_string_lossy().into_owned(),
            std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        ),
    };
    let ClockPair { system_ns, wall_ns } = ClockPair::now(interceptor.api()).unwrap_or_default();
    Process {
        system_ns,
        wall_ns,
        pid: std::process::id(),
        rank: rank(),
        host: host(),
        exe,
        arguments,
        environment: if tell == CaptureTell::Environment { environment() } else { Vec::new() },
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        runtime_version: interceptor.api().build_version(),
        ..Process::default()
    }
}

fn host() -> String {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the kernel fills the structure.
    unsafe { libc::uname(names.as_mut_ptr()) };
    // SAFETY: zeros are a value of it, and so is what the kernel has written.
    let names = unsafe { names.assume_init() };
    // SAFETY: the name ends with a zero inside of its array.
    unsafe { CStr::from_ptr(names.nodename.as_ptr()) }.to_string_lossy().into_owned()
}
