//! Allocations that an application divides itself, as frameworks with a memory pool do: what the user says of the parts.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::dispatch::CapturedDispatch;
use crate::error::{CapturedError, Result};

/// A part of an allocation, as an option gives it: `NAME[+OFFSET]=BYTES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The argument that points to the allocation, by name or number, or an address.
    name: String,
    /// Where the part begins, in bytes from there.
    offset: i64,
    /// How many bytes it has.
    bytes: u64,
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => write!(f, "{}={}", self.name, self.bytes),
            offset => write!(f, "{}{offset:+}={}", self.name, self.bytes),
        }
    }
}

/// A number, decimal or hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl FromStr for Bounds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Bounds, String> {
        let refuse = || format!("expected NAME=BYTES or NAME+OFFSET=BYTES, with at least one byte, found {text:?}");
        let (place, bytes) = text.rsplit_once('=').ok_or_else(refuse)?;
        let bytes = number(bytes).filter(|bytes| *bytes > 0).ok_or_else(refuse)?;
        let (name, offset) = match place.rfind(['+', '-']) {
            Some(at) => {
                let distance = number(&place[at + 1..]).and_then(|n| i64::try_from(n).ok()).ok_or_else(refuse)?;
                (&place[..at], if place[at..].starts_with('-') { -distance } else { distance })
            }
            None => (place, 0),
        };
        if name.is_empty() {
            return Err(refuse());
        }
        Ok(Bounds { name: name.to_owned(), offset, bytes })
    }
}

/// Allocations that have parts, and the parts that a dispatch may access of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divided {
    /// The allocations.
    pub allocations: Vec<Range<u64>>,
    /// The parts: those that were given, and what other arguments point to, up to the next part.
    pub parts: Vec<Range<u64>>,
}

/// Divides the allocations of a dispatch. An argument that points to a divided allocation and has no bounds of its own keeps what
/// is behind it, up to the next argument or part.
///
/// # Errors
/// When the dispatch has no such argument, or a part is not in one allocation.
pub fn divided(captured: &CapturedDispatch<'_>, bounds: &[Bounds]) -> Result<Divided> {
    let pointers = captured.pointers();
    let whole = |address: u64| {
        let mut all = captured.allocations.iter().map(|a| a.base..a.base.saturating_add(a.size));
        all.find(|range| range.contains(&address))
    };
    let mut divided = Divided::default();
    for part in bounds {
        let pointer = pointers.iter().find(|p| p.name == part.name || p.number == part.name);
        let address = pointer.map(|p| p.address).or_else(|| part.name.starts_with("0x").then(|| number(&part.name))?);
        let wrong = |expected: String, found: String| CapturedError::Usage {
            what: format!("--bounds {part}"),
            expected,
            found,
        };
        let Some(address) = address else {
            let mut known: Vec<&str> = pointers.iter().map(|p| p.name.as_str()).collect();
            known.push("an address");
            return Err(wrong(format!("one of {}", known.join(", ")), part.name.clone()));
        };
        let start = address.wrapping_add_signed(part.offset);
        let end = start.saturating_add(part.bytes);
        let Some(of) = whole(address) else {
            return Err(wrong("memory of a captured allocation".to_owned(), format!("{address:#x}, which is in none")));
        };
        if start < of.start || end > of.end {
            let expected = format!("bytes of the allocation at {:#x}, of {} bytes", of.start, of.end - of.start);
            return Err(wrong(expected, format!("{start:#x} to {end:#x}")));
        }
        divided.parts.push(start..end);
        if !divided.allocations.contains(&of) {
            divided.allocations.push(of);
        }
    }
    let others = keeps(&divided, pointers.iter().map(|p| p.address));
    divided.parts.extend(others);
    divided.parts.sort_by_key(|part| (part.start, part.end));
    Ok(divided)
}

/// What pointers that are in no part keep of divided allocations.
fn keeps(divided: &Divided, pointers: impl Iterator<Item = u64> + Clone) -> Vec<Range<u64>> {
    let is_given = |at: u64| divided.parts.iter().any(|part| part.contains(&at));
    let mut kept = Vec::new();
    for at in pointers.clone().filter(|at| !is_given(*at)) {
        let Some(of) = divided.allocations.iter().find(|of| of.contains(&at)) else { continue };
        let begin = divided.parts.iter().map(|part| part.start).chain(pointers.clone());
        let end = begin.filter(|begin| *begin > at && *begin <= of.end).min().unwrap_or(of.end);
        kept.push(at..end);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_a_name_a_distance_and_a_size() {
        let parse = |text: &str| text.parse::<Bounds>().map(|bounds| (bounds.name, bounds.offset, bounds.bytes));
        assert_eq!(parse("in=256"), Ok(("in".to_owned(), 0, 256)));
        assert_eq!(parse("arg1+0x40=0x100"), Ok(("arg1".to_owned(), 64, 256)));
        assert_eq!(parse("0x7f00-16=8"), Ok(("0x7f00".to_owned(), -16, 8)));
        for wrong in ["in", "in=", "=4", "in=0", "in+=4", "in+x=4", "+4=4", "in=-4"] {
            assert!(parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
        assert_eq!("in+4=5".parse::<Bounds>().unwrap().to_string(), "in+4=5");
    }

    #[test]
    fn a_pointer_without_bounds_keeps_what_is_behind_it() {
        let whole = 0u64..1000;
        let part = 100u64..200;
        let divided = Divided { allocations: vec![whole], parts: vec![part] };
        assert_eq!(keeps(&divided, [100, 150, 40, 300, 500, 5000].into_iter()), [40..100, 300..500, 500..1000]);
    }
}
