//! Registers that are used while an operation that writes them may not be done: a missing or too weak `s_waitcnt`.
//!
//! Exact for the path that was executed.

use amdgpu_emu::isa::wave::Wave;
use amdgpu_emu::observer::Step;

use crate::Check;
use crate::finding::{Finding, Findings, Key, Other, Place};
use crate::outstanding::Outstanding;
use crate::registers::{Class, Touch};

/// Looks at an instruction that touches registers of outstanding operations.
#[cold]
pub(crate) fn hazard(
    step: &Step<'_>,
    touch: &Touch,
    outstanding: &mut Outstanding,
    place: &Place,
    findings: &mut Findings,
) {
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

/// The instruction is issued: what it will write is outstanding from now on, or what was outstanding is waited for.
#[inline]
pub(crate) fn issue(step: &Step<'_>, touch: &Touch, outstanding: &mut Outstanding) {
    if touch.class != Class::Now {
        let writes_something = touch.class == Class::Scalar || has_lanes(step.wave);
        let registers = if writes_something { touch.writes } else { Default::default() };
        outstanding.issue(step.pc, touch.class, registers);
    }
}

/// A vector operation without active lanes writes nothing.
fn has_lanes(wave: &Wave) -> bool {
    wave.exec() != 0
}
