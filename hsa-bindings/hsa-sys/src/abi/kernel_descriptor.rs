//! The 64-byte kernel descriptor that `kernel_object` points to. Source: LLVM's AMDGPUUsage, "Kernel Descriptor".
//!
//! The fields that the packet processor reads are at the same offsets in the older `amd_kernel_code_t`.

/// Bytes of a descriptor.
pub const SIZE: usize = 64;

/// A copy of a kernel descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDescriptor {
    /// Bytes of LDS that the code was compiled for.
    pub group_segment_fixed_size: u32,
    /// Bytes of scratch for each work-item.
    pub private_segment_fixed_size: u32,
    /// Bytes of kernel arguments.
    pub kernarg_size: u32,
    /// From the descriptor to the first instruction.
    pub entry_offset: i64,
    /// COMPUTE_PGM_RSRC3.
    pub rsrc3: u32,
    /// COMPUTE_PGM_RSRC1.
    pub rsrc1: u32,
    /// COMPUTE_PGM_RSRC2.
    pub rsrc2: u32,
    /// Which scalar registers are set up; bits of [`properties`].
    pub properties: u16,
    /// Kernel argument preload: length in bits 6:0, offset in bits 15:7, both in dwords (gfx90a and later).
    pub kernarg_preload: u16,
}

/// Bits of [`KernelDescriptor::properties`], in the order in which the registers are set up.
pub mod properties {
    /// Four registers: descriptor of the scratch buffer.
    pub const PRIVATE_SEGMENT_BUFFER: u16 = 1;
    /// Two: address of the dispatch packet.
    pub const DISPATCH_PTR: u16 = 1 << 1;
    /// Two: address of the queue.
    pub const QUEUE_PTR: u16 = 1 << 2;
    /// Two: address of the kernel arguments.
    pub const KERNARG_SEGMENT_PTR: u16 = 1 << 3;
    /// Two: the packet id.
    pub const DISPATCH_ID: u16 = 1 << 4;
    /// Two: scratch base and size.
    pub const FLAT_SCRATCH_INIT: u16 = 1 << 5;
    /// One: bytes of scratch for each work-item.
    pub const PRIVATE_SEGMENT_SIZE: u16 = 1 << 6;
    /// Waves of 32 lanes (gfx10 and later).
    pub const WAVEFRONT_SIZE32: u16 = 1 << 10;
    /// Scratch use is not known at compile time.
    pub const USES_DYNAMIC_STACK: u16 = 1 << 11;
}

impl KernelDescriptor {
    /// Reads the fields of a descriptor.
    pub fn parse(bytes: &[u8; SIZE]) -> KernelDescriptor {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        KernelDescriptor {
            group_segment_fixed_size: word(0),
            private_segment_fixed_size: word(4),
            kernarg_size: word(8),
            entry_offset: (u64::from(word(16)) | u64::from(word(20)) << 32) as i64,
            rsrc3: word(44),
            rsrc1: word(48),
            rsrc2: word(52),
            properties: half(56),
            kernarg_preload: half(58),
        }
    }

    /// FLOAT_MODE, DX10_CLAMP and IEEE_MODE as the MODE register has them.
    pub const fn initial_mode(&self) -> u32 {
        self.rsrc1 >> 12 & 0xff | (self.rsrc1 >> 21 & 1) << 8 | (self.rsrc1 >> 23 & 1) << 9
    }

    /// True when scratch is set up and its wave offset is passed in a register.
    pub const fn enable_private_segment(&self) -> bool {
        self.rsrc2 & 1 == 1
    }

    /// How many scalar registers the packet processor fills.
    pub const fn user_sgpr_count(&self) -> u32 {
        self.rsrc2 >> 1 & 0x1f
    }

    /// Which of the workgroup's x, y and z are passed.
    pub const fn enable_workgroup_id(&self) -> [bool; 3] {
        [self.rsrc2 >> 7 & 1 == 1, self.rsrc2 >> 8 & 1 == 1, self.rsrc2 >> 9 & 1 == 1]
    }

    /// True when the workgroup information word is passed.
    pub const fn enable_workgroup_info(&self) -> bool {
        self.rsrc2 >> 10 & 1 == 1
    }

    /// How many of the work-item's x, y and z are passed, minus one.
    pub const fn enable_vgpr_workitem_id(&self) -> u32 {
        self.rsrc2 >> 11 & 3
    }

    /// Vector registers of a wave: with a unified register file, accumulation registers included. Source: AMDGPUUsage,
    /// `compute_pgm_rsrc1`, GRANULATED_WORKITEM_VGPR_COUNT (waves of 64 lanes, gfx6 to gfx9).
    pub const fn vgpr_count(&self, unified: bool) -> u32 {
        ((self.rsrc1 & 0x3f) + 1) * if unified { 8 } else { 4 }
    }

    /// Scalar registers of a wave, VCC and the like included. Source: AMDGPUUsage, `compute_pgm_rsrc1`,
    /// GRANULATED_WAVEFRONT_SGPR_COUNT (gfx9).
    pub const fn sgpr_count(&self) -> u32 {
        ((self.rsrc1 >> 6 & 15) / 2 + 1) * 16
    }

    /// Where accumulation registers begin in the unified register file (gfx90a and later).
    pub const fn accum_offset(&self) -> u32 {
        ((self.rsrc3 & 0x3f) + 1) * 4
    }
}
