//! The sizes of processors that the models need.

use amdgpu_isa::Arch;
pub use amdgpu_processor::Processor;

/// The row of a processor, by its name or a target ID; of one that is not known, that of the newest.
pub fn row_of(name: &str) -> &'static Processor {
    let arch = name.split(':').next().unwrap_or_default().parse::<Arch>();
    arch.unwrap_or(Arch::ALL[Arch::COUNT - 1]).row()
}
