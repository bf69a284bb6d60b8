//! A captured dispatch's memory and code on a device, ready to be launched: as it was, or with another kernel or geometry.

mod code;
mod compared;
mod launch;
mod look;
mod replays;
mod steps;
mod stores;
mod together;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use amdgpu_code_object::Image;
use logdur_capture::{Id, Scope};
use logdur_captured::regions::PAGE;
use logdur_captured::verify::{Buffer, Judged};
use logdur_captured::{Called, CapturedDispatch, Code, buffers, extent, name, nearest};
pub(crate) use replays::LoadedVariant;

use crate::contents::{Around, Contents};
use crate::device::{self, CodePlace, Device, Load, Times};
use crate::dirty::Dirty;
use crate::error::{ReplayError, Result};
use crate::filled::{Filled, OTHER};
use crate::judge::Plan;
use crate::memory;
use crate::placed::{LoadBias, Pages, Placed, PlacedRange};
use crate::relocations::Relocations;
use crate::setup::{MASK_LIMIT, Setup};
use crate::{calls, contents, hostcall};

pub(crate) use launch::Launch;
pub use launch::Variant;
pub(crate) use look::{ChangedPage, Look, unseen};

use code::{bound, load_at, load_captured_other};
use stores::Stores;

/// Replays of a kernel that are compared where nothing else is asked for: fewer do not show what is not deterministic.
pub const COMPARED: u32 = 3;

/// A captured dispatch's memory and code on a device.
pub(crate) struct LoadedDispatch<'c> {
    captured: &'c CapturedDispatch<'c>,
    device: Box<dyn Device>,
    areas: Vec<PlacedRange>,
    relocations: Relocations,
    /// What is around the captured memory.
    around: Around,
    buffers: Vec<Buffer>,
    /// Those of what is around.
    around_buffers: Vec<Buffer>,
    /// The stacks of the kernel's threads, where they are in memory.
    stacks: Option<Range<u64>>,
    mask_limit: f64,
    /// The address of the application's kernel for packets.
    own: Placed,
    limit: Duration,
    /// What the application's kernel changed, and every launch that was looked at.
    dirty: Dirty,
    /// True when everything but that is as it was before the kernel.
    rest_is_restored: bool,
    /// Memory for arguments, and how much of it there is: one launch runs at a time.
    kernarg: (Placed, usize),
    /// The pattern behind arguments, and where and of which kind it is.
    behind_arguments: ((Placed, u64), Vec<u8>),
    /// Memory for arguments that is looked at after launches. It is written before each one, not put back.
    arguments: Vec<Range<u64>>,
    /// What is added to the addresses of each other code object that the dispatch leads to.
    called: Vec<LoadBias>,
    /// Other code that is loaded, by its hash and that of the code whose variables it uses: what is added to its addresses.
    others: HashMap<(Id, Id), LoadBias>,
    /// Kernels of loaded other code, of which the device has all instructions.
    checked: HashSet<(Id, String)>,
    /// What variables of other code are at the beginning of a launch, by address: those that the application does not have.
    own_variables: Vec<(Placed, Vec<u8>)>,
    /// What is known of the stores of the application's own kernel.
    stores: Stores,
    /// Other bytes in the memory before the kernel. Replays are compared with each other then.
    filled: Option<Filled>,
    /// True if the capture has no memory afterwards, and that of the first replay of the application's own kernel takes its place.
    pub(crate) by_replay: bool,
    /// Why a result says less than it could, one line each.
    pub(crate) qualified: Vec<String>,
}

impl<'c> LoadedDispatch<'c> {
    /// Puts code and memory on a device.
    ///
    /// # Errors
    /// What keeps the dispatch from being replayed.
    pub(crate) fn set(captured: &'c CapturedDispatch<'c>, setup: &Setup) -> Result<LoadedDispatch<'c>> {
        captured.has_arguments()?;
        let called = captured.look_for_called()?;
        let mut qualified = captured.qualified();
        let buffers = buffers(captured, &setup.rules)?;
        let wanted = captured.wanted();
        let place = captured.loaded.map(|loaded| CodePlace::of(loaded, captured.kernel_object));
        let mut ranges = whole_pages(wanted.iter().map(|region| &region.range));
        let own_place = captured.own_data.as_ref().map(|own| CodePlace::of(own.loaded, own.kernel_object));
        let of_called = |called: &Called| CodePlace::of(&called.loaded, called.loaded.base);
        let called_places: Vec<CodePlace> = called.iter().map(of_called).collect();
        ranges.extend(place.iter().chain(&own_place).chain(&called_places).map(|place| place.pages.clone()));
        let mut device = device::open(setup, captured, &ranges)?;
        let of_capture = captured.agent.map_or("", |agent| agent.isa.as_str());
        qualified.extend(device::other_loads(of_capture, &device.description().isa));
        let own = match place {
            None => {
                qualified.push("code at another address: the capture does not say where it was".to_owned());
                device.load(Load::Kernel(&captured.original))?
            }
            Some(place) => {
                load_at(&mut *device, Load::Kernel(&captured.original), &place, setup.exact, &mut qualified)?
            }
        };
        let own_data = match (&captured.own_data, own_place) {
            (Some(data), Some(place)) => {
                let (other, object) =
                    load_captured_other(captured, own, &mut *device, (&place, setup.exact), &mut qualified)?;
                Some((data, other, object))
            }
            _ => None,
        };
        let mut called_at = Vec::new();
        for (called, place) in called.iter().zip(&called_places) {
            called_at.push((called, load_at(&mut *device, Load::Called(called), place, setup.exact, &mut qualified)?));
        }
        let mut parts = device.allocate(&wanted, &mut qualified)?;
        device.release_reservations();
        parts.extend(captured.loaded.map(|l| PlacedRange {
            captured: extent(l),
            placed: own.plus(l.base.wrapping_sub(captured.kernel_object)),
        }));
        parts.extend(own_data.as_ref().map(|(data, _, object)| PlacedRange {
            captured: extent(data.loaded),
            placed: object.plus(data.loaded.base.wrapping_sub(data.kernel_object)),
        }));
        parts
            .extend(called_at.iter().map(|(called, at)| PlacedRange { captured: extent(&called.loaded), placed: *at }));
        let relocations = Relocations::of(parts);
        let gaps = contents::gaps(captured, &captured.data());
        let around = Around::of_gaps(&gaps);
        let areas = memory::areas(captured, &gaps, &relocations);
        let written = match &captured.after {
            Some(after) => memory::written(&captured.before, after, &areas)?.0,
            None => BTreeSet::new(),
        };
        let before = Contents { memory: &captured.before, around: &around, filled: None };
        let limit = captured.limit(setup.limit, device.description().emulated);
        let mut loaded = LoadedDispatch {
            captured,
            device,
            around_buffers: around.buffers(&buffers),
            buffers,
            own,
            limit,
            dirty: Dirty::of(before, &areas, &relocations, written)?,
            areas,
            relocations,
            around,
            stacks: captured.stacks(),
            mask_limit: setup.mask_limit.unwrap_or(MASK_LIMIT),
            rest_is_restored: false,
            kernarg: (Placed(0), 0),
            behind_arguments: ((Placed(0), 0), Vec::new()),
            arguments: Vec::new(),
            called: Vec::new(),
            others: HashMap::new(),
            checked: HashSet::new(),
            own_variables: Vec::new(),
            stores: Stores::default(),
            filled: None,
            by_replay: false,
            qualified,
        };
        loaded.protect(&captured.original, own, captured.kernel_object)?;
        for (called, at) in called_at {
            let bias = LoadBias::of(at, called.loaded.base.wrapping_sub(called.moved));
            loaded.protect_bytes(&name(&called.loaded), &called.bytes, bias, called.moved)?;
            loaded.called.push(bias);
        }
        if let Some((_, other, object)) = own_data {
            // Other modules are where they were: the check of its variables' addresses.
            bound(captured, own, &other, loaded.relocations.is_empty())?;
            loaded.others.insert((other.code.id, captured.original.id), bias_of(&other.code, object));
            loaded.protect(&other.code, object, object.0)?;
        }
        Ok(loaded)
    }

    /// The memory before the kernel.
    pub(crate) fn before(&self) -> Contents<'_> {
        Contents { memory: &self.captured.before, around: &self.around, filled: self.filled.as_ref() }
    }

    /// Has code and constants looked at after launches. They were loaded with their kernel at `object`; `captured` is where the
    /// application had that.
    fn protect(&mut self, code: &Code, object: Placed, captured: u64) -> Result<()> {
        let descriptor = code.object.globals.iter().find(|global| global.name == code.kernel.symbol);
        let Some(descriptor) = descriptor else { return Ok(()) };
        let bias = LoadBias::of(object, descriptor.address);
        let captured = captured.wrapping_sub(descriptor.address);
        self.protect_bytes(&code.kernel.name, &code.bytes, bias, captured)
    }

    /// The same of the bytes of a code object. `captured` is what was added to their addresses in the application.
    fn protect_bytes(&mut self, of: &str, bytes: &[u8], bias: LoadBias, captured: u64) -> Result<()> {
        let failed = |source| ReplayError::CodeObject { place: format!("the code of {of}"), source };
        let image = Image::parse(bytes).map_err(failed)?;
        let name = format!("code of {of}");
        for range in image.read_only() {
            let (placed, captured) = (bias.placed(range.start), range.start.wrapping_add(captured));
            // Constants that the host may write are captured memory.
            for range in memory::outside(captured..captured.saturating_add(range.end - range.start), &self.areas) {
                let placed = placed.plus(range.start - captured);
                let mut loaded = vec![0; (range.end - range.start) as usize];
                // SAFETY: the code was loaded with so many bytes, and no kernel runs.
                unsafe { self.device.read(&mut [(placed, &mut loaded)]) }?;
                self.watch(&name, PlacedRange { captured: range, placed }, loaded);
            }
        }
        Ok(())
    }

    /// Has memory looked at after launches that no kernel has a reason to write to.
    fn watch(&mut self, name: &str, area: PlacedRange, bytes: Vec<u8>) {
        self.around.fixed(area.captured.start, bytes);
        self.relocations.fix(area.captured.clone());
        self.around_buffers.push(contents::around(name.to_owned(), &area.captured));
        let at = self.areas.partition_point(|other| other.captured.start < area.captured.start);
        self.areas.insert(at, area);
    }

    /// The other code objects that the dispatch leads to, and what is added to their addresses.
    pub(crate) fn called(&self) -> impl Iterator<Item = (&Called, LoadBias)> {
        self.captured.called().iter().zip(self.called.iter().copied())
    }

    /// The device.
    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// True when something is not at its address.
    pub(crate) fn is_relocated(&self) -> bool {
        !self.relocations.is_empty()
    }

    /// How a launch is judged, in at least so many replays.
    pub(crate) fn plan(&self, own: &Launch, launch: &Launch, repetitions: u32) -> Plan {
        self.plan_of(launch.is_like(own), repetitions)
    }

    /// The same for what is the application's own, or not.
    pub(crate) fn plan_of(&self, is_own: bool, repetitions: u32) -> Plan {
        let judged = if is_own { Judged::Own } else { Judged::Other };
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

    /// Says why a result proves less, once.
    pub(crate) fn qualify(&mut self, why: String) {
        if !self.qualified.contains(&why) {
            self.qualified.push(why);
        }
    }

    /// Puts all memory back to what it was before the kernel.
    ///
    /// # Errors
    /// When the capture cannot be read, or the device not be written to.
    pub(crate) fn restore_all(&mut self) -> Result<()> {
        let rewritten = memory::restore(self.device(), self.before(), &self.areas, &self.relocations)?;
        if !self.rest_is_restored && !self.relocations.is_empty() {
            let parts = self.relocations.count();
            self.qualified.push(format!(
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
    /// As for [`LoadedDispatch::restore_all`].
    pub(crate) fn restore(&mut self) -> Result<()> {
        if !self.rest_is_restored {
            return self.restore_all();
        }
        self.dirty.restore(self.device(), self.before(), &self.relocations)
    }

    /// Runs a launch on the memory as it is.
    ///
    /// # Errors
    /// A fault, by the buffer that is nearest; a kernel that does not end. The device is of no use then.
    pub(crate) fn run(&mut self, launch: &Launch) -> Result<Times> {
        self.put_own_variables()?;
        self.run_on(launch)
    }

    /// Puts variables that the application does not have back to what they are when their code is loaded.
    ///
    /// # Errors
    /// When the device cannot be written to.
    pub(crate) fn put_own_variables(&self) -> Result<()> {
        let own: Vec<(Placed, &[u8])> = self.own_variables.iter().map(|(at, bytes)| (*at, &**bytes)).collect();
        // SAFETY: variables of code that is loaded, and no kernel runs.
        unsafe { self.device.write(&own) }
    }

    /// Runs a launch behind others: also the variables are as they are.
    ///
    /// # Errors
    /// As for [`LoadedDispatch::run`].
    pub(crate) fn run_on(&mut self, launch: &Launch) -> Result<Times> {
        self.put_arguments(launch)?;
        let mut packet = launch.packet;
        packet.set_kernarg_address(self.kernarg.0.0);
        launch.meeting.map_or(Ok(()), |workgroups| self.device.meet(workgroups))?;
        // SAFETY: kernel and segment are loaded and stay as long as the process.
        let ran = unsafe { self.device.run(packet, self.limit) };
        ran.map_err(|error| self.explained(launch, error))
    }

    /// What a launch has ended with, by the buffer that is nearest.
    pub(crate) fn explained(&self, launch: &Launch, error: ReplayError) -> ReplayError {
        match calls::explained(self.captured, hostcall::explained(self.captured, error)) {
            ReplayError::Fault(mut fault) => {
                let address = fault.address.map(|address| self.relocations.captured(Placed(address)));
                fault.nearest = address.and_then(|address| nearest(&self.buffers, address));
                let scope = self.captured.dispatch.scope;
                // Another kernel, or another grid, may be what is wrong.
                let is_own = launch.other.is_none() && launch.has_own_grid;
                let is_captured = |at| self.captured.before.ranges().iter().any(|range| range.contains(&at));
                let leaves_out = scope != Scope::All && is_own && !address.is_some_and(is_captured);
                if leaves_out { ReplayError::LeftOut { fault, scope } } else { ReplayError::Fault(fault) }
            }
            error => error,
        }
    }

    /// Writes the arguments of a launch, and a pattern behind them.
    fn put_arguments(&mut self, launch: &Launch) -> Result<()> {
        let length = launch.segment.len().max(1).next_multiple_of(PAGE as usize);
        if self.kernarg.1 < length {
            let address = self.device.kernarg(length)?;
            self.kernarg = (address, length);
            // It is called by its address of now, unless captured memory is called so.
            let range = address.0..address.0 + length as u64;
            if memory::outside(range.clone(), &self.areas) == std::slice::from_ref(&range) {
                self.watch("arguments", PlacedRange { captured: range.clone(), placed: address }, Vec::new());
                self.arguments.push(range);
            }
        }
        let (address, length) = self.kernarg;
        let other = if self.filled.is_some() { OTHER } else { 0 };
        if self.behind_arguments.0 != (address, other) || self.behind_arguments.1.len() != length {
            let pattern = (address.0..address.0 + length as u64).map(|at| contents::pattern(at ^ other));
            self.behind_arguments = ((address, other), pattern.collect());
        }
        let mut bytes = self.behind_arguments.1.clone();
        bytes.iter_mut().zip(&launch.segment).for_each(|(to, byte)| *to = *byte);
        // SAFETY: so many bytes were allocated, and no kernel runs.
        unsafe { self.device.write(&[(address, &bytes)]) }?;
        if self.arguments.iter().any(|range| range.contains(&address.0)) {
            self.around.fixed(address.0, bytes);
        }
        Ok(())
    }

    /// Looks at all memory: the pages that are not as before. From now on they are put back, too.
    ///
    /// # Errors
    /// When the capture or the device cannot be read.
    pub(crate) fn changed(&mut self) -> Result<Pages> {
        let pages = memory::changed(self.device(), self.before(), &self.areas, &self.relocations)?;
        let is_put_back = |page: &&u64| !self.arguments.iter().any(|range| range.contains(*page));
        if pages.keys().filter(is_put_back).any(|page| !self.dirty.pages().contains(page)) {
            let all = self.dirty.pages().iter().chain(pages.keys().filter(is_put_back)).copied().collect();
            self.dirty = Dirty::of(self.before(), &self.areas, &self.relocations, all)?;
        }
        Ok(pages)
    }

    /// Looks at what launches are known to change: the pages that are not as before.
    ///
    /// # Errors
    /// As for [`LoadedDispatch::changed`].
    pub(crate) fn changed_of_known(&self) -> Result<Pages> {
        self.dirty.changed(self.device(), self.before(), &self.relocations)
    }

    /// Puts something else into the caches.
    ///
    /// # Errors
    /// When the device cannot.
    pub(crate) fn flush_caches(&mut self) -> Result<()> {
        self.device.flush_caches()
    }
}

/// The pages of ranges that are sorted by address; pages that touch are one range.
fn whole_pages<'r>(ranges: impl Iterator<Item = &'r Range<u64>>) -> Vec<Range<u64>> {
    let mut pages: Vec<Range<u64>> =
        ranges.map(|range| range.start / PAGE * PAGE..range.end.div_ceil(PAGE) * PAGE).collect();
    pages.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    pages
}

/// What is added to the addresses of code whose kernel is at an address for packets.
fn bias_of(code: &Code, object: Placed) -> LoadBias {
    LoadBias::of(object, code.kernel.descriptor.map_or(0, |descriptor| descriptor.address))
}
