//! Kernels of a cache that run in place of the application's.
//!
//! Decisions are made when code is loaded or a file of the cache changes. A table maps the address of each kernel to its replacement.
//! Publishers look it up.
//!
//! # Threads
//! The application's threads that load code and the thread that watches the cache exclude each other: each holds the lock of the state
//! while it decides and while the runtime loads the replacement. The runtime never calls back into this code. Publishers never take the
//! lock.

mod alternative;
mod clones;
mod error;
mod filters;
mod libraries;
mod notices;
mod originals;
mod replacement;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use amdgpu_code_object::Target;
use hsa::{Api, Executable, HsaError, KernelSymbol};
use hsa_sys::abi::aql::Packet;
use logdur_intercept::Interceptor;
use logdur_intercept::address_map::AddressMap;
use logdur_intercept::kernarg_ring::{self, KernargRing};
use logdur_intercept::ports::{ChangeDispatch, Changed};
use logdur_journal::Kernel;
use logdur_journal::names::demangle;
use logdur_kernel_cache::twins::{Loaded, Twins, Wanted};
use logdur_kernel_cache::{
    Cache, Choice, Decision, Hash, Interface, Kernarg, Module, Modules, Pick, Swap, Trust, index_folder,
};
use logdur_settings as settings;
use logdur_settings::{CacheMode, TRUST_ALL};
use logdur_system::lock;
use logdur_system::signals::Quiet;
use logdur_system::trust;

use crate::code::{LoadedCode, Object, Objects, name_of, registers};
use crate::instrument::Instrument;
use crate::kernels::Kernels;
use crate::ports::{FollowCode, OwnVariables, Switch};

use alternative::{Alternative, Bound};
use error::NotReplaced;
use filters::Filters;
use libraries::LibraryFilter;
use notices::{listed, say, variables_told};
use originals::{Original, Originals};
use replacement::{Alternation, Replacement};

/// What swaps kernels, when there is a cache.
pub(crate) struct Swapper {
    kernels: &'static Kernels,
    code: &'static LoadedCode,
    /// Learns of what is loaded, when dispatches are captured.
    follows: OnceLock<&'static dyn FollowCode>,
    roots: Vec<PathBuf>,
    filters: Filters,
    pick: Option<Pick>,
    /// Which of different kernels of one name are replaced, if the user has said that.
    wanted: Option<Wanted>,
    mode: CacheMode,
    is_on: AtomicBool,
    state: Mutex<State>,
    /// Address of a kernel's descriptor to that of its [`Replacement`].
    replacements: AddressMap,
    /// Numbers of the kernels whose durations are compared.
    compared: RwLock<HashSet<u32>>,
    watched: AtomicBool,
    /// Present in instrumented mode: clones run, and no other kernels of the cache.
    instrument: Option<&'static Instrument>,
    /// Which libraries are searched for clones.
    libraries: LibraryFilter,
}

struct State {
    cache: Cache,
    originals: Originals,
    twins: Twins,
    /// The code objects of the cache that are loaded.
    alternatives: HashMap<AlternativeKey, Result<Alternative, NotReplaced>>,
    /// The bytes of what was ever loaded: the runtime wants them for as long as the process lives.
    bytes: HashMap<Hash, &'static [u8]>,
    /// By agent and bytes of a block.
    rings: HashMap<(u64, usize), &'static KernargRing>,
    /// Of each agent.
    targets: HashMap<u64, Option<Target>>,
    asked: Asked,
    /// What was last said, of a kernel on an agent or of its packets.
    said: HashMap<String, String>,
    /// Those that run, by where they are, with what they are called.
    running: HashMap<usize, (&'static Replacement, String)>,
    /// All that were made, by the addresses of both kernels: code that is loaded again is mostly where it was.
    made: HashMap<(u64, u64), Vec<&'static Replacement>>,
}

impl State {
    /// What code for an agent has to be for.
    fn target_of(&mut self, api: &Api, agent: u64) -> Option<Target> {
        let of_agent = || api.isa_names(agent).ok()?.iter().find_map(|name| Target::parse(name).ok());
        self.targets.entry(agent).or_insert_with(of_agent).clone()
    }
}

/// What was asked about the application's kernels.
#[derive(Default)]
struct Asked {
    /// The cache has had a kernel of the name of one.
    had_another: bool,
    /// The filters want one of those.
    was_named: bool,
    /// Kernels that stay as they are, by name and code object, and why.
    refused: BTreeMap<(String, String), String>,
}

/// A code object of the cache as it is loaded for an agent. One that has variables is loaded once for each of the
/// application's code objects whose kernels it replaces, so that kernels share its own as they share the application's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AlternativeKey {
    agent: u64,
    code: Hash,
    /// The numbers of the application's code objects whose variables it uses.
    uses: Vec<u64>,
}

/// What becomes of a kernel.
enum Outcome {
    /// Nothing is known that could run in its place.
    Nothing,
    /// It runs as it is.
    Stays(String),
    /// This one runs in its place; whether it was made for it may be in doubt.
    Replaced(&'static Replacement, Box<Choice>, Option<String>),
    /// Its clone, which is in this place, runs in its place.
    Instrumented(&'static Replacement, String),
}

impl ChangeDispatch for Swapper {
    fn change(&self, packet: &Packet, queue: u64, recorded: bool) -> Option<Changed> {
        let replacement = self.current(packet.kernel_object())?;
        if replacement.probe.is_none() && !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        // A queue that is only being created has no address yet. A clone without a record would have no buffers for its messages.
        if queue == 0 || (!recorded && replacement.probe.is_some()) {
            return None;
        }
        replacement.swap(packet, queue)
    }
}

impl Switch for Swapper {
    fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }
}

impl OwnVariables for Swapper {
    fn with_own_variables(&self, kernel_object: u64) -> Option<Executable> {
        let replacement = self.current(kernel_object)?;
        (!replacement.swap.binding.own.is_empty()).then_some(replacement.executable)
    }
}

impl Swapper {
    /// What the settings ask for, and what is to be said of it; `None` without a cache, if nothing is instrumented.
    pub(crate) fn new(
        settings: &settings::Interceptor,
        instrument: Option<&'static Instrument>,
        kernels: &'static Kernels,
        code: &'static LoadedCode,
    ) -> (Option<Swapper>, Vec<String>) {
        let roots = settings.kernel_cache.0.clone();
        if roots.is_empty() && instrument.is_none() {
            return (None, Vec::new());
        }
        let mut said = Vec::new();
        let mut libraries = LibraryFilter::default();
        if let Some(path) = settings.library_filter.as_ref().filter(|_| instrument.is_some()) {
            match LibraryFilter::read(path) {
                Ok(read) => {
                    let left_out =
                        |what: &String| format!("{}: {what}; it is left out", settings::Interceptor::library_filter);
                    said.extend(read.problems.iter().map(left_out));
                    libraries = read;
                }
                Err(error) => {
                    let (name, path) = (settings::Interceptor::library_filter, path.display());
                    return (None, vec![format!("{name}: {path}: {error}; no kernel is instrumented")]);
                }
            }
        }
        let roots: Vec<PathBuf> = roots.into_iter().chain(libraries.include.iter().cloned()).collect();
        let filters = match Filters::new(settings) {
            Ok(filters) => filters,
            Err(refusal) => return (None, vec![refusal]),
        };
        let pick = settings.kernel_cache_pick.as_deref().map(str::parse).transpose().unwrap_or_else(|error| {
            said.push(format!("{}: {error}; it is ignored", settings::Interceptor::kernel_cache_pick));
            None
        });
        let wanted = settings.kernel_cache_original.as_deref().map(str::parse).transpose().unwrap_or_else(|error| {
            said.push(format!("{}: {error}; it is ignored", settings::Interceptor::kernel_cache_original));
            None
        });
        let trust = Trust::of(trust::user(), settings.kernel_cache_trust != 0, TRUST_ALL);
        let cache = {
            // It writes its index.
            let _quiet = Quiet::new();
            Cache::open(&roots, index_folder().as_deref(), trust)
        };
        said.extend(cache.problems().iter().map(|p| format!("cache: {}: {}", p.path.display(), p.reason)));
        let mode = settings.kernel_cache_mode;
        // The data of the two kernels is not seen here: one that computes something else may well be the faster one.
        let unseen = "; the log has durations, and nothing of results: `omniprobe verify --cache DIR` looks at those";
        if instrument.is_none() {
            said.push(format!("cache: mode {mode}{}", if mode == CacheMode::Swap { "" } else { unseen }));
        }
        let state = State {
            cache,
            originals: Originals::default(),
            twins: Twins::default(),
            alternatives: HashMap::new(),
            bytes: HashMap::new(),
            rings: HashMap::new(),
            targets: HashMap::new(),
            said: HashMap::new(),
            asked: Asked::default(),
            running: HashMap::new(),
            made: HashMap::new(),
        };
        let swapper = Swapper {
            kernels,
            code,
            follows: OnceLock::new(),
            roots,
            filters,
            pick,
            wanted,
            mode,
            is_on: AtomicBool::new(true),
            state: Mutex::new(state),
            replacements: AddressMap::new(),
            compared: RwLock::default(),
            watched: AtomicBool::new(false),
            instrument,
            libraries,
        };
        (Some(swapper), said)
    }

    /// A feature learns of the code objects of the cache from now on, the first one that asks.
    pub(crate) fn follow(&self, feature: &'static dyn FollowCode) {
        let _ = self.follows.set(feature);
    }

    /// What runs in place of a kernel, by the address of that kernel's descriptor.
    #[inline]
    fn current(&self, kernel_object: u64) -> Option<&'static Replacement> {
        let address = self.replacements.get(kernel_object);
        if address == 0 {
            return None;
        }
        let replacement: *const Replacement = ptr::with_exposed_provenance(address as usize);
        // SAFETY: the table has addresses of replacements only, which are never freed.
        Some(unsafe { &*replacement })
    }

    /// An executable of the application's was frozen: its kernels have addresses.
    pub(crate) fn frozen(
        &self,
        interceptor: &'static Interceptor,
        executable: Executable,
        symbols: &[KernelSymbol],
        objects: &Objects<'_>,
    ) {
        let mut state = lock(&self.state);
        state.originals.frozen(executable, symbols, objects);
        let mut settled = HashSet::new();
        let names = symbols.iter().map(name_of);
        // A clone may come after its kernel.
        let originals: Vec<String> =
            names.clone().filter(|_| self.instrument.is_some()).filter_map(clones::of_clone).collect();
        for name in names.chain(originals.iter().map(String::as_str)).filter(|&name| settled.insert(name)) {
            self.choose_replacement(interceptor, &mut state, name);
        }
    }

    /// An executable of the application's is about to be destroyed.
    pub(crate) fn destroyed(&self, interceptor: &Interceptor, executable: Executable) {
        let mut state = lock(&self.state);
        let State { originals, alternatives, running, .. } = &mut *state;
        let gone = originals.destroyed(executable);
        for address in gone.kernels {
            self.replacements.set(address, 0);
        }
        // What uses its variables goes with them. Its dispatches have ended, as those of the application's own kernels have.
        let is_gone = |uses: &[u64]| uses.iter().any(|number| gone.objects.contains(number));
        for (replacement, _) in running.extract_if(|_, (replacement, _)| is_gone(&replacement.uses)).map(|(_, it)| it) {
            if self.replacements.get(replacement.original) == ptr::from_ref(replacement).addr() as u64 {
                self.replacements.set(replacement.original, 0);
            }
        }
        for (key, alternative) in alternatives.extract_if(|key, _| is_gone(&key.uses)) {
            let Ok(Alternative { executable, .. }) = alternative else { continue };
            // A dispatch of a module that stays may be in flight: its code stays too.
            if !key.uses.iter().all(|number| gone.objects.contains(number)) {
                continue;
            }
            if let Some(capture) = self.follows.get() {
                capture.unloaded(executable);
            }
            self.kernels.destroyed(executable);
            // What stays is only in the way.
            let _ = interceptor.api().unload_code(executable);
        }
    }

    /// The runtime is gone, with all that was loaded.
    pub(crate) fn forget(&self) {
        self.replacements.clear();
        let mut state = lock(&self.state);
        state.originals = Originals::default();
        state.twins = Twins::default();
        state.alternatives.clear();
        state.rings.clear();
        state.targets.clear();
        state.running.clear();
    }

    /// Decides what becomes of the application's kernels of a name.
    fn choose_replacement(&self, interceptor: &'static Interceptor, state: &mut State, name: &str) {
        let subject = if self.instrument.is_some() { "instrumented" } else { "cache" };
        let originals = state.originals.named(name);
        if self.instrument.is_none() && state.cache.has(name) {
            self.compare_with_others(interceptor, state, &originals);
        }
        for original in originals {
            let object = original.object().map(|object| object.hash.short()).unwrap_or_default();
            let address = original.symbol.kernel_object;
            let agent = interceptor.agent_position(original.symbol.agent).map_or("?".to_owned(), |p| p.to_string());
            let shown = demangle(name);
            let text = match self.outcome(interceptor, state, &original) {
                Outcome::Nothing => {
                    let was_replaced = self.replacements.get(address) != 0;
                    self.replacements.set(address, 0);
                    if !was_replaced {
                        continue;
                    }
                    format!("{subject}: {shown} on agent {agent} is the application's own again")
                }
                Outcome::Stays(reason) => {
                    self.replacements.set(address, 0);
                    state.asked.refused.insert((shown.clone(), object.clone()), reason.clone());
                    format!("{subject}: {shown} on agent {agent} stays as it is: {reason}")
                }
                Outcome::Replaced(replacement, choice, doubt) => {
                    self.runs(state, address, replacement, (shown.clone(), object.clone()));
                    if self.mode != CacheMode::Swap {
                        let numbers = [self.kernels.number(address), replacement.kernel];
                        self.compared.write().unwrap_or_else(|e| e.into_inner()).extend(numbers);
                    }
                    let (path, hash) = (choice.candidate.path.display(), choice.hash.short());
                    let variables = variables_told(&replacement.swap);
                    let doubt = doubt.map_or(String::new(), |doubt| format!("; in doubt, as {doubt}"));
                    format!("cache: {path} active: {shown} on agent {agent}{variables}, {hash}{doubt}")
                }
                Outcome::Instrumented(replacement, from) => {
                    self.runs(state, address, replacement, (shown.clone(), object.clone()));
                    format!("instrumented: {shown} on agent {agent}: its clone is in {from}")
                }
            };
            // Another kernel of the name has its own line.
            let apart = if state.twins.are_there(original.symbol.agent, name) { &*object } else { "" };
            say(interceptor, &mut state.said, format!("{name} on agent {agent} {apart}"), text);
        }
    }

    /// Notes which different kernels of one name there are.
    fn compare_with_others(&self, interceptor: &Interceptor, state: &mut State, originals: &[Original]) {
        let api = interceptor.api();
        let mut several = false;
        for original in originals {
            if let Some((likeness, hash)) = original.likeness() {
                let (agent, name) = (original.symbol.agent, likeness.interface.name.clone());
                state.twins.loaded(agent, likeness, hash, || original.code(api));
                several |= state.twins.are_there(agent, &name);
            }
        }
        // Only now it is known of the first ones that there are others.
        for original in originals.iter().filter(|_| several) {
            if let Some((likeness, hash)) = original.likeness() {
                state.twins.loaded(original.symbol.agent, likeness, hash, || original.code(api));
            }
        }
    }

    /// From now on, publishers find the replacement of the kernel at an address.
    fn runs(&self, state: &mut State, address: u64, replacement: &'static Replacement, of: (String, String)) {
        self.replacements.set(address, ptr::from_ref(replacement).expose_provenance() as u64);
        state.asked.refused.remove(&of);
        state.running.entry(ptr::from_ref(replacement).addr()).or_insert((replacement, of.0));
    }

    /// What is known of a kernel for which there is another one, if the user wants that it is replaced.
    fn wanted(&self, api: &Api, state: &mut State, original: &Original) -> Result<(Interface, Hash), Outcome> {
        state.asked.had_another = true;
        if !self.filters.want(name_of(&original.symbol)) {
            return Err(Outcome::Nothing);
        }
        state.asked.was_named = true;
        if let Some(target) = state.target_of(api, original.symbol.agent).filter(Target::has_metadata_ring) {
            let reason = "has a second record of each packet's kernel, which no other kernel would agree with";
            return Err(Outcome::Stays(format!("{target} {reason}")));
        }
        original.interface().map_err(|reason| Outcome::Stays(reason.to_string()))
    }

    fn outcome(&self, interceptor: &'static Interceptor, state: &mut State, original: &Original) -> Outcome {
        if let Some(instrument) = self.instrument {
            return self.outcome_of_clone(interceptor, state, original, instrument);
        }
        let name = name_of(&original.symbol);
        if !state.cache.has(name) {
            return Outcome::Nothing;
        }
        let (interface, hash) = match self.wanted(interceptor.api(), state, original) {
            Ok(known) => known,
            Err(outcome) => return outcome,
        };
        let (api, agent) = (interceptor.api(), original.symbol.agent);
        let target = state.target_of(api, agent);
        let others = state.originals.others(agent, original.object());
        let other_modules: Vec<&Module> = others.iter().filter_map(|object| object.module.as_ref()).collect();
        let own = original.object().and_then(|object| object.module.as_ref());
        let modules = Modules { own, others: &other_modules };
        match state.cache.decide(&interface, &hash, modules, target.as_ref(), self.pick.as_ref()) {
            Decision::Nothing => Outcome::Nothing,
            Decision::Refused(refused) => {
                let reasons = refused.iter().map(|(candidate, refusals)| {
                    let reasons: Vec<_> = refusals.iter().map(ToString::to_string).collect();
                    format!("{}: {}", candidate.path.display(), reasons.join(", "))
                });
                Outcome::Stays(reasons.collect::<Vec<_>>().join("; "))
            }
            Decision::Running(choices) => Outcome::Stays(format!(
                "the code object that runs is among those that fit ({}); {} chooses",
                listed(&choices),
                settings::Interceptor::kernel_cache_pick
            )),
            Decision::Several(choices) => Outcome::Stays(format!(
                "several fit ({}); {} chooses",
                listed(&choices),
                settings::Interceptor::kernel_cache_pick
            )),
            Decision::Swap { choice, swap } => {
                let State { twins, cache, .. } = &mut *state;
                let its = interface.on(target.as_ref());
                let loaded = Loaded { agent, interface: &its, object: &hash };
                let decided = twins.decide(loaded, &choice, self.wanted.as_ref(), || cache.read_chosen(&choice).ok());
                let chooses = |text| format!("{text}; {} chooses", settings::Interceptor::kernel_cache_original);
                let doubt = match decided {
                    Ok(doubt) => doubt.map(chooses),
                    Err(reason) => {
                        let path = choice.candidate.path.display();
                        return Outcome::Stays(format!("{path}: {}", chooses(reason)));
                    }
                };
                match self.replace(interceptor, state, original, &others, &choice, swap) {
                    Ok(replacement) => Outcome::Replaced(replacement, choice, doubt),
                    Err(reason) => Outcome::Stays(format!("{}: {reason}", choice.candidate.path.display())),
                }
            }
        }
    }

    /// Has the runtime load the replacement of a kernel. A replacement that is loaded already stays, with its counters.
    fn replace(
        &self,
        interceptor: &'static Interceptor,
        state: &mut State,
        original: &Original,
        others: &[Arc<Object>],
        choice: &Choice,
        swap: Swap,
    ) -> Result<&'static Replacement, NotReplaced> {
        let current = self.current(original.symbol.kernel_object);
        let (api, agent) = (interceptor.api(), original.symbol.agent);
        let of_module = |number: usize| match number.checked_sub(1) {
            None => original.object(),
            Some(n) => others.get(n).map(|object| &**object),
        };
        let has_variables = !choice.candidate.interface.variables.is_empty();
        let used: BTreeSet<usize> = swap.binding.patches.iter().map(|patch| patch.module).collect();
        let uses = used.into_iter().chain(has_variables.then_some(0)).filter_map(of_module).map(|object| object.number);
        let uses: Vec<u64> = uses.collect::<BTreeSet<u64>>().into_iter().collect();
        let is_same =
            |current: &&Replacement| current.code == choice.hash && current.swap == swap && current.uses == uses;
        if let Some(current) = current.filter(is_same) {
            return Ok(current);
        }
        let State { alternatives, bytes, cache, rings, made, .. } = state;
        let key = AlternativeKey { agent, code: choice.hash, uses: uses.clone() };
        let loaded = alternatives.entry(key).or_insert_with(|| {
            let moved_by = |module| of_module(module)?.moved_by();
            let wanted = Bound { choice, binding: &swap.binding, moved_by: &moved_by };
            Alternative::load(self, interceptor, agent, cache, bytes, &wanted)
        });
        let Alternative { executable, symbols } = loaded.as_ref().map_err(Clone::clone)?;
        let its = &choice.candidate.interface;
        let symbol = symbols.get(&its.name).ok_or(NotReplaced::KernelMissing)?;
        let kernel = self.kernels.named(Kernel {
            symbol: name_of(&original.symbol).to_owned(),
            kernarg_size: original.symbol.kernarg_size,
            registers: registers(its.vgprs, Some(its.agprs), its.sgprs),
            replaced: choice.hash.short(),
            code: self.kernels.code(original.symbol.kernel_object),
            ..Kernel::default()
        });
        let new = Replacement {
            kernel_object: symbol.kernel_object,
            executable: *executable,
            original: original.symbol.kernel_object,
            uses,
            code: choice.hash,
            kernel,
            kernargs: ring_for(api, agent, rings, &swap.kernarg)?,
            swap,
            alternation: Alternation::new(self.mode),
            refusal: OnceLock::new(),
            was_full: AtomicBool::new(false),
            probe: None,
        };
        Ok(kept(made, new))
    }
}

/// The replacement itself, or one that was made before and does the same.
fn kept(made: &mut HashMap<(u64, u64), Vec<&'static Replacement>>, new: Replacement) -> &'static Replacement {
    let known = made.entry((new.original, new.kernel_object)).or_default();
    if let Some(same) = known.iter().find(|known| known.is_like(&new)) {
        return same;
    }
    let leaked: &'static Replacement = Box::leak(Box::new(new));
    known.push(leaked);
    leaked
}

/// The ring for arguments that are laid out anew; `None` for those that are not.
fn ring_for(
    api: &Api,
    agent: u64,
    rings: &mut HashMap<(u64, usize), &'static KernargRing>,
    kernarg: &Kernarg,
) -> Result<Option<&'static KernargRing>, HsaError> {
    let Kernarg::Relaid(layout) = kernarg else { return Ok(None) };
    let bytes = kernarg_ring::block_bytes(layout.size as usize);
    let ring = match rings.get(&(agent, bytes)) {
        Some(ring) => *ring,
        None => KernargRing::new(api, agent, bytes)?,
    };
    rings.insert((agent, bytes), ring);
    Ok(Some(ring))
}
