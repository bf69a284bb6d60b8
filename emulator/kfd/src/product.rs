//! What the emulated GPUs say that they are, beyond their processors. Source: the properties that `/sys/class/kfd` shows on such machines,
//! and the names in libdrm's `amdgpu.ids`.

use amdgpu_emu::Arch;
use amdgpu_processor::Generation;

/// A product that can be emulated.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) arch: Arch,
    /// The name that the runtime shows; it says that the GPU is emulated.
    pub(crate) name: &'static str,
    pub(crate) device_id: u32,
    pub(crate) revision: u32,
    /// Dies with compute units.
    pub(crate) xccs: u32,
    /// Shader engines of a die, with one array each.
    pub(crate) engines: u32,
    /// Compute units of the board.
    pub(crate) compute_units: u32,
    /// The most parts that its memory can be divided in.
    pub(crate) memory_parts: u32,
    /// Host and GPU are in one package, and have the same memory.
    pub(crate) apu: bool,
    /// Versions of its graphics, copy and bus blocks, where the driver finds them in a table on the board.
    pub(crate) blocks: Option<[[u32; 3]; 3]>,
    /// Its static memories have error correction on, which is part of the target's name (`gfx906:sramecc+`).
    pub(crate) sramecc: bool,
    pub(crate) sdma_engines: u32,
    pub(crate) sdma_xgmi_engines: u32,
    pub(crate) engine_clock_mhz: u32,
    pub(crate) memory_clock_mhz: u32,
    pub(crate) memory_width_bits: u32,
    pub(crate) l2_kib: u32,
    pub(crate) firmware: u32,
    pub(crate) sdma_firmware: u32,
}

/// Of several with one processor, the first is meant where only the processor is named.
pub(crate) const PRODUCTS: &[Product] = &[
    Product {
        arch: Arch::Gfx900,
        name: "AMD Radeon Instinct MI25 (emulated)",
        device_id: 0x6860,
        revision: 0,
        xccs: 1,
        engines: 4,
        compute_units: 64,
        memory_parts: 1,
        apu: false,
        blocks: None,
        sramecc: false,
        sdma_engines: 2,
        sdma_xgmi_engines: 0,
        engine_clock_mhz: 1500,
        memory_clock_mhz: 945,
        memory_width_bits: 2048,
        l2_kib: 4096,
        firmware: 440,
        sdma_firmware: 430,
    },
    Product {
        arch: Arch::Gfx906,
        name: "AMD Radeon Instinct MI60 (emulated)",
        device_id: 0x66a0,
        revision: 0,
        xccs: 1,
        engines: 4,
        compute_units: 64,
        memory_parts: 1,
        apu: false,
        blocks: None,
        sramecc: true,
        sdma_engines: 2,
        sdma_xgmi_engines: 0,
        engine_clock_mhz: 1800,
        memory_clock_mhz: 1000,
        memory_width_bits: 4096,
        l2_kib: 4096,
        firmware: 470,
        sdma_firmware: 145,
    },
    Product {
        arch: Arch::Gfx908,
        name: "AMD Instinct MI100 (emulated)",
        device_id: 0x738c,
        revision: 1,
        xccs: 1,
        engines: 8,
        compute_units: 120,
        memory_parts: 1,
        apu: false,
        blocks: None,
        sramecc: true,
        sdma_engines: 2,
        sdma_xgmi_engines: 6,
        engine_clock_mhz: 1502,
        memory_clock_mhz: 1200,
        memory_width_bits: 4096,
        l2_kib: 8192,
        firmware: 60,
        sdma_firmware: 18,
    },
    Product {
        arch: Arch::Gfx90a,
        name: "AMD Instinct MI210 (emulated)",
        device_id: 0x740f,
        revision: 2,
        xccs: 1,
        engines: 8,
        compute_units: 104,
        memory_parts: 1,
        apu: false,
        blocks: None,
        sramecc: true,
        sdma_engines: 2,
        sdma_xgmi_engines: 3,
        engine_clock_mhz: 1700,
        memory_clock_mhz: 1600,
        memory_width_bits: 4096,
        l2_kib: 8192,
        firmware: 75,
        sdma_firmware: 8,
    },
    Product {
        arch: Arch::Gfx942,
        name: "AMD Instinct MI300X (emulated)",
        device_id: 0x74a1,
        revision: 0,
        xccs: 8,
        engines: 4,
        compute_units: 304,
        memory_parts: 4,
        apu: false,
        blocks: Some([[9, 4, 3], [4, 4, 2], [7, 9, 0]]),
        sramecc: true,
        sdma_engines: 2,
        sdma_xgmi_engines: 14,
        engine_clock_mhz: 2100,
        memory_clock_mhz: 1300,
        memory_width_bits: 8192,
        l2_kib: 4096,
        firmware: 166,
        sdma_firmware: 22,
    },
    Product {
        arch: Arch::Gfx942,
        name: "AMD Instinct MI300A (emulated)",
        device_id: 0x74a0,
        revision: 0,
        xccs: 6,
        engines: 4,
        compute_units: 228,
        memory_parts: 1,
        apu: true,
        blocks: Some([[9, 4, 3], [4, 4, 2], [7, 9, 0]]),
        sramecc: true,
        sdma_engines: 2,
        sdma_xgmi_engines: 14,
        engine_clock_mhz: 2100,
        memory_clock_mhz: 1300,
        memory_width_bits: 8192,
        l2_kib: 4096,
        firmware: 166,
        sdma_firmware: 22,
    },
    Product {
        arch: Arch::Gfx950,
        name: "AMD Instinct MI350X (emulated)",
        device_id: 0x75a0,
        revision: 0,
        xccs: 8,
        engines: 4,
        compute_units: 256,
        memory_parts: 2,
        apu: false,
        blocks: Some([[9, 5, 0], [4, 4, 5], [7, 9, 1]]),
        sramecc: true,
        sdma_engines: 2,
        sdma_xgmi_engines: 14,
        engine_clock_mhz: 2200,
        memory_clock_mhz: 2000,
        memory_width_bits: 8192,
        l2_kib: 4096,
        firmware: 166,
        sdma_firmware: 22,
    },
    Product {
        arch: Arch::Gfx950,
        name: "AMD Instinct MI355X (emulated)",
        device_id: 0x75a3,
        revision: 0,
        xccs: 8,
        engines: 4,
        compute_units: 256,
        memory_parts: 2,
        apu: false,
        blocks: Some([[9, 5, 0], [4, 4, 5], [7, 9, 1]]),
        sramecc: true,
        sdma_engines: 2,
        sdma_xgmi_engines: 14,
        engine_clock_mhz: 2400,
        memory_clock_mhz: 2000,
        memory_width_bits: 8192,
        l2_kib: 4096,
        firmware: 166,
        sdma_firmware: 22,
    },
];

impl Product {
    /// The family of drivers that it belongs to.
    pub(crate) fn family(&self) -> u32 {
        match self.arch.row().generation {
            Generation::Gfx9 => crate::uapi::drm::AMDGPU_FAMILY_AI,
        }
    }

    /// The last word of its name, by which it is chosen among those with its processor: `mi355x`.
    pub(crate) fn model(&self) -> String {
        let name = self.name.strip_suffix(" (emulated)").unwrap_or(self.name);
        name.rsplit(' ').next().unwrap_or(name).to_ascii_lowercase()
    }
}

/// The minor number of the first render device.
pub(crate) const FIRST_RENDER_MINOR: u32 = 128;
/// The character device number of DRM devices.
pub(crate) const DRM_MAJOR: u32 = 226;
