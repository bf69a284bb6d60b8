//! Registers that are used while an operation that writes them may not be done: a missing or too weak `s_waitcnt`.
//!
//! Exact for the path that was executed.

use amdgpu_emu::observer::{Group, Step};

use crate::Check;
use crate::check::{Checker, Dispatch, Look};
use crate::finding::{Finding, Findings, Key, Other, Position};
use crate::outstanding::{Operations, Outstanding};
use crate::registers::{Class, Touch};

/// The check.
#[derive(Clone, Debug)]
pub(crate) struct Waits;

impl Checker for Waits {
    type Group = ();

    const OUTSTANDING: bool = true;

    fn new(_: &Dispatch<'_>) -> Waits {
        Waits
    }

    fn begin(&mut self, _: &Group<'_>) {}

    #[inline]
    fn before(&mut self, (): &mut (), look: &mut Look<'_>) {
        if let Some(Operations { touch, outstanding }) = &mut look.operations
            && touch.touches(outstanding.pending())
        {
            hazard(look.step, touch, outstanding, look.place, look.findings);
        }
    }
}

/// Looks at an instruction that touches registers of outstanding operations.
#[cold]
fn hazard(step: &Step<'_>, touch: &Touch, outstanding: &mut Outstanding, place: &Position, findings: &mut Findings) {
    let (wave, pending) = (step.wave, *outstanding.pending());
    let (read, written) = (touch.reads.and(&pending), touch.writes.and(&pending));
    let mut forgotten = read;
    for operation in outstanding.operations() {
        let early = operation.registers.and(&read);
        // What comes back in order may write the same register again.
        let in_order = operation.class == touch.class && matches!(touch.class, Class::Memory | Class::Lds);
        let again = operation.registers.and(&written);
        let (what, registers) = match (early.is_empty(), again.is_empty() || in_order) {
            (false, _) => ("a register is read, and what loads it has not been waited for", early),
            (true, false) => ("a register is written, and an earlier load into it has not been waited for", again),
            (true, true) => continue,
        };
        forgotten = forgotten.or(&registers);
        let key = Key { check: Check::Wait, pc: step.pc, what, other: Some(operation.pc) };
        findings.add(key, *place, || Finding {
            place: *place,
            other: Some(Other { pc: operation.pc, workgroup: None, wave: place.wave, lane: None }),
            address: None,
            detail: format!("{} needs s_waitcnt {}", registers.name(wave), outstanding.needed(operation)),
            count: 1,
        });
    }
    if !forgotten.is_empty() {
        outstanding.forget(&forgotten);
    }
}
