//! One dispatch of a capture, with everything that it needs.

mod arguments;
mod called;
mod ranges;
mod stacks;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use amdgpu_code_object::{CodeObject, DataKind, GlobalKind, Image, Kernel};
use hsa_sys::abi::aql::{Packet, PacketType};
use logdur_capture::{
    Agent, Allocation, CaptureError, Dispatch, End, FREED, Global, Id, KERNARG_EXTENT, Loaded, Memory, Note, Placed,
    Reader, Scope, Severity, UNANNOUNCED,
};
use logdur_kernel_cache::{Interface, Module, PacketFacts};

use crate::error::{CapturedError, Result, with_causes};
use crate::kernarg;
use crate::regions::regions;

pub use arguments::{Argument, Pointer};
pub use called::{Called, extent, name};
pub use ranges::without;

use called::OtherCode;

/// A code object that kernels of a dispatch come from.
#[derive(Clone, Debug)]
pub struct Code {
    /// The BLAKE3 hash of its bytes.
    pub id: Id,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What is in it.
    pub object: CodeObject,
    /// The kernel.
    pub kernel: Kernel,
    /// The types of its arguments in the source, without hidden ones: of the metadata (OpenCL C), or of its mangled name (C++).
    pub source_types: Vec<Option<String>>,
    /// What a swap has to know of the kernel.
    pub interface: Interface,
}

impl Code {
    /// Of bytes that have a kernel of some name.
    ///
    /// # Errors
    /// When they are no code object, or have no such kernel.
    pub fn parse(place: impl Fn() -> String, bytes: Vec<u8>, symbol: &str) -> Result<Code> {
        let object =
            CodeObject::parse(&bytes).map_err(|source| CapturedError::CodeObject { place: place(), source })?;
        // Without metadata, a kernel has arguments all the same.
        let described = || CodeObject::described(&bytes, symbol).ok().flatten();
        let Some(kernel) = object.kernel(symbol).cloned().or_else(described) else {
            let names: Vec<&str> = object.kernels.iter().map(|k| &*k.name).collect();
            return Err(CapturedError::Usage {
                what: place(),
                expected: format!("a kernel {symbol}"),
                found: names.join(", "),
            });
        };
        let interface = Interface::of(&object, &kernel);
        let source_types = arguments::source_types(&kernel);
        Ok(Code { id: Id::of(&bytes), bytes, kernel, source_types, interface, object })
    }

    /// Checks that a dispatch of the kernel has every argument.
    fn has_arguments(&self, dispatch: &Dispatch) -> Result<()> {
        let kernel = &self.kernel;
        let end = kernel.explicit().map(|argument| argument.offset.saturating_add(argument.size)).max();
        // Where no argument is listed, all that is known is how many bytes they have.
        let expected = end.unwrap_or(if kernel.arguments.is_empty() { kernel.kernarg_bytes() } else { 0 });
        let found = dispatch.kernarg.len();
        if found >= expected as usize {
            return Ok(());
        }
        let what = format!("arguments from byte {found} to byte {expected}");
        Err(CapturedError::Incomplete { dispatch: dispatch.id, what })
    }
}

/// The captured data of a kernel that ran in the place of the application's: variables that the application does not have.
#[derive(Debug)]
pub struct OwnData<'r> {
    /// Where its code object was loaded.
    pub loaded: &'r Loaded,
    /// The address that the kernel had for packets.
    pub kernel_object: u64,
    /// The writable data, by address.
    pub ranges: Vec<Range<u64>>,
    /// The variables.
    pub globals: Vec<Global>,
}

impl<'r> OwnData<'r> {
    /// The captured data of a kernel; `None` where nothing of it was captured. A variable that `original` has as well is shared:
    /// no kernel uses the replacement's copy.
    fn of(
        original: &Code,
        code: &Code,
        kernel: &logdur_capture::Kernel,
        loaded: &'r Loaded,
        before: &Memory<'_>,
    ) -> Option<OwnData<'r>> {
        let image = Image::parse(&code.bytes).ok()?;
        let captured = before.ranges();
        let is_captured = |range: &Range<u64>| {
            captured.iter().any(|captured| captured.start <= range.start && range.end <= captured.end)
        };
        let written = image.data().into_iter().filter(|range| range.kind == DataKind::Variable);
        let ranges =
            written.map(|range| loaded.delta.wrapping_add(range.start)..loaded.delta.wrapping_add(range.end()));
        let ranges: Vec<Range<u64>> = ranges.filter(is_captured).collect();
        let exported = code.object.globals.iter().filter(|g| g.exported && g.kind == GlobalKind::Variable);
        let exported = exported.map(|global| (global.name.clone(), global.address, global.size));
        let inner =
            image.inner_data(&code.object.globals).into_iter().map(|inner| (inner.name, inner.start, inner.size));
        let is_shared = |name: &str| original.object.globals.iter().any(|global| global.name == name);
        let global = |(name, start, size): (String, u64, u64)| Global {
            executable: loaded.executable,
            code_object: loaded.code_object,
            agent: loaded.agent,
            symbol: if is_shared(&name) { format!("unused copy of {name}") } else { name },
            address: loaded.delta.wrapping_add(start),
            size,
        };
        let globals = exported.chain(inner).map(global).filter(|g| ranges.iter().any(|r| r.contains(&g.address)));
        let globals = globals.collect();
        (!ranges.is_empty()).then_some(OwnData { loaded, kernel_object: kernel.object, ranges, globals })
    }
}

/// A dispatch that runs on the memory of another one, before or after it.
#[derive(Clone, Debug)]
pub struct Companion<'r> {
    /// The dispatch.
    pub dispatch: &'r Placed<Dispatch>,
    /// The application's kernel.
    pub original: Arc<Code>,
    /// Where its code object was loaded.
    pub loaded: Option<&'r Loaded>,
}

/// One dispatch of a capture, with everything that it needs.
#[derive(Debug)]
pub struct CapturedDispatch<'r> {
    /// The capture.
    pub reader: &'r Reader,
    /// The dispatch.
    pub dispatch: &'r Placed<Dispatch>,
    /// The agent that it ran on, if the capture says it.
    pub agent: Option<&'r Agent>,
    /// Those that run on the same memory: the other ones of a region. None of a dispatch that was captured alone.
    pub companions: Vec<Companion<'r>>,
    /// The application's kernel.
    pub original: Arc<Code>,
    /// The address that the application's kernel had for packets.
    pub kernel_object: u64,
    /// Where its code object was loaded.
    pub loaded: Option<&'r Loaded>,
    /// The kernel that ran in its place, if one did.
    pub ran_instead: Option<Code>,
    /// The data of that kernel's own, where it was captured.
    pub own_data: Option<OwnData<'r>>,
    /// What memory there was. With companions, also what there was at each of them: one may be where another was before.
    pub allocations: Vec<&'r Placed<Allocation>>,
    /// Addresses with memory of several kinds, one after the other.
    pub of_two_kinds: Vec<Range<u64>>,
    /// The variables of its code object, without HIP's own ones for `threadIdx` and the like, which no kernel reads.
    pub globals: Vec<&'r Global>,
    /// All code of the agent that is in memory.
    pub all_loaded: Vec<&'r Loaded>,
    /// The other code objects that it leads to, once they are looked for.
    other_code: OnceLock<OtherCode>,
    /// The variables of its other code objects, and what was added to their addresses by where they were loaded.
    pub others: Vec<(Module, u64)>,
    /// The memory before.
    pub before: Memory<'r>,
    /// The memory after.
    pub after: Option<Memory<'r>>,
    /// What the capture says is missing, or not known.
    pub doubts: Vec<&'r Note>,
    /// The queue's `hsa_queue_type_t`.
    pub queue_kind: u32,
    /// The version of the HSA runtime that the application had; empty if the capture does not say it.
    pub runtime: &'r str,
}

/// The version of the HSA runtime under which a dispatch was captured; empty if the capture does not say it.
pub fn runtime<'r>(reader: &'r Reader, dispatch: &Placed<Dispatch>) -> &'r str {
    let before = reader.sessions().iter().rfind(|session| session.place.offset < dispatch.place.offset);
    before.map_or("", |session| &session.runtime_version)
}

/// The symbol of the kernel that the application dispatched; empty when the capture does not have it.
pub fn symbol<'r>(reader: &'r Reader, dispatch: &Dispatch) -> &'r str {
    let kernel = dispatch.replaced_kernel.unwrap_or(dispatch.kernel);
    reader.records().kernels.iter().find(|k| k.id == kernel).map_or("", |k| &k.symbol)
}

/// The processor of an ISA's name: `gfx90a` of `amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`.
pub fn processor(isa: &str) -> &str {
    let id = isa.rsplit("--").next().unwrap_or(isa);
    id.split(':').next().unwrap_or(id)
}

/// What is wrong with a capture, in one line; `None` if nothing is, as far as its records and its end say it.
fn damage(reader: &Reader) -> Option<String> {
    let (problems, end) = (reader.problems(), reader.end());
    match (problems, end) {
        ([], End::Finished) => None,
        ([], End::Unfinished { .. }) => Some("the capture was not finished".to_owned()),
        ([first], _) => Some(format!("the capture is damaged: {first}")),
        ([first, more @ ..], _) => Some(format!("the capture is damaged in {} places: {first}", more.len() + 1)),
    }
}

/// The packet of a dispatch, as the application made it.
pub fn packet(dispatch: &Dispatch) -> Packet {
    Packet::from_bytes(&dispatch.packet.0)
}

/// What a replay of a dispatch needs and the capture lacks, one line each; nothing where it was not to be captured.
pub fn lacks(reader: &Reader, dispatch: &Placed<Dispatch>) -> Vec<String> {
    if dispatch.scope == Scope::Kernarg {
        return Vec::new();
    }
    let mut all: Vec<String> = geometry_lacks(&packet(dispatch)).into_iter().collect();
    match CapturedDispatch::of(reader, dispatch) {
        Ok(captured) => {
            all.extend(captured.has_arguments().err().map(|error| with_causes(&error)));
            if !captured.before.is_complete() {
                all.push("the memory before the kernel is incomplete".to_owned());
            }
            all.extend(captured.memory_lacks(reader.notes()));
        }
        Err(error) => all.push(with_causes(&error)),
    }
    let noted = reader.notes().iter().filter(|n| n.severity == Severity::Loss && n.dispatch == Some(dispatch.id));
    all.into_iter().chain(noted.map(|note| note.text.clone())).collect()
}

/// Why a packet is not a dispatch of some workgroups; `None` if it is.
fn geometry_lacks(packet: &Packet) -> Option<String> {
    let is_empty = packet.grid_size().contains(&0) || packet.workgroup_size().contains(&0);
    match packet.packet_type() {
        PacketType::KernelDispatch if !is_empty => None,
        PacketType::KernelDispatch => Some("its packet has a grid or a workgroup of size 0".to_owned()),
        other => Some(format!("its packet is no dispatch: {other:?}")),
    }
}

/// Code that is in memory at a dispatch: it was loaded before, and neither an allocation nor other code has taken its place since.
/// `allocations` are sorted by address.
fn in_memory<'r>(
    reader: &'r Reader,
    dispatch: &Placed<Dispatch>,
    allocations: &[&'r Placed<Allocation>],
) -> Vec<&'r Placed<Loaded>> {
    let before: Vec<&Placed<Loaded>> = reader.records().loaded.iter().filter(|l| l.place < dispatch.place).collect();
    let is_there = |loaded: &Placed<Loaded>| {
        let place = extent(loaded);
        let behind = allocations.partition_point(|a| a.base < place.end);
        let last = behind.checked_sub(1).and_then(|at| allocations.get(at));
        let memory = last.filter(|a| a.base.saturating_add(a.size) > place.start && a.place > loaded.place);
        let is_later =
            |l: &&Placed<Loaded>| l.place > loaded.place && l.base < place.end && place.start < extent(l).end;
        memory.is_none() && !before.iter().any(is_later)
    };
    before.iter().copied().filter(|loaded| is_there(loaded)).collect()
}

/// The variables of loaded code objects that have some with names, but for the kernel's own.
fn others(reader: &Reader, all: &[&Loaded], is_own: impl Fn(&Loaded) -> bool) -> Result<Vec<(Module, u64)>> {
    let has_some = |loaded: &&&Loaded| {
        let of = |g: &Global| g.executable == loaded.executable && g.code_object == loaded.code_object;
        loaded.base != 0 && reader.records().globals.iter().any(|g| of(&g.value))
    };
    let mut others = Vec::new();
    for loaded in all.iter().filter(has_some).filter(|loaded| !is_own(loaded)) {
        let bytes = match reader.code_object(loaded.code_object) {
            // A replacement that uses its variables is refused.
            Err(CaptureError::NoCodeObject(_)) => continue,
            bytes => bytes?,
        };
        let place = || format!("code object {} of the capture", loaded.code_object);
        let unreadable = |source| CapturedError::CodeObject { place: place(), source };
        let first = Image::parse(&bytes).map_err(unreadable)?.first_address();
        let module = Module::of(&bytes).map_err(unreadable)?;
        if !module.is_empty() {
            others.push((module, loaded.base.wrapping_sub(first)));
        }
    }
    Ok(others)
}

/// The application's kernel of a dispatch with its code, also if its memory was not captured.
///
/// # Errors
/// When the capture lacks the code, or is damaged where it is.
pub fn original(reader: &Reader, dispatch: &Dispatch) -> Result<Code> {
    kernels(reader, dispatch).map(|(_, original, _)| original)
}

/// A kernel of a capture, and its code.
type Captured<'r> = (&'r Placed<logdur_capture::Kernel>, Code);

/// The application's kernel of a dispatch, and the one that ran in its place.
type Kernels<'r> = (&'r Placed<logdur_capture::Kernel>, Code, Option<Captured<'r>>);

fn kernels<'r>(reader: &'r Reader, dispatch: &Dispatch) -> Result<Kernels<'r>> {
    let missing = |what: String| CapturedError::Incomplete { dispatch: dispatch.id, what };
    let code = |kernel: u64| {
        let kernel = reader.records().kernels.iter().find(|k| k.id == kernel);
        let kernel = kernel.ok_or_else(|| missing(format!("kernel {}", dispatch.kernel)))?;
        let bytes = reader.code_object(kernel.code_object)?;
        let place = || format!("code object {} of the capture", kernel.code_object);
        Ok::<_, CapturedError>((kernel, Code::parse(place, bytes, &kernel.symbol)?))
    };
    match dispatch.replaced_kernel {
        Some(replaced) => {
            let (kernel, original) = code(replaced)?;
            Ok((kernel, original, Some(code(dispatch.kernel)?)))
        }
        None if dispatch.replaced.is_some() => {
            Err(missing("kernel that the application dispatched, in whose place another ran".to_owned()))
        }
        None => code(dispatch.kernel).map(|(kernel, original)| (kernel, original, None)),
    }
}

/// How long the kernel of a dispatch ran, in nanoseconds; `None` when that is not known.
pub fn duration_ns(dispatch: &Dispatch) -> Option<u64> {
    dispatch.end_ns.checked_sub(dispatch.start_ns).filter(|ns| *ns > 0)
}

/// The longest that a launch may take where no limit is asked for.
const LONGEST: Duration = Duration::from_secs(600);

/// The time limit of a launch: the requested one, or 100 times the application's duration, at least 10 s and at most 10 minutes. On an
/// emulated GPU it is at least a minute: that takes longer than the captured one, and tells earlier of a kernel without progress.
fn limit(asked: Option<Duration>, recorded_ns: u64, emulated: bool) -> Duration {
    const TIMES: u32 = 100;
    let least = Duration::from_secs(if emulated { 60 } else { 10 });
    asked.unwrap_or_else(|| Duration::from_nanos(recorded_ns).saturating_mul(TIMES).clamp(least, LONGEST))
}

impl<'r> CapturedDispatch<'r> {
    /// Takes a dispatch out of a capture.
    ///
    /// # Errors
    /// When the capture lacks what is needed, or is damaged where it is.
    pub fn of(reader: &'r Reader, dispatch: &'r Placed<Dispatch>) -> Result<CapturedDispatch<'r>> {
        // What code it lacks is told first.
        let kernels = kernels(reader, dispatch)?;
        let missing = |what: String| CapturedError::Incomplete { dispatch: dispatch.id, what };
        let before = dispatch.before.ok_or_else(|| missing("memory before the kernel".to_owned()))?;
        let after = dispatch.after.map(|after| reader.snapshot(after)).transpose()?;
        CapturedDispatch::of_kernels(reader, dispatch, kernels, reader.snapshot(before)?, after)
    }

    /// A dispatch with memory that is told elsewhere, as of a region.
    ///
    /// # Errors
    /// As for [`CapturedDispatch::of`].
    pub fn with_memory(
        reader: &'r Reader,
        dispatch: &'r Placed<Dispatch>,
        before: Memory<'r>,
        after: Option<Memory<'r>>,
    ) -> Result<CapturedDispatch<'r>> {
        CapturedDispatch::of_kernels(reader, dispatch, kernels(reader, dispatch)?, before, after)
    }

    fn of_kernels(
        reader: &'r Reader,
        dispatch: &'r Placed<Dispatch>,
        (kernel, original, ran): Kernels<'r>,
        memory: Memory<'r>,
        after: Option<Memory<'r>>,
    ) -> Result<CapturedDispatch<'r>> {
        let records = reader.records();
        let allocations = reader.allocations_at(dispatch.place);
        let all_loaded = in_memory(reader, dispatch, &allocations).into_iter();
        let all_loaded: Vec<&Loaded> = all_loaded.filter(|l| l.agent == kernel.agent).map(|l| &l.value).collect();
        let same =
            |executable: u64, code_object: Id| executable == kernel.executable && code_object == kernel.code_object;
        let loaded = all_loaded.iter().rfind(|l| same(l.executable, l.code_object)).copied();
        let about = |note: &&Placed<Note>| {
            let matters = note.severity == Severity::Loss || [KERNARG_EXTENT, UNANNOUNCED].contains(&&*note.code);
            matters && note.dispatch.is_none_or(|about| about == dispatch.id)
        };
        let queue = records.queues.iter().find(|q| q.id == dispatch.queue);
        let others = others(reader, &all_loaded, |loaded| same(loaded.executable, loaded.code_object))?;
        let of_hip = original.object.globals.iter().filter(|g| g.kind == GlobalKind::Coordinates);
        let of_hip: HashSet<&str> = of_hip.map(|g| &*g.name).collect();
        let is_own = |g: &&Placed<Global>| same(g.executable, g.code_object) && !of_hip.contains(&*g.symbol);
        let globals = records.globals.iter().filter(is_own).map(|g| &g.value).collect();
        let own_data = ran.as_ref().and_then(|(kernel, code)| {
            let is_its = |l: &&&Loaded| l.executable == kernel.executable && l.code_object == kernel.code_object;
            let loaded = all_loaded.iter().rfind(is_its).filter(|loaded| loaded.base != 0)?;
            OwnData::of(&original, code, kernel, loaded, &memory)
        });
        Ok(CapturedDispatch {
            others,
            dispatch,
            companions: Vec::new(),
            agent: records.agents.iter().find(|a| a.id == kernel.agent).map(|a| &a.value),
            original: Arc::new(original),
            kernel_object: kernel.object,
            loaded,
            ran_instead: ran.map(|(_, code)| code),
            own_data,
            allocations,
            of_two_kinds: Vec::new(),
            globals,
            all_loaded,
            other_code: OnceLock::new(),
            reader,
            before: memory,
            after,
            doubts: reader.notes().iter().filter(about).map(|n| &n.value).collect(),
            queue_kind: queue.map_or(0, |queue| queue.kind),
            runtime: runtime(reader, dispatch),
        })
    }

    /// Where code was loaded that a replay loads again: the application's, that of a replacement with data of its own, and
    /// what else the dispatch leads to, once that is looked for.
    pub fn code(&self) -> impl Iterator<Item = Range<u64>> {
        let own = self.own_data.as_ref().map(|own| own.loaded);
        let called = self.called().iter().map(|called| &called.loaded);
        self.loaded.into_iter().chain(own).chain(called).map(extent)
    }

    /// Looks for the other code objects that the dispatch leads to, once.
    ///
    /// # Errors
    /// When the capture is damaged.
    pub fn look_for_called(&self) -> Result<&[Called]> {
        if self.other_code.get().is_none() {
            let found = self.find_called()?;
            self.other_code.get_or_init(|| found);
        }
        Ok(self.called())
    }

    /// The other code objects that the dispatch leads to and that a replay loads; none until they are looked for.
    pub fn called(&self) -> &[Called] {
        self.other_code.get().map_or(&[], |other| &other.called)
    }

    /// Those that a replay cannot load, and why; none until they are looked for.
    pub fn unavailable(&self) -> &[(Loaded, String)] {
        self.other_code.get().map_or(&[], |other| &other.unavailable)
    }

    /// The packet, as the application made it.
    pub fn packet(&self) -> Packet {
        packet(self.dispatch)
    }

    /// True for the code that ran in the place of the application's.
    pub fn is_what_ran(&self, code: &Code) -> bool {
        self.ran_instead.as_ref().is_some_and(|ran| ran.id == code.id)
    }

    /// True when it was dispatched to a queue for cooperative launches: all its workgroups ran at once.
    pub fn is_cooperative(&self) -> bool {
        self.queue_kind == hsa_sys::raw::HSA_QUEUE_TYPE_COOPERATIVE.0
    }

    /// How long the kernel ran, in nanoseconds; `None` when that is not known.
    pub fn duration_ns(&self) -> Option<u64> {
        duration_ns(self.dispatch)
    }

    /// The time limit of a launch: the requested one, or by the application's duration, the longest with companions. `emulated` says that the GPU is emulated.
    pub fn limit(&self, asked: Option<Duration>, emulated: bool) -> Duration {
        let of_companions = self.companions.iter().map(|companion| duration_ns(companion.dispatch));
        let longest = of_companions.chain([self.duration_ns()]).flatten().max();
        limit(asked, longest.unwrap_or(0), emulated)
    }

    /// Checks that the capture has every argument that the application gave to its kernel.
    ///
    /// # Errors
    /// Which bytes of the kernarg segment are missing.
    pub fn has_arguments(&self) -> Result<()> {
        let of_companions = self.companions.iter().map(|companion| (companion.dispatch, &companion.original));
        std::iter::once((self.dispatch, &self.original))
            .chain(of_companions)
            .try_for_each(|(d, code)| code.has_arguments(d))
    }

    /// The arguments that point to memory of which the capture has nothing, one line each. Memory that the application freed
    /// before it was read is none that its kernel uses.
    fn memory_lacks(&self, notes: &[Placed<Note>]) -> Vec<String> {
        let ranges = self.before.ranges();
        let holds = |start: u64, size: u64, address: u64| address.checked_sub(start).is_some_and(|at| at < size);
        let is_captured = |address| ranges.iter().any(|range| range.contains(&address));
        let was_freed = |base: u64| {
            let at = format!(" bytes at {base:#x}: ");
            notes.iter().any(|note| note.code == FREED && note.text.contains(&at))
        };
        let lacks = |pointer: Pointer| {
            let allocation = self.allocations.iter().find(|a| holds(a.base, a.size, pointer.address))?;
            let is_missing = !is_captured(pointer.address) && !was_freed(allocation.base);
            is_missing.then(|| format!("the memory that {} points to, {:#x}", pointer.name, pointer.address))
        };
        self.pointers().into_iter().filter_map(lacks).collect()
    }

    /// Reasons in the capture why the dispatch cannot be replayed, one line each.
    pub fn obstacles(&self) -> Vec<String> {
        let in_memory = |address| self.before.ranges().iter().any(|range| range.contains(&address));
        let facts = PacketFacts::default();
        let segment = kernarg::restored(&self.dispatch.kernarg, &self.original.interface, &facts, false, in_memory);
        let all = [self.has_arguments().err(), segment.err(), regions(self.wanted()).err()];
        all.into_iter().flatten().map(|error| error.to_string()).collect()
    }

    /// Why a result proves less than a full restore of all memory that the kernel can address, one line each.
    pub fn qualified(&self) -> Vec<String> {
        let mut all: Vec<String> = damage(self.reader).into_iter().collect();
        if self.dispatch.scope != Scope::All {
            all.push(format!("scope {}: not all memory was captured", self.dispatch.scope));
        }
        if !self.before.is_complete() {
            all.push("the memory before the kernel is incomplete".to_owned());
        }
        if self.after.as_ref().is_some_and(|after| !after.is_complete()) {
            all.push("the memory after the kernel is incomplete".to_owned());
        }
        // Constant data was loaded with the code.
        let ranges = self.before.ranges();
        let written = &self.original.interface.variables;
        for g in self.globals.iter().filter(|g| written.contains(&g.symbol)) {
            let captured =
                |range: &Range<u64>| range.start <= g.address && g.address.saturating_add(g.size) <= range.end;
            if !ranges.iter().any(captured) {
                all.push(format!("variable {}: its memory was not captured", g.symbol));
            }
        }
        all.extend(self.doubts.iter().map(|note| format!("{}: {}", note.code, note.text)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_launch_is_waited_for_longer_than_ten_minutes_unless_that_is_asked_for() {
        let seconds = |recorded, emulated| limit(None, recorded, emulated).as_secs();
        assert_eq!([0, 200_000_000, 1_000_000_000, u64::MAX].map(|ns| seconds(ns, false)), [10, 20, 100, 600]);
        assert_eq!([0, 200_000_000, 1_000_000_000, u64::MAX].map(|ns| seconds(ns, true)), [60, 60, 100, 600]);
        let asked = Duration::from_secs(3600);
        assert_eq!([false, true].map(|emulated| limit(Some(asked), 5, emulated)), [asked; 2]);
    }

    #[test]
    fn the_processor_is_told_from_its_settings() {
        assert_eq!(processor("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"), "gfx90a");
        assert_eq!(processor("gfx906"), "gfx906");
    }
}
