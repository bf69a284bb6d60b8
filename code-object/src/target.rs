//! What code was compiled for: a target ID, like `gfx90a:sramecc+:xnack-`.
//!
//! Source: AMDGPUUsage, "Target ID". Names and numbers of processors are those of `amdgpu-processor`.

use std::fmt;
use std::str::FromStr;

use amdgpu_processor::Target as Processor;

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
        let known = Processor::named(processor);
        let default = |supported| if supported { Setting::Any } else { Setting::Unsupported };
        let mut target = Target {
            processor: processor.to_owned(),
            xnack: default(known.is_some_and(|known| known.xnack)),
            sramecc: default(known.is_some_and(|known| known.sramecc)),
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
        let known = Processor::named(&self.processor).filter(|_| !self.is_generic())?;
        Some(u32::from(known.machine) | self.xnack.bits() << 8 | self.sramecc.bits() << 10)
    }

    /// True for a processor whose queues have a second record of each packet's kernel.
    pub fn has_metadata_ring(&self) -> bool {
        Processor::named(&self.processor).is_some_and(|processor| processor.metadata_ring)
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
}
