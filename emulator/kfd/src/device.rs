//! A GPU of this process.

use std::sync::Arc;

use amdgpu_emu::Gpu;

use crate::board::Node;
use crate::memfile::MemFile;
use crate::usage::Account;

/// One emulated GPU as the driver sees it.
pub(crate) struct Device {
    pub(crate) gpu_id: u32,
    pub(crate) node: &'static Node,
    pub(crate) gpu: Arc<Gpu>,
    /// The file behind the render node: all memory that the driver hands out for this GPU.
    pub(crate) memory: MemFile,
    /// How much of it is allocated, for other processes to read.
    pub(crate) account: Account,
}
