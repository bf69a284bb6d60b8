//! What code was compiled for: a target ID, like `gfx90a:sramecc+:xnack-`.
//!
//! Source: AMDGPUUsage, "Target ID" and "AMDGPU EF_AMDGPU_MACH Values".

use std::fmt;
use std::str::FromStr;

use crate::error::Unreadable;

/// A setting of a processor that code depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Setting {
    /// The processor has no such setting, or is not known here.
    #[default]
    Unsupported,
    /// The code is right for both.
    Any,
    /// Only where it is off.
    Off,
    /// Only where it is on.
    On,
}

impl Setting {
    /// Of a field of two bits in `e_flags`, from version 4 of the ABI on.
    pub(crate) fn from_bits(bits: u32) -> Setting {
        match bits & 3 {
            0 => Setting::Unsupported,
            1 => Setting::Any,
            2 => Setting::Off,
            _ => Setting::On,
        }
    }

    /// Its field of two bits in `e_flags`, from version 4 of the ABI on.
    const fn bits(self) -> u32 {
        match self {
            Setting::Unsupported => 0,
            Setting::Any => 1,
            Setting::Off => 2,
            Setting::On => 3,
        }
    }

    /// Of a bit in `e_flags`, in versions 2 and 3 of the ABI.
    pub(crate) fn from_bit(supported: bool, on: bool) -> Setting {
        match (supported, on) {
            (_, true) => Setting::On,
            (true, false) => Setting::Off,
            (false, false) => Setting::Unsupported,
        }
    }

    /// The sign in a target ID.
    const fn sign(self) -> Option<char> {
        match self {
            Setting::On => Some('+'),
            Setting::Off => Some('-'),
            Setting::Unsupported | Setting::Any => None,
        }
    }
}

/// What code was compiled for. Its text is the target ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Like `gfx90a`, or `gfx9-generic` for a family; `mach-0x7e` by its number when it has no name anywhere.
    pub processor: String,
    /// Replay of memory accesses after a page fault.
    pub xnack: Setting,
    /// Error correction of registers and LDS.
    pub sramecc: Setting,
    /// Of a family's code; 0 for a processor's, and in a target ID, which does not have it.
    pub generic_version: u8,
}

impl Target {
    /// Reads a target ID, alone or behind a triple: `amdgcn-amd-amdhsa--gfx90a:xnack-`. A setting that it does not
    /// name is [`Setting::Any`] where the processor has it.
    ///
    /// # Errors
    /// When the processor is missing, or what is behind it is no setting.
    pub fn parse(text: &str) -> Result<Target, Unreadable> {
        let wrong = |at: usize, expected: &str, found: &str| {
            Unreadable::unexpected("target ID", at as u64, expected, format!("{found:?} in {text:?}"))
        };
        let start = text.rfind("--").map_or(0, |at| at + 2);
        let mut at = start;
        let mut parts = text.get(start..).unwrap_or_default().split(':');
        let processor = parts.next().unwrap_or_default();
        let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if processor.is_empty() || !processor.chars().all(named) {
            return Err(wrong(at, "a processor", processor));
        }
        let (xnack, sramecc) = supports(processor);
        let default = |supported| if supported { Setting::Any } else { Setting::Unsupported };
        let mut target = Target {
            processor: processor.to_owned(),
            xnack: default(xnack),
            sramecc: default(sramecc),
            generic_version: 0,
        };
        at += processor.len() + 1;
        for part in parts {
            let (name, setting) = match (part.strip_suffix('+'), part.strip_suffix('-')) {
                (Some(name), _) => (name, Setting::On),
                (_, Some(name)) => (name, Setting::Off),
                _ => return Err(wrong(at, "a setting that ends with + or -", part)),
            };
            match name {
                "xnack" => target.xnack = setting,
                "sramecc" => target.sramecc = setting,
                _ => return Err(wrong(at, "xnack or sramecc", part)),
            }
            at += part.len() + 1;
        }
        Ok(target)
    }

    /// The target as `e_flags` of an ELF of version 4 of the ABI; `None` for a processor without a number, and for a family.
    pub fn elf_flags(&self) -> Option<u32> {
        let &(mach, ..) = PROCESSORS.iter().find(|p| p.1 == self.processor).filter(|_| !self.is_generic())?;
        Some(u32::from(mach) | self.xnack.bits() << 8 | self.sramecc.bits() << 10)
    }

    /// True for code that runs on a family of processors.
    pub fn is_generic(&self) -> bool {
        self.processor.ends_with("-generic")
    }
}

impl FromStr for Target {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Target, Unreadable> {
        Target::parse(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        // In the order of the alphabet, which makes target IDs comparable as text.
        for (name, setting) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if let Some(sign) = setting.sign() {
                write!(f, ":{name}{sign}")?;
            }
        }
        Ok(())
    }
}

/// A processor: its number in `e_flags`, its name, and whether xnack and sramecc can be chosen.
type Processor = (u8, &'static str, bool, bool);

/// The number's processor.
pub(crate) fn processor(mach: u8) -> Option<&'static Processor> {
    PROCESSORS.iter().find(|p| p.0 == mach)
}

/// Whether a processor has xnack and sramecc.
fn supports(name: &str) -> (bool, bool) {
    PROCESSORS.iter().find(|p| p.1 == name).map_or((false, false), |p| (p.2, p.3))
}

const NO: bool = false;
const YES: bool = true;

#[rustfmt::skip]
const PROCESSORS: &[Processor] = &[
    (0x20, "gfx600",          NO,  NO),
    (0x21, "gfx601",          NO,  NO),
    (0x22, "gfx700",          NO,  NO),
    (0x23, "gfx701",          NO,  NO),
    (0x24, "gfx702",          NO,  NO),
    (0x25, "gfx703",          NO,  NO),
    (0x26, "gfx704",          NO,  NO),
    (0x28, "gfx801",          YES, NO),
    (0x29, "gfx802",          NO,  NO),
    (0x2a, "gfx803",          NO,  NO),
    (0x2b, "gfx810",          YES, NO),
    (0x2c, "gfx900",          YES, NO),
    (0x2d, "gfx902",          YES, NO),
    (0x2e, "gfx904",          YES, NO),
    (0x2f, "gfx906",          YES, YES),
    (0x30, "gfx908",          YES, YES),
    (0x31, "gfx909",          YES, NO),
    (0x32, "gfx90c",          YES, NO),
    (0x33, "gfx1010",         YES, NO),
    (0x34, "gfx1011",         YES, NO),
    (0x35, "gfx1012",         YES, NO),
    (0x36, "gfx1030",         NO,  NO),
    (0x37, "gfx1031",         NO,  NO),
    (0x38, "gfx1032",         NO,  NO),
    (0x39, "gfx1033",         NO,  NO),
    (0x3a, "gfx602",          NO,  NO),
    (0x3b, "gfx705",          NO,  NO),
    (0x3c, "gfx805",          NO,  NO),
    (0x3d, "gfx1035",         NO,  NO),
    (0x3e, "gfx1034",         NO,  NO),
    (0x3f, "gfx90a",          YES, YES),
    (0x40, "gfx940",          YES, YES),
    (0x41, "gfx1100",         NO,  NO),
    (0x42, "gfx1013",         YES, NO),
    (0x43, "gfx1150",         NO,  NO),
    (0x44, "gfx1103",         NO,  NO),
    (0x45, "gfx1036",         NO,  NO),
    (0x46, "gfx1101",         NO,  NO),
    (0x47, "gfx1102",         NO,  NO),
    (0x48, "gfx1200",         NO,  NO),
    (0x49, "gfx1250",         YES, YES),
    (0x4a, "gfx1151",         NO,  NO),
    (0x4b, "gfx941",          YES, YES),
    (0x4c, "gfx942",          YES, YES),
    (0x4e, "gfx1201",         NO,  NO),
    (0x4f, "gfx950",          YES, YES),
    (0x50, "gfx1310",         NO,  NO),
    (0x51, "gfx9-generic",    YES, NO),
    (0x52, "gfx10-1-generic", YES, NO),
    (0x53, "gfx10-3-generic", NO,  NO),
    (0x54, "gfx11-generic",   NO,  NO),
    (0x55, "gfx1152",         NO,  NO),
    (0x57, "gfx1154",         NO,  NO),
    (0x58, "gfx1153",         NO,  NO),
    (0x59, "gfx12-generic",   NO,  NO),
    (0x5a, "gfx1251",         YES, YES),
    (0x5b, "gfx12-5-generic", YES, YES),
    (0x5c, "gfx1172",         NO,  NO),
    (0x5d, "gfx1170",         NO,  NO),
    (0x5e, "gfx1171",         NO,  NO),
    (0x5f, "gfx9-4-generic",  YES, YES),
    (0x62, "gfx11-7-generic", NO,  NO),
    (0x63, "gfx13-generic",   NO,  NO),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_id_is_read_and_written_the_same() {
        for text in ["gfx90a:sramecc+:xnack-", "gfx906:xnack+", "gfx1030", "gfx9-4-generic:sramecc-", "gfx9999"] {
            assert_eq!(Target::parse(text).map(|t| t.to_string()), Ok(text.to_owned()));
        }
        let target = Target::parse("amdgcn-amd-amdhsa--gfx90a:xnack-").unwrap();
        assert_eq!((target.to_string().as_str(), target.sramecc), ("gfx90a:xnack-", Setting::Any));
        assert_eq!(Target::parse("gfx900").unwrap().sramecc, Setting::Unsupported);
    }

    #[test]
    fn what_is_no_target_id_is_refused_with_its_place() {
        let said = |text| Target::parse(text).unwrap_err().to_string();
        assert_eq!(
            said("gfx90a:xnack"),
            r#"target ID at 0x7: expected a setting that ends with + or -, found "xnack" in "gfx90a:xnack""#
        );
        assert_eq!(
            said("gfx90a:xnack-:fast+"),
            r#"target ID at 0xe: expected xnack or sramecc, found "fast+" in "gfx90a:xnack-:fast+""#
        );
        assert!(said("").contains("expected a processor"));
        assert!(said("amdgcn-amd-amdhsa--").contains("at 0x13: expected a processor"));
    }

    #[test]
    fn no_number_and_no_name_is_there_twice() {
        for (i, a) in PROCESSORS.iter().enumerate() {
            assert!(PROCESSORS.iter().skip(i + 1).all(|b| a.0 != b.0 && a.1 != b.1), "{a:?}");
        }
    }
}
