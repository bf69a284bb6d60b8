//! What code was compiled for: a target ID, like `gfx90a:sramecc+:xnack-`.

/// A setting of a processor that code depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Setting {
    /// The processor has no such setting, or the text does not say whether it has.
    #[default]
    Unsupported,
    /// The code is right for both.
    Any,
    /// Only where it is off.
    Off,
    /// Only where it is on.
    On,
}

/// What code was compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Like `gfx90a`, or `gfx9-generic` for a family; `unknown:0x7e` by its number when it has no name here.
    pub processor: String,
    /// Replay of memory accesses after a page fault.
    pub xnack: Setting,
    /// Error correction of registers and LDS.
    pub sramecc: Setting,
    /// Of a family's code; 0 for a processor's.
    pub generic_version: u8,
}
