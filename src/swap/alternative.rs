//! Code objects of the cache in the runtime.

use std::collections::HashMap;
use std::sync::Arc;

use hsa::{Executable, KernelSymbol};
use logdur_intercept::Interceptor;
use logdur_kernel_cache::{Binding, Cache, Choice, Hash};

use super::Swapper;
use super::error::NotReplaced;
use crate::code::{Object, Objects, name_of};

/// A code object of the cache that is loaded.
pub(super) struct Alternative {
    pub(super) executable: Executable,
    /// By name.
    pub(super) symbols: HashMap<String, KernelSymbol>,
}

/// A code object of the cache, and what of the application's it is bound to.
pub(super) struct Bound<'a> {
    pub(super) choice: &'a Choice,
    pub(super) binding: &'a Binding,
    /// Where a module of the application was loaded.
    pub(super) moved_by: &'a dyn Fn(usize) -> Option<u64>,
}

impl Alternative {
    /// Loads a code object of the cache for an agent, bound to the application's variables.
    pub(super) fn load(
        swapper: &Swapper,
        interceptor: &Interceptor,
        agent: u64,
        cache: &Cache,
        known: &mut HashMap<Hash, &'static [u8]>,
        &Bound { choice, binding, moved_by }: &Bound<'_>,
    ) -> Result<Alternative, NotReplaced> {
        let api = interceptor.api();
        let bytes = cache.read_chosen(choice).map_err(|error| NotReplaced::Unavailable(Arc::new(error)))?;
        let bound = binding.apply(&bytes, moved_by).map_err(|error| NotReplaced::Unbound(Arc::new(error)))?;
        let code: &'static [u8] = known.entry(Hash::of(&bound)).or_insert_with(|| bound.leak());
        // It is none of the application's, also for a thread that loads code meanwhile and looks at all executables.
        let mut ours = None;
        let loaded = api.load_code(agent, code, |executable| {
            swapper.kernels.loaded(executable, &[], |_| Default::default());
            ours = Some(executable);
        });
        let executable =
            loaded.inspect_err(|_| ours.iter().for_each(|executable| swapper.kernels.destroyed(*executable)))?;
        let mut symbols = api.kernels(executable, agent)?;
        // As it is in the cache: a replay binds it again, to where the variables are then.
        let object = [Arc::new(Object::ours(api, executable, agent, &bytes))];
        let objects = Objects::new(&object);
        objects.name(&mut symbols);
        if let Some(capture) = swapper.follows.get() {
            capture.loaded_ours(interceptor, executable, &objects, &bytes, &symbols);
        }
        let symbols = symbols.into_iter().map(|symbol| (name_of(&symbol).to_owned(), symbol)).collect();
        Ok(Alternative { executable, symbols })
    }
}
