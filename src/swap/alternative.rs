//! Code objects of the cache in the runtime.

use std::collections::HashMap;
use std::sync::Arc;

use hsa::{Executable, KernelSymbol};
use logdur_journal::Registers;
use logdur_kernel_cache::{Binding, Cache, Choice, Hash};

use super::error::NotReplaced;
use crate::session::Session;

/// A code object of the cache that is loaded.
pub(super) struct Alternative {
    pub(super) executable: Executable,
    pub(super) symbols: Vec<KernelSymbol>,
}

impl Alternative {
    /// Loads a code object of the cache for an agent, bound to the application's variables. `moved_by` says for a module of the
    /// application where it was loaded.
    pub(super) fn load(
        session: &Session,
        agent: u64,
        cache: &Cache,
        known: &mut HashMap<Hash, &'static [u8]>,
        choice: &Choice,
        binding: &Binding,
        moved_by: &dyn Fn(usize) -> Option<u64>,
    ) -> Result<Alternative, NotReplaced> {
        let api = session.interceptor.api();
        let bytes = cache.read_chosen(choice).map_err(|error| NotReplaced::Unavailable(Arc::new(error)))?;
        let bound = binding.apply(&bytes, moved_by).map_err(|error| NotReplaced::Unbound(Arc::new(error)))?;
        let code: &'static [u8] = known.entry(Hash::of(&bound)).or_insert_with(|| bound.leak());
        // It is none of the application's, also for a thread that loads code meanwhile and looks at all executables.
        let mut ours = None;
        let loaded = api.load_code(agent, code, |executable| {
            session.kernels.loaded(executable, &[], |_| Registers::default());
            ours = Some(executable);
        });
        let executable =
            loaded.inspect_err(|_| ours.iter().for_each(|executable| session.kernels.destroyed(*executable)))?;
        let symbols = api.kernels(executable, agent)?;
        if let Some(capture) = &session.capture {
            // A replay binds it again, to where the variables are then.
            capture.loaded_ours(session, executable, agent, &bytes, &symbols);
        }
        Ok(Alternative { executable, symbols })
    }
}
