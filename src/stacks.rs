//! Call sites: where in the application chosen kernels are launched from.
//!
//! The thread that launches a kernel walks its stack, which holds no lock of ours, and enters the return addresses once for each kernel
//! and stack. Which libraries they are in is looked up later, by the log thread.
//!
//! # Threads
//! Threads that launch, and the log thread. The table's lock is held for a look and, for a new site, an insertion.

use std::collections::HashMap;
use std::fs;
use std::hash::RandomState;
use std::ops::Range;
use std::sync::Mutex;

use logdur_intercept::address_map::AddressMap;
use logdur_intercept::backtrace::Stack;
use logdur_intercept::ports::NameSite;
use logdur_journal::names::is_named;
use logdur_settings as settings;
use logdur_system::lock;
use logdur_system::text::{escaped, one_line};
use regex::Regex;

use crate::kernels::Kernels;
use crate::ports::{DescribeSites, Site};

/// The most sites: an application has few, unless it makes code as it runs.
const MOST_SITES: usize = 1 << 16;

/// What [`Stacks::decided`] has of a kernel.
const UNWANTED: u64 = 1;
const WANTED: u64 = 2;

/// The sites of the process.
pub(crate) struct Stacks {
    kernels: &'static Kernels,
    wanted: Regex,
    /// By number of the kernel: whether its sites are wanted.
    decided: AddressMap,
    hash: RandomState,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By the number of the kernel and the hash of the stack.
    numbers: HashMap<(u32, u64), u32>,
    /// Those that the log does not have yet.
    new: Vec<(u32, Box<[usize]>)>,
    is_full: bool,
}

impl Stacks {
    /// What the settings ask for, or why that is off.
    pub(crate) fn new(settings: &settings::Interceptor, kernels: &'static Kernels) -> Result<Option<Stacks>, String> {
        let Some(settings::Stacks(wanted)) = &settings.stacks else { return Ok(None) };
        let bad = |error: regex::Error| {
            let error = one_line(&error.to_string());
            format!(
                "{}: expected kernel= and a regular expression, no stacks are kept: {error}",
                settings::Interceptor::stacks
            )
        };
        let wanted = Regex::new(wanted).map_err(bad)?;
        let (decided, hash, table) = (AddressMap::new(), RandomState::new(), Mutex::default());
        Ok(Some(Stacks { kernels, wanted, decided, hash, table }))
    }

    #[cold]
    fn decide(&self, number: u32) -> u64 {
        let symbol = self.kernels.by_number(number).map(|known| known.kernel.symbol.as_str());
        let decided = if symbol.is_some_and(|symbol| is_named(symbol, &self.wanted)) { WANTED } else { UNWANTED };
        self.decided.set(key(number), decided);
        decided
    }
}

/// The map is made for addresses that are 64 bytes apart.
fn key(number: u32) -> u64 {
    u64::from(number) << 6
}

impl NameSite for Stacks {
    fn wants(&self, kernel_object: u64) -> bool {
        let number = self.kernels.number(kernel_object);
        let decided = match number {
            0 => UNWANTED,
            number => self.decided.get(key(number)),
        };
        (if decided == 0 { self.decide(number) } else { decided }) == WANTED
    }

    fn site(&self, kernel_object: u64, stack: &Stack) -> u32 {
        let place = (self.kernels.number(kernel_object), stack.hash(&self.hash));
        let mut table = lock(&self.table);
        if let Some(number) = table.numbers.get(&place) {
            return *number;
        }
        let Some(number) = u32::try_from(table.numbers.len() + 1).ok().filter(|n| *n as usize <= MOST_SITES) else {
            table.is_full = true;
            return 0;
        };
        table.numbers.insert(place, number);
        table.new.push((number, stack.addresses().into()));
        number
    }
}

impl DescribeSites for Stacks {
    fn take(&self) -> (Vec<Site>, Option<String>) {
        let mut table = lock(&self.table);
        let (new, is_full) = (std::mem::take(&mut table.new), std::mem::take(&mut table.is_full));
        drop(table);
        let said = is_full.then(|| format!("{MOST_SITES} call sites are known: dispatches from others have none"));
        if new.is_empty() {
            return (Vec::new(), said);
        }
        let maps = fs::read("/proc/self/maps").unwrap_or_default();
        let modules = Modules::of(&maps);
        let site = |(number, addresses): (u32, Box<[usize]>)| Site { number, frames: modules.frames(&addresses) };
        (new.into_iter().map(site).collect(), said)
    }
}

/// A mapping of a file.
struct Module<'m> {
    addresses: Range<usize>,
    /// Where the mapping begins in the file.
    offset: usize,
    path: &'m [u8],
}

/// What is mapped where, as the system lists it.
struct Modules<'m>(Vec<Module<'m>>);

impl<'m> Modules<'m> {
    /// Of the text of `/proc/PID/maps`. Source: proc_pid_maps(5).
    fn of(maps: &'m [u8]) -> Modules<'m> {
        Modules(maps.split(|byte| *byte == b'\n').filter_map(Module::of).collect())
    }

    fn at(&self, address: usize) -> Option<&Module<'m>> {
        self.0.iter().find(|module| module.addresses.contains(&address))
    }

    /// Return addresses as the log has them, from the first on that is not in this library.
    fn frames(&self, addresses: &[usize]) -> Vec<String> {
        let own = self.at(Modules::of as *const () as usize).map(|module| module.path);
        let is_own = |address: &&usize| own.is_some() && self.at(**address).map(|module| module.path) == own;
        addresses.iter().skip_while(is_own).map(|address| self.shown(*address)).collect()
    }

    fn shown(&self, address: usize) -> String {
        match self.at(address) {
            Some(module) if !module.path.is_empty() => {
                let offset = address - module.addresses.start + module.offset;
                format!("{}+{offset:#x}", escaped(&String::from_utf8_lossy(module.path)))
            }
            _ => format!("{address:#x}"),
        }
    }
}

impl<'m> Module<'m> {
    fn of(line: &'m [u8]) -> Option<Module<'m>> {
        // The path is the rest of the line, and may have blanks; what is before it has none.
        let words: Vec<&[u8]> = line.splitn(6, |byte| *byte == b' ').collect();
        let &[range, _, offset, _, _, ref path @ ..] = &*words else { return None };
        let hex = |text: &[u8]| usize::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
        let at = range.iter().position(|byte| *byte == b'-')?;
        let (start, end) = (hex(range.get(..at)?)?, hex(range.get(at + 1..)?)?);
        let path = path.first().map_or(&[][..], |path| path.trim_ascii_start());
        Some(Module { addresses: start..end, offset: hex(offset)?, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsa::{Executable, KernelSymbol};
    use logdur_journal::{Records, Registers};

    #[test]
    fn addresses_are_told_by_the_file_that_is_mapped_there() {
        let maps = b"00400000-00452000 r-xp 00002000 08:02 173521      /a b/app (deleted)\n\
            7f00-7f80 rw-p 00000000 00:00 0 \n7ffe0000-7ffe1000 r-xp 00000000 00:00 0                          [vdso]\ntorn\n-\n";
        let modules = Modules::of(maps);
        let shown = [0x400010, 0x451fff, 0x452000, 0x7f10, 0x7ffe0020].map(|address| modules.shown(address));
        let expected = ["/a b/app (deleted)+0x2010", "/a b/app (deleted)+0x53fff", "0x452000", "0x7f10", "[vdso]+0x20"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_site_is_named_once_for_each_wanted_kernel_and_stack() {
        let kernels = Box::leak(Box::new(Kernels::new(
            Box::leak(Box::new(Records::private())),
            Box::leak(Box::new(AddressMap::new())),
        )));
        let symbol = |name: &str, kernel_object| KernelSymbol {
            name: name.to_owned(),
            agent: 1,
            kernel_object,
            kernarg_size: None,
            group_segment_size: 0,
            private_segment_size: 0,
        };
        let symbols = [symbol("_Z3addPf.kd", 0x1000), symbol("_Z3subPf.kd", 0x1040), symbol("other.kd", 0x1080)];
        kernels.loaded(Executable(1), &symbols, |_| <(Registers, String)>::default());
        let with = |text: &str| {
            let variable =
                |name: &str| (name == settings::Interceptor::stacks).then(|| format!("kernel={text}").into());
            let (settings, _) = settings::Interceptor::from(variable);
            Stacks::new(&settings, kernels)
        };
        let stacks = with("^(add|sub)$").unwrap().unwrap();
        assert_eq!([0x1000, 0x1040, 0x1080, 0x10c0].map(|object| stacks.wants(object)), [true, true, false, false]);
        let [one, other] = [(); 2].map(|()| Stack::here());
        let sites = [(0x1000, &one), (0x1000, &one), (0x1040, &one), (0x1000, &other), (0x1040, &one)];
        let sites = sites.map(|(object, stack)| stacks.site(object, stack));
        // Both stacks are of one expression.
        assert_eq!(sites, [1, 1, 2, 1, 2]);
        let (new, said) = stacks.take();
        assert_eq!((new.iter().map(|site| site.number).collect::<Vec<_>>(), said), (vec![1, 2], None));
        let (again, _) = stacks.take();
        assert!(again.is_empty() && with("(").is_err_and(|why| why.starts_with("LOGDUR_STACKS: expected kernel=")));
    }
}
