//! Compares two captured dispatches: their arguments, the code that ran, the memory before and after.
//!
//! The two may come from different processes, so targets of addresses are compared, not addresses. Nothing runs. Memory is read in
//! pieces, and only where it is not known to be equal.

mod arguments;
mod code;
mod memory;

use std::collections::HashMap;

use logdur_capture::{Dispatch, Memory, Placed, Reader};

use crate::dispatch::{CapturedDispatch, symbol};
use crate::error::Result;
use crate::verify::Rule;

pub use arguments::{Argument, Value};
pub use code::{CodeDiff, KernelDiff};
pub use memory::{BufferDiff, Compared, First};

/// Dispatches of two captures that belong together; one of them may have no partner.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'r> {
    /// Of the first capture.
    pub a: Option<&'r Placed<Dispatch>>,
    /// Of the second.
    pub b: Option<&'r Placed<Dispatch>>,
}

/// How dispatches are compared.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What buffers' elements are and what is near enough.
    pub rules: Vec<Rule>,
    /// True when what the runtime puts among the arguments is compared as well.
    pub hidden: bool,
}

/// Something with a name that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What.
    pub name: String,
    /// In the first.
    pub a: String,
    /// In the second.
    pub b: String,
}

impl Fact {
    /// The fact, if it is not the same.
    fn of<T: PartialEq>(name: &str, [a, b]: [T; 2], shown: impl Fn(&T) -> String) -> Option<Fact> {
        (a != b).then(|| Fact { name: name.to_owned(), a: shown(&a), b: shown(&b) })
    }
}

/// What is different between two dispatches.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The numbers of the dispatches.
    pub dispatches: [u64; 2],
    /// The kernels' symbols.
    pub kernels: [String; 2],
    /// Kernel, grid, workgroup, LDS, scratch: those that differ.
    pub geometry: Vec<Fact>,
    /// The arguments that differ.
    pub arguments: Vec<Argument>,
    /// The code that ran, where it is not the same.
    pub code: Option<CodeDiff>,
    /// What arguments point to, and variables: all of them.
    pub buffers: Vec<BufferDiff>,
    /// Buffers that only one of them has, with its size.
    pub alone: Vec<Fact>,
    /// What could not be compared, one line each.
    pub missing: Vec<String>,
}

impl Diff {
    /// True when something is different.
    pub fn differs(&self) -> bool {
        let facts = self.geometry.len() + self.arguments.len() + self.alone.len();
        facts > 0 || self.code.is_some() || self.buffers.iter().any(BufferDiff::differs)
    }
}

/// Finds the partners of dispatches: the n-th of a kernel in one capture belongs to the n-th of that kernel in the other.
/// `wanted` says of a kernel and a dispatch of the first whether they are asked for; of one that only the second has, it gets
/// no number. What has no partner is in the list, the second's at its end.
pub fn pairs<'r>(a: &'r Reader, b: &'r Reader, wanted: impl Fn(&str, Option<u64>) -> bool) -> Vec<Pair<'r>> {
    let mut of_kernel = HashMap::<&str, Vec<&Placed<Dispatch>>>::new();
    for dispatch in b.dispatches() {
        of_kernel.entry(symbol(b, dispatch)).or_default().push(dispatch);
    }
    let mut seen = HashMap::<&str, usize>::new();
    let mut all = Vec::new();
    for dispatch in a.dispatches() {
        let symbol = symbol(a, dispatch);
        let nth = seen.entry(symbol).or_default();
        let partner = of_kernel.get(symbol).and_then(|all| all.get(*nth)).copied();
        *nth += 1;
        if wanted(symbol, Some(dispatch.id)) {
            all.push(Pair { a: Some(dispatch), b: partner });
        }
    }
    let mut taken = HashMap::<&str, usize>::new();
    for dispatch in b.dispatches() {
        let symbol = symbol(b, dispatch);
        let nth = taken.entry(symbol).or_default();
        if *nth >= seen.get(symbol).copied().unwrap_or_default() && wanted(symbol, None) {
            all.push(Pair { a: None, b: Some(dispatch) });
        }
        *nth += 1;
    }
    all
}

/// A dispatch of one of the captures, and its memory at a time.
struct Side<'r> {
    reader: &'r Reader,
    captured: CapturedDispatch<'r>,
}

impl<'r> Side<'r> {
    fn after(&self) -> Option<&Memory<'r>> {
        self.captured.after.as_ref()
    }
}

/// Compares two dispatches. When both are of one capture, give the same reader: what is known to be the same content is
/// not read then.
///
/// # Errors
/// When a capture lacks what is needed or is damaged, or a rule is about no buffer.
pub fn compare(
    (a, of_a): (&Reader, &Placed<Dispatch>),
    (b, of_b): (&Reader, &Placed<Dispatch>),
    options: &Options,
) -> Result<Diff> {
    let sides = [
        Side { reader: a, captured: CapturedDispatch::of(a, of_a)? },
        Side { reader: b, captured: CapturedDispatch::of(b, of_b)? },
    ];
    let mut diff = Diff {
        dispatches: [of_a.id, of_b.id],
        kernels: sides.each_ref().map(|s| s.captured.original.kernel.name.clone()),
        geometry: geometry(&sides),
        arguments: arguments::differing(&sides, options.hidden),
        code: code::differing(&sides),
        buffers: Vec::new(),
        alone: Vec::new(),
        missing: Vec::new(),
    };
    memory::compare(&sides, &options.rules, &mut diff)?;
    Ok(diff)
}

fn geometry(sides: &[Side<'_>; 2]) -> Vec<Fact> {
    let packets = sides.each_ref().map(|s| s.captured.packet());
    let bytes = |n: &u32| format!("{n} bytes");
    let facts = [
        Fact::of("kernel", sides.each_ref().map(|s| &s.captured.original.kernel.name), |name| (*name).clone()),
        Fact::of("grid", packets.map(|p| p.grid_size()), |[x, y, z]| format!("{x}x{y}x{z}")),
        Fact::of("workgroup", packets.map(|p| p.workgroup_size()), |[x, y, z]| format!("{x}x{y}x{z}")),
        Fact::of("LDS", packets.map(|p| p.group_segment_size()), bytes),
        Fact::of("scratch", packets.map(|p| p.private_segment_size()), bytes),
    ];
    facts.into_iter().flatten().collect()
}
