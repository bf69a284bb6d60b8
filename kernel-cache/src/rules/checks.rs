//! The comparisons of the rules.

use amdgpu_code_object::{Abi, AddressSpace, KernelKind, ValueKind};

use super::{Conflict, Fact};
use crate::interface::{Interface, Parameter};
use crate::kernarg::{What, counterpart};
use crate::packet::{Limits, PacketFacts};
use crate::target;

pub(super) fn differing<T: PartialEq>(original: T, candidate: T, fact: impl Fn(T) -> Fact) -> Conflict {
    (original != candidate).then(|| (fact(original), fact(candidate)))
}

pub(super) fn differing_abi(original: &Interface, candidate: &Interface) -> Conflict {
    differing(original.abi, candidate.abi, |abi| Fact::shown(format_args!("{abi:?}")))
}

pub(super) fn processor(original: &Interface, candidate: &Interface) -> Conflict {
    let [there, code] = [original, candidate].map(|i| &i.target.processor);
    (!target::runs_on(code, there)).then(|| (Fact::shown(there), Fact::shown(code)))
}

pub(super) fn xnack(original: &Interface, candidate: &Interface) -> Conflict {
    let fits = target::setting_fits(candidate.target.xnack, original.target.xnack);
    (!fits).then(|| (Fact::shown(&original.target), Fact::shown(&candidate.target)))
}

pub(super) fn sramecc(original: &Interface, candidate: &Interface) -> Conflict {
    let fits = target::setting_fits(candidate.target.sramecc, original.target.sramecc);
    (!fits).then(|| (Fact::shown(&original.target), Fact::shown(&candidate.target)))
}

pub(super) fn abi_version(original: &Interface, candidate: &Interface) -> Conflict {
    let known = !matches!(candidate.abi, Abi::Later(_)) || candidate.abi == original.abi;
    (!known).then(|| (Fact::said("at most V6"), Fact::shown(format_args!("{:?}", candidate.abi))))
}

pub(super) fn kind(original: &Interface, candidate: &Interface) -> Conflict {
    let other = [original, candidate].into_iter().find(|i| i.kind != KernelKind::Normal)?;
    Some((Fact::shown(KernelKind::Normal), Fact::shown(&other.kind)))
}

pub(super) fn descriptor(_: &Interface, candidate: &Interface) -> Conflict {
    candidate.float_mode.is_none().then(|| (Fact::shown(format_args!("{}.kd", candidate.name)), Fact::said("none")))
}

pub(super) fn wavefront_size(original: &Interface, candidate: &Interface) -> Conflict {
    differing(original.wavefront_size, candidate.wavefront_size, |n| Fact::Number(n.into()))
}

pub(super) fn argument_count(original: &Interface, candidate: &Interface) -> Conflict {
    differing(original.explicit().count(), candidate.explicit().count(), |n| Fact::Number(n as u64))
}

pub(super) fn argument(original: &Interface, candidate: &Interface) -> Conflict {
    let mut pairs = original.explicit().zip(candidate.explicit()).enumerate();
    let (n, (o, c)) = pairs.find(|(_, (o, c))| !same_argument(o, c))?;
    let shown = |a: &Parameter| {
        let space = a.address_space.as_ref().map_or(String::new(), |space| format!(" ({space})"));
        format!("argument {} of {} bytes at {}, {}{space}", n + 1, a.size, a.offset, a.kind)
    };
    Some((Fact::shown(shown(o)), Fact::shown(shown(c))))
}

fn same_argument(original: &Parameter, candidate: &Parameter) -> bool {
    // Global, constant and generic addresses are the same 64 bits. Source: AMDGPUUsage, "Address Spaces".
    let flat = |space: &Option<AddressSpace>| {
        matches!(space, None | Some(AddressSpace::Global | AddressSpace::Constant | AddressSpace::Generic))
    };
    let [o, c] = [original, candidate];
    (o.offset, o.size, &o.kind) == (c.offset, c.size, &c.kind)
        && (o.address_space == c.address_space || flat(&o.address_space) && flat(&c.address_space))
}

pub(super) fn hidden_argument(original: &Interface, candidate: &Interface) -> Conflict {
    let unknown = |h: &&Parameter| counterpart(original, h).is_none() && What::of(&h.kind).is_none();
    let hidden = candidate.hidden().find(unknown)?;
    Some((Fact::said("what the original has, or the packet tells"), Fact::shown(&hidden.kind)))
}

pub(super) fn hidden_argument_size(original: &Interface, candidate: &Interface) -> Conflict {
    candidate.hidden().find_map(|hidden| {
        let expected = counterpart(original, hidden).map_or_else(|| size_of_hidden(&hidden.kind), |o| Some(o.size))?;
        let fact = |size| Fact::shown(format_args!("{} of {size} bytes", hidden.kind));
        (expected != hidden.size).then(|| (fact(expected), fact(hidden.size)))
    })
}

/// Source: AMDGPUUsage, "AMDHSA Code Object V5 Kernel Argument Metadata Map Additions".
fn size_of_hidden(kind: &ValueKind) -> Option<u32> {
    Some(match What::of(kind)? {
        What::BlockCount(_) | What::DynamicLdsSize | What::PrivateBase | What::SharedBase => 4,
        What::GroupSize(_) | What::Remainder(_) | What::GridDims => 2,
        What::GlobalOffset | What::Queue => 8,
    })
}

/// More than any runtime has for a kernel's arguments: what metadata claims is not allocated without bound.
const KERNARG_LIMIT: u32 = 64 << 10;

pub(super) fn kernarg_size(original: &Interface, candidate: &Interface) -> Conflict {
    let most = KERNARG_LIMIT.max(original.kernarg_size);
    (candidate.kernarg_size > most).then(|| (Fact::AtMost(most.into()), Fact::Bytes(candidate.kernarg_size.into())))
}

pub(super) fn named(names: &[String]) -> Conflict {
    /// Of more, the rest is counted.
    const SHOWN: usize = 4;
    if names.is_empty() {
        return None;
    }
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    Some((Fact::said("none"), Fact::Text(text.into())))
}

pub(super) fn dynamic_stack(_: &Interface, candidate: &Interface) -> Conflict {
    candidate.uses_dynamic_stack.then(|| (Fact::said("none"), Fact::said("a dynamic stack")))
}

pub(super) fn cluster_dims(original: &Interface, candidate: &Interface) -> Conflict {
    differing(original.cluster_dims, candidate.cluster_dims, Fact::shape)
}

pub(super) fn required_workgroup_size(original: &Interface, candidate: &Interface) -> Conflict {
    let (o, c) = (original.required_workgroup_size?, candidate.required_workgroup_size?);
    differing(o, c, Fact::Shape)
}

pub(super) fn max_workgroup_size(original: &Interface, candidate: &Interface) -> Conflict {
    let needed = original.required_workgroup_size.map(volume)?;
    let most = u64::from(candidate.max_flat_workgroup_size);
    (needed > most).then_some((Fact::AtLeast(needed), Fact::Number(most)))
}

pub(super) fn group_size(original: &Interface, candidate: &Interface) -> Conflict {
    let limit = target::group_limit(&original.target.processor);
    (candidate.group_size > limit).then(|| (Fact::AtMost(limit.into()), Fact::Bytes(candidate.group_size.into())))
}

pub(super) fn private_size(_: &Interface, candidate: &Interface) -> Conflict {
    let limit = target::private_limit(candidate.wavefront_size);
    (candidate.private_size > limit).then(|| (Fact::AtMost(limit.into()), Fact::Bytes(candidate.private_size.into())))
}

fn volume(shape: [u32; 3]) -> u64 {
    shape.into_iter().fold(1, |product, n| product.saturating_mul(u64::from(n)))
}

pub(super) fn packet_workgroup(limits: &Limits, facts: &PacketFacts) -> Conflict {
    let required = limits.required_workgroup_size?;
    let has = facts.workgroup.map(u32::from);
    (has != required).then_some((Fact::Shape(required), Fact::Shape(has)))
}

pub(super) fn packet_workgroup_size(limits: &Limits, facts: &PacketFacts) -> Conflict {
    let most = u64::from(limits.max_flat_workgroup_size?);
    let has = volume(facts.workgroup.map(u32::from));
    (has > most).then_some((Fact::AtMost(most), Fact::Number(has)))
}

pub(super) fn packet_warps(limits: &Limits, facts: &PacketFacts) -> Conflict {
    let expected = u64::from(limits.launch?.work_items);
    let has = volume(facts.workgroup.map(u32::from));
    (has != expected).then_some((Fact::Number(expected), Fact::Number(has)))
}

pub(super) fn packet_incomplete(limits: &Limits, facts: &PacketFacts) -> Conflict {
    if !limits.complete_workgroups {
        return None;
    }
    let group = facts.workgroup.map(u32::from);
    let whole = facts.grid.into_iter().zip(group).all(|(grid, group)| grid.checked_rem(group) == Some(0));
    (!whole).then_some((Fact::Shape(group), Fact::Shape(facts.grid)))
}

pub(super) fn packet_group(limits: &Limits, facts: &PacketFacts) -> Conflict {
    let (has, will) = (facts.group, limits.group(facts));
    if has < limits.original_group {
        return Some((Fact::AtLeast(limits.original_group.into()), Fact::Bytes(has.into())));
    }
    let most = u64::from(limits.group_limit);
    (will > most).then_some((Fact::AtMost(most), Fact::Bytes(will)))
}

pub(super) fn packet_pointer(limits: &Limits, facts: &PacketFacts) -> Conflict {
    let (least, most) = (facts.pointers.least, facts.pointers.most);
    if least < u64::from(limits.original_group) || most > u64::from(facts.group) {
        let expected = format!("offsets from {} to {}", limits.original_group, facts.group);
        return Some((Fact::shown(expected), Fact::shown(format_args!("offsets from {least} to {most}"))));
    }
    facts.pointers.misaligned.then_some((Fact::said("the candidate's alignment"), Fact::said("an offset without it")))
}

pub(super) fn packet_private(limits: &Limits, facts: &PacketFacts) -> Conflict {
    // What the application asks for by itself is between it and the runtime.
    let (will, most) = (limits.private(facts), u64::from(limits.private_limit.max(facts.private)));
    (will > most).then_some((Fact::AtMost(most), Fact::Bytes(will)))
}

pub(super) fn packet_cooperative(limits: &Limits, facts: &PacketFacts) -> Conflict {
    let refused = facts.cooperative && limits.may_run_fewer;
    refused.then_some((Fact::said("no more than the original needs"), Fact::said("more registers, LDS or scratch")))
}
