//! The code objects that the application has loaded, and the kernels of those.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use amdgpu_code_object::CodeObject;
use hsa::{Api, Executable, KernelSymbol};
use logdur_kernel_cache::{Hash, Interface};

/// A code object that was loaded for an agent.
pub(super) struct Object {
    agent: u64,
    hash: Hash,
    /// Why it could not be read, otherwise.
    code: Result<CodeObject, String>,
}

/// A kernel of the application's, as long as its executable is there.
#[derive(Clone)]
pub(super) struct Original {
    pub(super) executable: Executable,
    pub(super) symbol: KernelSymbol,
    object: Option<Arc<Object>>,
}

/// Code objects by executable, kernels by name.
#[derive(Default)]
pub(super) struct Objects {
    loaded: HashMap<u64, Vec<Arc<Object>>>,
    kernels: HashMap<String, Vec<Original>>,
    /// The names of each executable's kernels.
    frozen: HashMap<u64, Vec<String>>,
}

/// A symbol without the `.kd` of its descriptor.
pub(super) fn name_of(symbol: &KernelSymbol) -> &str {
    symbol.name.strip_suffix(".kd").unwrap_or(&symbol.name)
}

/// The bytes of a code object that has just been loaded.
///
/// # Errors
/// When the runtime does not say where they are.
pub(crate) fn bytes_of(api: &Api, loaded: u64) -> hsa::Result<Vec<u8>> {
    let (base, size) = api.loader()?.code_object_bytes(loaded)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(size as usize);
    let from = ptr::with_exposed_provenance(base as usize);
    // SAFETY: the runtime says that the bytes are there, which they are for as long as the reader that they were loaded
    // with: until the application's call, in which we are, returns.
    unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size as usize) };
    // SAFETY: so many bytes were just written.
    unsafe { bytes.set_len(size as usize) };
    Ok(bytes)
}

impl Object {
    /// Reads a code object that has just been loaded.
    ///
    /// # Errors
    /// When the runtime does not say where its bytes are.
    pub(super) fn of(api: &Api, agent: u64, loaded: u64) -> hsa::Result<Object> {
        let bytes = bytes_of(api, loaded)?;
        let code = CodeObject::parse(&bytes).map_err(|e| e.to_string());
        Ok(Object { agent, hash: Hash::of(&bytes), code })
    }
}

impl Original {
    /// What a swap has to know of it, and the hash of its code object.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn interface(&self) -> Result<(Interface, Hash), String> {
        let object = self.object.as_ref().ok_or("its code object was loaded in a way that is not seen")?;
        let code = object.code.as_ref().map_err(|e| format!("its code object cannot be read: {e}"))?;
        let kernel = code.kernels.iter().find(|k| k.name == name_of(&self.symbol));
        let kernel = kernel.ok_or("its code object says nothing about it")?;
        Ok((Interface::of(code, kernel), object.hash))
    }
}

impl Objects {
    /// A code object was loaded into an executable.
    pub(super) fn loaded(&mut self, executable: Executable, object: Object) {
        self.loaded.entry(executable.0).or_default().push(Arc::new(object));
    }

    /// An executable was frozen that has these kernels.
    pub(super) fn frozen(&mut self, executable: Executable, symbols: &[KernelSymbol]) {
        let objects = self.loaded.remove(&executable.0).unwrap_or_default();
        let mut having: HashMap<(u64, &str), &Arc<Object>> = HashMap::new();
        for object in &objects {
            for kernel in object.code.iter().flat_map(|code| &code.kernels) {
                having.insert((object.agent, &kernel.name), object);
            }
        }
        let names = self.frozen.entry(executable.0).or_default();
        for symbol in symbols.iter().filter(|s| s.kernel_object != 0) {
            let name = name_of(symbol);
            // One that could not be read has the kernels that no other has.
            let of_agent = || objects.iter().find(|o| o.agent == symbol.agent);
            let object = having.get(&(symbol.agent, name)).copied().or_else(of_agent).cloned();
            let original = Original { executable, symbol: symbol.clone(), object };
            self.kernels.entry(name.to_owned()).or_default().push(original);
            names.push(name.to_owned());
        }
    }

    /// An executable is about to be destroyed: its kernels' addresses.
    pub(super) fn destroyed(&mut self, executable: Executable) -> Vec<u64> {
        self.loaded.remove(&executable.0);
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
