//! The code objects that the application has loaded, by any of the runtime's functions.
//!
//! # Threads
//! Those that load code. A code object is looked at inside of the call that loads it, when its bytes are there; one that came in
//! a way that no hook sees, when its executable is frozen.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use amdgpu_code_object::{CodeObject, Image, InnerData, Kernel, Source, Unreadable};
use hsa::{Api, Executable, HsaError, KernelSymbol, LoadedAt, VariableSymbol};
use logdur_intercept::lock;
use logdur_journal::Registers;
use logdur_kernel_cache::{Hash, Module, skim};

use crate::own_memory;

/// Bytes of the largest code object that is looked at. What is larger is no size of a code object, but of something else.
const MOST: u64 = 4 << 30;

/// A code object in an executable.
pub(crate) struct Object {
    /// Different for every one that was ever looked at, also at the same address.
    pub(crate) number: u64,
    /// The runtime's handle of it; 0 for one of ours.
    loaded: u64,
    /// The agent that it was loaded for.
    pub(crate) agent: u64,
    /// Of its bytes; of no bytes when they cannot be read.
    pub(crate) hash: Hash,
    /// Where it was loaded.
    pub(crate) at: LoadedAt,
    /// What is in it, or why that is not known.
    pub(crate) code: Result<CodeObject, UnknownCode>,
    /// Its variables; `None` when they cannot be read.
    pub(crate) module: Option<Module>,
    /// Its writable data that the runtime does not know by name, as it is in the file.
    inner: Vec<InnerData>,
}

/// How much of a code object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What describes its kernels: no hash, no variables, no instructions.
    Descriptions,
    /// All of its bytes.
    All,
}

/// Why it is not known what a code object contains.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum UnknownCode {
    /// Its bytes are no code object.
    #[error("its code object cannot be read: {0}")]
    Damaged(Arc<Unreadable>),
    /// The runtime does not say where its bytes are.
    #[error("its code object cannot be read: {0}")]
    Runtime(#[from] HsaError),
    /// The runtime says something that cannot be.
    #[error("its code object cannot be read: the runtime says that {size} bytes of it are at {base:#x}")]
    NowhereOrTooLarge {
        /// Its first address.
        base: u64,
        /// Its bytes.
        size: u64,
    },
    /// The application has unmapped it.
    #[error("its code object cannot be read: its {size} bytes at {base:#x}: {source}")]
    Gone {
        /// Its first address.
        base: u64,
        /// Its bytes.
        size: u64,
        /// What the kernel says.
        source: Arc<io::Error>,
    },
}

/// An object and its bytes, which are not kept.
pub(crate) type WithBytes = (Arc<Object>, Vec<u8>);

/// The code objects of executables.
#[derive(Default)]
pub(crate) struct LoadedCode {
    /// The executables that the application is destroying. Locked while executables are looked at that other threads may
    /// destroy, and while the swapper loads or unloads its own: the runtime reads freed memory if it is asked for one that is gone.
    /// Locked before the swapper's state.
    pub(crate) leaving: Mutex<Vec<Executable>>,
    /// Of those that are not frozen yet.
    by_executable: Mutex<HashMap<u64, Vec<Arc<Object>>>>,
    /// The handles of those that were loaded for no agent, or that a call has left behind which failed: builds of ROCr with
    /// assertions end a process that asks for their agent.
    without_agent: Mutex<HashMap<u64, Vec<u64>>>,
}

/// The code objects of one executable, by what is in them.
pub(crate) struct Objects<'a> {
    all: &'a [Arc<Object>],
    kernels: HashMap<(u64, &'a str), (&'a Arc<Object>, &'a Kernel)>,
    variables: HashMap<(u64, &'a str), &'a Arc<Object>>,
}

/// A kernel's name: its symbol without the `.kd` of its descriptor.
pub(crate) fn name_of(symbol: &KernelSymbol) -> &str {
    symbol.name.strip_suffix(".kd").unwrap_or(&symbol.name)
}

/// Registers by a kernel's metadata. A kernel without metadata has zeros: it is not known.
pub(crate) fn registers(vgprs: u32, agprs: Option<u32>, sgprs: u32) -> Registers {
    let known = |count| Some(count).filter(|_| vgprs > 0 || sgprs > 0);
    Registers { vgprs: known(vgprs), agprs: known(agprs.unwrap_or(0)), sgprs: known(sgprs) }
}

impl Object {
    /// Of bytes that were loaded for an agent.
    pub(crate) fn of(agent: u64, loaded: u64, bytes: &[u8], at: LoadedAt) -> Object {
        let parsed = Image::parse(bytes).and_then(|image| Ok((CodeObject::of(&image)?, image)));
        let (module, inner) = match &parsed {
            Ok((code, image)) => (Module::of_object(code, image).ok(), image.inner_data(&code.globals)),
            Err(_) => (None, Vec::new()),
        };
        let code = parsed.map(|(code, _)| code).map_err(|error| UnknownCode::Damaged(Arc::new(error)));
        Object { number: next_number(), loaded, agent, hash: Hash::of(bytes), at, code, module, inner }
    }

    /// Its variables that the runtime does not know by name, where they are; none when the runtime does not say where it was
    /// loaded.
    pub(crate) fn inner_variables(&self) -> Vec<VariableSymbol> {
        let Some(moved_by) = self.moved_by() else { return Vec::new() };
        let variable = |inner: &InnerData| VariableSymbol {
            name: inner.name.clone(),
            agent: self.agent,
            address: inner.start.wrapping_add(moved_by),
            size: u32::try_from(inner.size).unwrap_or(u32::MAX),
        };
        self.inner.iter().map(variable).collect()
    }

    /// True for an address of it as it was loaded.
    fn has(&self, address: u64) -> bool {
        address.checked_sub(self.at.base).is_some_and(|offset| offset < self.at.size)
    }

    /// What is added to its addresses by where it was loaded; `None` when the runtime does not say.
    pub(crate) fn moved_by(&self) -> Option<u64> {
        (self.at.base != 0).then_some(self.at.delta)
    }

    /// Where it was loaded from, in the process's memory; `None` when the runtime does not say.
    pub(crate) fn place(&self, api: &Api) -> Option<u64> {
        let (base, _) = api.loader().and_then(|loader| loader.code_object_bytes(self.loaded)).ok()?;
        Some(base).filter(|&base| base != 0)
    }

    /// Where it came from, as a URI of the runtime; empty when the runtime does not say.
    pub(crate) fn uri(&self, api: &Api) -> String {
        // One of ours has no handle.
        let handle = Some(self.loaded).filter(|&handle| handle != 0);
        handle.and_then(|handle| api.loader().and_then(|loader| loader.uri(handle)).ok()).unwrap_or_default()
    }

    /// Its bytes, which are not kept.
    ///
    /// # Errors
    /// When they are not there any more.
    pub(crate) fn bytes(&self, api: &Api) -> Result<Vec<u8>, UnknownCode> {
        bytes_of(api, self.loaded, Part::All)
    }

    /// What the runtime says of a code object that it has loaded, and the part of its bytes that is read.
    fn read(api: &Api, loaded: u64, part: Part) -> hsa::Result<WithBytes> {
        let loader = api.loader()?;
        let (agent, at) = (loader.agent(loaded)?, loader.loaded_at(loaded).unwrap_or_default());
        let (bytes, code) = match bytes_of(api, loaded, part) {
            Ok(bytes) if part == Part::All => return Ok((Arc::new(Object::of(agent, loaded, &bytes, at)), bytes)),
            Ok(bytes) => {
                let code = CodeObject::parse(&bytes).map_err(|error| UnknownCode::Damaged(Arc::new(error)));
                (bytes, code)
            }
            Err(why) => (Vec::new(), Err(why)),
        };
        let (number, hash, module, inner) = (next_number(), Hash::of(&[]), None, Vec::new());
        Ok((Arc::new(Object { number, loaded, agent, hash, at, code, module, inner }), bytes))
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The bytes that a code object was loaded from; those that are not of the part are zeros.
fn bytes_of(api: &Api, loaded: u64, part: Part) -> Result<Vec<u8>, UnknownCode> {
    let place = api.loader().and_then(|loader| loader.code_object_bytes(loaded));
    let (base, size) = place?;
    if base == 0 || size == 0 || size > MOST {
        return Err(UnknownCode::NowhereOrTooLarge { base, size });
    }
    if part == Part::Descriptions {
        return skim(&OwnMemory { base, size }, 0, size).map_err(|error| UnknownCode::Damaged(Arc::new(error)));
    }
    let mut bytes = vec![0; size as usize];
    // The application may have unmapped them since: the kernel says so.
    own_memory::read(base, &mut bytes).map_err(|error| UnknownCode::Gone { base, size, source: Arc::new(error) })?;
    Ok(bytes)
}

/// Bytes of the process's own memory, which may not be there.
struct OwnMemory {
    base: u64,
    size: u64,
}

impl Source for OwnMemory {
    fn len(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        own_memory::read(self.base.saturating_add(at), buffer)
    }
}

impl LoadedCode {
    /// Looks at a part of the code objects of an executable that are not known yet.
    ///
    /// # Errors
    /// When the runtime does not know the executable, or cannot tell its code objects.
    pub(crate) fn look(&self, api: &Api, executable: Executable, part: Part) -> hsa::Result<Vec<WithBytes>> {
        let loaded = self.handles(api, executable)?;
        let known: Vec<u64> =
            lock(&self.by_executable).get(&executable.0).into_iter().flatten().map(|object| object.loaded).collect();
        let new = loaded.into_iter().filter(|handle| !known.contains(handle));
        let new: Vec<WithBytes> = new.map(|handle| Object::read(api, handle, part)).collect::<hsa::Result<_>>()?;
        if !new.is_empty() {
            let objects = new.iter().map(|(object, _)| object.clone());
            lock(&self.by_executable).entry(executable.0).or_default().extend(objects);
        }
        Ok(new)
    }

    /// The code objects of an executable that were loaded for an agent.
    ///
    /// # Errors
    /// When the runtime does not know the executable, or cannot tell its code objects.
    pub(crate) fn handles(&self, api: &Api, executable: Executable) -> hsa::Result<Vec<u64>> {
        let mut loaded = api.loader()?.code_objects(executable)?;
        let without_agent = lock(&self.without_agent);
        if let Some(without) = without_agent.get(&executable.0) {
            loaded.retain(|handle| !without.contains(handle));
        }
        Ok(loaded)
    }

    /// A code object was loaded for no agent, or was not.
    pub(crate) fn without_agent(&self, executable: Executable, loaded: u64) {
        lock(&self.without_agent).entry(executable.0).or_default().push(loaded);
    }

    /// An executable is about to be destroyed.
    pub(crate) fn destroyed(&self, executable: Executable) {
        drop(self.take(executable));
        lock(&self.without_agent).remove(&executable.0);
    }

    /// The code objects of an executable that is frozen: no more will come.
    pub(crate) fn take(&self, executable: Executable) -> Vec<Arc<Object>> {
        lock(&self.by_executable).remove(&executable.0).unwrap_or_default()
    }

    /// Forgets everything: the runtime is gone.
    pub(crate) fn forget(&self) {
        lock(&self.by_executable).clear();
        lock(&self.without_agent).clear();
    }
}

impl<'a> Objects<'a> {
    /// What is in some code objects.
    pub(crate) fn new(all: &'a [Arc<Object>]) -> Objects<'a> {
        let (mut kernels, mut variables) = (HashMap::new(), HashMap::new());
        for object in all {
            let Ok(code) = &object.code else { continue };
            kernels.extend(code.kernels.iter().map(|kernel| ((object.agent, &*kernel.name), (object, kernel))));
            variables.extend(code.globals.iter().map(|global| ((object.agent, &*global.name), object)));
        }
        Objects { all, kernels, variables }
    }

    /// All of them.
    pub(crate) fn all(&self) -> &'a [Arc<Object>] {
        self.all
    }

    /// The agents that they were loaded for.
    pub(crate) fn agents(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|object| object.agent)
    }

    /// The code object that has a kernel. One that cannot be read has the kernels that no other has.
    pub(crate) fn of_kernel(&self, symbol: &KernelSymbol) -> Option<&'a Arc<Object>> {
        let found = self.kernels.get(&(symbol.agent, name_of(symbol))).map(|(object, _)| *object);
        // Without metadata, there is its descriptor.
        let found = found.or_else(|| self.variables.get(&(symbol.agent, &*symbol.name)).copied());
        found.or_else(|| self.all.iter().find(|object| object.agent == symbol.agent && object.code.is_err()))
    }

    /// The code object that has a variable.
    pub(crate) fn of_variable(&self, variable: &VariableSymbol) -> Option<&'a Arc<Object>> {
        let agent = variable.agent;
        let there = self.all.iter().find(|object| object.agent == agent && object.has(variable.address));
        let named = || self.variables.get(&(agent, &*variable.name)).copied();
        there.or_else(named).or_else(|| self.all.iter().find(|object| object.agent == agent))
    }

    /// Registers of a kernel.
    pub(crate) fn registers(&self, symbol: &KernelSymbol) -> Registers {
        let known = self.kernels.get(&(symbol.agent, name_of(symbol))).map(|(_, kernel)| *kernel);
        known.map_or(Registers::default(), |kernel| registers(kernel.vgprs, kernel.agprs, kernel.sgprs))
    }

    /// The bytes of a kernel's arguments: what its descriptor or its metadata says, the larger if both do. `None` where
    /// neither can be believed.
    pub(crate) fn kernarg_size(&self, symbol: &KernelSymbol) -> Option<u32> {
        match self.kernels.get(&(symbol.agent, name_of(symbol))) {
            Some((_, kernel)) => kernel.told_kernarg_bytes().map(|told| told.max(symbol.kernarg_size.unwrap_or(0))),
            None => symbol.kernarg_size,
        }
    }
}
