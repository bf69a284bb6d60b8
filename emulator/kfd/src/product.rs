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
    pub(crate) array_count: u32,
    /// Dies with compute units.
    pub(crate) xccs: u32,
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
        array_count: 4,
        xccs: 1,
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
        array_count: 4,
        xccs: 1,
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
        array_count: 8,
        xccs: 1,
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
        array_count: 8,
        xccs: 1,
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
        array_count: 8,
        xccs: 8,
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
        array_count: 8,
        xccs: 8,
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
        array_count: 8,
        xccs: 8,
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

    /// The product with a processor of that name. Behind it, each after a colon, may be its model, and `sramecc+` or `sramecc-`, which says
    /// whether error correction is on, for those that can have it.
    pub(crate) fn named(name: &str) -> Option<Product> {
        let mut parts = name.split(':');
        let processor = parts.next()?;
        let mut product = *PRODUCTS.iter().find(|p| p.arch.name() == processor)?;
        let mut sramecc = None;
        for part in parts {
            match part {
                "sramecc+" | "sramecc-" if sramecc.is_none() && product.arch.can_correct_sram() => {
                    sramecc = Some(part == "sramecc+");
                }
                model => product = *PRODUCTS.iter().find(|p| p.arch == product.arch && p.model() == model)?,
            }
        }
        Some(Product { sramecc: sramecc.unwrap_or(product.sramecc), ..product })
    }

    /// The number by which the driver knows the GPU at a place in the list; never 0.
    pub(crate) fn gpu_id(index: usize) -> u32 {
        0x4d00 + index as u32 * 0x11 + 1
    }

    /// The serial number of the chip at a place in the list.
    pub(crate) fn unique_id(index: usize) -> u64 {
        0x5ee0_0000_0000_0001 + index as u64
    }
}

/// The minor number of the first render device.
pub(crate) const FIRST_RENDER_MINOR: u32 = 128;
/// The character device number of DRM devices.
pub(crate) const DRM_MAJOR: u32 = 226;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_correction_is_what_the_name_says_or_what_boards_come_with() {
        let sramecc = |name: &str| Product::named(name).map(|p| p.sramecc);
        for product in PRODUCTS {
            let name = product.arch.name();
            assert_eq!(sramecc(name), Some(product.arch.can_correct_sram()), "{name}");
            for (feature, on) in [("sramecc+", true), ("sramecc-", false)] {
                let expected = product.arch.can_correct_sram().then_some(on);
                assert_eq!(sramecc(&format!("{name}:{feature}")), expected, "{name}:{feature}");
            }
            assert_eq!(sramecc(&format!("{name}:xnack+")), None);
        }
    }

    #[test]
    fn a_product_is_chosen_by_its_processor_and_its_model() {
        let name = |text: &str| Product::named(text).map(|p| (p.name, p.device_id, p.sramecc));
        assert_eq!(name("gfx950"), Some(("AMD Instinct MI350X (emulated)", 0x75a0, true)));
        assert_eq!(name("gfx950:mi350x"), name("gfx950"));
        assert_eq!(name("gfx950:mi355x"), Some(("AMD Instinct MI355X (emulated)", 0x75a3, true)));
        assert_eq!(name("gfx950:mi355x:sramecc-"), Some(("AMD Instinct MI355X (emulated)", 0x75a3, false)));
        assert_eq!(
            ["gfx942:mi355x", "gfx950:mi300x", "gfx950:", "mi355x", "gfx950:sramecc+:sramecc-"].map(name),
            [None; 5]
        );
        for product in PRODUCTS {
            let text = format!("{}:{}", product.arch.name(), product.model());
            assert_eq!(name(&text).map(|(_, device, _)| device), Some(product.device_id), "{text}");
        }
    }
}
