//! Making launches: the packet and the arguments of a dispatch, with another kernel or geometry.

use std::collections::BTreeSet;
use std::sync::Arc;

use amdgpu_listing::Action;
use hsa::sys::abi::aql::{Packet, PacketType};
use logdur_capture::{Dispatch, Id};
use logdur_captured::{CapturedDispatch, Code, kernarg};
use logdur_kernel_cache::{Kernarg, LdsPointers, PacketFacts, runs_on};

use super::code::{bound, own_variables};
use super::{LoadedDispatch, bias_of};
use crate::device::Load;
use crate::error::{ReplayError, Result};
use crate::geometry::{Geometry, bytes_of};
use crate::placed::{LoadBias, Placed};
use crate::replacement::{self, Other, Replacement};

/// What of a dispatch is other than it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Another geometry.
    pub geometry: Geometry,
    /// In a region: the symbols of the kernels whose dispatches have it. `None` is all of them.
    pub reshaped: Option<BTreeSet<String>>,
    /// Where other kernels are looked for, the first that has one.
    pub replacements: Vec<Replacement>,
}

/// A packet and its arguments.
pub(crate) struct Launch {
    pub(super) packet: Packet,
    pub(super) segment: Vec<u8>,
    /// How many workgroups meet at the barrier of the whole grid, where the kernel has one.
    pub(super) meeting: Option<u32>,
    /// True for the grid that the application had.
    pub(super) has_own_grid: bool,
    /// The code object that runs instead of the application's, and where it came from.
    pub(crate) replaced: Option<(Id, String)>,
    /// Its kernel.
    pub(crate) other: Option<Arc<Code>>,
}

impl Launch {
    /// The address of the kernel for packets.
    pub(crate) fn kernel_object(&self) -> Placed {
        Placed(self.packet.kernel_object())
    }

    /// True when the same code runs with the same geometry and arguments.
    pub(crate) fn is_like(&self, other: &Launch) -> bool {
        (&self.packet.0, &self.segment) == (&other.packet.0, &other.segment)
    }
}

impl LoadedDispatch<'_> {
    /// Makes a packet and its arguments.
    ///
    /// # Errors
    /// When the kernel does not allow the geometry, when another one may not take its place, or when it needs what replays
    /// do not have.
    pub(crate) fn launch(&mut self, variant: &Variant) -> Result<Launch> {
        self.launch_of(self.captured, self.own, self.captured.dispatch, variant)
    }

    /// The same for a dispatch of another kernel that is loaded at `own`. `captured` is any dispatch of that kernel.
    ///
    /// # Errors
    /// As for [`LoadedDispatch::launch`].
    pub(crate) fn launch_of(
        &mut self,
        captured: &CapturedDispatch<'_>,
        own: Placed,
        dispatch: &Dispatch,
        variant: &Variant,
    ) -> Result<Launch> {
        let other = self.other(captured, &variant.replacements)?;
        self.launch_with(captured, own, dispatch, &variant.geometry, other.as_ref())
    }

    /// The kernel that runs in the place of a captured one.
    ///
    /// # Errors
    /// As for [`replacement::other`].
    pub(crate) fn other(&self, captured: &CapturedDispatch<'_>, replacements: &[Replacement]) -> Result<Option<Other>> {
        replacement::other(captured, replacements, &self.device.description().isa)
    }

    /// As [`LoadedDispatch::launch_of`], of what was found to run in the kernel's place.
    ///
    /// # Errors
    /// As for [`LoadedDispatch::launch`].
    pub(crate) fn launch_with(
        &mut self,
        captured: &CapturedDispatch<'_>,
        own: Placed,
        dispatch: &Dispatch,
        geometry: &Geometry,
        other: Option<&Other>,
    ) -> Result<Launch> {
        let mut packet = logdur_captured::packet(dispatch);
        let own_grid = packet.grid_size();
        if packet.packet_type() != PacketType::KernelDispatch {
            return Err(ReplayError::Unsupported(format!("a packet that is no dispatch: {:?}", packet.packet_type())));
        }
        let interface = &captured.original.interface;
        if geometry.is_other() {
            let runs = other.map_or(interface, |other| &other.code.interface);
            geometry.apply(&mut packet, runs)?;
            geometry.apply_lds(&mut packet, interface);
        }
        let queue = self.device.queue();
        let mut facts = PacketFacts {
            grid: packet.grid_size(),
            workgroup: packet.workgroup_size(),
            dimensions: packet.dimensions(),
            private: packet.private_segment_size(),
            group: packet.group_segment_size(),
            original_group: interface.group_size,
            cooperative: captured.is_cooperative(),
            queue: queue.address,
            private_base_hi: queue.private_base_hi,
            shared_base_hi: queue.shared_base_hi,
            pointers: LdsPointers::default(),
        };
        let in_memory = |address: u64| self.areas.iter().any(|area| area.captured.contains(&address));
        let mut segment = kernarg::restored(&dispatch.kernarg, interface, &facts, geometry.is_other(), in_memory)?;
        geometry.has_room(&packet, interface, &segment)?;
        match other {
            Some(other) => {
                facts.pointers = other.swap.kernarg.pointers(|at, size| bytes_of(&segment, at, size));
                let sizes = other.swap.for_packet(&facts).map_err(|refusal| ReplayError::Refused {
                    kernel: captured.original.kernel.name.clone(),
                    refusals: vec![refusal.to_string()],
                })?;
                if let Kernarg::Relaid(layout) = &other.swap.kernarg {
                    segment = layout.lay(&segment, &facts);
                }
                let object = self.load(captured, own, other)?;
                let own_names = &other.swap.binding.own;
                let is_captured = captured.own_data.is_some() && captured.is_what_ran(&other.code);
                if !own_names.is_empty() && !is_captured {
                    let (names, place) = (own_names.join(", "), &other.place);
                    self.qualify(format!("{place}: its own variables ({names}) are as in its file before each replay"));
                }
                packet.set_kernel(object.0, sizes.private, sizes.group);
            }
            None => {
                self.refuse_other_processor(&captured.original)?;
                packet.set_kernel(own.0, facts.private, facts.group);
            }
        }
        self.relocations.forward(0, &mut segment);
        let runs = other.map_or(&*captured.original, |other| &other.code);
        self.refuse_descriptors(runs)?;
        let meeting = (facts.cooperative && self.meets(runs)?).then(|| workgroups(&facts));
        let replaced = other.map(|other| (other.code.id, other.place.clone()));
        let has_own_grid = packet.grid_size() == own_grid;
        Ok(Launch { packet, segment, meeting, has_own_grid, replaced, other: other.map(|other| other.code.clone()) })
    }

    /// Refuses code that the device's processor does not run.
    fn refuse_other_processor(&self, code: &Code) -> Result<()> {
        let there = logdur_captured::processor(&self.device.description().isa);
        let of = &code.object.target;
        if runs_on(&of.processor, there) {
            return Ok(());
        }
        Err(ReplayError::Usage {
            what: code.kernel.name.clone(),
            expected: format!("code that runs on {there} (--hsaco gives it)"),
            found: format!("the application's own for {of} alone"),
        })
    }

    /// Refuses a kernel that reads textures when memory is not at its addresses. Their descriptors have addresses in a form of
    /// their own, which is not rewritten.
    fn refuse_descriptors(&self, code: &Code) -> Result<()> {
        let Ok(arch) = logdur_captured::processor(&self.device.description().isa).parse() else { return Ok(()) };
        if !self.is_relocated() {
            return Ok(());
        }
        let kernel = &code.kernel.name;
        match amdgpu_listing::by_descriptor(&code.bytes, arch, kernel)? {
            None => Ok(()),
            Some(name) => Err(ReplayError::Unsupported(format!(
                "{kernel}: {name} finds memory by a descriptor, as of a texture; memory is not at its captured address, and \
                 addresses in descriptors are not rewritten"
            ))),
        }
    }

    /// True when a kernel has a barrier of the whole grid; of unknown processors that is not known.
    fn meets(&self, code: &Code) -> Result<bool> {
        match logdur_captured::processor(&self.device.description().isa).parse() {
            Ok(arch) => Ok(amdgpu_listing::reaches(&code.bytes, arch, &code.kernel.name, Action::GridBarrier)?),
            Err(_) => Ok(false),
        }
    }

    /// Loads other code, once. Its variables are those of the code of the application's kernel, which is at `own`.
    fn load(&mut self, captured: &CapturedDispatch<'_>, own: Placed, other: &Other) -> Result<Placed> {
        let key = (other.code.id, captured.original.id);
        if let (Some(bias), Some(descriptor)) = (self.others.get(&key), other.code.kernel.descriptor) {
            let kernel = (other.code.id, other.code.kernel.name.clone());
            if !self.checked.contains(&kernel) {
                self.device.has_instructions(&other.code)?;
                self.checked.insert(kernel);
            }
            return Ok(bias.placed(descriptor.address));
        }
        let data_of = |captured: &CapturedDispatch<'_>| captured.own_data.as_ref().map(|own| own.loaded.base);
        if data_of(captured) != data_of(self.captured) && captured.is_what_ran(&other.code) {
            return Err(ReplayError::Unsupported(format!(
                "{}: in a region, a kernel that ran in the place of the application's and has variables of its own, {}",
                captured.original.kernel.name, other.place
            )));
        }
        let bound = bound(captured, own, other, self.relocations.is_empty())?;
        let object = self.device.load(Load::Kernel(&bound))?;
        if !other.swap.binding.own.is_empty() {
            let descriptor = other.code.kernel.descriptor.map_or(0, |descriptor| descriptor.address);
            self.own_variables.extend(own_variables(other, LoadBias::of(object, descriptor))?);
        }
        self.others.insert(key, bias_of(&other.code, object));
        self.protect(&other.code, object, object.0)?;
        Ok(object)
    }
}

/// Workgroups of a dispatch.
fn workgroups(facts: &PacketFacts) -> u32 {
    let groups = facts.grid.iter().zip(facts.workgroup).map(|(grid, group)| grid.div_ceil(u32::from(group).max(1)));
    groups.fold(1, u32::saturating_mul)
}
