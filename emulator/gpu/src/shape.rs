//! What a GPU is made of.

use amdgpu_isa::Arch;

/// What a GPU is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The processor.
    pub arch: Arch,
    /// Its static memories have error correction on, the feature `sramecc+` of its target ID.
    pub sramecc: bool,
    /// Compute units.
    pub compute_units: u32,
}
