//! Differences of code: which kernels' metadata differ.

use std::collections::BTreeSet;

use amdgpu_code_object::{CodeObject, Kernel};
use logdur_capture::Id;

use super::{Fact, Side};
use crate::dispatch::Code;

/// Two code objects that are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeDiff {
    /// The hashes of their bytes.
    pub ids: [Id; 2],
    /// The target, where it is not the same.
    pub target: Option<Fact>,
    /// Kernels whose metadata differ. If empty, only instructions or other contents differ.
    pub kernels: Vec<KernelDiff>,
}

/// Metadata of a kernel that are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDiff {
    /// The kernel's symbol.
    pub name: String,
    /// What differs; for a kernel that only one has, that.
    pub facts: Vec<Fact>,
}

/// The differences of the code that ran.
pub(super) fn differing(sides: &[Side<'_>; 2]) -> Option<CodeDiff> {
    let [a, b]: [&Code; 2] = sides.each_ref().map(|s| s.captured.ran_instead.as_ref().unwrap_or(&s.captured.original));
    if a.id == b.id {
        return None;
    }
    let target = Fact::of("target", [&a.object.target, &b.object.target], |target| target.to_string());
    Some(CodeDiff { ids: [a.id, b.id], target, kernels: kernels(&a.object, &b.object) })
}

fn kernels(a: &CodeObject, b: &CodeObject) -> Vec<KernelDiff> {
    let names: BTreeSet<&str> = a.kernels.iter().chain(&b.kernels).map(|k| &*k.name).collect();
    let diff = |name: &str| {
        let facts = match (a.kernel(name), b.kernel(name)) {
            (Some(a), Some(b)) => facts([a, b]),
            (a, b) => {
                Fact::of("kernel", [a.is_some(), b.is_some()], |is| if *is { "there" } else { "not there" }.to_owned())
                    .into_iter()
                    .collect()
            }
        };
        (!facts.is_empty()).then(|| KernelDiff { name: name.to_owned(), facts })
    };
    names.into_iter().filter_map(diff).collect()
}

/// What is compared of kernels' metadata, and its text.
type Row = (&'static str, fn(&Kernel) -> String);

const ROWS: &[Row] = &[
    ("vgprs", |k| k.vgprs.to_string()),
    ("agprs", |k| optional(k.agprs)),
    ("sgprs", |k| k.sgprs.to_string()),
    ("vgpr_spills", |k| optional(k.vgpr_spills)),
    ("sgpr_spills", |k| optional(k.sgpr_spills)),
    ("group_size", |k| k.group_size.to_string()),
    ("private_size", |k| k.private_size.to_string()),
    ("uses_dynamic_stack", |k| k.uses_dynamic_stack.to_string()),
    ("wavefront_size", |k| k.wavefront_size.to_string()),
    ("max_flat_workgroup_size", |k| k.max_flat_workgroup_size.to_string()),
    ("required_workgroup_size", |k| {
        k.required_workgroup_size.map_or_else(|| "none".to_owned(), |[x, y, z]| format!("{x}x{y}x{z}"))
    }),
    ("kernarg_size", |k| k.kernarg_size.to_string()),
    ("arguments", |k| {
        let one = |a: &amdgpu_code_object::Argument| format!("{}:{}@{}", a.kind, a.size, a.offset);
        k.arguments.iter().map(one).collect::<Vec<_>>().join(" ")
    }),
];

fn optional(number: Option<u32>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

/// What the metadata of two kernels of a name differ in.
fn facts(kernels: [&Kernel; 2]) -> Vec<Fact> {
    ROWS.iter().filter_map(|(name, read)| Fact::of(name, kernels.map(read), String::clone)).collect()
}
