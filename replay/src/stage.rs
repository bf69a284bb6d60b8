//! A captured dispatch's memory and code on a device, ready to be launched: as it was, or with another kernel or geometry.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

use hsa::sys::abi::aql::{Packet, PacketType};
use logdur_capture::Id;
use logdur_kernel_cache::{Kernarg, PacketFacts};

use crate::buffers;
use crate::case::{Case, Code};
use crate::device::{self, Backend, CodePlace, Device, Times};
use crate::dirty::Dirty;
use crate::error::{ReplayError, Result};
use crate::geometry::Geometry;
use crate::memory::{self, Area, Pages};
use crate::moved::Moved;
use crate::place::PAGE;
use crate::replacement::{self, Other, Replacement};
use crate::verify::{Buffer, BufferReport, Comparison, Piece, Rule};
use crate::{hostcall, kernarg, listing, reach};

/// What a dispatch is replayed on, and how it is looked at.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The kind of device.
    pub backend: Backend,
    /// The clock of [`Backend::Emulated`] counts instructions, ten nanoseconds for a wave's: the same in every run, also of what
    /// kernels make of the time.
    pub counted: bool,
    /// The position of the GPU; `None` for the first that is like the captured one.
    pub device: Option<usize>,
    /// Memory whose addresses cannot be had may be elsewhere: what looks like an address of it is rewritten then, which is said.
    pub relocate: bool,
    /// How long a launch may take; `None` is 1000 times as long as the application's, and 10 s at least.
    pub limit: Option<Duration>,
    /// What buffers are made of, and what is near enough.
    pub rules: Vec<Rule>,
}

/// What of a dispatch is other than it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Another geometry.
    pub geometry: Geometry,
    /// Where other kernels are looked for, the first that has one.
    pub replacements: Vec<Replacement>,
}

/// A packet and its arguments.
pub(crate) struct Launch {
    packet: Packet,
    segment: Vec<u8>,
    /// How many workgroups meet at the barrier of the whole grid, where the kernel has one.
    meeting: Option<u32>,
    /// The code object that runs instead of the application's, and where it came from.
    pub(crate) replaced: Option<(Id, String)>,
}

/// Runs that are compared where nothing else is asked for: fewer do not show what is not deterministic.
pub const COMPARED: u32 = 3;

/// A captured dispatch's memory and code on a device.
pub(crate) struct Stage<'c> {
    case: &'c Case<'c>,
    device: Box<dyn Device>,
    areas: Vec<Area>,
    moved: Moved,
    buffers: Vec<Buffer>,
    /// The address of the application's kernel for packets.
    own: u64,
    limit: Duration,
    /// What the application's kernel changed, and every launch that was looked at.
    dirty: Dirty,
    /// True when everything but that is as it was before the kernel.
    rest_is_restored: bool,
    /// Memory for arguments, and how much of it there is: one launch runs at a time.
    kernarg: (u64, usize),
    /// Other code that is loaded: the addresses of kernels.
    others: HashMap<Id, u64>,
    /// Why a result says less than it could, one line each.
    pub(crate) weaknesses: Vec<String>,
}

impl<'c> Stage<'c> {
    /// Puts code and memory on a device.
    ///
    /// # Errors
    /// What keeps the dispatch from being replayed.
    pub(crate) fn set(case: &'c Case<'c>, setup: &Setup) -> Result<Stage<'c>> {
        case.has_arguments()?;
        let mut weaknesses = case.weaknesses();
        let buffers = buffers::buffers(case, &setup.rules)?;
        let wanted = memory::wanted(case);
        let place = case.loaded.map(|l| CodePlace {
            pages: l.base / PAGE * PAGE..(l.base + l.size).next_multiple_of(PAGE),
            base: l.base,
            kernel_object: case.kernel_object,
        });
        let pages = |range: &Range<u64>| range.start / PAGE * PAGE..range.end.div_ceil(PAGE) * PAGE;
        let mut ranges: Vec<Range<u64>> = wanted.iter().map(|region| pages(&region.range)).collect();
        ranges.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
        ranges.extend(place.iter().map(|place| place.pages.clone()));
        let mut device = device::open(setup, case, &ranges)?;
        let own = match place {
            None => {
                weaknesses.push("code at another address: the capture does not say where it was".to_owned());
                device.load(&case.original)?
            }
            Some(place) => match device.load_at(&case.original, &place) {
                Err(ReplayError::Placement { why, .. }) => {
                    weaknesses.push(format!("code at another address: {why}"));
                    device.load(&case.original)?
                }
                loaded => loaded?,
            },
        };
        let mut parts = device.allocate(&wanted, &mut weaknesses)?;
        device.settle();
        parts.extend(case.loaded.map(|l| Area {
            captured: l.base..l.base.saturating_add(l.size),
            placed: l.base.wrapping_add(own.wrapping_sub(case.kernel_object)),
        }));
        let moved = Moved::of(parts);
        let areas = memory::areas(case, &moved);
        let written = match &case.after {
            Some(after) => memory::written(&case.before, after, &areas)?.0,
            None => BTreeSet::new(),
        };
        Ok(Stage {
            case,
            device,
            buffers,
            own,
            limit: case.limit(setup.limit),
            dirty: Dirty::of(&case.before, &areas, &moved, written)?,
            areas,
            moved,
            rest_is_restored: false,
            kernarg: (0, 0),
            others: HashMap::new(),
            weaknesses,
        })
    }

    /// The device.
    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// True when something is not at its address.
    pub(crate) fn is_relocated(&self) -> bool {
        !self.moved.is_empty()
    }

    /// What the memory is called.
    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Bytes of all memory, and of what is put back between launches.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.areas.iter().map(|area| area.captured.end - area.captured.start).sum(), self.dirty.bytes())
    }

    /// Makes a packet and its arguments.
    ///
    /// # Errors
    /// When the kernel does not allow the geometry, when another one may not take its place, or when it needs what replays
    /// do not have.
    pub(crate) fn launch(&mut self, variant: &Variant) -> Result<Launch> {
        let case = self.case;
        let mut packet = case.packet();
        if packet.packet_type() != PacketType::KernelDispatch {
            return Err(ReplayError::Unsupported(format!("a packet that is no dispatch: {:?}", packet.packet_type())));
        }
        let other = replacement::other(case, &variant.replacements, &self.device.description().isa)?;
        let interface = &case.original.interface;
        if variant.geometry.is_other() {
            let runs = other.as_ref().map_or(interface, |other| &other.code.interface);
            variant.geometry.apply(&mut packet, runs)?;
        }
        let queue = self.device.queue();
        let facts = PacketFacts {
            grid: packet.grid_size(),
            workgroup: packet.workgroup_size(),
            dimensions: packet.dimensions(),
            private: packet.private_segment_size(),
            group: packet.group_segment_size(),
            original_group: interface.group_size,
            cooperative: case.is_cooperative(),
            queue: queue.address,
            private_base_hi: queue.private_base_hi,
            shared_base_hi: queue.shared_base_hi,
        };
        let in_memory = |address: u64| self.areas.iter().any(|area| area.captured.contains(&address));
        let other_geometry = variant.geometry.is_other();
        let mut segment = kernarg::restored(&case.dispatch.kernarg, interface, &facts, other_geometry, in_memory)?;
        match &other {
            Some(other) => {
                let sizes = other.swap.for_packet(&facts).map_err(|refusal| ReplayError::Refused {
                    kernel: case.original.kernel.name.clone(),
                    refusals: vec![refusal.to_string()],
                })?;
                if let Kernarg::Relaid(layout) = &other.swap.kernarg {
                    segment = layout.lay(&segment, &facts);
                }
                let object = self.load(other)?;
                packet.set_kernel(object, sizes.private, sizes.group);
            }
            None => packet.set_kernel(self.own, facts.private, facts.group),
        }
        self.moved.forward(0, &mut segment);
        let runs = other.as_ref().map_or(&case.original, |other| &other.code);
        let meeting = (facts.cooperative && self.meets(runs)?).then(|| workgroups(&facts));
        Ok(Launch { packet, segment, meeting, replaced: other.map(|other| (other.code.id, other.place)) })
    }

    /// True when a kernel has a barrier of the whole grid; of unknown processors that is not known.
    fn meets(&self, code: &Code) -> Result<bool> {
        match device::processor(&self.device.description().isa).parse() {
            Ok(arch) => listing::reaches(&code.bytes, arch, &code.kernel.name, "ds_gws_barrier"),
            Err(_) => Ok(false),
        }
    }

    /// Loads other code, once.
    fn load(&mut self, other: &Other) -> Result<u64> {
        if let Some(object) = self.others.get(&other.code.id) {
            return Ok(*object);
        }
        let object = self.device.load(&other.code)?;
        self.others.insert(other.code.id, object);
        Ok(object)
    }

    /// Puts all memory back to what it was before the kernel.
    ///
    /// # Errors
    /// When the capture cannot be read, or the device not be written to.
    pub(crate) fn restore_all(&mut self) -> Result<()> {
        let rewritten = memory::restore(self.device(), &self.case.before, &self.areas, &self.moved)?;
        if !self.rest_is_restored && !self.moved.is_empty() {
            let parts = self.moved.count();
            self.weaknesses.push(format!(
                "relocated: {parts} parts of memory or code are elsewhere, {rewritten} words that look like their addresses were \
                 rewritten"
            ));
        }
        self.rest_is_restored = true;
        Ok(())
    }

    /// Puts back what launches have changed.
    ///
    /// # Errors
    /// As for [`Stage::restore_all`].
    pub(crate) fn restore(&mut self) -> Result<()> {
        if !self.rest_is_restored {
            return self.restore_all();
        }
        self.dirty.restore(self.device(), &self.case.before, &self.moved)
    }

    /// Runs a launch on the memory as it is.
    ///
    /// # Errors
    /// A fault, by the buffer that is nearest; a kernel that does not end. The device is of no use then.
    pub(crate) fn run(&mut self, launch: &Launch) -> Result<Times> {
        let bytes = launch.segment.len();
        if self.kernarg.0 == 0 || self.kernarg.1 < bytes {
            self.kernarg = (self.device.kernarg(bytes)?, bytes);
        }
        // SAFETY: the segment was allocated with so many bytes, and no kernel runs.
        unsafe { self.device.write(&[(self.kernarg.0, &launch.segment)]) }?;
        let mut packet = launch.packet;
        packet.set_kernarg_address(self.kernarg.0);
        launch.meeting.map_or(Ok(()), |workgroups| self.device.meet(workgroups))?;
        // SAFETY: kernel and segment are loaded and stay as long as the process.
        let ran = unsafe { self.device.run(packet, self.limit) };
        ran.map_err(|error| match hostcall::explained(self.case, error) {
            ReplayError::Fault(mut fault) => {
                fault.nearest =
                    fault.address.and_then(|address| buffers::nearest(&self.buffers, self.moved.captured(address)));
                ReplayError::Fault(fault)
            }
            error => error,
        })
    }

    /// Looks at all memory: the pages that are not as before. From now on they are put back, too.
    ///
    /// # Errors
    /// When the capture or the device cannot be read.
    pub(crate) fn changed(&mut self) -> Result<Pages> {
        let pages = memory::changed(self.device(), &self.case.before, &self.areas, &self.moved)?;
        if pages.keys().any(|page| !self.dirty.pages().contains(page)) {
            let all = self.dirty.pages().iter().chain(pages.keys()).copied().collect();
            self.dirty = Dirty::of(&self.case.before, &self.areas, &self.moved, all)?;
        }
        Ok(pages)
    }

    /// Looks at what launches are known to change: the pages that are not as before.
    ///
    /// # Errors
    /// As for [`Stage::changed`].
    pub(crate) fn changed_of_known(&self) -> Result<Pages> {
        self.dirty.changed(self.device(), &self.case.before, &self.moved)
    }

    /// Runs a launch [`COMPARED`] times, each on restored memory: what each changed. All memory is looked at after the first one
    /// if `all` is asked for, and what is known to change after the others.
    ///
    /// # Errors
    /// As for [`Stage::run`] and [`Stage::changed`].
    pub(crate) fn look(&mut self, launch: &Launch, all: bool) -> Result<Vec<Pages>> {
        self.restore()?;
        self.run(launch)?;
        let first = if all { self.changed_of_all(launch)? } else { self.changed_of_known()? };
        let mut runs = vec![first];
        for _ in 1..COMPARED {
            self.restore()?;
            self.run(launch)?;
            runs.push(self.changed_of_known()?);
        }
        Ok(runs)
    }

    /// What a launch that ran has changed.
    fn changed_of_all(&mut self, launch: &Launch) -> Result<Pages> {
        let known = self.dirty.bytes();
        let pages = self.changed()?;
        if self.dirty.bytes() == known {
            return Ok(pages);
        }
        // Somebody wrote where nobody had written: this one, or a later run of one that was looked at before.
        self.restore_all()?;
        self.run(launch)?;
        self.changed()
    }

    /// Puts something else into the caches.
    ///
    /// # Errors
    /// When the device cannot.
    pub(crate) fn flush_caches(&mut self) -> Result<()> {
        self.device.flush_caches()
    }

    /// Compares what runs changed with what the application's kernel changed.
    ///
    /// # Errors
    /// When the capture is damaged.
    pub(crate) fn compare(&self, runs: &[Pages]) -> Result<Vec<BufferReport>> {
        let (case, areas) = (self.case, &self.areas);
        let restored = |b: &&Buffer| areas.iter().any(|a| b.start < a.captured.end && a.captured.start < b.end);
        let buffers: Vec<&Buffer> = self.buffers.iter().filter(restored).collect();
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
                let of_run =
                    |run| Pages::get(run, page).and_then(|bytes| bytes.get(at..at + length)).unwrap_or(&before);
                let found: Vec<&[u8]> = runs.iter().map(of_run).collect();
                comparison.take(&Piece { address: start, before: &before, expected: &expected, found: &found });
            }
            reports.push(comparison.finish());
        }
        reach::settle(case, &mut reports)?;
        Ok(reports)
    }
}

/// Workgroups of a dispatch.
fn workgroups(facts: &PacketFacts) -> u32 {
    let groups = facts.grid.iter().zip(facts.workgroup).map(|(grid, group)| grid.div_ceil(u32::from(group).max(1)));
    groups.fold(1, u32::saturating_mul)
}
