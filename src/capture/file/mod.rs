//! The records of a capture file: who wrote it, code objects, kernels, memory, dispatches, losses.
//!
//! # Threads
//! Threads that load code, and the capture thread. The file is behind a lock.

mod region;
mod snapshot;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use amdgpu_code_object::Arguments;
use hsa::{Executable, KernelSymbol, VariableSymbol};
use hsa_sys::abi::aql::Packet;
use logdur_capture::{
    Agent, Allocation, AllocationKind, Begun, CaptureError, CodeObject, Compress, Dispatch, Global, Id, Kernel, Loaded,
    Note, Options, Queue, Scope, Severity, SnapshotId, Store, StorePath, Threads, Writer, numbered,
};
use logdur_intercept::clock::to_ns;
use logdur_intercept::{Interceptor, interceptor, queue};
use logdur_settings as settings;
use logdur_settings::{CaptureScope, CaptureTell};
use logdur_system::text::shell_word;

use super::kernarg::Kernarg;
use super::memory;
use super::process;
use super::storage::GuardedStorage;
use crate::code::{Object, Objects, name_of};
use crate::kernels::Kernels;

pub(super) use snapshot::{Over, Read, Source, Write};

/// Why the file cannot be written.
pub(super) type Failed = CaptureError;

/// The file, and what is in it so far.
pub(super) struct File {
    path: PathBuf,
    /// Where its contents are, if not in it.
    store: Option<Arc<Store>>,
    writer: Option<Writer<GuardedStorage>>,
    limit: u64,
    /// The record of the process.
    tell: CaptureTell,
    /// Code objects that the file has.
    code_objects: HashSet<Id>,
    /// By the address of its descriptor: number, code object.
    kernels: HashMap<u64, (u64, Id)>,
    /// By the address of its descriptor: what arguments of a kernel lead to, where a region is captured.
    arguments: Option<HashMap<u64, Arguments>>,
    /// Kernels and agents, queues and allocations that the file has.
    numbers: u64,
    agents: HashSet<usize>,
    queues: HashSet<u64>,
    /// By address: size, part and serial number.
    allocations: HashMap<u64, (u64, memory::VmemPart, u64)>,
    latest: Option<SnapshotId>,
    started: bool,
    /// By the kernel's name: dispatches, nanoseconds that they ran, nanoseconds that they were held.
    report: HashMap<String, (u64, u64, u64)>,
    /// Losses that were written, each once.
    losses: HashSet<String>,
    /// How many losses captured dispatches have in all.
    lacking: u64,
    /// The losses that a notice named.
    said: HashSet<String>,
    /// Dispatches that were chosen and not captured.
    untaken: u64,
    /// True while a dispatch has begun and not ended: for ever, if it has caused a fault.
    is_under_way: bool,
    /// The steps of the region that has ended, and why it did before its last one; empty if it is complete.
    region_has_ended: Option<(u64, String)>,
    /// The counts of captured dispatches, missed dispatches and losses at the last notice.
    last_reported: Option<u64>,
}

/// A dispatch that was captured.
pub(super) struct Taken {
    /// Its queue, its number there, and its number among those of its kernel and geometry.
    pub(super) target: (&'static queue::Queue, u64, u64),
    /// The application's packet.
    pub(super) packet: Packet,
    pub(super) kernarg: Kernarg,
    pub(super) before: Option<SnapshotId>,
    pub(super) after: Option<SnapshotId>,
    pub(super) scope: CaptureScope,
    /// The descriptor of the kernel that ran.
    pub(super) ran: u64,
    /// Its number in the process.
    pub(super) id: u64,
    /// Start and end, in nanoseconds.
    pub(super) ticks: Option<(u64, u64)>,
    /// How long its queue was held, in nanoseconds.
    pub(super) held: Duration,
    /// A note on memory that no call of the runtime announced.
    pub(super) unannounced: Vec<String>,
}

/// The path of this process's file. If the setting names a folder, the file in it is named after the process.
fn path_of(wanted: &Path) -> PathBuf {
    let path = crate::process::with_marks(wanted);
    if path.is_dir() { path.join(format!("logdur.{}.ldcap", std::process::id())) } else { path }
}

impl File {
    /// Creates the file. It never overwrites a file: another process may be writing it.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(super) fn create(wanted: &Path, settings: &settings::Interceptor) -> Result<File, Failed> {
        let mode = settings.capture_mode.0;
        // Before the file: a process that cannot have the one does not leave the other.
        let store =
            settings.capture_store.as_deref().map(|folder| Store::create(&crate::process::with_marks(folder), mode));
        let store = store.transpose()?.map(Arc::new);
        let (path, storage) = new_file(path_of(wanted), mode)?;
        let compress = match settings.capture_compress {
            logdur_settings::Compress::Auto => Compress::Auto,
            logdur_settings::Compress::None => Compress::None,
            logdur_settings::Compress::Lz4 => Compress::Lz4,
            logdur_settings::Compress::Zstd => Compress::Zstd,
        };
        let threads = Some(Threads { count: hash_threads(), spawn });
        let options = Options { compress, threads, ..Options::default() };
        let writer = match &store {
            None => Writer::new(storage, &options)?,
            Some(store) => Writer::sharing(storage, &options, Arc::clone(store), &StorePath::of(store, &path))?,
        };
        Ok(File {
            path,
            store,
            writer: Some(writer),
            limit: settings.capture_max_bytes.0,
            tell: settings.capture_tell,
            code_objects: HashSet::new(),
            kernels: HashMap::new(),
            arguments: settings.capture_region.is_some().then(HashMap::new),
            numbers: 0,
            agents: HashSet::new(),
            queues: HashSet::new(),
            allocations: HashMap::new(),
            latest: None,
            started: false,
            report: HashMap::new(),
            losses: HashSet::new(),
            lacking: 0,
            said: HashSet::new(),
            untaken: 0,
            is_under_way: false,
            region_has_ended: None,
            last_reported: None,
        })
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The limit in bytes, once the file has reached it.
    pub(super) fn is_full(&self) -> Option<u64> {
        self.writer.as_ref().filter(|w| w.bytes() >= self.limit).map(|_| self.limit)
    }

    /// How many bytes the file may still grow.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.writer.as_ref().map_or(0, Writer::bytes))
    }

    /// The newest snapshot.
    pub(super) fn latest(&self) -> Option<SnapshotId> {
        self.latest
    }

    fn writer(&mut self) -> Result<&mut Writer<GuardedStorage>, Failed> {
        self.writer.as_mut().ok_or(CaptureError::Stopped)
    }

    /// Writes the first records: the process and its GPUs.
    fn begin(&mut self, interceptor: &Interceptor) -> Result<(), Failed> {
        if !std::mem::replace(&mut self.started, true) {
            let process = process::describe(interceptor, self.tell);
            self.writer()?.session(&process)?;
        }
        for position in 0.. {
            let Some(agent) = interceptor.agent(position) else { break };
            if !self.agents.insert(position) {
                continue;
            }
            let isa = interceptor.api().isa_names(agent.agent.handle).unwrap_or_default().into_iter().next();
            let identity = &agent.agent.identity;
            self.writer()?.agent(&Agent {
                id: number_of(position),
                isa: isa.unwrap_or_else(|| agent.agent.name.clone()),
                product: agent.agent.product.clone(),
                position: position as u32,
                emulated: agent.agent.is_emulated(),
                ticks_per_second: identity.ticks_per_second,
                uuid: identity.uuid.clone(),
                bdf: identity.bdf.clone(),
                driver_node: identity.driver_node,
                partition: identity.partition,
                visible: crate::process::visible_agents(),
                ..Agent::default()
            })?;
        }
        Ok(())
    }

    /// Writes a code object that was loaded, by the application or from the kernel cache.
    pub(super) fn loaded(
        &mut self,
        interceptor: &Interceptor,
        executable: Executable,
        object: &Object,
        bytes: &[u8],
    ) -> Result<(), Failed> {
        self.begin(interceptor)?;
        if let (Err(why), true) = (&object.code, bytes.is_empty()) {
            return self.lost(&format!("a code object of the application: {why}")).map(drop);
        }
        let isa = object.code.as_ref().map(|code| code.target.to_string()).unwrap_or_default();
        let writer = self.writer()?;
        let id = writer.code_object(&CodeObject { isa, ..CodeObject::default() }, bytes)?;
        writer.loaded(&Loaded {
            executable: executable.0,
            code_object: id,
            agent: interceptor.agent_position(object.agent).map_or(0, number_of),
            base: object.at.base,
            size: object.at.size,
            delta: object.at.delta,
            uri: object.uri(interceptor.api()),
        })?;
        self.code_objects.insert(id);
        Ok(())
    }

    /// An executable was frozen.
    pub(super) fn frozen(
        &mut self,
        interceptor: &Interceptor,
        executable: Executable,
        kernels: &[KernelSymbol],
        objects: &Objects<'_>,
        variables: &[VariableSymbol],
    ) -> Result<(), Failed> {
        let written = self.code_objects.clone();
        let id_of = |object: Option<&Arc<Object>>| {
            object.map(|object| Id(*object.hash.as_bytes())).filter(|id| written.contains(id)).unwrap_or_default()
        };
        let agent_of = |agent: u64| interceptor.agent_position(agent).map_or(0, number_of);
        for symbol in kernels.iter().filter(|s| s.kernel_object != 0) {
            self.numbers += 1;
            let (id, code_object) = (self.numbers, id_of(objects.of_kernel(symbol)));
            self.kernels.insert(symbol.kernel_object, (id, code_object));
            if let Some(arguments) = &mut self.arguments {
                let all = objects.described(symbol).map(|kernel| Arguments::of(&kernel.arguments));
                arguments.insert(symbol.kernel_object, all.unwrap_or_default());
            }
            let kernel = Kernel {
                id,
                symbol: name_of(symbol).to_owned(),
                code_object,
                executable: executable.0,
                agent: agent_of(symbol.agent),
                object: symbol.kernel_object,
                ..Kernel::default()
            };
            self.writer()?.kernel(&kernel)?;
        }
        for variable in variables {
            let global = Global {
                executable: executable.0,
                code_object: id_of(objects.of_variable(variable)),
                agent: agent_of(variable.agent),
                symbol: variable.name.clone(),
                address: variable.address,
                size: variable.size.into(),
            };
            self.writer()?.global(&global)?;
        }
        Ok(())
    }

    /// What arguments of a kernel lead to, by the address of its descriptor.
    pub(super) fn arguments(&self, kernel_object: u64) -> Arguments {
        self.arguments.as_ref().and_then(|all| all.get(&kernel_object)).cloned().unwrap_or_default()
    }

    fn allocations(&mut self, interceptor: &Interceptor, ranges: &[memory::Allocation]) -> Result<(), Failed> {
        let what = |range: &memory::Allocation| (range.size, range.part, range.serial);
        let now: HashMap<u64, (u64, memory::VmemPart, u64)> = ranges.iter().map(|r| (r.base, what(r))).collect();
        let gone: Vec<u64> =
            self.allocations.iter().filter(|(base, was)| now.get(base) != Some(was)).map(|(b, _)| *b).collect();
        for base in gone {
            self.allocations.remove(&base);
            self.writer()?.freed(base)?;
        }
        for range in ranges {
            let Some(allocation) = allocation(interceptor, range) else { continue };
            if self.allocations.insert(range.base, what(range)).is_none() {
                self.writer()?.allocation(&allocation)?;
            }
        }
        Ok(())
    }

    /// Writes that a dispatch is about to run: all that is known of it before.
    pub(super) fn begun(&mut self, interceptor: &Interceptor, taken: &Taken) -> Result<(), Failed> {
        self.begin(interceptor)?;
        self.queue(taken.target.0)?;
        let dispatch = self.record(interceptor, taken);
        self.is_under_way = true;
        self.writer()?.begun(&Begun { dispatch })
    }

    fn record(&self, interceptor: &Interceptor, taken: &Taken) -> Dispatch {
        let (queue, index, occurrence) = taken.target;
        let of_app = self.kernels.get(&taken.packet.kernel_object()).copied();
        let ran = self.kernels.get(&taken.ran).copied();
        let ns = |tick: u64| if tick == 0 { 0 } else { system_ns(interceptor, queue.agent, tick) };
        let (start, end) = taken.ticks.unwrap_or_default();
        let replaced = of_app.filter(|_| of_app != ran);
        Dispatch {
            id: taken.id,
            queue: queue.id.load(Ordering::Relaxed),
            index,
            packet: logdur_capture::Packet(taken.packet.to_bytes()),
            kernarg: taken.kernarg.bytes.clone(),
            kernel: ran.map_or(0, |(number, _)| number),
            code_object: ran.map_or(Id::default(), |(_, id)| id),
            replaced: replaced.map(|(_, id)| id),
            replaced_kernel: replaced.map(|(number, _)| number),
            before: taken.before,
            after: taken.after,
            start_ticks: start,
            end_ticks: end,
            start_ns: ns(start),
            end_ns: ns(end),
            enqueue_ns: 0,
            occurrence,
            scope: match taken.scope {
                CaptureScope::Kernarg => Scope::Kernarg,
                CaptureScope::Args => Scope::Args,
                CaptureScope::Reachable => Scope::Reachable,
                CaptureScope::All => Scope::All,
            },
            replaced_kernarg: Vec::new(),
            held_ns: taken.held.as_nanos() as u64,
        }
    }

    /// Writes a dispatch, and notes what a replay of it lacks. Returns that text the first time.
    pub(super) fn dispatch(
        &mut self,
        interceptor: &Interceptor,
        kernels: &Kernels,
        taken: &Taken,
    ) -> Result<Vec<String>, Failed> {
        self.begin(interceptor)?;
        self.queue(taken.target.0)?;
        let dispatch = self.record(interceptor, taken);
        self.is_under_way = false;
        self.writer()?.dispatch(&dispatch)?;
        self.lacks(kernels, taken, &dispatch)
    }

    /// Counts a dispatch that was written, and notes what a replay of it lacks. Returns that text the first time.
    fn lacks(&mut self, kernels: &Kernels, taken: &Taken, dispatch: &Dispatch) -> Result<Vec<String>, Failed> {
        let of_app = self.kernels.get(&taken.packet.kernel_object()).copied();
        let ran = self.kernels.get(&taken.ran).copied();
        let number = kernels.number(taken.packet.kernel_object());
        let name = kernels.by_number(number).map_or("", |k| k.name()).to_owned();
        let lacks = [of_app, ran].map(|kernel| match kernel {
            None => Some("it is not known to the loader, or was loaded before its code could be seen"),
            Some((_, id)) if id.is_none() => Some("its code object was loaded in a way that is not seen"),
            Some(_) => None,
        });
        let mut lacks: Vec<String> = lacks.into_iter().flatten().map(str::to_owned).collect();
        lacks.dedup();
        let doubt = taken.kernarg.doubt;
        lacks.extend(doubt.filter(|doubt| doubt.is_loss()).map(|doubt| doubt.to_string()));
        if let Some(doubt) = doubt.filter(|doubt| !doubt.is_loss()) {
            self.note_of(Severity::Info, logdur_capture::KERNARG_EXTENT, &doubt.to_string(), Some(taken.id))?;
        }
        for what in &taken.unannounced {
            self.note_of(Severity::Info, logdur_capture::UNANNOUNCED, what, Some(taken.id))?;
        }
        let shown =
            if name.is_empty() { format!("kernel at {:#x}", taken.packet.kernel_object()) } else { name.clone() };
        let mut new = Vec::new();
        for what in &lacks {
            self.note_of(Severity::Loss, "lost", &format!("{shown}: {what}"), Some(taken.id))?;
            self.lacking += 1;
            let text = format!("{shown} cannot be replayed: {what}");
            if self.said.insert(text.clone()) {
                new.push(text);
            }
        }
        let counted = self.report.entry(name).or_default();
        counted.0 += 1;
        counted.1 += dispatch.end_ns.saturating_sub(dispatch.start_ns);
        counted.2 += taken.held.as_nanos() as u64;
        Ok(new)
    }

    fn queue(&mut self, queue: &queue::Queue) -> Result<(), Failed> {
        let id = queue.id.load(Ordering::Relaxed);
        if self.queues.insert(id) {
            let (size, kind) = queue.ring.as_ref().map_or((0, 0), |ring| (ring.size, ring.kind));
            self.writer()?.queue(&Queue { id, agent: number_of(queue.agent), size, kind, ..Queue::default() })?;
        }
        Ok(())
    }

    /// Writes that something could not be read, each text once; true if this call wrote it.
    pub(super) fn lost(&mut self, what: &str) -> Result<bool, Failed> {
        let new = self.losses.insert(what.to_owned());
        if new {
            self.note(Severity::Loss, "lost", what)?;
        }
        Ok(new)
    }

    /// Writes that a dispatch was not captured. The captured dispatches stay complete.
    pub(super) fn untaken(&mut self, why: &str) -> Result<(), Failed> {
        self.is_under_way = false;
        self.untaken += 1;
        self.note(Severity::Info, logdur_capture::UNTAKEN, why)
    }

    fn note(&mut self, severity: Severity, code: &str, text: &str) -> Result<(), Failed> {
        self.note_of(severity, code, text, None)
    }

    fn note_of(&mut self, severity: Severity, code: &str, text: &str, dispatch: Option<u64>) -> Result<(), Failed> {
        let (code, text) = (code.to_owned(), text.to_owned());
        self.writer()?.note(&Note { severity, code, text, dispatch, ..Note::default() })
    }

    /// A notice on the capture, if its counts have changed since the last notice.
    pub(super) fn report(&mut self) -> Vec<String> {
        let count: u64 = self.report.values().map(|counted| counted.0).sum();
        let losses = self.losses.len() as u64 + self.lacking;
        let all = count + self.untaken + losses;
        if self.last_reported.replace(all) == Some(all) {
            return Vec::new();
        }
        let bytes = self.writer.as_ref().map_or(0, Writer::bytes);
        let mut lines = vec![format!(
            "capture: {}: {count} dispatches of {} kernels, {bytes} bytes, {} not captured, {losses} losses",
            self.path.display(),
            self.report.len(),
            self.untaken
        )];
        let mut kernels: Vec<_> = self.report.iter().collect();
        kernels.sort();
        lines.extend(
            kernels
                .into_iter()
                .map(|(name, (n, ns, held))| format!("capture: {name}: {n} dispatches, {ns} ns, held for {held} ns")),
        );
        lines
    }

    /// One line on what was written; `None` once the file has been finished.
    pub(super) fn tell(&self) -> Option<String> {
        let bytes = self.writer.as_ref()?.bytes();
        let count: u64 = self.report.values().map(|counted| counted.0).sum();
        let (path, kernels, untaken) = (self.path.display(), self.report.len(), self.untaken);
        if !self.path.exists() {
            return Some(format!(
                "{path}: the capture was deleted while it was written, with {count} dispatches in it"
            ));
        }
        let added = |store: &Arc<Store>| {
            format!(" ({} of them new in the store {})", store.written_bytes(), store.folder().display())
        };
        let shared = self.store.as_ref().map_or_else(String::new, added);
        // The reasons are notes of the file, and notices of a log that may be nowhere.
        let why = match untaken {
            0 => String::new(),
            _ => format!("; `omniprobe info {}` says why", shell_word(&self.path)),
        };
        let region = match &self.region_has_ended {
            None => String::new(),
            Some((steps, reason)) if reason.is_empty() => format!(", a region of {steps} steps"),
            Some((steps, reason)) => format!(", a region that ended after {steps} steps: {reason}"),
        };
        let unended = if self.is_under_way { ", one that had not ended, with what it began with" } else { "" };
        Some(format!(
            "{path}: {count} dispatches of {kernels} kernels captured, {bytes} bytes{shared}, {untaken} not captured{why}{unended}{region}"
        ))
    }

    /// True when nothing can be written any more.
    pub(super) fn is_finished(&self) -> bool {
        self.writer.is_none()
    }

    /// Finishes the file.
    pub(super) fn finish(&mut self) -> Result<(), Failed> {
        self.writer.take().map_or(Ok(()), |writer| writer.finish().map(drop))
    }
}

/// Creates a file at this path, or at the first free one of `NAME.1.EXTENSION`, `NAME.2.EXTENSION`, …
fn new_file(path: PathBuf, mode: u32) -> Result<(PathBuf, GuardedStorage), Failed> {
    let (mut n, mut candidate) = (0_u32, path.clone());
    loop {
        match GuardedStorage::create_new(&candidate, mode) {
            Ok(storage) => return Ok((candidate, storage)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                n += 1;
                candidate = numbered(&path, n);
            }
            Err(source) => return Err(CaptureError::File { path: candidate, source }),
        }
    }
}

/// How many threads hash beside the capture thread: the processors that the application may use, less one, and at most 4. With more,
/// reading memory is the bottleneck.
fn hash_threads() -> usize {
    const MOST: usize = 4;
    std::thread::available_parallelism().map_or(0, |count| (count.get() - 1).min(MOST))
}

/// Starts a thread that hashes.
fn spawn(body: Box<dyn FnOnce() + Send>) -> bool {
    interceptor::current()
        .is_some_and(|interceptor| interceptor.spawn("logdur-hash", "captured memory is hashed by fewer threads", body))
}

/// The number of the agent at a position; 0 means no agent.
fn number_of(position: usize) -> u64 {
    position as u64 + 1
}

fn allocation(interceptor: &Interceptor, range: &memory::Allocation) -> Option<Allocation> {
    let kind = match range.kind {
        memory::Kind::Pool(pool) if pool.is_gpu && pool.is_fine_grained() => AllocationKind::DeviceFine,
        memory::Kind::Pool(pool) if pool.is_gpu => AllocationKind::DeviceCoarse,
        memory::Kind::Pool(pool) if pool.is_for_kernargs() => AllocationKind::Kernarg,
        // Signals are of a pool, too, in blocks of the runtime's own.
        memory::Kind::Pool(_) | memory::Kind::Signal => AllocationKind::HostPool,
        memory::Kind::Locked { .. } => AllocationKind::LockedHost,
        memory::Kind::Managed => AllocationKind::Managed,
        memory::Kind::Foreign { .. } => AllocationKind::Ipc,
        memory::Kind::Variable { .. } => return None,
    };
    let owner = match range.kind {
        memory::Kind::Pool(pool) => interceptor.agent_position(pool.agent).map_or(0, number_of),
        _ => 0,
    };
    let host_base = match range.kind {
        memory::Kind::Locked { host } if host != range.base => Some(host),
        _ => None,
    };
    let (kind, backing) = if range.is_virtual { (AllocationKind::Virtual, kind) } else { (kind, kind) };
    let memory::VmemPart { handle, offset } = range.part;
    let (base, size) = (range.base, range.size);
    Some(Allocation { base, size, kind, owner, host_base, backing, handle, offset, ..Allocation::default() })
}

/// Converts a GPU's tick to nanoseconds of the system clock; 0 if the runtime does not know.
fn system_ns(interceptor: &Interceptor, agent: usize, tick: u64) -> u64 {
    let Some(agent) = interceptor.agent(agent) else { return 0 };
    let api = interceptor.api();
    let converted = api.system_tick(agent.agent.handle, tick).and_then(|t| Ok(to_ns(t, api.timestamp_frequency()?)));
    converted.unwrap_or(0)
}
