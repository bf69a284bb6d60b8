//! Names for memory: what arguments point to, variables, allocations.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::dispatch::CapturedDispatch;
use crate::error::{CapturedError, Result};
use crate::verify::{Buffer, Rule, Tolerance, Type};

/// What the memory of threads' stacks is called.
pub const STACKS: &str = "stacks";

/// Divides the captured memory into named buffers, and applies the user's rules to them.
///
/// # Errors
/// When a rule is about no piece, or about one that does not begin at a multiple of its type's size.
pub fn buffers(captured: &CapturedDispatch<'_>, rules: &[Rule]) -> Result<Vec<Buffer>> {
    let pointers = captured.pointers();
    let mut cuts: BTreeSet<u64> = pointers.iter().map(|p| p.address).collect();
    let mut cut = |start: u64, size: u64| cuts.extend([start, start.saturating_add(size)]);
    captured.allocations.iter().for_each(|a| cut(a.base, a.size));
    let others = || captured.called().iter().flat_map(|called| &called.globals);
    let own = || captured.own_data.iter().flat_map(|own| &own.globals);
    let globals = || captured.globals.iter().copied().chain(own()).chain(others());
    globals().for_each(|g| cut(g.address, g.size));
    let stacks = captured.stacks();
    stacks.iter().for_each(|stacks| cut(stacks.start, stacks.end - stacks.start));
    let mut used = vec![false; rules.len()];
    let mut buffers = Vec::new();
    for piece in captured.before.ranges().into_iter().flat_map(|range| pieces(range, &cuts)) {
        let of_pointer: Vec<_> = pointers.iter().filter(|p| p.address == piece.start).collect();
        let global = globals().find(|g| g.address == piece.start);
        let mut names: Vec<String> = of_pointer.iter().flat_map(|p| [p.name.clone(), p.number.clone()]).collect();
        names.extend(global.map(|g| g.symbol.clone()));
        names.extend(stacks.iter().filter(|stacks| stacks.start == piece.start).map(|_| STACKS.to_owned()));
        names.push(format!("{:#x}", piece.start));
        let rule = rules.iter().zip(&mut used).find(|(rule, _)| names.contains(&rule.buffer));
        let source = of_pointer.iter().find_map(|p| Type::of_pointer(p.source_type.as_deref()?));
        let (element_type, tolerance) = match rule {
            Some((rule, used)) => {
                *used = true;
                if piece.start % rule.element_type.size() as u64 != 0 {
                    return Err(CapturedError::Usage {
                        what: format!("--tol {}", rule.buffer),
                        expected: format!("a buffer at a multiple of {} bytes", rule.element_type.size()),
                        found: format!("{:#x}", piece.start),
                    });
                }
                (rule.element_type, rule.tolerance)
            }
            None => (source.unwrap_or(Type::Bits(4)), Tolerance::default()),
        };
        let element_type = if piece.start % element_type.size() as u64 == 0 { element_type } else { Type::Bits(1) };
        let name = names.into_iter().next().unwrap_or_default();
        buffers.push(Buffer { name, start: piece.start, end: piece.end, element_type, tolerance });
    }
    if let Some((rule, _)) = rules.iter().zip(used).find(|(_, used)| !used) {
        let mut known: Vec<String> = pointers.iter().map(|p| p.name.clone()).collect();
        known.extend(globals().map(|g| g.symbol.clone()));
        known.push("an address".to_owned());
        let expected = format!("one of {}", known.join(", "));
        return Err(CapturedError::Usage {
            what: "the buffer of --tol or --type".to_owned(),
            expected,
            found: rule.buffer.clone(),
        });
    }
    Ok(buffers)
}

fn pieces(range: Range<u64>, cuts: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let inner = cuts.range(range.clone()).copied().filter(|cut| *cut > range.start);
    let starts: Vec<u64> = std::iter::once(range.start).chain(inner).collect();
    let ends = starts.iter().skip(1).copied().chain([range.end]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// Describes an address: its buffer, or the distance from the nearest one.
pub fn nearest(buffers: &[Buffer], address: u64) -> Option<String> {
    let away = |b: &&Buffer| match address {
        at if at < b.start => b.start - at,
        at if at >= b.end => at - b.end + 1,
        _ => 0,
    };
    let buffer = buffers.iter().min_by_key(away)?;
    let size = buffer.end - buffer.start;
    let what = format!("{} ({size} bytes at {:#x})", buffer.name, buffer.start);
    Some(match address {
        at if at < buffer.start => format!("{} bytes before {what}", buffer.start - at),
        at if at >= buffer.end => format!("{} bytes behind {what}", at - buffer.end),
        at => format!("at byte {} of {what}", at - buffer.start),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_inside_and_nowhere_else() {
        let cuts = BTreeSet::from([5, 10, 15, 20, 30]);
        assert_eq!(pieces(10..25, &cuts), [10..15, 15..20, 20..25]);
        let whole = 21..25;
        assert_eq!(pieces(21..25, &cuts), [whole]);
    }

    #[test]
    fn the_nearest_buffer_of_an_address_is_named_with_the_distance() {
        let buffer = |name: &str, start, end| Buffer {
            name: name.to_owned(),
            start,
            end,
            element_type: Type::F32,
            tolerance: Tolerance::default(),
        };
        let all = [buffer("in", 0x1000, 0x1100), buffer("out", 0x2000, 0x2100)];
        let at = |address| nearest(&all, address).unwrap();
        assert_eq!(at(0x2004), "at byte 4 of out (256 bytes at 0x2000)");
        assert_eq!(at(0x2100), "0 bytes behind out (256 bytes at 0x2000)");
        assert_eq!(at(0x1fff), "1 bytes before out (256 bytes at 0x2000)");
        assert_eq!(nearest(&[], 1), None);
    }
}
