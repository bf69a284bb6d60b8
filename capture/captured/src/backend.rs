//! On what a dispatch is replayed.

/// Where dispatches are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// On a GPU of the HSA runtime.
    #[default]
    Rocm,
    /// On the emulated GPU, without a runtime: on any machine. Its times say nothing about hardware.
    Emulated,
}

impl Backend {
    /// What they are called in options.
    pub const WORDS: [(&str, Backend); 2] = [("rocm", Backend::Rocm), ("emu", Backend::Emulated)];
}
