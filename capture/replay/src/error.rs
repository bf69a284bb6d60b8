//! Errors of replays.

use std::fmt;

use hsa::HsaError;
use logdur_capture::{CaptureError, Scope};
use logdur_captured::CapturedError;

/// What a runtime said when it refused.
type Refused = Box<dyn std::error::Error + Send + Sync>;

/// Why a dispatch was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The captured dispatch cannot be read or compared.
    #[error(transparent)]
    Captured(#[from] CapturedError),
    /// What was asked for is not there, or is not allowed for this kernel.
    #[error("{what}: expected {expected}, found {found}")]
    Usage {
        /// Which option.
        what: String,
        /// What it takes.
        expected: String,
        /// What it was.
        found: String,
    },
    /// A file cannot be read or written.
    #[error("{path}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Code that is to be loaded cannot be read.
    #[error("{place}")]
    CodeObject {
        /// Where it came from.
        place: String,
        /// What is wrong with it.
        source: amdgpu_code_object::Unreadable,
    },
    /// A kernel's instructions cannot be read.
    #[error(transparent)]
    Listing(#[from] amdgpu_listing::ListingError),
    /// A file of results cannot be made.
    #[error(transparent)]
    Output(#[from] logdur_system::output::OutputError),
    /// The runtime refused.
    #[error("{request}")]
    Runtime {
        /// What it was asked for.
        request: String,
        /// What it said.
        source: Refused,
    },
    /// The runtime refuses code that the runtime of the capture has loaded.
    #[error(
        "loading code object {id}: runtime {runtime} refuses it, the capture is from runtime {captured}; --rocm DIR chooses another ROCm"
    )]
    OtherRuntime {
        /// The code object.
        id: logdur_capture::Id,
        /// The version of this runtime.
        runtime: String,
        /// The version of the runtime that the application had.
        captured: String,
        /// What it said.
        source: Refused,
    },
    /// There is no device like the captured one.
    #[error("{what}: expected {expected}, found {found}")]
    Environment {
        /// What is not as it was.
        what: &'static str,
        /// What it was.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An address is taken, or the runtime did not give it.
    #[error("{length} bytes at {address:#x}: {why}")]
    Placement {
        /// The address.
        address: u64,
        /// How many bytes.
        length: u64,
        /// What is there instead.
        why: String,
    },
    /// The GPU reported a fault.
    #[error("{0}")]
    Fault(Fault),
    /// The application's own kernel has a fault at memory that the capture leaves out.
    #[error("{fault}: the capture is of scope {scope}, which leaves memory out; --capture-scope all holds more")]
    LeftOut {
        /// The fault.
        fault: Fault,
        /// What the capture has.
        scope: Scope,
    },
    /// A step of a region has failed.
    #[error("step {step}, dispatch {dispatch}, {kernel}: {error}")]
    Step {
        /// The step.
        step: u64,
        /// The dispatch's number in its process.
        dispatch: u64,
        /// Its kernel.
        kernel: String,
        /// What it ended with.
        error: Box<ReplayError>,
    },
    /// What replay does not do.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// A kernel may not take the captured one's place.
    #[error("{kernel} is not replaced: {}", .refusals.join("; "))]
    Refused {
        /// The captured kernel.
        kernel: String,
        /// Every reason.
        refusals: Vec<String>,
    },
    /// No file that was given for all kernels has one of this name.
    #[error("{kernel} is not replaced: {}", .searched.join("; "))]
    Lacking {
        /// The captured kernel.
        kernel: String,
        /// What each file has.
        searched: Vec<String>,
    },
    /// The kernel runs and runs.
    #[error("the kernel did not end within {seconds} s")]
    Timeout {
        /// How long was waited.
        seconds: f64,
    },
    /// The kernel waits for what does not come.
    #[error(
        "the kernel makes no progress: no wave has ended in {seconds} s, and its waves change nothing and find nothing new. It may wait \
         for the host or for another kernel, which a replay does not have. {place}. With --timeout it runs as long as that says"
    )]
    Stuck {
        /// How long no wave has ended.
        seconds: f64,
        /// Where a wave is.
        place: String,
    },
    /// A copy engine does not say that it has copied.
    #[error(
        "a copy to or from the GPU was not complete within {seconds} s: the engine may have lost its completion, as those of \
         gfx942 do with some drivers; HSA_ENABLE_SDMA=0 has kernels copy"
    )]
    Copy {
        /// How long was waited.
        seconds: f64,
    },
}

impl From<CaptureError> for ReplayError {
    fn from(error: CaptureError) -> ReplayError {
        CapturedError::from(error).into()
    }
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, ReplayError>;

/// Names the request that the runtime refuses.
pub(crate) trait Requested<T> {
    /// The error with what was requested.
    fn requested(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Requested<T> for std::result::Result<T, HsaError> {
    fn requested(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| ReplayError::Runtime { request: what(), source: source.into() })
    }
}

/// A fault of the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What the runtime said.
    pub what: String,
    /// The address, if it is one of memory.
    pub address: Option<u64>,
    /// The captured buffer that is nearest to it: its name, and how far from it the address is.
    pub nearest: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU fault: {}", self.what)?;
        if let Some(address) = self.address {
            write!(f, " at {address:#x}")?;
        }
        match &self.nearest {
            Some(nearest) => write!(f, ", {nearest}"),
            None => Ok(()),
        }
    }
}
