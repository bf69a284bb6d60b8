//! The memory that a program reaches: allocations, pieces of them that were captured, and the addresses in them.

use std::collections::BTreeSet;
use std::ops::Range;

use amdgpu_code_object::{GlobalKind, ValueKind};
use logdur_capture::{Allocation, Global, Memory};

use super::fixups::{Aim, Aimed, Fixup, Place, Sure, Targets, WORD};
use super::kind::Kind;
use super::subject::{Subject, is_packet};
use super::writes::{Writes, writes};
use crate::buffers::buffers;
use crate::dispatch::{CapturedDispatch, extent, without};
use crate::error::Result;
use crate::verify::{Buffer, Type};

/// Bytes that are read at once: a multiple of an address's size.
const STEP: u64 = 4 << 20;

/// Arguments of a launch begin at a multiple of so many bytes of their file.
const KERNARG_ALIGNMENT: usize = 16;

/// An allocation of the application, or captured memory that no allocation has. Allocations that were at the same addresses one after the
/// other are one.
#[derive(Clone, Debug)]
pub(super) struct Reached<'c> {
    /// Its addresses, as the application had it.
    pub(super) range: Range<u64>,
    /// Its records, if it has some.
    pub(super) allocations: Vec<&'c Allocation>,
}

impl Reached<'_> {
    /// How it is made anew; what no allocation names, and what changes its kind, is taken for the GPU's.
    pub(super) fn kind(&self) -> Kind {
        let mut kinds = self.allocations.iter().map(|allocation| Kind::of(allocation));
        match kinds.next() {
            Some(Ok(first)) if kinds.all(|kind| kind == Ok(first)) => first,
            _ => Kind::Device,
        }
    }
}

/// A part of an allocation or of a variable that was captured.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) place: Place,
    /// The address of the first byte of what it is in, as the application had it.
    pub(super) base: u64,
    pub(super) range: Range<u64>,
    /// What is known of the memory after the kernel.
    pub(super) after: After,
}

/// What is known of a piece after the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It is as before.
    Same,
    /// Bytes of it changed.
    Changed,
    /// Nothing: it was not captured.
    Unknown,
}

impl Piece {
    pub(super) fn offset(&self) -> u64 {
        self.range.start - self.base
    }

    pub(super) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A managed variable. Its symbol names a pointer, and HIP gives the memory behind that: new memory in each process.
#[derive(Debug)]
pub(super) struct Managed<'c> {
    /// The module that has it.
    pub(super) module: usize,
    /// The pointer.
    pub(super) pointer: &'c Global,
    /// Bytes of what is behind it.
    pub(super) size: u64,
    /// The allocation that it points into, and where; `None` where nothing of that was captured.
    pub(super) at: Option<(usize, u64)>,
}

/// A variable that HIP finds by its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable<'c> {
    /// The module that has it.
    pub(super) module: usize,
    pub(super) global: &'c Global,
}

impl Variable<'_> {
    fn range(&self) -> Range<u64> {
        self.global.address..self.global.address.saturating_add(self.global.size)
    }
}

/// What a program reaches.
#[derive(Debug)]
pub(super) struct Reach<'c> {
    pub(super) allocations: Vec<Reached<'c>>,
    pub(super) variables: Vec<Variable<'c>>,
    pub(super) managed: Vec<Managed<'c>>,
    pub(super) pieces: Vec<Piece>,
    /// The arguments that the application gave, as it gave them: of all launches, one after the other.
    pub(super) kernarg: Vec<u8>,
    /// Where in that the arguments of each launch are.
    pub(super) launches: Vec<Range<usize>>,
    /// What is written between the steps.
    pub(super) writes: Writes<'c>,
    /// The addresses before the kernel, and those after it.
    pub(super) before: Vec<Fixup>,
    pub(super) after: Vec<Fixup>,
    /// Names of pieces of memory, and what is in them.
    pub(super) buffers: Vec<Buffer>,
    /// Allocations that something points into, and of which nothing was captured.
    pub(super) uncaptured: Vec<&'c Allocation>,
    /// Bytes that changed in memory to which nothing leads, by the allocation or range that they are in.
    pub(super) elsewhere: Vec<(Range<u64>, u64)>,
}

/// The intersection of two ranges; empty if there is none.
fn common(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

fn around(allocation: &Allocation) -> Range<u64> {
    allocation.base..allocation.base.saturating_add(allocation.size)
}

/// What HIP's compiler adds to the name of a managed variable, for the bytes that it begins with. The name itself is a pointer's.
const MANAGED: &str = ".managed";

/// The variables of a kernel's code object that HIP finds by their names and whose bytes were captured: managed ones apart.
fn variables<'c>(
    module: usize,
    captured: &'c CapturedDispatch<'_>,
    targets: &Targets,
) -> Result<(Vec<Variable<'c>>, Vec<Managed<'c>>)> {
    let exported = |global: &&&Global| {
        let known = captured.original.object.globals.iter();
        known.filter(|g| g.exported && g.kind == GlobalKind::Variable).any(|g| g.name == global.symbol)
    };
    let held = captured.before.ranges();
    let is_held = |range: Range<u64>| held.iter().any(|held| held.start <= range.start && range.end <= held.end);
    let all = captured.globals.iter().filter(exported).copied();
    let all = all.filter(|g| g.size > 0 && is_held(g.address..g.address.saturating_add(g.size)));
    let beginning = |name: &str| {
        let name = format!("{name}{MANAGED}");
        captured.original.object.globals.iter().find(|global| global.name == name)
    };
    let (mut variables, mut managed) = (Vec::new(), Vec::new());
    for global in all {
        match beginning(&global.symbol) {
            Some(beginning) => {
                let mut word = [0; WORD];
                captured.before.read(global.address, &mut word)?;
                let at = targets.find(u64::from_le_bytes(word)).and_then(|aimed| match aimed.aim {
                    Aim::Allocation(number) if aimed.sure != Sure::End => Some((number, aimed.offset)),
                    Aim::Allocation(_) | Aim::Code(_) => None,
                });
                managed.push(Managed { module, pointer: global, size: beginning.size, at });
            }
            None => variables.push(Variable { module, global }),
        }
    }
    Ok((variables, managed))
}

/// Everything that may be pointed to: captured memory, and code objects.
struct Candidates<'c> {
    all: Vec<Reached<'c>>,
    targets: Targets,
    /// Allocations without captured bytes.
    bare: Vec<&'c Allocation>,
}

impl<'c> Candidates<'c> {
    fn of(subject: &Subject<'c>) -> Candidates<'c> {
        let captured = subject.captured;
        let mut rest = captured.data();
        let held = rest.clone();
        let (mut all, mut bare): (Vec<Reached<'c>>, Vec<&'c Allocation>) = (Vec::new(), Vec::new());
        // By their addresses.
        for allocation in &captured.allocations {
            let range = around(allocation);
            if held.iter().all(|held| common(held, &range).is_empty()) {
                bare.push(&allocation.value);
                continue;
            }
            rest = rest.into_iter().flat_map(|held| without(held, &range)).filter(|r| r.start < r.end).collect();
            match all.last_mut().filter(|last| range.start < last.range.end) {
                Some(last) => {
                    last.range.end = last.range.end.max(range.end);
                    last.allocations.push(&allocation.value);
                }
                None => all.push(Reached { range, allocations: vec![&allocation.value] }),
            }
        }
        all.extend(rest.into_iter().map(|range| Reached { range, allocations: Vec::new() }));
        all.sort_by_key(|reached| reached.range.start);
        let mut targets: Vec<(Range<u64>, Aim)> =
            all.iter().enumerate().map(|(n, reached)| (reached.range.clone(), Aim::Allocation(n))).collect();
        let code = subject.modules.iter().enumerate();
        targets.extend(code.filter_map(|(n, module)| Some((extent(module.loaded()?), Aim::Code(n)))));
        Candidates { targets: Targets::new(targets), all, bare }
    }
}

/// Visits the aligned words of some memory: address and value.
fn words(memory: &Memory<'_>, range: &Range<u64>, mut visit: impl FnMut(u64, u64)) -> Result<()> {
    let mut at = range.start.next_multiple_of(WORD as u64);
    let mut bytes = Vec::new();
    while at + WORD as u64 <= range.end {
        let length = (range.end - at).min(STEP) / WORD as u64 * WORD as u64;
        bytes.resize(length as usize, 0);
        memory.read(at, &mut bytes)?;
        for (address, word) in (at..).step_by(WORD).zip(bytes.as_chunks::<WORD>().0) {
            visit(address, u64::from_le_bytes(*word));
        }
        at += length;
    }
    Ok(())
}

impl<'c> Reach<'c> {
    /// Of what a program runs. The other code objects that it leads to have been looked for.
    ///
    /// # Errors
    /// When the capture is damaged, or something is written where HIP has no memory.
    pub(super) fn of(subject: &Subject<'c>) -> Result<Reach<'c>> {
        let captured = subject.captured;
        let candidates = Candidates::of(subject);
        let (mut variables, mut managed) = (Vec::new(), Vec::new());
        for (number, module) in subject.modules.iter().enumerate() {
            let (of_module, managed_of_it) = self::variables(number, module.captured, &candidates.targets)?;
            variables.extend(of_module);
            managed.extend(managed_of_it);
        }
        let (kernarg, launches, arguments) = arguments(subject, &candidates.targets);
        let mut seen =
            Seen { candidates: &candidates, reached: BTreeSet::new(), next: Vec::new(), bare: BTreeSet::new() };
        arguments.iter().for_each(|fixup| seen.aim(fixup.aim));
        managed.iter().filter_map(|managed| managed.at).for_each(|(number, _)| seen.aim(Aim::Allocation(number)));
        if subject.part.is_some() {
            // A region has what its steps reach, and no more.
            (0..candidates.all.len()).for_each(|number| seen.aim(Aim::Allocation(number)));
        }
        seen.look_bare(&kernarg);
        for variable in &variables {
            seen.follow(captured, &variable.range())?;
        }
        while let Some(number) = seen.next.pop() {
            let Some(reached) = candidates.all.get(number) else { continue };
            seen.follow(captured, &reached.range)?;
        }
        let (reached, bare) = (seen.reached, seen.bare);
        let number = |old: usize| reached.iter().position(|reached| *reached == old);
        let aim = |aim: Aim| match aim {
            Aim::Allocation(old) => number(old).map(Aim::Allocation),
            Aim::Code(number) => Some(Aim::Code(number)),
        };
        for managed in &mut managed {
            managed.at = managed.at.and_then(|(old, offset)| Some((number(old)?, offset)));
        }
        let allocations: Vec<Reached<'c>> =
            reached.iter().filter_map(|number| candidates.all.get(*number)).cloned().collect();
        let pieces = pieces(captured, &allocations, &variables, &managed)?;
        let mut reach = Reach {
            writes: writes(subject, &pieces, &allocations)?,
            pieces,
            allocations,
            variables,
            managed,
            kernarg,
            launches,
            before: Vec::new(),
            after: Vec::new(),
            buffers: buffers(captured, &[])?.into_iter().filter(Buffer::is_named).collect(),
            uncaptured: bare.iter().filter_map(|number| candidates.bare.get(*number)).copied().collect(),
            elsewhere: Vec::new(),
        };
        let arguments = arguments.into_iter();
        reach.before = arguments.filter_map(|fixup| Some(Fixup { aim: aim(fixup.aim)?, ..fixup })).collect();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let fixup = |place, offset, at, Aimed { aim: of, offset: aim_offset, sure }: Aimed| {
            let sure = if reach.is_of_numbers(at) { Sure::Number } else { sure };
            Some(Fixup { place, offset, aim: aim(of)?, aim_offset, sure })
        };
        for piece in &reach.pieces {
            let after_kernel = captured.after.as_ref().filter(|_| piece.after != After::Unknown);
            for (memory, found) in [(Some(&captured.before), &mut before), (after_kernel, &mut after)] {
                let Some(memory) = memory else { continue };
                words(memory, &piece.range, |at, value| {
                    let aimed = candidates.targets.find(value);
                    found.extend(aimed.and_then(|aimed| fixup(piece.place, at - piece.base, at, aimed)));
                })?;
            }
        }
        for write in reach.writes.own() {
            words(write.memory, &write.range, |at, value| {
                let offset = write.source_offset + (at - write.range.start);
                let aimed = candidates.targets.find(value);
                before.extend(aimed.and_then(|aimed| fixup(Place::Writes, offset, at, aimed)));
            })?;
        }
        reach.before.extend(before);
        reach.after = after;
        reach.elsewhere = reach.changed_elsewhere(subject)?;
        Ok(reach)
    }

    /// What has all of some bytes: an allocation or a variable, and where in it they begin.
    pub(super) fn at(&self, address: u64, bytes: u64) -> Option<(Place, u64)> {
        let allocations = self.allocations.iter().enumerate().map(|(n, of)| (Place::Allocation(n), of.range.clone()));
        let variables = self.variables.iter().enumerate().map(|(n, of)| (Place::Variable(n), of.range()));
        let has_all = |range: &Range<u64>| range.contains(&address) && bytes <= range.end - address;
        allocations.chain(variables).find(|(_, range)| has_all(range)).map(|(place, of)| (place, address - of.start))
    }

    /// True for memory whose elements are known to be no addresses.
    fn is_of_numbers(&self, address: u64) -> bool {
        let at = self.buffers.partition_point(|buffer| buffer.start <= address);
        let buffer = at.checked_sub(1).and_then(|at| self.buffers.get(at)).filter(|buffer| address < buffer.end);
        buffer.is_some_and(|buffer| match buffer.element_type {
            Type::Bits(_) => false,
            Type::Int(_) | Type::Unsigned(_) | Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => true,
        })
    }

    /// What changed in captured memory that is not reached.
    fn changed_elsewhere(&self, subject: &Subject<'_>) -> Result<Vec<(Range<u64>, u64)>> {
        let captured = subject.captured;
        let Some(after) = &captured.after else { return Ok(Vec::new()) };
        let mut elsewhere: Vec<(Range<u64>, u64)> = Vec::new();
        let code: Vec<Range<u64>> = subject.modules.iter().filter_map(|m| m.loaded().map(extent)).collect();
        for change in after.changed_since(&captured.before)? {
            let range = change.address..change.address + change.length;
            let ours = self.allocations.iter().map(|reached| &reached.range).chain(&code);
            let left = ours.fold(vec![range], |left, ours| {
                left.into_iter().flat_map(|range| without(range, ours)).filter(|r| r.start < r.end).collect()
            });
            for part in left {
                let of = captured.allocations.iter().map(|a| around(a)).find(|a| a.contains(&part.start));
                let of = of.unwrap_or_else(|| part.clone());
                let bytes = part.end - part.start;
                match elsewhere.last_mut() {
                    Some((last, sum)) if *last == of => *sum += bytes,
                    _ => elsewhere.push((of, bytes)),
                }
            }
        }
        Ok(elsewhere)
    }
}

/// What was seen so far.
struct Seen<'s, 'c> {
    candidates: &'s Candidates<'c>,
    reached: BTreeSet<usize>,
    /// Those whose words have not been looked at.
    next: Vec<usize>,
    bare: BTreeSet<usize>,
}

impl Seen<'_, '_> {
    fn aim(&mut self, aim: Aim) {
        if let Aim::Allocation(number) = aim
            && self.reached.insert(number)
        {
            self.next.push(number);
        }
    }

    /// Takes an aligned word for an address. One behind the end of memory leads to nothing.
    fn look(&mut self, value: u64) {
        match self.candidates.targets.find(value) {
            Some(aimed) if aimed.sure != Sure::End => self.aim(aimed.aim),
            _ => self.look_for_bare(value),
        }
    }

    fn look_for_bare(&mut self, value: u64) {
        let bare = &self.candidates.bare;
        let at = bare.partition_point(|allocation| allocation.base <= value).checked_sub(1);
        if let Some(at) = at.filter(|at| bare.get(*at).is_some_and(|allocation| around(allocation).contains(&value))) {
            self.bare.insert(at);
        }
    }

    fn look_bare(&mut self, kernarg: &[u8]) {
        kernarg.as_chunks::<WORD>().0.iter().for_each(|word| self.look_for_bare(u64::from_le_bytes(*word)));
    }

    /// Looks at the captured words of a range.
    fn follow(&mut self, captured: &CapturedDispatch<'_>, range: &Range<u64>) -> Result<()> {
        for held in captured.before.ranges() {
            let part = common(&held, range);
            if !part.is_empty() {
                words(&captured.before, &part, |_, value| self.look(value))?;
            }
        }
        Ok(())
    }
}

/// The arguments that the application gave, where those of each launch are, and the addresses among them.
fn arguments(subject: &Subject<'_>, targets: &Targets) -> (Vec<u8>, Vec<Range<usize>>, Vec<Fixup>) {
    let (mut all, mut places, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for (kernel, dispatch) in subject.launches() {
        let Some(captured) = subject.kernels.get(kernel) else { continue };
        all.resize(all.len().next_multiple_of(KERNARG_ALIGNMENT), 0);
        let start = all.len();
        let given = of_launch(captured, &dispatch.kernarg, start as u64, targets, &mut found);
        // Nobody fills in the hidden arguments of a packet.
        all.extend(if is_packet(captured, dispatch) { &dispatch.kernarg } else { given });
        places.push(start..all.len());
    }
    (all, places, found)
}

/// The arguments that the application gave to a launch, and what of them is addresses. `start` is where they are in their file.
fn of_launch<'k>(
    captured: &CapturedDispatch<'_>,
    kernarg: &'k [u8],
    start: u64,
    targets: &Targets,
    found: &mut Vec<Fixup>,
) -> &'k [u8] {
    let kernel = &captured.original.kernel;
    let end = kernel.explicit().map(|argument| argument.offset.saturating_add(argument.size)).max();
    // Where no argument is listed, all bytes are the application's.
    let end = end.unwrap_or(if kernel.arguments.is_empty() { kernel.kernarg_bytes() } else { 0 });
    let kernarg = kernarg.get(..end as usize).unwrap_or(kernarg);
    let fixup = |(at, Aimed { aim, offset, sure }): (u64, Aimed)| Fixup {
        place: Place::Kernarg,
        offset: start + at,
        aim,
        aim_offset: offset,
        sure,
    };
    if kernel.arguments.is_empty() {
        found.extend(targets.in_argument(kernarg, 0, false).into_iter().map(fixup));
    }
    for argument in captured.original.arguments(kernarg) {
        let (Some(bytes), at) = (argument.bytes, u64::from(argument.declared.offset)) else { continue };
        let all = match argument.declared.kind {
            ValueKind::GlobalBuffer => {
                let aimed = argument.address().and_then(|address| targets.find(address));
                // A pointer that ends where other memory begins is to that memory: the compiler knows of no end.
                let sure = |sure| if sure == Sure::End { Sure::End } else { Sure::Pointer };
                aimed.map(|aimed| (at, Aimed { sure: sure(aimed.sure), ..aimed })).into_iter().collect()
            }
            _ => {
                let of_number = argument.declared.type_name.is_some()
                    && argument.element_type().is_some_and(|element_type| !matches!(element_type, Type::Bits(_)));
                targets.in_argument(bytes, at, of_number)
            }
        };
        found.extend(all.into_iter().map(fixup));
    }
    kernarg
}

/// The captured parts of what is reached, cut where the memory after the kernel begins or ends.
fn pieces(
    captured: &CapturedDispatch<'_>,
    allocations: &[Reached<'_>],
    variables: &[Variable<'_>],
    managed: &[Managed<'_>],
) -> Result<Vec<Piece>> {
    let after = captured.after.as_ref();
    let held_after = after.map_or_else(Vec::new, |after| after.ranges());
    let changes = after.map_or(Ok(Vec::new()), |after| after.changed_since(&captured.before))?;
    let allocations = allocations.iter().enumerate().map(|(n, r)| (Place::Allocation(n), r.range.clone()));
    let variables = variables.iter().enumerate();
    let variables = variables.map(|(n, variable)| (Place::Variable(n), variable.range()));
    let mut all = Vec::new();
    for (place, range) in allocations.chain(variables) {
        let base = range.start;
        for held in captured.before.ranges() {
            let mut part = common(&held, &range);
            // HIP has no more of a managed variable than its own bytes.
            for Managed { size, at, .. } in managed {
                if let Some((_, offset)) = at.filter(|(number, _)| Place::Allocation(*number) == place) {
                    part = common(&part, &(base + offset..base + offset + size));
                }
            }
            if part.is_empty() {
                continue;
            }
            let known: Vec<Range<u64>> =
                held_after.iter().map(|after| common(after, &part)).filter(|r| !r.is_empty()).collect();
            let unknown = known.iter().fold(vec![part], |left, known| {
                left.into_iter().flat_map(|range| without(range, known)).filter(|r| r.start < r.end).collect()
            });
            let changed = |range: &Range<u64>| {
                let before_end = changes.partition_point(|change| change.address < range.end);
                let last = before_end.checked_sub(1).and_then(|at| changes.get(at));
                last.is_some_and(|change| change.address + change.length > range.start)
            };
            let after = |range: &Range<u64>| if changed(range) { After::Changed } else { After::Same };
            let known = known.into_iter().map(|range| (after(&range), range));
            let unknown = unknown.into_iter().map(|range| (After::Unknown, range));
            all.extend(known.chain(unknown).map(|(after, range)| Piece { place, base, range, after }));
        }
    }
    all.sort_by_key(|piece| (piece.place, piece.range.start));
    Ok(all)
}
