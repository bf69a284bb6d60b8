//! Whether a kernel may take the place of another, and what changes in the packet then.

use std::borrow::Borrow;

use crate::interface::Interface;
use crate::kernarg::Kernarg;
use crate::rules::{self, Accepted, Fact, Reason, Refusal};
use crate::target;
use crate::triton::Launch;
use crate::variables::{Analysis, Binding, Modules, bind};

/// What a dispatch's packet and its queue say. Sizes are bytes, shapes work-items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    /// The grid.
    pub grid: [u32; 3],
    /// A complete workgroup.
    pub workgroup: [u16; 3],
    /// Dimensions of the grid.
    pub dimensions: u16,
    /// Scratch of a work-item.
    pub private: u32,
    /// LDS of a workgroup.
    pub group: u32,
    /// LDS that the original was compiled for: what the packet has above it is dynamic.
    pub original_group: u32,
    /// True on a queue whose workgroups all run at once: `HSA_QUEUE_TYPE_COOPERATIVE`.
    pub cooperative: bool,
    /// Address of the queue's structure, `amd_queue_t`.
    pub queue: u64,
    /// `private_segment_aperture_base_hi` of `amd_queue_t`.
    pub private_base_hi: u32,
    /// `group_segment_aperture_base_hi` of `amd_queue_t`.
    pub shared_base_hi: u32,
}

/// How a kernel takes the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Where its arguments come from.
    pub kernarg: Kernarg,
    /// What a packet has to be like, and how its sizes change.
    pub limits: Limits,
    /// What differs and is allowed.
    pub accepted: Vec<Accepted>,
    /// How it comes to use the application's variables.
    pub binding: Box<Binding>,
}

/// What a packet has to be like for a swap, and how its sizes change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// LDS that the original was compiled for.
    pub original_group: u32,
    /// LDS that the candidate was compiled for.
    pub candidate_group: u32,
    /// LDS that a workgroup of the processor can have.
    pub group_limit: u32,
    /// Scratch of a work-item that the original was compiled for.
    pub original_private: u32,
    /// Scratch of a work-item that the candidate was compiled for.
    pub candidate_private: u32,
    /// Scratch that a work-item can have.
    pub private_limit: u32,
    /// True when the packet's scratch has room for a dynamic stack.
    pub dynamic_stack: bool,
    /// The most work-items of a workgroup, where the original allows more.
    pub max_flat_workgroup_size: Option<u32>,
    /// The only shape of workgroups that is right, where the original takes others.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// True when workgroups have to be complete, and the original's need not.
    pub complete_workgroups: bool,
    /// True when fewer workgroups might run at once than of the original.
    pub may_run_fewer: bool,
    /// How the candidate is launched, where that is given.
    pub launch: Option<Launch>,
}

/// What a swapped packet's sizes are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// LDS of a workgroup.
    pub group: u32,
    /// Scratch of a work-item.
    pub private: u32,
}

/// Whether a candidate may take the place of the original, whose target is what its agent is, where that is known. Its
/// variables are not looked at: [`fit_code`] does that.
///
/// # Errors
/// Every reason why not.
pub fn fit(original: &Interface, candidate: &Interface) -> Result<Swap, Vec<Refusal>> {
    let refusals = rules::check(original, candidate);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    Ok(Swap {
        kernarg: Kernarg::of(original, candidate),
        limits: Limits::of(original, candidate),
        accepted: rules::accepted(original, candidate),
        binding: Box::default(),
    })
}

/// Whether a candidate of a code object may take the place of the original, whose variables are in modules of the application.
///
/// # Errors
/// Every reason why not.
pub fn fit_code(
    original: &Interface,
    candidate: &Interface,
    code: &[u8],
    modules: Modules<'_>,
) -> Result<Swap, Vec<Refusal>> {
    let swap = fit(original, candidate)?;
    let analysis = || Analysis::of(code).map_err(|error| unreadable(&error));
    swap.bound(candidate, modules, analysis).map_err(|refusal| vec![refusal])
}

/// That a code object cannot be read.
pub(crate) fn unreadable(error: &dyn std::error::Error) -> Refusal {
    let [expected, found] = ["the file of the index".to_owned(), error.to_string()].map(|s| Fact::Text(s.into()));
    Refusal { reason: Reason::File, expected, found }
}

impl Limits {
    fn of(original: &Interface, candidate: &Interface) -> Limits {
        let resources = |i: &Interface| [i.vgprs, i.agprs, i.sgprs, i.group_size, i.private_size];
        let more = |(c, o)| c > o;
        Limits {
            original_group: original.group_size,
            candidate_group: candidate.group_size,
            group_limit: target::group_limit(&original.target.processor),
            original_private: original.private_size,
            candidate_private: candidate.private_size,
            private_limit: target::private_limit(candidate.wavefront_size),
            dynamic_stack: original.uses_dynamic_stack,
            max_flat_workgroup_size: Some(candidate.max_flat_workgroup_size)
                .filter(|&most| most < original.max_flat_workgroup_size),
            required_workgroup_size: candidate
                .required_workgroup_size
                .filter(|_| original.required_workgroup_size.is_none()),
            complete_workgroups: candidate.uniform_workgroup_size && !original.uniform_workgroup_size,
            may_run_fewer: resources(candidate).into_iter().zip(resources(original)).any(more),
            launch: None,
        }
    }

    /// LDS of a swapped packet: what was added to the original's is added to the candidate's, and not less than it is
    /// launched with otherwise.
    pub(crate) fn group(&self, facts: &PacketFacts) -> u64 {
        let dynamic = facts.group.saturating_sub(self.original_group);
        u64::from(self.candidate_group) + u64::from(dynamic.max(self.launch.map_or(0, |launch| launch.group)))
    }

    /// Scratch of a swapped packet: never less than the packet's, and with the same room for a dynamic stack.
    pub(crate) fn private(&self, facts: &PacketFacts) -> u64 {
        let least = u64::from(facts.private.max(self.candidate_private));
        let room = u64::from(facts.private.saturating_sub(self.original_private));
        if self.dynamic_stack { least.max(u64::from(self.candidate_private) + room) } else { least }
    }
}

impl Swap {
    /// The same with the candidate's variables bound to the application's. Only a code object that has some is looked at.
    pub(crate) fn bound<A: Borrow<Analysis>>(
        mut self,
        candidate: &Interface,
        modules: Modules<'_>,
        analysis: impl FnOnce() -> Result<A, Refusal>,
    ) -> Result<Swap, Refusal> {
        if candidate.variables.is_empty() && candidate.stored_functions.is_empty() {
            return Ok(self);
        }
        self.binding = Box::new(bind(analysis()?.borrow(), &candidate.name, modules)?);
        self.accepted.extend(rules::own_variables(&self.binding.own));
        Ok(self)
    }

    /// What a packet's sizes become. It compares a few numbers and allocates nothing.
    ///
    /// # Errors
    /// Why the original has to run for this packet.
    #[inline]
    pub fn for_packet(&self, facts: &PacketFacts) -> Result<Sizes, Refusal> {
        rules::check_packet(&self.limits, facts)?;
        let narrow = |size| u32::try_from(size).unwrap_or(u32::MAX);
        Ok(Sizes { group: narrow(self.limits.group(facts)), private: narrow(self.limits.private(facts)) })
    }
}
