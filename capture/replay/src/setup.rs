//! What a dispatch is replayed on.

use std::sync::Arc;
use std::time::Duration;

use amdgpu_emu::observer::Observe;
use logdur_captured::Backend;
use logdur_captured::verify::Rule;

/// What a dispatch is replayed on, and how it is looked at.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The kind of device.
    pub backend: Backend,
    /// The clock of [`Backend::Emulated`] counts instructions, ten nanoseconds for a wave's: the same in every run, also of what
    /// kernels make of the time.
    pub counted: bool,
    /// Sees what [`Backend::Emulated`] executes.
    pub observe: Option<Arc<dyn Observe>>,
    /// The processor of [`Backend::Emulated`], if it is another than the captured one. Kernels whose code is not for it need other code.
    pub processor: Option<String>,
    /// The position of the GPU; `None` for the first that is like the captured one.
    pub device: Option<usize>,
    /// Memory whose addresses cannot be had may be elsewhere: what looks like an address of it is rewritten then, which is said.
    pub relocate: bool,
    /// Code must be at its address, too. Without that, code whose address cannot be had is loaded elsewhere, which is said.
    pub exact: bool,
    /// Steps of a region run beside each other, on as many queues as the application had, as far as what they depended on allows.
    pub concurrent: bool,
    /// How long a launch may take; `None` is as [`CapturedDispatch::limit`](logdur_captured::CapturedDispatch::limit) says.
    pub limit: Option<Duration>,
    /// What buffers are made of, and what is near enough.
    pub rules: Vec<Rule>,
    /// The share of what is written that may be masked before nothing can be said; `None` is [`MASK_LIMIT`], of a region
    /// [`REGION_MASK_LIMIT`].
    pub mask_limit: Option<f64>,
}

/// The share of what a kernel writes that may be masked, where nothing else is asked for.
pub const MASK_LIMIT: f64 = 0.01;

/// The same for what a part of a region writes: what one of its kernels leaves open, others compute with.
pub const REGION_MASK_LIMIT: f64 = 0.1;
