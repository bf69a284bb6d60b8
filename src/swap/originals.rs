//! The application's kernels, whose places others may take.

use std::collections::HashMap;
use std::sync::Arc;

use hsa::{Api, Executable, KernelSymbol};
use logdur_kernel_cache::likeness::Likeness;
use logdur_kernel_cache::{Hash, Interface};

use super::error::NotReplaced;
use crate::code::{Object, Objects, name_of};

/// A kernel of the application's, as long as its executable is there.
#[derive(Clone)]
pub(super) struct Original {
    pub(super) executable: Executable,
    pub(super) symbol: KernelSymbol,
    object: Option<Arc<Object>>,
    /// Its number in its code object, if that describes it.
    number: Option<usize>,
}

/// The application's kernels, by name.
#[derive(Default)]
pub(super) struct Originals {
    kernels: HashMap<String, Vec<Original>>,
    /// Of each executable that was frozen: the names of its kernels, and its code objects.
    frozen: HashMap<u64, (Vec<String>, Vec<Arc<Object>>)>,
}

/// What an executable had that is about to be destroyed.
#[derive(Default)]
pub(super) struct Gone {
    /// The addresses of its kernels.
    pub(super) kernels: Vec<u64>,
    /// The numbers of its code objects.
    pub(super) objects: Vec<u64>,
}

impl Original {
    /// What a swap has to know of it, and the hash of its code object.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn interface(&self) -> Result<(Interface, Hash), NotReplaced> {
        let object = self.object.as_ref().ok_or(NotReplaced::Unseen)?;
        let number = self.number.unwrap_or(usize::MAX);
        Ok((object.interface(number)?.ok_or(NotReplaced::Undescribed)?, object.hash))
    }

    /// What it is compared by with others of its name, and the hash of its code object; `None` if that is not known.
    pub(super) fn likeness(&self) -> Option<(Likeness, Hash)> {
        let (interface, hash) = self.interface().ok()?;
        let code = self.object.as_ref().zip(self.number).and_then(|(object, n)| object.instructions(n));
        Some((Likeness { interface, code, constants: None }, hash))
    }

    /// Its instructions; `None` if the application has unmapped them.
    pub(super) fn code(&self, api: &Api) -> Option<Vec<u8>> {
        self.object.as_ref()?.code_of(api, self.number?)
    }

    /// Its code object.
    pub(super) fn object(&self) -> Option<&Object> {
        self.object.as_deref()
    }

    /// True if another kernel is in the same code object.
    pub(super) fn is_beside(&self, other: &Original) -> bool {
        self.object().zip(other.object()).is_some_and(|(one, other)| one.number == other.number)
    }
}

impl Originals {
    /// An executable was frozen that has these kernels.
    pub(super) fn frozen(&mut self, executable: Executable, symbols: &[KernelSymbol], objects: &Objects<'_>) {
        let (names, kept) = self.frozen.entry(executable.0).or_default();
        kept.extend(objects.all().iter().cloned());
        for symbol in symbols.iter().filter(|s| s.kernel_object != 0) {
            let name = name_of(symbol);
            let object = objects.of_kernel(symbol).cloned();
            let number = objects.kernel(symbol).map(|(_, number)| number);
            let original = Original { executable, symbol: symbol.clone(), object, number };
            self.kernels.entry(name.to_owned()).or_default().push(original);
            names.push(name.to_owned());
        }
    }

    /// An executable is about to be destroyed.
    pub(super) fn destroyed(&mut self, executable: Executable) -> Gone {
        let (names, objects) = self.frozen.remove(&executable.0).unwrap_or_default();
        let mut gone = Gone { objects: objects.iter().map(|object| object.number).collect(), ..Gone::default() };
        for name in names {
            if let Some(originals) = self.kernels.get_mut(&name) {
                let destroyed = originals.extract_if(.., |original| original.executable == executable);
                gone.kernels.extend(destroyed.map(|original| original.symbol.kernel_object));
                if originals.is_empty() {
                    self.kernels.remove(&name);
                }
            }
        }
        gone
    }

    /// The code objects with variables that an agent has besides one, as they were loaded.
    pub(super) fn others(&self, agent: u64, than: Option<&Object>) -> Vec<Arc<Object>> {
        let all = self.frozen.values().flat_map(|(_, objects)| objects).filter(|object| object.agent == agent);
        let is_other = |object: &&Arc<Object>| than.is_none_or(|than| than.number != object.number);
        let has_some = |object: &&Arc<Object>| object.module.as_ref().is_some_and(|module| !module.is_empty());
        let mut others: Vec<Arc<Object>> = all.filter(is_other).filter(has_some).cloned().collect();
        others.sort_by_key(|object| object.number);
        others
    }

    /// The kernels with a name.
    pub(super) fn named(&self, name: &str) -> Vec<Original> {
        self.kernels.get(name).cloned().unwrap_or_default()
    }
}
