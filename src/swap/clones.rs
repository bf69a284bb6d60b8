//! Instrumented clones of the application's kernels, in its own code objects or in the cache.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use amdgpu_code_object::container::Kind;
use logdur_intercept::Interceptor;
use logdur_journal::Kernel;
use logdur_journal::names::{INSTRUMENTED, demangle};
use logdur_kernel_cache::{Candidate, Choice, Decision, Hash, Interface, Module, Modules, Swap, fit_clone};
use logdur_messages::{clone_name, original_name};
use logdur_settings as settings;
use logdur_settings::CacheMode;

use super::error::NotReplaced;
use super::originals::Original;
use super::replacement::{Alternation, Replacement};
use super::{Outcome, State, Swapper, kept, libraries, listed, ring_for};
use crate::code::{name_of, registers};
use crate::instrument::{self, Instrument};

/// How mangled names show a trailing `void *`: as itself, or as one that is among the arguments before.
/// Source: the Itanium C++ ABI, "Compression".
const POINTERS: &[&str] = &["Pv", "S_", "S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_"];

/// The possible names of a kernel's clone, the pass's first. Only a clone in the cache may have the kernel's own name.
fn names(kernel: &str) -> Vec<String> {
    let mut names = vec![clone_name(kernel)];
    if kernel.starts_with("_Z") {
        let shown = demangle(kernel);
        let with_pointer = match shown.strip_suffix("()") {
            Some(name) => format!("{name}(void*)"),
            None => format!("{}, void*)", shown.strip_suffix(')').unwrap_or(&shown)),
        };
        // A function without arguments has `v` in their place.
        let base = kernel.strip_suffix('v').filter(|_| shown.ends_with("()")).unwrap_or(kernel);
        let mangled = POINTERS.iter().map(|pointer| format!("{base}{pointer}"));
        names.extend(mangled.filter(|name| demangle(name) == with_pointer));
    }
    names.push(kernel.to_owned());
    names
}

/// The kernel that one of a name may be the clone of.
pub(super) fn of_clone(name: &str) -> Option<String> {
    let mangled = || POINTERS.iter().find_map(|pointer| name.strip_suffix(pointer)).filter(|_| name.starts_with("_Z"));
    original_name(name).or_else(mangled).map(str::to_owned)
}

/// A clone that can run.
struct RunnableClone {
    replacement: &'static Replacement,
    /// Where it is.
    place: String,
}

impl Swapper {
    /// What becomes of a kernel in instrumented mode.
    pub(super) fn outcome_of_clone(
        &self,
        interceptor: &'static Interceptor,
        state: &mut State,
        original: &Original,
        instrument: &'static Instrument,
    ) -> Outcome {
        Search { swapper: self, interceptor, state, original, instrument }.outcome()
    }

    /// True for a kernel that was loaded from a file which is excluded. Of code that HIP has unpacked, the file is not known.
    fn is_excluded(&self, interceptor: &Interceptor, kernel: &Original) -> bool {
        let place = || kernel.object()?.place(interceptor.api());
        let file = || place().and_then(libraries::file_at);
        self.libraries.excludes_any() && file().is_some_and(|file| self.libraries.excludes(&file))
    }

    /// What there is to tell of clones when the process ends.
    pub(super) fn end_of_clones(
        &self,
        state: &State,
        instrument: &Instrument,
        dispatches: u64,
        ran: &BTreeMap<u32, u64>,
    ) -> Vec<String> {
        let name = settings::Interceptor::instrumented;
        let mut lines = Vec::new();
        let asked = &state.asked;
        // Kernels of the same name and arguments are for swaps, and no clones.
        let has_none = asked.was_named
            && asked.refused.is_empty()
            && state.made.values().flatten().all(|made| made.probe.is_none());
        if !asked.had_another || has_none {
            lines.push(format!("{name}: neither the application's code nor the cache has a clone of a kernel"));
        } else if !asked.was_named {
            lines.extend(self.filters.none_of("have a clone"));
        }
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (number, count) in ran {
            let Some(kernel) = self.kernels.by_number(*number) else { continue };
            if kernel.kernel.replaced.starts_with(INSTRUMENTED) {
                *by_name.entry(kernel.name()).or_default() += count;
            }
        }
        let by_name: Vec<(String, u64)> = by_name.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        lines.extend(instrument.report(dispatches, &by_name));
        let refused = &state.asked.refused;
        lines.extend(refused.iter().map(|((name, _), reason)| format!("{name} is not instrumented: {reason}")));
        lines
    }
}

/// The search for a kernel's clone.
struct Search<'s> {
    swapper: &'s Swapper,
    interceptor: &'static Interceptor,
    state: &'s mut State,
    original: &'s Original,
    instrument: &'static Instrument,
}

impl Search<'_> {
    fn outcome(mut self) -> Outcome {
        let name = name_of(&self.original.symbol);
        let names = names(name);
        let own: Vec<Original> = names
            .iter()
            .filter(|other| *other != name)
            .flat_map(|other| self.state.originals.named(other))
            .filter(|other| {
                other.symbol.agent == self.original.symbol.agent && !self.swapper.is_excluded(self.interceptor, other)
            })
            .collect();
        let in_cache = names.iter().any(|name| !self.state.cache.candidates(name).is_empty());
        if own.is_empty() && !in_cache {
            return Outcome::Nothing;
        }
        let (interface, _) = match self.swapper.wanted(self.interceptor.api(), self.state, self.original) {
            Ok(known) => known,
            Err(outcome) => return outcome,
        };
        if self.swapper.is_excluded(self.interceptor, self.original) {
            return Outcome::Nothing;
        }
        let mut refused = Vec::new();
        match self.clone_of_cache(&interface, &names) {
            Some(Ok(found)) => return Outcome::Instrumented(found.replacement, found.place),
            Some(Err(reason)) => refused.push(reason),
            None => {}
        }
        let (beside, elsewhere): (Vec<_>, Vec<_>) = own.iter().partition(|clone| clone.is_beside(self.original));
        for clone in beside.into_iter().chain(elsewhere) {
            match self.clone_of_application(&interface, clone) {
                Ok(found) => return Outcome::Instrumented(found.replacement, found.place),
                Err(reason) => refused.push(reason),
            }
        }
        if refused.is_empty() { Outcome::Nothing } else { Outcome::Stays(refused.join("; ")) }
    }

    /// A clone in the cache; `None` if there is none.
    fn clone_of_cache(&mut self, interface: &Interface, names: &[String]) -> Option<Result<RunnableClone, String>> {
        let (api, agent) = (self.interceptor.api(), self.original.symbol.agent);
        let target = self.state.target_of(api, agent);
        let others = self.state.originals.others(agent, self.original.object());
        let other_modules: Vec<&Module> = others.iter().filter_map(|object| object.module.as_ref()).collect();
        let own = self.original.object().and_then(|object| object.module.as_ref());
        let modules = Modules { own, others: &other_modules };
        let allowed = |path: &Path| !self.swapper.libraries.excludes(path);
        let pick = self.swapper.pick.as_ref();
        let decision = self.state.cache.decide_clone(interface, names, &allowed, modules, target.as_ref(), pick);
        let (choice, swap) = match decision {
            Decision::Nothing => return None,
            Decision::Swap { choice, swap } => (choice, swap),
            Decision::Refused(refused) => {
                let reasons = refused.iter().map(|(candidate, refusals)| {
                    let reasons: Vec<_> = refusals.iter().map(ToString::to_string).collect();
                    format!("{}: {}", candidate.path.display(), reasons.join(", "))
                });
                return Some(Err(reasons.collect::<Vec<_>>().join("; ")));
            }
            Decision::Running(choices) | Decision::Several(choices) => {
                let pick = settings::Interceptor::kernel_cache_pick;
                return Some(Err(format!("several clones fit ({}); {pick} chooses", listed(&choices))));
            }
        };
        let path = choice.candidate.path.display().to_string();
        let replaced = self.swapper.replace(self.interceptor, self.state, self.original, &others, &choice, swap);
        let found = replaced.and_then(|replacement| self.instrumented(replacement, &choice));
        Some(
            found
                .map(|replacement| RunnableClone { replacement, place: path.clone() })
                .map_err(|why| format!("{path}: {why}")),
        )
    }

    /// The replacement by a clone of the cache, with what instruments it.
    fn instrumented(
        &mut self,
        replacement: &'static Replacement,
        choice: &Choice,
    ) -> Result<&'static Replacement, NotReplaced> {
        let api = self.interceptor.api();
        let its = &choice.candidate.interface;
        let loaded_at = self.swapper.code.handles(api, replacement.executable).ok().and_then(|handles| {
            let handle = handles.first()?;
            api.loader().ok()?.loaded_at(*handle).ok()
        });
        let code = self.state.bytes_in_cache(choice);
        let clone = Clone {
            name: &its.name,
            kernel_object: replacement.kernel_object,
            executable: replacement.executable,
            hash: choice.hash,
            uses: replacement.uses.clone(),
            code,
            uri: uri_of(&choice.candidate, code),
            load_delta: loaded_at.map_or(0, |at| at.delta),
        };
        self.make(its, replacement.swap.clone(), clone)
    }

    /// A clone in a code object of the application's.
    fn clone_of_application(&mut self, interface: &Interface, clone: &Original) -> Result<RunnableClone, String> {
        let (api, agent) = (self.interceptor.api(), self.original.symbol.agent);
        let target = self.state.target_of(api, agent);
        let name = name_of(&clone.symbol);
        let (its, hash) = clone.interface().map_err(|why| format!("{name}: {why}"))?;
        let beside = clone.is_beside(self.original);
        let has_variables = !(its.variables.is_empty() && its.stored_functions.is_empty());
        if has_variables && !beside {
            return Err(format!("{name}: it is in another code object, which has variables of its own"));
        }
        let swap = fit_clone(&interface.on(target.as_ref()), &its, beside).map_err(|refusals| {
            let reasons: Vec<_> = refusals.iter().map(ToString::to_string).collect();
            format!("{name}: {}", reasons.join(", "))
        })?;
        let object = clone.object();
        let code = object.and_then(|object| self.state.kept_bytes(object.hash, || object.bytes(api).ok()));
        let clone = Clone {
            name,
            kernel_object: clone.symbol.kernel_object,
            executable: clone.executable,
            hash,
            uses: object.map(|object| object.number).into_iter().collect(),
            code,
            uri: object.map(|object| object.uri(api)).unwrap_or_default(),
            load_delta: object.and_then(|object| object.moved_by()).unwrap_or(0),
        };
        let made = self.make(&its, swap, clone);
        let place = if beside { "the same code object" } else { "another code object of the application's" };
        made.map(|replacement| RunnableClone { replacement, place: place.to_owned() }).map_err(|why| why.to_string())
    }

    /// Makes the replacement by a clone.
    fn make(&mut self, its: &Interface, swap: Swap, clone: Clone<'_>) -> Result<&'static Replacement, NotReplaced> {
        let api = self.interceptor.api();
        let agent = self.original.symbol.agent;
        let symbol = name_of(&self.original.symbol);
        let added = swap.added.ok_or(NotReplaced::KernelMissing)?;
        let position = self.interceptor.agent_position(agent).unwrap_or(0);
        let of = instrument::Clone {
            added,
            own: self.swapper.kernels.number(self.original.symbol.kernel_object),
            agent: (position, agent),
            kernel: demangle(symbol),
            mangled: symbol.to_owned(),
            clone: clone.name.to_owned(),
            processor: its.target.processor.to_string(),
            uri: clone.uri,
            code: clone.code,
            load_delta: clone.load_delta,
        };
        // Nothing may send messages before there is a thread that receives them.
        if !self.instrument.start(self.interceptor) {
            return Err(NotReplaced::NoThread);
        }
        let probe = self.instrument.probe(api, self.interceptor.agents(), of)?;
        let kernel = self.swapper.kernels.named(Kernel {
            symbol: symbol.to_owned(),
            kernarg_size: self.original.symbol.kernarg_size,
            registers: registers(its.vgprs, Some(its.agprs), its.sgprs),
            replaced: format!("{INSTRUMENTED}{}", clone.hash.short()),
            code: self.swapper.kernels.code(self.original.symbol.kernel_object),
            ..Kernel::default()
        });
        let new = Replacement {
            kernel_object: clone.kernel_object,
            executable: clone.executable,
            original: self.original.symbol.kernel_object,
            uses: clone.uses,
            code: clone.hash,
            kernel,
            kernargs: ring_for(api, agent, &mut self.state.rings, &swap.kernarg)?,
            swap,
            alternation: Alternation::new(CacheMode::Swap),
            refusal: OnceLock::new(),
            was_full: AtomicBool::new(false),
            probe: Some(probe),
        };
        Ok(kept(&mut self.state.made, new))
    }
}

/// A clone, and where it comes from.
struct Clone<'a> {
    name: &'a str,
    kernel_object: u64,
    executable: hsa::Executable,
    hash: Hash,
    uses: Vec<u64>,
    code: Option<&'static [u8]>,
    uri: String,
    load_delta: u64,
}

impl State {
    /// The bytes of a code object that are there for ever, read if they are not.
    fn kept_bytes(&mut self, hash: Hash, read: impl FnOnce() -> Option<Vec<u8>>) -> Option<&'static [u8]> {
        if let Some(known) = self.bytes.get(&hash) {
            return Some(known);
        }
        let bytes: &'static [u8] = read()?.leak();
        self.bytes.insert(hash, bytes);
        Some(bytes)
    }

    /// The bytes of a code object of the cache as in its file, kept for ever. The loaded bytes differ if the code object is bound to
    /// variables.
    fn bytes_in_cache(&mut self, choice: &Choice) -> Option<&'static [u8]> {
        if !self.bytes.contains_key(&choice.hash) {
            let bytes = self.cache.read_chosen(choice).ok()?;
            self.bytes.insert(choice.hash, bytes.leak());
        }
        self.bytes.get(&choice.hash).copied()
    }
}

/// Where a code object of the cache is, whose bytes are `code`: in its file, or where it was decompressed to.
/// Source: LLVM's AMDGPUUsage, "Loaded Code Object Path Uniform Resource Identifier (URI)".
fn uri_of(candidate: &Candidate, code: Option<&'static [u8]>) -> String {
    let place = &candidate.place;
    if place.kind == Kind::CompressedBundle {
        let memory = |code: &[u8]| {
            format!("memory://{}#offset={:#x}&size={}", std::process::id(), code.as_ptr().addr(), code.len())
        };
        return code.map(memory).unwrap_or_default();
    }
    let path = std::path::absolute(&candidate.path).unwrap_or_else(|_| candidate.path.clone());
    let mut uri = "file://".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(byte)),
            other => _ = write!(uri, "%{other:02X}"),
        }
    }
    uri + &format!("#offset={}&size={}", place.offset, place.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_has_a_pointer_more_in_its_mangled_name_also_as_a_repetition() {
        assert_eq!(names("add"), ["__amd_crk_addPv", "add"]);
        assert_eq!(names("_Z3addPfi"), ["__amd_crk__Z3addPfiPv", "_Z3addPfiPv", "_Z3addPfi"]);
        assert_eq!(names("_Z3addv"), ["__amd_crk__Z3addvPv", "_Z3addPv", "_Z3addv"]);
        assert_eq!(names("_Z3addPv"), ["__amd_crk__Z3addPvPv", "_Z3addPvPv", "_Z3addPvS_", "_Z3addPv"]);
        let of = |name: &str| of_clone(name);
        assert_eq!(of("__amd_crk__Z3addPfiPv").as_deref(), Some("_Z3addPfi"));
        assert_eq!((of("_Z3addPfiPv").as_deref(), of("add")), (Some("_Z3addPfi"), None));
    }
}
