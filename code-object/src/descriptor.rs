//! The kernel descriptor in a code object.

use hsa_sys::abi::kernel_descriptor::{self, KernelDescriptor, properties};

use crate::elf::Image;

/// A kernel's descriptor, or in version 2 the header that is before its code, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its address before the code object is loaded.
    pub address: u64,
    /// The address of the first instruction before the code object is loaded.
    pub entry: u64,
    /// Its fields; of version 2's larger header those that both have.
    pub fields: KernelDescriptor,
}

impl Descriptor {
    /// The descriptor at an address, if the file has it whole.
    pub(crate) fn read(image: &Image<'_>, address: u64) -> Option<Descriptor> {
        let bytes = image.at_address(address, kernel_descriptor::SIZE as u64)?;
        Some(Descriptor::of(address, KernelDescriptor::parse(bytes.try_into().ok()?)))
    }

    /// Version 2's header at an address, if the file has it whole.
    pub(crate) fn read_code_header(image: &Image<'_>, address: u64) -> Option<Descriptor> {
        Some(Descriptor::of(address, code_header(image.at_address(address, CODE_HEADER)?)?))
    }

    fn of(address: u64, fields: KernelDescriptor) -> Descriptor {
        Descriptor { address, entry: address.wrapping_add_signed(fields.entry_offset), fields }
    }

    /// True for waves of 32 lanes.
    pub fn is_wave32(&self) -> bool {
        self.fields.properties & properties::WAVEFRONT_SIZE32 != 0
    }

    /// True when scratch is needed whose size is not known at compile time.
    pub fn uses_dynamic_stack(&self) -> bool {
        self.fields.properties & properties::USES_DYNAMIC_STACK != 0
    }

    /// True when a wave begins with the address of the kernarg segment in registers.
    pub fn takes_kernarg(&self) -> bool {
        self.fields.properties & properties::KERNARG_SEGMENT_PTR != 0
    }

    /// How many dwords of the kernarg segment are preloaded into registers, and from which dword on.
    pub fn kernarg_preload(&self) -> (u32, u32) {
        let word = u32::from(self.fields.kernarg_preload);
        (word & 0x7f, word >> 7)
    }
}

/// Bytes of `amd_kernel_code_t`.
const CODE_HEADER: u64 = 256;

/// The fields of `amd_kernel_code_t` that a descriptor has too. Source: ROCr's `amd_hsa_kernel_code.h`.
fn code_header(bytes: &[u8]) -> Option<KernelDescriptor> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    // Bits 0 to 6 say which registers are set up, as in a descriptor. Bit 20: the call stack is dynamic.
    let flags = word(56)?;
    let dynamic = if flags >> 20 & 1 == 1 { properties::USES_DYNAMIC_STACK } else { 0 };
    Some(KernelDescriptor {
        group_segment_fixed_size: word(64)?,
        private_segment_fixed_size: word(60)?,
        kernarg_size: long(72)?.try_into().unwrap_or(u32::MAX),
        entry_offset: long(16)? as i64,
        rsrc3: 0,
        rsrc1: word(48)?,
        rsrc2: word(52)?,
        properties: (flags & 0x47f) as u16 | dynamic,
        kernarg_preload: 0,
    })
}
