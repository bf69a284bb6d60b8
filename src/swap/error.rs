//! Why a kernel keeps its own code although the cache has a replacement.

use std::sync::Arc;

use amdgpu_code_object::Unreadable;
use hsa::HsaError;
use logdur_kernel_cache::Unavailable;

use crate::code::UnknownCode;
use crate::instrument::NoBuffers;

/// Why no replacement runs. It is kept beside the code that was tried, and printed for each kernel of it.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NotReplaced {
    /// No hook saw how the kernel's code object was loaded.
    #[error("its code object was loaded in a way that is not seen")]
    Unseen,
    /// What the kernel's code object contains is not known.
    #[error(transparent)]
    UnknownCode(#[from] UnknownCode),
    /// The kernel's code object does not describe it.
    #[error("its code object says nothing about it")]
    Undescribed,
    /// The file of the cache cannot be used.
    #[error(transparent)]
    Unavailable(Arc<Unavailable>),
    /// The replacement cannot use the application's variables.
    #[error("its variables cannot be bound: {0}")]
    Unbound(Arc<Unreadable>),
    /// The runtime refuses the code, or memory for arguments.
    #[error(transparent)]
    Runtime(#[from] HsaError),
    /// An instrumented clone has no memory for its messages.
    #[error(transparent)]
    NoBuffers(#[from] NoBuffers),
    /// No thread could receive messages.
    #[error("the thread that receives messages could not be started")]
    NoThread,
    /// The loaded code has no such kernel.
    #[error("the runtime does not find the kernel in it")]
    KernelMissing,
}
