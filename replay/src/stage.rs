//! A captured dispatch's memory and code on a device, ready to be launched: as it was, or with another kernel or geometry.

mod compared;
mod replays;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

use amdgpu_code_object::{DataKind, DataRange, Image, load};
use hsa::sys::abi::aql::{Packet, PacketType};
use logdur_capture::Id;
use logdur_kernel_cache::{Kernarg, PacketFacts};

use crate::buffers;
use crate::case::{Case, Code};
use crate::contents::{Around, Contents};
use crate::device::{self, Backend, CodePlace, Device, Times};
use crate::dirty::Dirty;
use crate::error::{ReplayError, Result};
use crate::geometry::Geometry;
use crate::judge::Plan;
use crate::memory::{self, Area, Pages};
use crate::moved::Moved;
use crate::place::PAGE;
use crate::replacement::{self, Other, Replacement};
use crate::verify::{Buffer, Judged, Rule};
use crate::{contents, hostcall, kernarg, listing};

pub(crate) use replays::OnStage;

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
    /// The share of what is written that may be masked before nothing can be said; `None` is [`MASK_LIMIT`].
    pub mask_limit: Option<f64>,
}

/// The share of what a kernel writes that may be masked, where nothing else is asked for.
pub const MASK_LIMIT: f64 = 0.01;

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

/// Replays of a kernel that are compared where nothing else is asked for: fewer do not show what is not deterministic.
pub const COMPARED: u32 = 3;

/// A captured dispatch's memory and code on a device.
pub(crate) struct Stage<'c> {
    case: &'c Case<'c>,
    device: Box<dyn Device>,
    areas: Vec<Area>,
    moved: Moved,
    /// What is around the captured memory.
    around: Around,
    buffers: Vec<Buffer>,
    /// Those of what is around.
    around_buffers: Vec<Buffer>,
    mask_limit: f64,
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
    /// What variables of other code are at the beginning of a launch, by address: those that the application does not have.
    own_variables: Vec<(u64, Vec<u8>)>,
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
        let gaps = contents::gaps(case, &memory::data(case));
        let around = Around::of_gaps(&gaps);
        let areas = memory::areas(case, &gaps, &moved);
        let written = match &case.after {
            Some(after) => memory::written(&case.before, after, &areas)?.0,
            None => BTreeSet::new(),
        };
        let before = Contents { memory: &case.before, around: &around };
        let mut stage = Stage {
            case,
            device,
            around_buffers: around.buffers(&buffers),
            buffers,
            own,
            limit: case.limit(setup.limit),
            dirty: Dirty::of(before, &areas, &moved, written)?,
            areas,
            moved,
            around,
            mask_limit: setup.mask_limit.unwrap_or(MASK_LIMIT),
            rest_is_restored: false,
            kernarg: (0, 0),
            others: HashMap::new(),
            own_variables: Vec::new(),
            weaknesses,
        };
        stage.protect(&case.original, own, case.kernel_object)?;
        Ok(stage)
    }

    /// The memory before the kernel.
    fn before(&self) -> Contents<'_> {
        Contents { memory: &self.case.before, around: &self.around }
    }

    /// Has code looked at after launches that was loaded with its kernel at `object`; `captured` is where the application had
    /// that.
    fn protect(&mut self, code: &Code, object: u64, captured: u64) -> Result<()> {
        let place = || format!("code object {}", code.id);
        let failed = |source| ReplayError::CodeObject { place: place(), source };
        let image = Image::parse(&code.bytes).map_err(failed)?;
        let descriptor = code.object.globals.iter().find(|global| global.name == code.kernel.symbol);
        let Some(descriptor) = descriptor else { return Ok(()) };
        for (address, bytes) in image.text() {
            let [placed, captured] =
                [object, captured].map(|object| address.wrapping_add(object.wrapping_sub(descriptor.address)));
            let range = captured..captured.saturating_add(bytes.len() as u64);
            let meets = |area: &Area| range.start < area.captured.end && area.captured.start < range.end;
            if range.is_empty() || self.areas.iter().any(meets) {
                continue;
            }
            let mut loaded = vec![0; bytes.len()];
            // SAFETY: the code was loaded with so many bytes, and no kernel runs.
            unsafe { self.device.read(&mut [(placed, &mut loaded)]) }?;
            self.around.code(range.start, loaded);
            self.around_buffers.push(contents::around(format!("code of {}", code.kernel.name), &range));
            let at = self.areas.partition_point(|area| area.captured.start < range.start);
            self.areas.insert(at, Area { captured: range, placed });
        }
        Ok(())
    }

    /// The device.
    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// True when something is not at its address.
    pub(crate) fn is_relocated(&self) -> bool {
        !self.moved.is_empty()
    }

    /// How a launch is judged, in at least so many replays.
    pub(crate) fn plan(&self, own: &Launch, launch: &Launch, repetitions: u32) -> Plan {
        let judged = if launch.is_like(own) { Judged::Own } else { Judged::Other };
        Plan { judged, repetitions: repetitions as usize, mask_limit: self.mask_limit }
    }

    /// What the memory is called.
    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Bytes of all captured memory, and of what is put back between launches.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let all: u64 = self.areas.iter().map(|area| area.captured.end - area.captured.start).sum();
        (all.saturating_sub(self.around.bytes()), self.dirty.bytes())
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
        self.refuse_descriptors(runs)?;
        let meeting = (facts.cooperative && self.meets(runs)?).then(|| workgroups(&facts));
        Ok(Launch { packet, segment, meeting, replaced: other.map(|other| (other.code.id, other.place)) })
    }

    /// Refuses a kernel that reads textures when memory is not at its addresses. Their descriptors have addresses in a form of
    /// their own, which is not rewritten.
    fn refuse_descriptors(&self, code: &Code) -> Result<()> {
        let Ok(arch) = device::processor(&self.device.description().isa).parse() else { return Ok(()) };
        if !self.is_relocated() {
            return Ok(());
        }
        let kernel = &code.kernel.name;
        match listing::by_descriptor(&code.bytes, arch, kernel)? {
            None => Ok(()),
            Some(name) => Err(ReplayError::Unsupported(format!(
                "{kernel}: {name} finds memory by a descriptor, as of a texture; memory is not at its captured address, and \
                 addresses in descriptors are not rewritten"
            ))),
        }
    }

    /// True when a kernel has a barrier of the whole grid; of unknown processors that is not known.
    fn meets(&self, code: &Code) -> Result<bool> {
        match device::processor(&self.device.description().isa).parse() {
            Ok(arch) => listing::reaches(&code.bytes, arch, &code.kernel.name, "ds_gws_barrier"),
            Err(_) => Ok(false),
        }
    }

    /// Loads other code, once. Its variables are those of the application's code.
    fn load(&mut self, other: &Other) -> Result<u64> {
        if let Some(object) = self.others.get(&other.code.id) {
            return Ok(*object);
        }
        let descriptor = self.case.original.kernel.descriptor.map(|descriptor| descriptor.address);
        // Other modules are captured memory: where something of that is elsewhere, parts of one may be apart.
        let moved_by = |module: usize| match module.checked_sub(1) {
            None => descriptor.map(|address| self.own.wrapping_sub(address)),
            Some(n) => self.case.others.get(n).map(|(_, by)| *by).filter(|_| self.moved.is_empty()),
        };
        let bytes = other.swap.binding.apply(&other.code.bytes, moved_by);
        let bytes = bytes.map_err(|source| ReplayError::CodeObject { place: other.place.clone(), source })?;
        let object = self.device.load(&Code { bytes, ..other.code.clone() })?;
        if !other.swap.binding.own.is_empty() {
            let descriptor = other.code.kernel.descriptor.map_or(0, |descriptor| descriptor.address);
            self.own_variables.extend(own_variables(other, object.wrapping_sub(descriptor))?);
        }
        self.others.insert(other.code.id, object);
        self.protect(&other.code, object, object)?;
        Ok(object)
    }

    /// Puts all memory back to what it was before the kernel.
    ///
    /// # Errors
    /// When the capture cannot be read, or the device not be written to.
    pub(crate) fn restore_all(&mut self) -> Result<()> {
        let rewritten = memory::restore(self.device(), self.before(), &self.areas, &self.moved)?;
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
        self.dirty.restore(self.device(), self.before(), &self.moved)
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
        let own: Vec<(u64, &[u8])> = self.own_variables.iter().map(|(at, bytes)| (*at, &**bytes)).collect();
        // SAFETY: variables of code that is loaded, and no kernel runs.
        unsafe { self.device.write(&own) }?;
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
        let pages = memory::changed(self.device(), self.before(), &self.areas, &self.moved)?;
        if pages.keys().any(|page| !self.dirty.pages().contains(page)) {
            let all = self.dirty.pages().iter().chain(pages.keys()).copied().collect();
            self.dirty = Dirty::of(self.before(), &self.areas, &self.moved, all)?;
        }
        Ok(pages)
    }

    /// Looks at what launches are known to change: the pages that are not as before.
    ///
    /// # Errors
    /// As for [`Stage::changed`].
    pub(crate) fn changed_of_known(&self) -> Result<Pages> {
        self.dirty.changed(self.device(), self.before(), &self.moved)
    }

    /// Puts something else into the caches.
    ///
    /// # Errors
    /// When the device cannot.
    pub(crate) fn flush_caches(&mut self) -> Result<()> {
        self.device.flush_caches()
    }
}

impl Launch {
    /// True when the same code runs with the same geometry and arguments.
    pub(crate) fn is_like(&self, other: &Launch) -> bool {
        (&self.packet.0, &self.segment) == (&other.packet.0, &other.segment)
    }
}

/// The variables of other code as they are when it is loaded: its addresses are moved by some distance.
fn own_variables(other: &Other, moved_by: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let damaged = |source| ReplayError::CodeObject { place: other.place.clone(), source };
    let bytes = other.swap.binding.apply(&other.code.bytes, |_| Some(0)).map_err(damaged)?;
    let image = Image::parse(&bytes).map_err(damaged)?;
    let first = load::load(&bytes, 0, |_| None).map_err(damaged)?.first;
    let loaded = load::load(&bytes, moved_by.wrapping_add(first), |_| None).map_err(damaged)?;
    let variables = image.data().into_iter().filter(|range| range.kind == DataKind::Variable);
    let bytes = |range: DataRange<'_>| {
        let at = usize::try_from(range.start.wrapping_sub(first)).ok()?;
        let bytes = loaded.bytes.get(at..)?.get(..usize::try_from(range.size).ok()?)?;
        Some((range.start.wrapping_add(moved_by), bytes.to_vec()))
    };
    Ok(variables.filter_map(bytes).collect())
}

/// Workgroups of a dispatch.
fn workgroups(facts: &PacketFacts) -> u32 {
    let groups = facts.grid.iter().zip(facts.workgroup).map(|(grid, group)| grid.div_ceil(u32::from(group).max(1)));
    groups.fold(1, u32::saturating_mul)
}
