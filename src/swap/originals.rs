//! The application's kernels, whose places others may take.

use std::collections::HashMap;
use std::sync::Arc;

use hsa::{Executable, KernelSymbol};
use logdur_kernel_cache::{Hash, Interface};

use crate::code::{Object, Objects, name_of};

/// A kernel of the application's, as long as its executable is there.
#[derive(Clone)]
pub(super) struct Original {
    pub(super) executable: Executable,
    pub(super) symbol: KernelSymbol,
    object: Option<Arc<Object>>,
}

/// The application's kernels, by name.
#[derive(Default)]
pub(super) struct Originals {
    kernels: HashMap<String, Vec<Original>>,
    /// The names of each executable's kernels.
    frozen: HashMap<u64, Vec<String>>,
}

impl Original {
    /// What a swap has to know of it, and the hash of its code object.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn interface(&self) -> Result<(Interface, Hash), String> {
        let object = self.object.as_ref().ok_or("its code object was loaded in a way that is not seen")?;
        let code = object.code.as_ref().map_err(Clone::clone)?;
        let kernel = code.kernels.iter().find(|k| k.name == name_of(&self.symbol));
        let kernel = kernel.ok_or("its code object says nothing about it")?;
        Ok((Interface::of(code, kernel), object.hash))
    }
}

impl Originals {
    /// An executable was frozen that has these kernels.
    pub(super) fn frozen(&mut self, executable: Executable, symbols: &[KernelSymbol], objects: &Objects<'_>) {
        let names = self.frozen.entry(executable.0).or_default();
        for symbol in symbols.iter().filter(|s| s.kernel_object != 0) {
            let name = name_of(symbol);
            let object = objects.of_kernel(symbol).cloned();
            let original = Original { executable, symbol: symbol.clone(), object };
            self.kernels.entry(name.to_owned()).or_default().push(original);
            names.push(name.to_owned());
        }
    }

    /// An executable is about to be destroyed: its kernels' addresses.
    pub(super) fn destroyed(&mut self, executable: Executable) -> Vec<u64> {
        let mut addresses = Vec::new();
        for name in self.frozen.remove(&executable.0).unwrap_or_default() {
            if let Some(originals) = self.kernels.get_mut(&name) {
                let gone = originals.extract_if(.., |original| original.executable == executable);
                addresses.extend(gone.map(|original| original.symbol.kernel_object));
                if originals.is_empty() {
                    self.kernels.remove(&name);
                }
            }
        }
        addresses
    }

    /// The kernels with a name.
    pub(super) fn named(&self, name: &str) -> Vec<Original> {
        self.kernels.get(name).cloned().unwrap_or_default()
    }
}
