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
mod libraries;
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
use logdur_intercept::address_map::AddressMap;
use logdur_intercept::kernarg_ring::{self, KernargRing};
use logdur_intercept::lock;
use logdur_intercept::ports::{ChangeDispatch, Changed};
use logdur_journal::Kernel;
use logdur_journal::names::{demangle, is_named, one_line};
use logdur_journal::trust;
use logdur_kernel_cache::{
    Cache, Choice, Decision, Hash, Interface, Kernarg, Module, Modules, Pick, Swap, Trust, index_folder,
};
use logdur_settings::{CacheMode, Interceptor, TRUST_ALL};
use regex::Regex;

use crate::code::{Object, Objects, name_of, registers};
use crate::instrument::Instrument;
use crate::session::Session;

use alternative::Alternative;
use error::NotReplaced;
use libraries::LibraryFilter;
use originals::{Original, Originals};
use replacement::{Alternation, Replacement};

/// What swaps kernels, when there is a cache.
pub(crate) struct Swapper {
    roots: Vec<PathBuf>,
    filter: Option<Regex>,
    pick: Option<Pick>,
    mode: CacheMode,
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
    /// The code objects of the cache that are loaded.
    alternatives: HashMap<Copy, Result<Alternative, NotReplaced>>,
    /// The bytes of what was ever loaded: the runtime wants them for as long as the process lives.
    bytes: HashMap<Hash, &'static [u8]>,
    /// By agent and bytes of a block.
    rings: HashMap<(u64, usize), &'static KernargRing>,
    /// Of each agent.
    targets: HashMap<u64, Option<Target>>,
    asked: Asked,
    /// What was last said, of a kernel on an agent or of its packets.
    said: HashMap<String, String>,
    /// Those that run, with what they are called.
    running: Vec<(&'static Replacement, String)>,
    /// All that were made, by the addresses of both kernels: code that is loaded again is mostly where it was.
    made: HashMap<(u64, u64), Vec<&'static Replacement>>,
}

/// What was asked about the application's kernels.
#[derive(Default)]
struct Asked {
    /// The cache has had a kernel of the name of one.
    had_another: bool,
    /// The filter has matched one of those.
    was_named: bool,
    /// Names of kernels that stay as they are, and why.
    refused: BTreeMap<String, String>,
}

/// A code object of the cache as it is loaded for an agent. One that has variables is loaded once for each of the
/// application's code objects whose kernels it replaces, so that kernels share its own as they share the application's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Copy {
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
    /// This one runs in its place.
    Replaced(&'static Replacement, Box<Choice>),
    /// Its clone, which is in this place, runs in its place.
    Instrumented(&'static Replacement, String),
}

impl ChangeDispatch for Swapper {
    fn change(&self, packet: &Packet, queue: u64) -> Option<Changed> {
        let replacement = self.current(packet.kernel_object())?;
        // A queue that is only being created has no address yet.
        if queue == 0 {
            return None;
        }
        replacement.swap(packet, queue)
    }
}

impl Swapper {
    /// What the settings ask for, and what is to be said of it; `None` without a cache, if nothing is instrumented.
    pub(crate) fn new(
        settings: &Interceptor,
        instrument: Option<&'static Instrument>,
    ) -> (Option<Swapper>, Vec<String>) {
        let roots = settings.kernel_cache.0.clone();
        if roots.is_empty() && instrument.is_none() {
            return (None, Vec::new());
        }
        let mut said = Vec::new();
        let mut libraries = LibraryFilter::default();
        if let Some(path) = settings.library_filter.as_ref().filter(|_| instrument.is_some()) {
            match LibraryFilter::read(path) {
                Ok(read) => libraries = read,
                Err(error) => {
                    let (name, path) = (Interceptor::library_filter, path.display());
                    return (None, vec![format!("{name}: {path}: {error}; no kernel is instrumented")]);
                }
            }
        }
        let roots: Vec<PathBuf> = roots.into_iter().chain(libraries.include.iter().cloned()).collect();
        let filter = match settings.filter.as_deref().map(Regex::new).transpose() {
            Ok(filter) => filter,
            Err(error) => {
                // Only some kernels were to be swapped, not all.
                let (name, error) = (Interceptor::filter, one_line(&error.to_string()));
                return (
                    None,
                    vec![format!(
                        "{name}: expected a regular expression, no kernel is swapped or instrumented: {error}"
                    )],
                );
            }
        };
        let pick = settings.kernel_cache_pick.as_deref().map(str::parse).transpose().unwrap_or_else(|error| {
            said.push(format!("{}: {error}; it is ignored", Interceptor::kernel_cache_pick));
            None
        });
        let trust = Trust::of(trust::user(), settings.kernel_cache_trust != 0, TRUST_ALL);
        let cache = Cache::open(&roots, index_folder().as_deref(), trust);
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
            alternatives: HashMap::new(),
            bytes: HashMap::new(),
            rings: HashMap::new(),
            targets: HashMap::new(),
            said: HashMap::new(),
            asked: Asked::default(),
            running: Vec::new(),
            made: HashMap::new(),
        };
        let swapper = Swapper {
            roots,
            filter,
            pick,
            mode,
            state: Mutex::new(state),
            replacements: AddressMap::new(),
            compared: RwLock::default(),
            watched: AtomicBool::new(false),
            instrument,
            libraries,
        };
        (Some(swapper), said)
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

    /// The executable of the kernel that runs in another's place, if it uses variables that the application does not have.
    /// `kernel_object` is the address of the application's kernel.
    pub(crate) fn with_own_variables(&self, kernel_object: u64) -> Option<Executable> {
        let replacement = self.current(kernel_object)?;
        (!replacement.swap.binding.own.is_empty()).then_some(replacement.executable)
    }

    /// An executable of the application's was frozen: its kernels have addresses.
    pub(crate) fn frozen(
        &self,
        session: &Session,
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
            self.choose_replacement(session, &mut state, name);
        }
    }

    /// An executable of the application's is about to be destroyed.
    pub(crate) fn destroyed(&self, session: &Session, executable: Executable) {
        let mut state = lock(&self.state);
        let State { originals, alternatives, running, .. } = &mut *state;
        let gone = originals.destroyed(executable);
        for address in gone.kernels {
            self.replacements.set(address, 0);
        }
        // What uses its variables goes with them. Its dispatches have ended, as those of the application's own kernels have.
        let is_gone = |uses: &[u64]| uses.iter().any(|number| gone.objects.contains(number));
        for (replacement, _) in running.extract_if(.., |(replacement, _)| is_gone(&replacement.uses)) {
            if self.replacements.get(replacement.original) == ptr::from_ref(replacement).addr() as u64 {
                self.replacements.set(replacement.original, 0);
            }
        }
        for (copy, alternative) in alternatives.extract_if(|copy, _| is_gone(&copy.uses)) {
            let Ok(Alternative { executable, .. }) = alternative else { continue };
            // A dispatch of a module that stays may be in flight: its code stays too.
            if !copy.uses.iter().all(|number| gone.objects.contains(number)) {
                continue;
            }
            if let Some(capture) = &session.capture {
                capture.memory_leaves(|memory| memory.unloaded(executable));
            }
            session.kernels.destroyed(executable);
            // What stays is only in the way.
            let _ = session.interceptor.api().unload_code(executable);
        }
    }

    /// The runtime is gone, with all that was loaded.
    pub(crate) fn forget(&self) {
        self.replacements.clear();
        let mut state = lock(&self.state);
        state.originals = Originals::default();
        state.alternatives.clear();
        state.rings.clear();
        state.targets.clear();
        state.running.clear();
    }

    /// True when durations of a kernel, by its number, are to be compared.
    pub(crate) fn compares(&self, number: u32) -> bool {
        self.mode != CacheMode::Swap && self.compared.read().unwrap_or_else(|e| e.into_inner()).contains(&number)
    }

    /// Says what was noticed when packets were published.
    pub(crate) fn report(&self, session: &Session) {
        let Ok(mut state) = self.state.try_lock() else { return };
        let State { running, said, .. } = &mut *state;
        for (replacement, name) in running.iter() {
            if let Some(refusal) = replacement.refusal.get() {
                let subject = if self.instrument.is_some() { "instrumented" } else { "cache" };
                let text = format!("{subject}: {name} runs as it is where it has to: {refusal}");
                say(session, said, format!("packets of {name}"), text);
            }
            if replacement.was_full.swap(false, Ordering::Relaxed) {
                session.interceptor.notice_once(
                    "kernargs",
                    format!("{name} ran as it is when more dispatches were in flight than there is memory for arguments that are laid out anew"),
                );
            }
        }
    }

    /// What there is to tell when the process ends: how many of its dispatches were swapped, and why others were not.
    /// `swapped` has numbers of dispatches by the number of the kernel that ran.
    pub(crate) fn end(&self, session: &Session, dispatches: u64, swapped: &BTreeMap<u32, u64>) -> Vec<String> {
        const SHOWN: usize = 8;
        // A thread that the end of the process has stopped may hold it for ever.
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        if let Some(instrument) = self.instrument {
            return self.end_of_clones(session, &state, instrument, dispatches, swapped);
        }
        let name = Interceptor::kernel_cache;
        let empty = state.cache.empty_roots();
        let mut lines: Vec<String> =
            empty.map(|root| format!("{name}: {}: no kernels are in it", root.display())).collect();
        if lines.len() == self.roots.len() {
            return lines;
        }
        let Asked { had_another, was_named, refused } = &state.asked;
        if !had_another {
            lines.push(format!("{name}: it has none of the kernels that the application has loaded"));
        } else if let Some(filter) = self.filter.as_ref().filter(|_| !was_named) {
            lines.push(format!(
                "{}: none of the kernels that could be swapped has a name like {filter}",
                Interceptor::filter
            ));
        }
        let listed = |all: Vec<String>| {
            let more = all.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!("; {more} more") } else { String::new() };
            all.into_iter().take(SHOWN).collect::<Vec<_>>().join("; ") + &more
        };
        let ran = swapped.iter().filter_map(|(number, count)| {
            let kernel = session.kernels.by_number(*number)?;
            Some(format!("{} by {}: {count}", kernel.name(), kernel.kernel.replaced))
        });
        let count: u64 = swapped.values().sum();
        let mut line = format!("swapped {count} of {dispatches} dispatches");
        if count > 0 {
            line += &format!(": {}", listed(ran.collect()));
        }
        if !refused.is_empty() {
            let refused = refused.iter().map(|(name, reason)| format!("{name}: {reason}"));
            line += &format!("; refused: {}", listed(refused.collect()));
        }
        lines.push(line);
        lines
    }

    /// Decides what becomes of the application's kernels of a name.
    fn choose_replacement(&self, session: &Session, state: &mut State, name: &str) {
        let subject = if self.instrument.is_some() { "instrumented" } else { "cache" };
        for original in state.originals.named(name) {
            let address = original.symbol.kernel_object;
            let agent =
                session.interceptor.agent_position(original.symbol.agent).map_or("?".to_owned(), |p| p.to_string());
            let shown = demangle(name);
            let text = match self.outcome(session, state, &original) {
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
                    state.asked.refused.insert(shown.clone(), reason.clone());
                    format!("{subject}: {shown} on agent {agent} stays as it is: {reason}")
                }
                Outcome::Replaced(replacement, choice) => {
                    self.runs(state, address, replacement, &shown);
                    if self.mode != CacheMode::Swap {
                        let numbers = [session.kernels.number(address), replacement.kernel];
                        self.compared.write().unwrap_or_else(|e| e.into_inner()).extend(numbers);
                    }
                    let (path, hash) = (choice.candidate.path.display(), choice.hash.short());
                    let variables = variables_told(&replacement.swap);
                    format!("cache: {path} active: {shown} on agent {agent}{variables}, {hash}")
                }
                Outcome::Instrumented(replacement, from) => {
                    self.runs(state, address, replacement, &shown);
                    format!("instrumented: {shown} on agent {agent}: its clone is in {from}")
                }
            };
            say(session, &mut state.said, format!("{name} on agent {agent}"), text);
        }
    }

    /// From now on, publishers find the replacement of the kernel at an address.
    fn runs(&self, state: &mut State, address: u64, replacement: &'static Replacement, shown: &str) {
        self.replacements.set(address, ptr::from_ref(replacement).expose_provenance() as u64);
        state.asked.refused.remove(shown);
        if !state.running.iter().any(|(other, _)| ptr::eq(*other, replacement)) {
            state.running.push((replacement, shown.to_owned()));
        }
    }

    /// What is known of a kernel for which there is another one, if the user wants that it is replaced.
    fn wanted(&self, state: &mut State, original: &Original) -> Result<(Interface, Hash), Outcome> {
        state.asked.had_another = true;
        if self.filter.as_ref().is_some_and(|filter| !is_named(name_of(&original.symbol), filter)) {
            return Err(Outcome::Nothing);
        }
        state.asked.was_named = true;
        original.interface().map_err(|reason| Outcome::Stays(reason.to_string()))
    }

    fn outcome(&self, session: &Session, state: &mut State, original: &Original) -> Outcome {
        if let Some(instrument) = self.instrument {
            return self.outcome_of_clone(session, state, original, instrument);
        }
        let name = name_of(&original.symbol);
        if state.cache.candidates(name).is_empty() {
            return Outcome::Nothing;
        }
        let (interface, hash) = match self.wanted(state, original) {
            Ok(known) => known,
            Err(outcome) => return outcome,
        };
        let (api, agent) = (session.interceptor.api(), original.symbol.agent);
        let target = state.targets.entry(agent).or_insert_with(|| target_of(api, agent)).clone();
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
                Interceptor::kernel_cache_pick
            )),
            Decision::Several(choices) => Outcome::Stays(format!(
                "several fit ({}); {} chooses",
                listed(&choices),
                Interceptor::kernel_cache_pick
            )),
            Decision::Swap { choice, swap } => match self.replace(session, state, original, &others, &choice, swap) {
                Ok(replacement) => Outcome::Replaced(replacement, choice),
                Err(reason) => Outcome::Stays(format!("{}: {reason}", choice.candidate.path.display())),
            },
        }
    }

    /// Has the runtime load the replacement of a kernel. A replacement that is loaded already stays, with its counters.
    fn replace(
        &self,
        session: &Session,
        state: &mut State,
        original: &Original,
        others: &[Arc<Object>],
        choice: &Choice,
        swap: Swap,
    ) -> Result<&'static Replacement, NotReplaced> {
        let current = self.current(original.symbol.kernel_object);
        let (api, agent) = (session.interceptor.api(), original.symbol.agent);
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
        let copy = Copy { agent, code: choice.hash, uses: uses.clone() };
        let loaded = alternatives.entry(copy).or_insert_with(|| {
            let moved_by = |module| of_module(module)?.moved_by();
            Alternative::load(session, agent, cache, bytes, choice, &swap.binding, &moved_by)
        });
        let Alternative { executable, symbols } = loaded.as_ref().map_err(Clone::clone)?;
        let its = &choice.candidate.interface;
        let symbol = symbols.iter().find(|s| name_of(s) == its.name).ok_or(NotReplaced::KernelMissing)?;
        let kernel = session.kernels.named(Kernel {
            symbol: name_of(&original.symbol).to_owned(),
            kernarg_size: original.symbol.kernarg_size,
            registers: registers(its.vgprs, Some(its.agprs), its.sgprs),
            replaced: choice.hash.short(),
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

/// Which variables a replacement has of its own, and which are the application's.
fn variables_told(swap: &Swap) -> String {
    let lists = [("shared", &swap.binding.shared), ("its own", &swap.binding.own)];
    let told = lists.iter().filter(|(_, names)| !names.is_empty());
    let told: Vec<String> = told.map(|(what, names)| format!("{what} {}", names.join(" "))).collect();
    if told.is_empty() { String::new() } else { format!(", variables: {}", told.join("; ")) }
}

fn target_of(api: &Api, agent: u64) -> Option<Target> {
    let names = api.isa_names(agent).ok()?;
    names.iter().find_map(|name| Target::parse(name).ok())
}

fn listed(choices: &[Choice]) -> String {
    let all = choices.iter().map(|c| format!("{} {}", c.hash.short(), c.candidate.path.display()));
    all.collect::<Vec<_>>().join(", ")
}

/// Says something, unless it was the last that was said of the same.
fn say(session: &Session, said: &mut HashMap<String, String>, of: String, text: String) {
    let last = said.entry(of).or_default();
    if *last != text {
        session.interceptor.notice(&text);
        *last = text;
    }
}
