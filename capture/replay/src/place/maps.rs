//! The mappings of this process: `/proc/self/maps`.

use std::fs;
use std::ops::Range;

use crate::error::{ReplayError, Result};

/// Addresses that no mapping is made at: Linux' `vm.mmap_min_addr` is 64 KiB by default.
const LOWEST: u64 = 0x1_0000;
/// Where the addresses of x86-64 processes end (47 bits, and a page that is kept free).
const HIGHEST: u64 = 0x7fff_ffff_f000;

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Its file, or what the kernel calls it, like `[heap]`; empty for memory without a name.
    pub name: String,
}

/// All mappings, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(Vec<Mapping>);

impl Maps {
    /// Of this process, now.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn now() -> Result<Maps> {
        let path = "/proc/self/maps";
        let text = fs::read_to_string(path).map_err(|source| ReplayError::File { path: path.to_owned(), source })?;
        Ok(Maps::parse(&text))
    }

    /// Of the kernel's text; lines that are none are left out.
    pub fn parse(text: &str) -> Maps {
        let mapping = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let [start, end] = [start, end].map(|digits| u64::from_str_radix(digits, 16));
            let name = words.nth(4).unwrap_or_default().to_owned();
            Some(Mapping { range: start.ok()?..end.ok()?, name })
        };
        Maps(text.lines().filter_map(mapping).collect())
    }

    /// The first mapping that has an address of a range.
    pub(crate) fn first_in(&self, range: &Range<u64>) -> Option<&Mapping> {
        self.0.iter().find(|m| m.range.start < range.end && range.start < m.range.end)
    }

    /// What is free, by address, without so many bytes that the heap and the stack may grow into.
    pub(crate) fn gaps_without_growth(&self, growth: u64) -> Vec<Range<u64>> {
        let has_stack = |end: u64| self.0.iter().any(|m| m.range.start == end && m.name == "[stack]");
        let free = self.gaps().into_iter().map(|(gap, before)| {
            let start = if before == "[heap]" { gap.start.saturating_add(growth) } else { gap.start };
            start..if has_stack(gap.end) { gap.end.saturating_sub(growth) } else { gap.end }
        });
        free.filter(|gap| gap.start < gap.end).collect()
    }

    /// What is free, by address, and the name of the mapping before it.
    pub fn gaps(&self) -> Vec<(Range<u64>, &str)> {
        let mut gaps = Vec::new();
        let (mut end, mut name) = (LOWEST, "");
        for mapping in &self.0 {
            let start = mapping.range.start.min(HIGHEST);
            if start > end {
                gaps.push((end..start, name));
            }
            if mapping.range.end > end {
                (end, name) = (mapping.range.end, &mapping.name);
            }
        }
        if end < HIGHEST {
            gaps.push((end..HIGHEST, name));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
555555554000-555555556000 r--p 00000000 fe:00 1234   /usr/bin/a program
55555557a000-55555559b000 rw-p 00000000 00:00 0      [heap]
7ffff7fc5000-7ffff7fff000 rw-p 00000000 00:00 0 
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";

    #[test]
    fn gaps_are_what_is_between_mappings_and_know_what_is_before_them() {
        let maps = Maps::parse(TEXT);
        let gaps = maps.gaps();
        assert_eq!(gaps[0], (LOWEST..0x5555_5555_4000, ""));
        assert_eq!(gaps[2], (0x5555_5559_b000..0x7fff_f7fc_5000, "[heap]"));
        assert_eq!(gaps[3].0, 0x7fff_f7ff_f000..HIGHEST);
        assert_eq!(gaps.len(), 4);
        let free = maps.gaps_without_growth(0x1000);
        assert_eq!(free[2], 0x5555_5559_c000..0x7fff_f7fc_5000);
        assert_eq!((free[1].clone(), free[3].clone()), (gaps[1].0.clone(), gaps[3].0.clone()));
        let stack = Maps::parse("7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]");
        assert_eq!(stack.gaps_without_growth(1 << 20)[0], LOWEST..0x7fff_ffed_e000);
        assert_eq!(stack.gaps_without_growth(1 << 47), []);
        assert_eq!(maps.first_in(&(0x5555_5555_0000..0x5555_5555_4001)).unwrap().name, "/usr/bin/a");
        assert_eq!(maps.first_in(&(0x5555_5555_0000..0x5555_5555_4000)), None);
    }

    #[test]
    fn this_process_has_a_stack() {
        let maps = Maps::now().unwrap();
        assert!(maps.0.iter().any(|m| m.name == "[stack]"));
    }
}
