//! The kernel descriptor in a code object.

use hsa_sys::abi::kernel_descriptor::KernelDescriptor;

/// A kernel's descriptor, or in version 2 what is before its code, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its address before the code object is loaded.
    pub address: u64,
    /// The address of the first instruction before the code object is loaded.
    pub entry: u64,
    /// Its fields. From version 2's larger structure those that both have.
    pub fields: KernelDescriptor,
}

impl Descriptor {
    /// True for waves of 32 lanes.
    pub fn is_wave32(&self) -> bool {
        self.fields.properties & hsa_sys::abi::kernel_descriptor::properties::WAVEFRONT_SIZE32 != 0
    }

    /// True when scratch is needed whose size is not known at compile time.
    pub fn uses_dynamic_stack(&self) -> bool {
        self.fields.properties & hsa_sys::abi::kernel_descriptor::properties::USES_DYNAMIC_STACK != 0
    }

    /// How many dwords of the kernarg segment are preloaded into registers, and from which dword on.
    pub fn kernarg_preload(&self) -> (u32, u32) {
        let word = u32::from(self.fields.kernarg_preload);
        (word & 0x7f, word >> 7)
    }
}
