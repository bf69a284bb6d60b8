//! Differences of arguments: values by their types, addresses by what they point to.

use amdgpu_code_object::{Argument as Declared, ValueKind};

use super::Side;
use crate::dispatch::CapturedDispatch;
use crate::verify::Type;

/// Bytes of an address.
const ADDRESS: usize = 8;

/// An argument that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the source, or `arg` and its number; of hidden ones, what it is.
    pub name: String,
    /// Its type in the source, where the compiler kept that.
    pub type_name: Option<String>,
    /// In the first and the second; `None` where a kernel has no such argument, or the capture not its bytes.
    pub values: [Option<Value>; 2],
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// As people write it: a number, an address, or bytes in hexadecimal.
    pub shown: String,
    /// What it points to, of an address.
    pub points_to: Option<String>,
}

/// What an address points to, so that two processes can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spot {
    /// A variable, by its name, and how far into it.
    Variable(String, u64),
    /// An allocation: its place among those that arguments point to, its size, and how far into it.
    Allocation { number: usize, size: u64, offset: u64 },
}

impl Spot {
    fn shown(&self) -> String {
        match self {
            Spot::Variable(name, offset) => format!("byte {offset} of {name}"),
            Spot::Allocation { number, size, offset } => format!("byte {offset} of allocation {number} ({size} bytes)"),
        }
    }
}

/// What the addresses of a dispatch's arguments point to.
struct Spots<'s> {
    captured: &'s CapturedDispatch<'s>,
    /// The bases of allocations, in the order in which arguments point to them.
    bases: Vec<u64>,
}

impl<'s> Spots<'s> {
    fn of(captured: &'s CapturedDispatch<'s>) -> Spots<'s> {
        let mut spots = Spots { captured, bases: Vec::new() };
        for argument in &captured.original.kernel.arguments {
            for word in bytes(captured, argument).unwrap_or_default().chunks_exact(ADDRESS) {
                if let Some((base, _)) = spots.allocation(number(word)).filter(|(base, _)| !spots.bases.contains(base))
                {
                    spots.bases.push(base);
                }
            }
        }
        spots
    }

    /// Base and size of the allocation that has an address.
    fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        let has = |base: u64, size: u64| address.wrapping_sub(base) < size;
        self.captured.allocations.iter().find(|a| has(a.base, a.size)).map(|a| (a.base, a.size))
    }

    fn spot(&self, address: u64) -> Option<Spot> {
        let global = self.captured.globals.iter().find(|g| address.wrapping_sub(g.address) < g.size);
        if let Some(global) = global {
            return Some(Spot::Variable(global.symbol.clone(), address - global.address));
        }
        let (base, size) = self.allocation(address)?;
        let number = self.bases.iter().position(|other| *other == base)?;
        Some(Spot::Allocation { number, size, offset: address - base })
    }
}

/// A number from at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

/// The bytes of an argument, if the capture has them.
fn bytes<'c>(captured: &'c CapturedDispatch<'_>, argument: &Declared) -> Option<&'c [u8]> {
    let start = argument.offset as usize;
    captured.dispatch.kernarg.get(start..start.checked_add(argument.size as usize)?)
}

/// What a code object says of an argument, and its type in the source.
type Typed<'c> = (&'c Declared, Option<&'c str>);

/// The arguments that are not the same, explicit ones by their order, then `hidden` ones by their kind.
pub(super) fn differing(sides: &[Side<'_>; 2], hidden: bool) -> Vec<Argument> {
    let spots = sides.each_ref().map(|side| Spots::of(&side.captured));
    let explicit = sides.each_ref().map(|side| {
        let code = &side.captured.original;
        let types = code.source_types.iter().map(Option::as_deref);
        code.kernel.explicit().zip(types).collect::<Vec<Typed<'_>>>()
    });
    let count = explicit.iter().map(Vec::len).max().unwrap_or_default();
    let mut all = Vec::new();
    for at in 0..count {
        let declared = explicit.each_ref().map(|all| all.get(at).copied());
        all.extend(argument(&spots, declared, || format!("arg{at}")));
    }
    if hidden {
        let [of_a, of_b] = sides.each_ref().map(|side| side.captured.original.kernel.hidden().collect::<Vec<_>>());
        let typed = |hidden| (hidden, None);
        for a in &of_a {
            let b = of_b.iter().find(|b| b.kind == a.kind).copied();
            all.extend(argument(&spots, [Some(*a), b].map(|hidden| hidden.map(typed)), || a.kind.name().to_owned()));
        }
        for b in of_b.iter().filter(|b| of_a.iter().all(|a| a.kind != b.kind)) {
            all.extend(argument(&spots, [None, Some(typed(*b))], || b.kind.name().to_owned()));
        }
    }
    all
}

/// An argument, if it is not the same.
fn argument(spots: &[Spots<'_>; 2], declared: [Option<Typed<'_>>; 2], number: impl Fn() -> String) -> Option<Argument> {
    let [a, b] = [(&spots[0], declared[0]), (&spots[1], declared[1])].map(|(s, d)| bytes(s.captured, d?.0));
    match (a, b) {
        (Some(a), Some(b)) if same(spots, [a, b]) => return None,
        (None, None) => return None,
        _ => {}
    }
    let values = [(&spots[0], declared[0], a), (&spots[1], declared[1], b)];
    let (of, source_type) = declared[0].or(declared[1])?;
    Some(Argument {
        name: of.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(number),
        type_name: source_type.map(str::to_owned),
        values: values.map(|(spots, declared, bytes)| Some(value(spots, declared?, bytes?))),
    })
}

/// True if bytes are equal, or differ only in addresses with the same targets.
fn same(spots: &[Spots<'_>; 2], [a, b]: [&[u8]; 2]) -> bool {
    let word = |(a, b): (&[u8], &[u8])| {
        let points =
            |spots: &Spots<'_>, word: &[u8]| (word.len() == ADDRESS).then(|| spots.spot(number(word))).flatten();
        match (points(&spots[0], a), points(&spots[1], b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        }
    };
    a.len() == b.len() && a.chunks(ADDRESS).zip(b.chunks(ADDRESS)).all(word)
}

fn value(spots: &Spots<'_>, (declared, source_type): Typed<'_>, bytes: &[u8]) -> Value {
    if declared.kind != ValueKind::ByValue && bytes.len() == ADDRESS {
        let address = number(bytes);
        let spot = spots.spot(address);
        let points_to = spot.map_or_else(|| "no captured memory".to_owned(), |spot| spot.shown());
        let hidden = declared.kind.is_hidden() && points_to == "no captured memory";
        return Value { shown: format!("{address:#x}"), points_to: (!hidden && address != 0).then_some(points_to) };
    }
    let shown = match Type::of_value(source_type, bytes.len()) {
        Some(element_type) => element_type.show(bytes),
        None => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Value { shown, points_to: None }
}
