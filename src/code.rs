//! The code objects that the application has loaded, by any function of the runtime.
//!
//! # Threads
//! Threads that load code. A code object is read inside the call that loads it, while its bytes exist. If no hook sees that call, it is
//! read when its executable is frozen.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use amdgpu_code_object::{CodeObject, Image, InnerData, Kernel, Source, Unreadable, zeroed};
use hsa::{Api, Executable, HsaError, KernelSymbol, LoadedAt, VariableSymbol};
use logdur_journal::{Registers, pages};
use logdur_kernel_cache::likeness::KernelCode;
use logdur_kernel_cache::{Common, Hash, Interface, Module, skim};
use logdur_system::lock;
use logdur_system::text::escaped;

use crate::own_memory;

/// The largest size accepted for a code object, in bytes. A larger value is no size of a code object.
const MOST: u64 = 4 << 30;

/// A code object in an executable.
pub(crate) struct Object {
    /// A number that is never reused, even for the same address.
    pub(crate) number: u64,
    /// The runtime's handle of it; 0 for a code object of the cache.
    loaded: u64,
    /// The agent that the code object was loaded for.
    pub(crate) agent: u64,
    /// The hash of its bytes; the hash of no bytes if they cannot be read.
    pub(crate) hash: Hash,
    /// The address range that it was loaded to.
    pub(crate) at: LoadedAt,
    /// Its description, or why it cannot be read.
    pub(crate) code: Result<CodeObject, UnknownCode>,
    /// Its variables; `None` when they cannot be read.
    pub(crate) module: Option<Module>,
    /// Writable data that the runtime does not know by name, with addresses of the file.
    inner: Vec<InnerData>,
    /// What its kernels' interfaces have in common, once one is asked for.
    common: OnceLock<Common>,
    /// Instructions of its kernels, in the order of the description; empty if only that was read.
    instructions: Vec<Option<KernelCode>>,
}

/// How much of a code object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeContents {
    /// Only the description of its kernels: no hash, no variables, no instructions.
    Descriptions,
    /// All of its bytes.
    All,
}

/// Why a code object cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum UnknownCode {
    /// Its bytes are no code object.
    #[error("its code object cannot be read: {0}")]
    Damaged(Arc<Unreadable>),
    /// The runtime does not tell where its bytes are.
    #[error("its code object cannot be read: {0}")]
    Runtime(#[from] HsaError),
    /// The runtime tells an impossible range.
    #[error("its code object cannot be read: the runtime says that {size} bytes of it are at {base:#x}")]
    NowhereOrTooLarge {
        /// Its first address.
        base: u64,
        /// Its bytes.
        size: u64,
    },
    /// The system has no memory left.
    #[error("its code object cannot be read: the system has no memory left for its {size} bytes")]
    NoMemory {
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
        /// The error of the Linux kernel.
        source: Arc<io::Error>,
    },
}

/// A code object, and its bytes for the time of the call.
pub(crate) type WithBytes = (Arc<Object>, Vec<u8>);

/// The code objects of executables.
#[derive(Default)]
pub(crate) struct LoadedCode {
    /// The executables that the application is destroying. The lock is held while executables are inspected that other threads may destroy,
    /// and while the swapper loads or unloads its own: asked for a destroyed executable, the runtime reads freed memory. Lock order: before
    /// the swapper's state.
    pub(crate) leaving: Mutex<Vec<Executable>>,
    /// Executables that are not frozen yet.
    by_executable: Mutex<HashMap<u64, Vec<Arc<Object>>>>,
    /// Handles of code objects that were loaded for no agent, or that a failed call left behind. ROCr built with assertions ends a process
    /// that asks for their agent.
    without_agent: Mutex<HashMap<u64, Vec<u64>>>,
}

/// The code objects of one executable, by what is in them.
///
/// A kernel is identified by the address of its descriptor. The runtime's name of it serves only if that address is not known: ROCr
/// drops all of a name up to its last colon.
pub(crate) struct Objects<'a> {
    all: &'a [Arc<Object>],
    /// By agent and address of the descriptor.
    placed: HashMap<(u64, u64), OfKernel<'a>>,
    kernels: HashMap<(u64, &'a str), OfKernel<'a>>,
    variables: HashMap<(u64, &'a str), &'a Arc<Object>>,
}

/// A kernel: its code object, and its number in that.
type OfKernel<'a> = (&'a Arc<Object>, usize);

/// A kernel's name: the symbol of its descriptor without `.kd`.
pub(crate) fn name_of(symbol: &KernelSymbol) -> &str {
    symbol.name.strip_suffix(".kd").unwrap_or(&symbol.name)
}

/// Register counts from a kernel's metadata; zeros, which mean unknown, without metadata.
pub(crate) fn registers(vgprs: u32, agprs: Option<u32>, sgprs: u32) -> Registers {
    let known = |count| Some(count).filter(|_| vgprs > 0 || sgprs > 0);
    Registers { vgprs: known(vgprs), agprs: known(agprs.unwrap_or(0)), sgprs: known(sgprs) }
}

impl Object {
    /// Describes bytes that were loaded for an agent.
    pub(crate) fn of(agent: u64, loaded: u64, bytes: &[u8], at: LoadedAt) -> Object {
        let parsed = Image::parse(bytes).and_then(|image| Ok((CodeObject::of(&image)?, image)));
        let (module, inner, instructions) = match &parsed {
            Ok((code, image)) => {
                (Module::of_object(code, image).ok(), image.inner_data(&code.globals), KernelCode::of(code, image))
            }
            Err(_) => (None, Vec::new(), Vec::new()),
        };
        let code = parsed.map(|(code, _)| code).map_err(|error| UnknownCode::Damaged(Arc::new(error)));
        let (number, hash, common) = (next_number(), Hash::of(bytes), OnceLock::new());
        Object { number, loaded, agent, hash, at, code, module, inner, common, instructions }
    }

    /// Describes the only code object of an executable that the kernel cache loaded, by its bytes in the cache.
    pub(crate) fn ours(api: &Api, executable: Executable, agent: u64, bytes: &[u8]) -> Object {
        let at = api.loader().and_then(|loader| {
            let loaded = loader.code_objects(executable)?;
            loaded.first().map_or(Ok(LoadedAt::default()), |loaded| loader.loaded_at(*loaded))
        });
        Object::of(agent, 0, bytes, at.unwrap_or_default())
    }

    /// Loaded addresses of variables that the runtime does not know by name; none if the runtime does not tell the load address.
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

    /// A kernel by its number.
    pub(crate) fn kernel(&self, number: usize) -> Option<&Kernel> {
        self.code.as_ref().ok()?.kernels.get(number)
    }

    /// What a swap has to know of a kernel, by its number; `None` if its code object does not describe it.
    ///
    /// # Errors
    /// Why the code object cannot be read.
    pub(crate) fn interface(&self, number: usize) -> Result<Option<Interface>, UnknownCode> {
        let code = self.code.as_ref().map_err(Clone::clone)?;
        let common = self.common.get_or_init(|| Common::of(code));
        Ok(code.kernels.get(number).map(|kernel| common.interface(code, kernel)))
    }

    /// Where a kernel's instructions are, by its number.
    pub(crate) fn instructions(&self, number: usize) -> Option<KernelCode> {
        self.instructions.get(number).copied().flatten()
    }

    /// A kernel's instructions, by its number; `None` if the application has unmapped them.
    pub(crate) fn code_of(&self, api: &Api, number: usize) -> Option<Vec<u8>> {
        let instructions = self.instructions(number)?;
        let (base, size) = api.loader().and_then(|loader| loader.code_object_bytes(self.loaded)).ok()?;
        let end = instructions.offset.checked_add(instructions.size)?;
        let mut bytes = vec![0; usize::try_from(instructions.size).ok().filter(|_| base != 0 && end <= size)?];
        own_memory::read(base.checked_add(instructions.offset)?, &mut bytes).ok()?;
        Some(bytes)
    }

    /// True if an address is inside the loaded code object.
    fn has(&self, address: u64) -> bool {
        address.checked_sub(self.at.base).is_some_and(|offset| offset < self.at.size)
    }

    /// The load address less the address in the file; `None` if the runtime does not tell it.
    pub(crate) fn moved_by(&self) -> Option<u64> {
        (self.at.base != 0).then_some(self.at.delta)
    }

    /// The memory that it was loaded from; `None` if the runtime does not tell it.
    pub(crate) fn place(&self, api: &Api) -> Option<u64> {
        let (base, _) = api.loader().and_then(|loader| loader.code_object_bytes(self.loaded)).ok()?;
        Some(base).filter(|&base| base != 0)
    }

    /// The runtime's URI of its origin; empty if the runtime does not tell it.
    pub(crate) fn uri(&self, api: &Api) -> String {
        // A code object of the cache has no handle.
        let handle = Some(self.loaded).filter(|&handle| handle != 0);
        handle.and_then(|handle| api.loader().and_then(|loader| loader.uri(handle)).ok()).unwrap_or_default()
    }

    /// What rows call it: the name of its file and a short hash of the URI, which says where in that it is. Of one that was loaded from
    /// memory, a short hash of its bytes, since others may come to lie where it was. Empty if the runtime tells nothing, or the application has
    /// unmapped them.
    pub(crate) fn name(&self, api: &Api) -> String {
        let uri = self.uri(api);
        if let Some((path, _)) = uri.strip_prefix("file://").map(|rest| rest.split_once('#').unwrap_or((rest, ""))) {
            let file = path.rsplit('/').next().unwrap_or(path);
            return format!("{}#{}", escaped(file), Hash::of(uri.as_bytes()).short());
        }
        let of_bytes = || self.bytes(api).ok().map(|bytes| Hash::of(&bytes));
        let hash = if self.hash == Hash::of(&[]) { of_bytes() } else { Some(self.hash) };
        hash.map_or_else(String::new, |hash| format!("#{}", hash.short()))
    }

    /// Its bytes, which are not kept.
    ///
    /// # Errors
    /// When they no longer exist.
    pub(crate) fn bytes(&self, api: &Api) -> Result<Vec<u8>, UnknownCode> {
        bytes_of(api, self.loaded, CodeContents::All)
    }

    /// Reads what the runtime tells about a loaded code object, and the wanted part of its bytes.
    fn read(api: &Api, loaded: u64, part: CodeContents) -> hsa::Result<WithBytes> {
        let loader = api.loader()?;
        let (agent, at) = (loader.agent(loaded)?, loader.loaded_at(loaded).unwrap_or_default());
        let (bytes, code) = match bytes_of(api, loaded, part) {
            Ok(bytes) if part == CodeContents::All => {
                return Ok((Arc::new(Object::of(agent, loaded, &bytes, at)), bytes));
            }
            Ok(bytes) => {
                let code = CodeObject::parse(&bytes).map_err(|error| UnknownCode::Damaged(Arc::new(error)));
                (bytes, code)
            }
            Err(why) => (Vec::new(), Err(why)),
        };
        let (number, hash, module) = (next_number(), Hash::of(&[]), None);
        let (inner, common, instructions) = (Vec::new(), OnceLock::new(), Vec::new());
        Ok((Arc::new(Object { number, loaded, agent, hash, at, code, module, inner, common, instructions }), bytes))
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The bytes that a code object was loaded from. Bytes outside of the wanted part are zeros.
fn bytes_of(api: &Api, loaded: u64, part: CodeContents) -> Result<Vec<u8>, UnknownCode> {
    let place = api.loader().and_then(|loader| loader.code_object_bytes(loaded));
    let (base, size) = place?;
    if base == 0 || size == 0 || size > MOST {
        return Err(UnknownCode::NowhereOrTooLarge { base, size });
    }
    if part == CodeContents::Descriptions {
        return skim(&OwnMemory { base, size }, 0, size).map_err(|error| UnknownCode::Damaged(Arc::new(error)));
    }
    let no_memory = || UnknownCode::NoMemory { size };
    // The description of its kernels needs some, too.
    let enough = usize::try_from(size).ok().filter(|size| pages::are_there(2 * size));
    let mut bytes = enough.and_then(zeroed).ok_or_else(no_memory)?;
    // The application may have unmapped them since: the kernel says so.
    own_memory::read(base, &mut bytes).map_err(|error| UnknownCode::Gone { base, size, source: Arc::new(error) })?;
    Ok(bytes)
}

/// Copies the process's own memory, which may be unmapped.
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
    /// Reads the new code objects of an executable, as far as `part` says.
    ///
    /// # Errors
    /// When the runtime does not know the executable, or cannot list its code objects.
    pub(crate) fn look(&self, api: &Api, executable: Executable, part: CodeContents) -> hsa::Result<Vec<WithBytes>> {
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
    /// When the runtime does not know the executable, or cannot list its code objects.
    pub(crate) fn handles(&self, api: &Api, executable: Executable) -> hsa::Result<Vec<u64>> {
        let mut loaded = api.loader()?.code_objects(executable)?;
        let without_agent = lock(&self.without_agent);
        if let Some(without) = without_agent.get(&executable.0) {
            loaded.retain(|handle| !without.contains(handle));
        }
        Ok(loaded)
    }

    /// Notes a code object that was loaded for no agent, or that failed to load.
    pub(crate) fn without_agent(&self, executable: Executable, loaded: u64) {
        lock(&self.without_agent).entry(executable.0).or_default().push(loaded);
    }

    /// An executable is about to be destroyed.
    pub(crate) fn destroyed(&self, executable: Executable) {
        drop(self.take(executable));
        lock(&self.without_agent).remove(&executable.0);
    }

    /// The code objects of a frozen executable, which gets no more.
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
    /// Indexes code objects by their kernels and variables.
    pub(crate) fn new(all: &'a [Arc<Object>]) -> Objects<'a> {
        let (mut placed, mut kernels, mut variables) = (HashMap::new(), HashMap::new(), HashMap::new());
        for object in all {
            let Ok(code) = &object.code else { continue };
            for (n, kernel) in code.kernels.iter().enumerate() {
                kernels.insert((object.agent, &*kernel.name), (object, n));
                if let (Some(descriptor), Some(moved_by)) = (&kernel.descriptor, object.moved_by()) {
                    placed.insert((object.agent, descriptor.address.wrapping_add(moved_by)), (object, n));
                }
            }
            variables.extend(code.globals.iter().map(|global| ((object.agent, &*global.name), object)));
        }
        Objects { all, placed, kernels, variables }
    }

    /// Gives kernels the whole names that their code objects have.
    pub(crate) fn name(&self, symbols: &mut [KernelSymbol]) {
        for symbol in symbols {
            let found = self.placed.get(&(symbol.agent, symbol.kernel_object));
            if let Some(kernel) = found.and_then(|&(object, n)| object.kernel(n)) {
                let name = kernel.symbol.strip_suffix(".kd").or_else(|| kernel.symbol.strip_suffix("@kd"));
                symbol.name = format!("{}.kd", name.unwrap_or(&kernel.symbol));
            }
        }
    }

    /// A kernel: its code object, and its number in that.
    pub(crate) fn kernel(&self, symbol: &KernelSymbol) -> Option<OfKernel<'a>> {
        let placed = self.placed.get(&(symbol.agent, symbol.kernel_object));
        placed.or_else(|| self.kernels.get(&(symbol.agent, name_of(symbol)))).copied()
    }

    /// What the metadata says of a kernel.
    pub(crate) fn described(&self, symbol: &KernelSymbol) -> Option<&'a Kernel> {
        self.kernel(symbol).and_then(|(object, n)| object.kernel(n))
    }

    /// All of them.
    pub(crate) fn all(&self) -> &'a [Arc<Object>] {
        self.all
    }

    /// The agents that the code objects were loaded for.
    pub(crate) fn agents(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|object| object.agent)
    }

    /// The code object of a kernel. Kernels that no readable code object has belong to the one that cannot be read.
    pub(crate) fn of_kernel(&self, symbol: &KernelSymbol) -> Option<&'a Arc<Object>> {
        let found = self.kernel(symbol).map(|(object, _)| object);
        // A kernel without metadata still has a descriptor.
        let found = found.or_else(|| self.variables.get(&(symbol.agent, &*symbol.name)).copied());
        found.or_else(|| self.all.iter().find(|object| object.agent == symbol.agent && object.code.is_err()))
    }

    /// The code object of a variable.
    pub(crate) fn of_variable(&self, variable: &VariableSymbol) -> Option<&'a Arc<Object>> {
        let agent = variable.agent;
        let there = self.all.iter().find(|object| object.agent == agent && object.has(variable.address));
        let named = || self.variables.get(&(agent, &*variable.name)).copied();
        there.or_else(named).or_else(|| self.all.iter().find(|object| object.agent == agent))
    }

    /// Registers of a kernel.
    pub(crate) fn registers(&self, symbol: &KernelSymbol) -> Registers {
        self.described(symbol)
            .map_or(Registers::default(), |kernel| registers(kernel.vgprs, kernel.agprs, kernel.sgprs))
    }

    /// The size of a kernel's arguments in bytes, as its descriptor or its metadata says: the larger one if both do. `None` if neither
    /// can be believed.
    pub(crate) fn kernarg_size(&self, symbol: &KernelSymbol) -> Option<u32> {
        match self.described(symbol) {
            Some(kernel) => kernel.told_kernarg_bytes().map(|told| told.max(symbol.kernarg_size.unwrap_or(0))),
            None => symbol.kernarg_size,
        }
    }
}
