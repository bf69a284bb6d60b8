//! What code can be for.

use crate::arch::Arch;

/// What code can be for: a processor, or a family of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name that compilers and the runtime use; that of a family ends with `-generic`.
    pub name: &'static str,
    /// Its number in the lowest byte of an ELF's `e_flags`. Source: AMDGPUUsage, "AMDGPU EF_AMDGPU_MACH Values".
    pub machine: u8,
    /// Replay of memory accesses after a page fault can be chosen. Source: AMDGPUUsage, "Target ID".
    pub xnack: bool,
    /// Error correction of registers and LDS can be chosen. Source: as `xnack`.
    pub sramecc: bool,
    /// Whether its instrumented kernels can send messages.
    pub messages: Messages,
    /// The family whose code it runs as well, which is a target of its own. Source: AMDGPUUsage, "Generic Processor Target".
    pub family: Option<&'static str>,
    /// Bytes of LDS that a workgroup can have. Source: AMDGPUUsage, "Processors", and the kernel descriptor's GRANULATED_LDS_SIZE.
    pub lds: u32,
    /// Beside each packet of a queue, the runtime writes a second record with the kernel's descriptor, for the GPU to fetch early. Source:
    /// the metadata ring of CLR's `rocvirtual.hpp` and ROCr's `amd_aql_queue.cpp` of 2026.
    pub metadata_ring: bool,
}

/// Whether instrumented kernels can send messages. Source of the numbers: dh_comms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// They cannot: messages need waves of 64 lanes and the register `HW_ID`.
    No,
    /// They can, but the format has no number for it.
    Unnumbered,
    /// They can, with that number.
    Number(u8),
}

impl Target {
    pub(crate) const fn new(machine: u8, name: &'static str) -> Target {
        Target {
            name,
            machine,
            xnack: false,
            sramecc: false,
            messages: Messages::No,
            family: None,
            lds: 64 << 10,
            metadata_ring: false,
        }
    }

    pub(crate) const fn xnack(mut self) -> Target {
        self.xnack = true;
        self
    }

    pub(crate) const fn sramecc(mut self) -> Target {
        self.sramecc = true;
        self
    }

    pub(crate) const fn messages(mut self, messages: Messages) -> Target {
        self.messages = messages;
        self
    }

    pub(crate) const fn family(mut self, family: &'static str) -> Target {
        self.family = Some(family);
        self
    }

    pub(crate) const fn metadata_ring(mut self) -> Target {
        self.metadata_ring = true;
        self
    }

    pub(crate) const fn lds(mut self, bytes: u32) -> Target {
        self.lds = bytes;
        self
    }

    /// That of a number in `e_flags`.
    pub fn of_machine(machine: u8) -> Option<&'static Target> {
        targets().find(|target| target.machine == machine)
    }

    /// That of a name, which has no settings behind it.
    pub fn named(name: &str) -> Option<&'static Target> {
        targets().find(|target| target.name == name)
    }

    /// The number that the driver has for a processor: major * 10000 + minor * 100 + stepping, decimal; 0 for a family. In the name,
    /// minor and stepping are a hexadecimal digit each. Source: the Linux kernel's `gfx_target_version`.
    pub fn version(&self) -> u32 {
        let digits =
            self.name.strip_prefix("gfx").and_then(|digits| digits.split_at_checked(digits.len().checked_sub(2)?));
        let read =
            |(major, rest): (&str, &str)| Some((major.parse::<u32>().ok()?, u32::from_str_radix(rest, 16).ok()?));
        digits.and_then(read).map_or(0, |(major, rest)| major * 10000 + (rest >> 4) * 100 + (rest & 15))
    }

    /// That of a number in messages.
    pub fn of_message(number: u8) -> Option<&'static Target> {
        targets().find(|target| target.messages == Messages::Number(number))
    }
}

/// Every target: those of processors that have a row, then the others.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    Arch::ALL.into_iter().map(|arch| &arch.row().target).chain(OTHERS)
}

const fn new(machine: u8, name: &'static str) -> Target {
    Target::new(machine, name)
}

/// Those that are not in the table of processors.
#[rustfmt::skip]
static OTHERS: &[Target] = &[
    new(0x20, "gfx600").lds(32 << 10),
    new(0x21, "gfx601").lds(32 << 10),
    new(0x22, "gfx700"),
    new(0x23, "gfx701"),
    new(0x24, "gfx702"),
    new(0x25, "gfx703"),
    new(0x26, "gfx704"),
    new(0x28, "gfx801").xnack(),
    new(0x29, "gfx802"),
    new(0x2a, "gfx803"),
    new(0x2b, "gfx810").xnack(),
    new(0x2d, "gfx902").family("gfx9-generic").xnack(),
    new(0x2e, "gfx904").family("gfx9-generic").xnack(),
    new(0x31, "gfx909").family("gfx9-generic").xnack(),
    new(0x32, "gfx90c").family("gfx9-generic").xnack(),
    new(0x33, "gfx1010").family("gfx10-1-generic").xnack(),
    new(0x34, "gfx1011").family("gfx10-1-generic").xnack(),
    new(0x35, "gfx1012").family("gfx10-1-generic").xnack(),
    new(0x36, "gfx1030").family("gfx10-3-generic"),
    new(0x37, "gfx1031").family("gfx10-3-generic"),
    new(0x38, "gfx1032").family("gfx10-3-generic"),
    new(0x39, "gfx1033").family("gfx10-3-generic"),
    new(0x3a, "gfx602").lds(32 << 10),
    new(0x3b, "gfx705"),
    new(0x3c, "gfx805"),
    new(0x3d, "gfx1035").family("gfx10-3-generic"),
    new(0x3e, "gfx1034").family("gfx10-3-generic"),
    new(0x40, "gfx940").family("gfx9-4-generic").xnack().sramecc().messages(Messages::Number(4)),
    new(0x41, "gfx1100").family("gfx11-generic"),
    new(0x42, "gfx1013").family("gfx10-1-generic").xnack(),
    new(0x43, "gfx1150").family("gfx11-generic"),
    new(0x44, "gfx1103").family("gfx11-generic"),
    new(0x45, "gfx1036").family("gfx10-3-generic"),
    new(0x46, "gfx1101").family("gfx11-generic"),
    new(0x47, "gfx1102").family("gfx11-generic"),
    new(0x48, "gfx1200").family("gfx12-generic"),
    new(0x49, "gfx1250").family("gfx12-5-generic").lds(320 << 10).xnack().sramecc().metadata_ring(),
    new(0x4a, "gfx1151").family("gfx11-generic"),
    new(0x4b, "gfx941").family("gfx9-4-generic").xnack().sramecc().messages(Messages::Number(5)),
    new(0x4e, "gfx1201").family("gfx12-generic"),
    new(0x50, "gfx1310"),
    new(0x51, "gfx9-generic").xnack(),
    new(0x52, "gfx10-1-generic").xnack(),
    new(0x53, "gfx10-3-generic"),
    new(0x54, "gfx11-generic"),
    new(0x55, "gfx1152").family("gfx11-generic"),
    new(0x57, "gfx1154"),
    new(0x58, "gfx1153").family("gfx11-generic"),
    new(0x59, "gfx12-generic"),
    new(0x5a, "gfx1251").family("gfx12-5-generic").lds(320 << 10).xnack().sramecc().metadata_ring(),
    new(0x5b, "gfx12-5-generic").xnack().sramecc().metadata_ring(),
    new(0x5c, "gfx1172"),
    new(0x5d, "gfx1170"),
    new(0x5e, "gfx1171"),
    new(0x5f, "gfx9-4-generic").xnack().sramecc(),
    new(0x62, "gfx11-7-generic"),
    new(0x63, "gfx13-generic"),
];

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        let version = |name| Target::named(name).map(Target::version);
        assert_eq!(
            (version("gfx90a"), version("gfx942"), version("gfx1201")),
            (Some(90010), Some(90402), Some(120_001))
        );
        assert_eq!(version("gfx9-generic"), Some(0));
    }

    #[test]
    fn no_name_and_no_number_is_there_twice() {
        let (mut names, mut machines, mut numbers) = (HashSet::new(), HashSet::new(), HashSet::new());
        for target in targets() {
            assert!(names.insert(target.name) && machines.insert(target.machine), "{target:?}");
            if let Messages::Number(number) = target.messages {
                assert!(numbers.insert(number), "{target:?}");
            }
            assert_eq!(Target::named(target.name), Some(target));
            assert_eq!(Target::of_machine(target.machine), Some(target));
        }
        assert_eq!(names.len(), 63);
    }
}
