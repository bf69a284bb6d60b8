//! A dispatch, replayed and compared.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use hsa::sys::abi::aql::{Packet, PacketType};
use hsa::{Executable, KernelSymbol};
use logdur_capture::{Id, Scope};
use logdur_kernel_cache::{Kernarg, PacketFacts};

use crate::buffers;
use crate::case::{Case, Code};
use crate::device::{Description, Device, Times};
use crate::error::{Doing, Exit, ReplayError, Result};
use crate::geometry::Geometry;
use crate::hostcall;
use crate::kernarg;
use crate::memory::{self, Area, Pages};
use crate::place::{PAGE, Region, Reserved};
use crate::reach;
use crate::replacement::{self, Other, Replacement};
use crate::verify::{Buffer, BufferReport, Comparison, Overall, Piece, Rule};

/// How a dispatch is replayed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How often; 0 is once.
    pub repetitions: u32,
    /// How many of the repetitions, from the first on, are compared; 0 is none.
    pub verified: u32,
    /// The position of the GPU; `None` for the first that is like the captured one.
    pub device: Option<usize>,
    /// How long a repetition may take; `None` is 1000 times as long as the application's, and 10 s at least.
    pub limit: Option<Duration>,
    /// Another geometry.
    pub geometry: Geometry,
    /// What buffers are made of, and what is near enough.
    pub rules: Vec<Rule>,
    /// Where other kernels are looked for, the first that has one.
    pub replacements: Vec<Replacement>,
    /// A folder for what the first repetition left in each buffer that it changed.
    pub save: Option<std::path::PathBuf>,
}

/// One repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// How long it took.
    pub times: Times,
    /// True when what it wrote was compared.
    pub verified: bool,
}

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Report {
    /// The dispatch's number in its process.
    pub dispatch: u64,
    /// The kernel's symbol.
    pub kernel: String,
    /// What of the memory was captured.
    pub scope: Scope,
    /// The device.
    pub device: Description,
    /// The application's code object.
    pub code: Id,
    /// The code object that was replayed instead, and where it came from.
    pub replaced: Option<(Id, String)>,
    /// Why a PASS says less than it could, one line each.
    pub weaknesses: Vec<String>,
    /// How long the application's dispatch took.
    pub recorded_ns: Option<u64>,
    /// The repetitions.
    pub repetitions: Vec<Repetition>,
    /// The result; `None` when nothing was compared.
    pub overall: Option<Overall>,
    /// What was found of each buffer.
    pub buffers: Vec<BufferReport>,
}

impl Report {
    /// The status that says it. With `strict`, a result that says less than it could is no success.
    pub fn exit(&self, strict: bool) -> Exit {
        match self.overall {
            Some(Overall::Fail | Overall::NothingWritten) => Exit::Mismatch,
            Some(Overall::NoReference) => Exit::Incomplete,
            Some(Overall::Pass) if strict && !self.weaknesses.is_empty() => Exit::Incomplete,
            Some(Overall::Pass) | None => Exit::Success,
        }
    }
}

/// A kernel on the device, with what a packet needs for it.
struct Launch {
    packet: Packet,
    kernarg: NonNull<u8>,
    segment: Vec<u8>,
}

/// The shortest time that a repetition may take.
const LEAST: Duration = Duration::from_secs(10);

/// Replays a dispatch in this process, which has not started the runtime yet and does so here, once.
///
/// # Errors
/// What keeps it from being replayed: see [`ReplayError`]. After a fault or a kernel that does not end, the process should end
/// without shutting the runtime down.
pub fn replay(case: &Case<'_>, options: &Options) -> Result<Report> {
    let mut weaknesses = case.weaknesses();
    let buffers = buffers::buffers(case, &options.rules)?;
    let plan = memory::plan(case)?;
    let code_range = case.loaded.map(|l| l.base / PAGE * PAGE..(l.base + l.size).next_multiple_of(PAGE));
    let ranges: Vec<Range<u64>> = plan.iter().map(|r| r.range.clone()).chain(code_range.clone()).collect();
    let mut reserved = Reserved::keep(&ranges)?;

    let isa = case.agent.map(|agent| agent.isa.as_str()).filter(|isa| !isa.is_empty());
    let device = Device::open(isa, options.device, case.queue_kind)?;
    let other = replacement::other(case, &options.replacements, &device.description.isa)?;
    let other_symbol = other.as_ref().map(|other| load(&device, &other.code)).transpose()?;
    let own_symbol = load_in_place(case, &device, code_range.as_ref(), &mut reserved, &mut weaknesses)?;
    weaknesses.extend(memory::allocate(&device, &plan, &mut reserved)?);
    drop(reserved);

    let moved = own_symbol.kernel_object.wrapping_sub(case.kernel_object);
    let launch = prepare(case, &device, options, &plan, &own_symbol, other.as_ref().zip(other_symbol.as_ref()))?;
    let launch = match (moved, case.loaded) {
        (0, _) | (_, None) => launch,
        (moved, Some(loaded)) => {
            let mut launch = launch;
            let count = kernarg::relocate(&mut launch.segment, &(loaded.base..loaded.base + loaded.size), moved);
            weaknesses.push(format!("relocated: {count} arguments rewritten"));
            launch
        }
    };
    let areas = memory::areas(case, moved);
    let limit = options
        .limit
        .unwrap_or_else(|| LEAST.max(Duration::from_nanos(case.duration_ns().unwrap_or(0).saturating_mul(1000))));
    let explained = |error| match hostcall::explained(case, error) {
        ReplayError::Fault(mut fault) => {
            fault.nearest = fault.address.and_then(|address| buffers::nearest(&buffers, address));
            ReplayError::Fault(fault)
        }
        error => error,
    };
    let run = Run { case, device: &device, areas: &areas, launch: &launch, limit };
    let (repetitions, runs) = run.all(options).map_err(explained)?;
    if let (Some(folder), Some(first)) = (&options.save, runs.first()) {
        save(case, folder, &buffers, first)?;
    }
    let mut compared = if runs.is_empty() { Vec::new() } else { compare(case, &areas, &buffers, &runs)? };
    reach::settle(case, &mut compared)?;
    Ok(Report {
        dispatch: case.dispatch.id,
        kernel: case.original.kernel.name.clone(),
        scope: case.dispatch.scope,
        code: case.original.id,
        replaced: other.map(|other| (other.code.id, other.place)),
        weaknesses,
        recorded_ns: case.duration_ns(),
        repetitions,
        overall: (!runs.is_empty()).then(|| Overall::of(&compared)),
        buffers: compared,
        device: device.description,
    })
}

/// Loads a code object; its kernel, and what it is part of.
fn load_code(device: &Device, code: &Code) -> Result<(KernelSymbol, Executable)> {
    // The runtime wants the bytes for as long as the process lives.
    let bytes: &'static [u8] = Box::leak(code.bytes.clone().into_boxed_slice());
    let executable = device.api.load_code(device.gpu, bytes).doing(|| format!("loading code object {}", code.id))?;
    let symbols = device.api.kernels(executable, device.gpu).doing(|| "listing kernels".to_owned())?;
    let found = symbols.into_iter().find(|symbol| symbol.name == code.kernel.symbol);
    let found = found.ok_or_else(|| ReplayError::Environment {
        what: "the kernels that the runtime loaded",
        expected: code.kernel.symbol.clone(),
        found: "none of this name".to_owned(),
    });
    Ok((found?, executable))
}

fn load(device: &Device, code: &Code) -> Result<KernelSymbol> {
    load_code(device, code).map(|(symbol, _)| symbol)
}

/// Loads the application's code where it was, or if that cannot be elsewhere, which is said.
fn load_in_place(
    case: &Case<'_>,
    device: &Device,
    range: Option<&Range<u64>>,
    reserved: &mut Reserved,
    weaknesses: &mut Vec<String>,
) -> Result<KernelSymbol> {
    let Some(range) = range else {
        weaknesses.push("code at another address: the capture does not say where it was".to_owned());
        return load(device, &case.original);
    };
    let start = range.start;
    let allocate = || {
        let (symbol, executable) = load_code(device, &case.original)?;
        let moved = symbol.kernel_object.wrapping_sub(case.kernel_object);
        Ok((start.wrapping_add(moved), (symbol, executable)))
    };
    let free = |(_, executable): (KernelSymbol, Executable)| {
        // Where it stays it is only in the way.
        let _ = device.api.unload_code(executable);
    };
    match reserved.steer(range, allocate, free) {
        Ok((symbol, _)) => Ok(symbol),
        Err(ReplayError::Placement { why, .. }) => {
            weaknesses.push(format!("code at another address: {why}"));
            load(device, &case.original)
        }
        Err(error) => Err(error),
    }
}

/// The packet and the kernarg segment.
fn prepare(
    case: &Case<'_>,
    device: &Device,
    options: &Options,
    plan: &[Region],
    own: &KernelSymbol,
    other: Option<(&Other, &KernelSymbol)>,
) -> Result<Launch> {
    let mut packet = case.packet();
    if packet.packet_type() != PacketType::KernelDispatch {
        return Err(ReplayError::Unsupported(format!("a packet that is no dispatch: {:?}", packet.packet_type())));
    }
    let interface = &case.original.interface;
    if options.geometry.is_other() {
        options.geometry.apply(&mut packet, interface)?;
        if let Some((other, _)) = other {
            options.geometry.apply(&mut packet, &other.code.interface)?;
        }
    }
    let queue = device.queue();
    let high = |half: &std::sync::atomic::AtomicU32| half.load(std::sync::atomic::Ordering::Relaxed);
    let facts = PacketFacts {
        grid: packet.grid_size(),
        workgroup: packet.workgroup_size(),
        dimensions: packet.dimensions(),
        private: packet.private_segment_size(),
        group: packet.group_segment_size(),
        original_group: interface.group_size,
        cooperative: case.queue_kind == hsa::sys::raw::HSA_QUEUE_TYPE_COOPERATIVE.0,
        queue: queue.address(),
        private_base_hi: high(&queue.memory().private_segment_aperture_base_hi),
        shared_base_hi: high(&queue.memory().group_segment_aperture_base_hi),
    };
    let in_memory = |address: u64| plan.iter().any(|region| region.range.contains(&address));
    let other_geometry = options.geometry.is_other();
    let mut segment = kernarg::restored(&case.dispatch.kernarg, interface, &facts, other_geometry, in_memory)?;
    match other {
        Some((other, symbol)) => {
            let sizes = other.swap.for_packet(&facts).map_err(|refusal| ReplayError::Refused {
                kernel: case.original.kernel.name.clone(),
                refusals: vec![refusal.to_string()],
            })?;
            if let Kernarg::Relaid(layout) = &other.swap.kernarg {
                segment = layout.lay(&segment, &facts);
            }
            packet.set_kernel(symbol.kernel_object, sizes.private, sizes.group);
        }
        None => packet.set_kernel(own.kernel_object, facts.private, facts.group),
    }
    let bytes = segment.len().max(1);
    let kernarg = device.api.kernarg_memory(&[device.gpu], bytes);
    let kernarg = kernarg.doing(|| format!("{bytes} bytes for kernel arguments"))?;
    packet.set_kernarg_address(kernarg.as_ptr().expose_provenance() as u64);
    Ok(Launch { packet, kernarg, segment })
}

/// Everything that repetitions need.
struct Run<'a> {
    case: &'a Case<'a>,
    device: &'a Device,
    areas: &'a [Area],
    launch: &'a Launch,
    limit: Duration,
}

impl Run<'_> {
    /// Runs all repetitions; what the verified ones changed.
    fn all(&self, options: &Options) -> Result<(Vec<Repetition>, Vec<Pages>)> {
        let (mut repetitions, mut runs) = (Vec::new(), Vec::<Pages>::new());
        let mut written = BTreeSet::new();
        if let Some(after) = self.case.after.as_ref().filter(|_| options.verified > 0) {
            written = memory::written(&self.case.before, after, self.areas)?.0;
        }
        for number in 0..options.repetitions.max(1) {
            if number == 0 || runs.is_empty() {
                memory::restore(self.device, &self.case.before, self.areas)?;
            } else {
                memory::restore_pages(self.device, &self.case.before, self.areas, &written)?;
            }
            let segment = &self.launch.segment;
            // SAFETY: the segment was allocated with so many bytes, and no kernel runs.
            unsafe { self.launch.kernarg.copy_from_nonoverlapping(NonNull::from(&**segment).cast(), segment.len()) };
            // SAFETY: kernel and segment are loaded and stay as long as the process.
            let times = unsafe { self.device.run(self.launch.packet, self.limit) }?;
            let verified = number < options.verified;
            if verified {
                let pages = memory::changed(self.device, &self.case.before, self.areas)?;
                written.extend(pages.keys());
                runs.push(pages);
            }
            repetitions.push(Repetition { times, verified });
        }
        Ok((repetitions, runs))
    }
}

/// Compares what repetitions changed with what the application's kernel changed.
fn compare(case: &Case<'_>, areas: &[Area], buffers: &[Buffer], runs: &[Pages]) -> Result<Vec<BufferReport>> {
    let restored = |b: &&Buffer| areas.iter().any(|a| b.start < a.captured.end && a.captured.start < b.end);
    let buffers: Vec<&Buffer> = buffers.iter().filter(restored).collect();
    let Some(after) = &case.after else {
        return Ok(buffers.into_iter().map(|b| Comparison::without_reference(b.clone())).collect());
    };
    let (mut pages, gone) = memory::written(&case.before, after, areas)?;
    pages.extend(runs.iter().flat_map(|run| run.keys()));
    let is_gone = |b: &Buffer| gone.iter().any(|gone| b.start < gone.end && gone.start < b.end);
    let mut reports = Vec::new();
    let (mut before, mut expected) = (Vec::new(), Vec::new());
    for buffer in buffers {
        if is_gone(buffer) {
            reports.push(Comparison::without_reference(buffer.clone()));
            continue;
        }
        let mut comparison = Comparison::new(buffer.clone());
        for page in pages.range(buffer.start / PAGE * PAGE..buffer.end) {
            let (start, end) = ((*page).max(buffer.start), memory::page_end(areas, *page)?.min(buffer.end));
            if start >= end {
                continue;
            }
            let length = (end - start) as usize;
            before.resize(length, 0);
            expected.resize(length, 0);
            case.before.read(start, &mut before)?;
            after.read(start, &mut expected)?;
            let at = (start - page) as usize;
            let of_run = |run| Pages::get(run, page).and_then(|bytes| bytes.get(at..at + length)).unwrap_or(&before);
            let found: Vec<&[u8]> = runs.iter().map(of_run).collect();
            comparison.take(&Piece { address: start, before: &before, expected: &expected, found: &found });
        }
        reports.push(comparison.finish());
    }
    Ok(reports)
}

/// Writes what a repetition left in each buffer that it changed, a file for each.
fn save(case: &Case<'_>, folder: &Path, buffers: &[Buffer], pages: &Pages) -> Result<()> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source| ReplayError::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    for buffer in buffers {
        let mut bytes = vec![0; (buffer.end - buffer.start) as usize];
        case.before.read(buffer.start, &mut bytes)?;
        let mut changed = false;
        for (start, page) in pages.range(buffer.start / PAGE * PAGE..buffer.end) {
            for (address, byte) in (*start..).zip(page) {
                let to = address.checked_sub(buffer.start).and_then(|at| bytes.get_mut(at as usize));
                if let Some(to) = to.filter(|to| **to != *byte) {
                    *to = *byte;
                    changed = true;
                }
            }
        }
        if changed {
            let path = folder.join(format!("dispatch-{}-{:x}.bin", case.dispatch.id, buffer.start));
            std::fs::write(&path, bytes).map_err(failed(&path))?;
        }
    }
    Ok(())
}
