//! Which kernel is behind an address.
//!
//! # Threads
//! Publishers look addresses up without a lock; loading and destroying executables changes the table under one.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use dashmap::DashMap;
use hsa::{Executable, KernelSymbol};
use logdur_intercept::address_map::AddressMap;
use logdur_journal::{Choice, Filter, Kernel, Naming, Records, Registers};
use logdur_system::lock;

use crate::code::name_of;

/// A kernel that was loaded, for ever: records name it by its number.
pub(crate) struct KnownKernel {
    pub(crate) kernel: Kernel,
    demangled: OnceLock<String>,
    in_rows: OnceLock<[String; 2]>,
    choice: OnceLock<Choice>,
}

impl KnownKernel {
    /// The name for people.
    pub(crate) fn name(&self) -> &str {
        self.demangled.get_or_init(|| self.kernel.shown(Naming::Demangled))
    }

    /// The name in rows, and the symbol beside it. The process has one naming.
    pub(crate) fn in_rows(&self, naming: Naming) -> &[String; 2] {
        self.in_rows.get_or_init(|| [self.kernel.shown(naming), self.kernel.shown_beside(naming)])
    }

    /// Whether the log wants it, asked once.
    pub(crate) fn choice(&self, filter: &Filter) -> Choice {
        *self.choice.get_or_init(|| filter.choice(Some(&self.kernel)))
    }
}

/// The kernels of the process.
pub(crate) struct Kernels {
    records: &'static Records,
    /// Address of a descriptor to number.
    numbers: &'static AddressMap,
    known: Mutex<Known>,
    /// Which addresses an executable's kernels have.
    executables: DashMap<u64, Vec<u64>>,
}

#[derive(Default)]
struct Known {
    /// By number minus one.
    kernels: Vec<&'static KnownKernel>,
    /// Kernels of equal name, arguments, replacement and code object are one.
    numbers: HashMap<Kernel, u32>,
}

impl Kernels {
    /// `numbers` is where publishers look descriptors up.
    pub(crate) fn new(records: &'static Records, numbers: &'static AddressMap) -> Kernels {
        Kernels { records, numbers, known: Mutex::default(), executables: DashMap::new() }
    }

    /// Number of the kernel whose descriptor is at an address; 0 if it is not known. Neither waits nor allocates.
    pub(crate) fn number(&self, kernel_object: u64) -> u32 {
        self.numbers.get(kernel_object) as u32
    }

    /// What the code object of a kernel is called whose descriptor is at an address; empty if that is not known.
    pub(crate) fn code(&self, kernel_object: u64) -> String {
        self.by_number(self.number(kernel_object)).map_or_else(String::new, |known| known.kernel.code.clone())
    }

    /// The kernel with a number.
    pub(crate) fn by_number(&self, number: u32) -> Option<&'static KnownKernel> {
        lock(&self.known).kernels.get((number as usize).checked_sub(1)?).copied()
    }

    /// Enters the kernels of an executable; `described` says which registers a kernel has, and what its code object is called.
    pub(crate) fn loaded(
        &self,
        executable: Executable,
        symbols: &[KernelSymbol],
        described: impl Fn(&KernelSymbol) -> (Registers, String),
    ) {
        let addresses: Vec<u64> = symbols.iter().map(|s| s.kernel_object).filter(|&a| a != 0).collect();
        let named = symbols.iter().filter(|s| s.kernel_object != 0).map(|symbol| {
            let name = name_of(symbol).to_owned();
            let (registers, code) = described(symbol);
            let kernel =
                Kernel { symbol: name, kernarg_size: symbol.kernarg_size, registers, code, ..Kernel::default() };
            (symbol.kernel_object, kernel)
        });
        self.enter(named, |object, number| self.numbers.set(object, number.into()));
        self.executables.entry(executable.0).or_default().extend(addresses);
    }

    /// Number of a kernel that runs in another one's place, or of a name of other work.
    pub(crate) fn named(&self, kernel: Kernel) -> u32 {
        let mut number = 0;
        self.enter([((), kernel)].into_iter(), |(), n| number = n);
        number
    }

    /// Gives kernels their numbers, and names new ones for readers of the records.
    fn enter<T>(&self, kernels: impl Iterator<Item = (T, Kernel)>, mut with: impl FnMut(T, u32)) {
        let mut known = lock(&self.known);
        let before = known.kernels.len();
        for (what, kernel) in kernels {
            with(what, known.number_of(kernel));
        }
        let new = known.kernels[before..].iter().enumerate();
        self.records.kernels(new.map(|(i, known)| ((before + i) as u32 + 1, &known.kernel)));
    }

    /// True when the executable's kernels are entered.
    pub(crate) fn knows(&self, executable: Executable) -> bool {
        self.executables.contains_key(&executable.0)
    }

    /// Forgets the addresses of an executable's kernels, which may be used again for others.
    pub(crate) fn destroyed(&self, executable: Executable) {
        let Some((_, addresses)) = self.executables.remove(&executable.0) else { return };
        for address in addresses {
            self.numbers.set(address, 0);
        }
    }

    /// Forgets every address: the runtime is gone.
    pub(crate) fn forget(&self) {
        self.executables.clear();
        self.numbers.clear();
    }
}

impl Known {
    fn number_of(&mut self, kernel: Kernel) -> u32 {
        let next = self.kernels.len() as u32 + 1;
        if let Some(&number) = self.numbers.get(&kernel) {
            return number;
        }
        let known = KnownKernel {
            kernel: kernel.clone(),
            demangled: OnceLock::new(),
            in_rows: OnceLock::new(),
            choice: OnceLock::new(),
        };
        self.kernels.push(Box::leak(Box::new(known)));
        self.numbers.insert(kernel, next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels() -> Kernels {
        Kernels::new(Box::leak(Box::new(Records::private())), Box::leak(Box::new(AddressMap::new())))
    }

    fn symbol(name: &str, kernel_object: u64) -> KernelSymbol {
        KernelSymbol {
            name: name.to_owned(),
            agent: 1,
            kernel_object,
            kernarg_size: Some(24),
            group_segment_size: 0,
            private_segment_size: 0,
        }
    }

    fn unknown(_: &KernelSymbol) -> (Registers, String) {
        <(Registers, String)>::default()
    }

    #[test]
    fn an_address_that_is_used_again_belongs_to_the_new_kernel() {
        let kernels = kernels();
        kernels.loaded(Executable(1), &[symbol("_Z3addPf.kd", 0x1000), symbol("plain.kd", 0x1040)], unknown);
        let name = |at| kernels.by_number(kernels.number(at)).map(KnownKernel::name);
        assert_eq!((name(0x1000), name(0x1040), name(0x1080)), (Some("add(float*)"), Some("plain"), None));
        kernels.destroyed(Executable(1));
        assert_eq!(kernels.number(0x1000), 0);
        kernels.loaded(Executable(2), &[symbol("_Z3subPf.kd", 0x1000)], unknown);
        assert_eq!(name(0x1000), Some("sub(float*)"));
    }

    #[test]
    fn kernels_of_equal_name_and_arguments_are_one_however_often_they_are_loaded() {
        let kernels = kernels();
        for round in 0..3u64 {
            let symbols: Vec<_> = (0..3000).map(|i| symbol(&format!("k{i}"), (round * 7000 + i + 1) * 64)).collect();
            kernels.loaded(Executable(round), &symbols, unknown);
            assert!((0..3000).all(|i| kernels.number((round * 7000 + i + 1) * 64) == i as u32 + 1));
            kernels.destroyed(Executable(round));
        }
        assert_eq!(lock(&kernels.known).kernels.len(), 3000);
    }
}
