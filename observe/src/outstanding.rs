//! Operations of a wave that `s_waitcnt` has not waited for.
//!
//! The emulated GPU does each at once. Hardware does not: until a wait says so, a result may not be there. Only what every
//! hardware must have done by then counts as done.
//!
//! * Accesses to memory come back in order; so do those to LDS. Of these, `vmcnt(n)` and `lgkmcnt(n)` leave the last `n`, whatever
//!   else is counted with them.
//! * Scalar loads, messages and flat accesses come back in any order: only a wait for 0 is one for them. A flat access is
//!   in both counters, and done when both are 0.
//! * A counter that is full holds the next operation back: the oldest is done then.
//!
//! Source: the Vega ISA manual, "Data Dependency Resolution"; LLVM's `SIInsertWaitcnts`.

use std::collections::VecDeque;

use amdgpu_emu::isa::access::Part;
use amdgpu_emu::isa::inst::Inst;

use crate::registers::{Class, Mask};

/// The largest count of `vmcnt`, which means no wait.
const VM_MOST: usize = 63;
/// The largest count of `lgkmcnt`.
const LGKM_MOST: usize = 15;

/// An operation that may not be done.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// The address of its instruction.
    pub(crate) pc: u64,
    pub(crate) class: Class,
    /// The registers that it will write.
    pub(crate) registers: Mask,
    /// Its flat access has been waited for in memory, and in LDS.
    waited: (bool, bool),
    /// What of LDS it accesses.
    pub(crate) lds: Vec<Part>,
}

/// The operations of a wave that may not be done, in the order in which they were issued.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    operations: VecDeque<Operation>,
    /// The registers of all of them.
    pending: Mask,
}

impl Outstanding {
    /// The registers that may not have their values.
    pub(crate) fn pending(&self) -> &Mask {
        &self.pending
    }

    /// The operations, oldest first.
    pub(crate) fn operations(&self) -> impl DoubleEndedIterator<Item = &Operation> {
        self.operations.iter()
    }

    /// An operation is issued.
    pub(crate) fn issue(&mut self, pc: u64, class: Class, registers: Mask) {
        self.pending = self.pending.or(&registers);
        let waited = (false, false);
        self.operations.push_back(Operation { pc, class, registers, waited, lds: Vec::new() });
        match class {
            Class::Memory => self.leave(Class::Memory, VM_MOST),
            Class::Lds => self.leave(Class::Lds, LGKM_MOST),
            Class::Now | Class::Scalar | Class::Flat => {}
        }
    }

    /// Notes what of LDS the last operation accesses.
    pub(crate) fn accesses_lds(&mut self, part: &Part) {
        if let Some(last) = self.operations.back_mut().filter(|last| last.class != Class::Memory) {
            last.lds.push(*part);
        }
    }

    /// The wave waits.
    pub(crate) fn wait(&mut self, inst: &Inst) {
        let (vm, lgkm) = counts(inst);
        if vm < VM_MOST {
            self.leave(Class::Memory, vm);
        }
        if lgkm < LGKM_MOST {
            self.leave(Class::Lds, lgkm);
        }
        if lgkm == 0 {
            self.operations.retain(|operation| operation.class != Class::Scalar);
        }
        if vm == 0 || lgkm == 0 {
            for operation in self.operations.iter_mut().filter(|operation| operation.class == Class::Flat) {
                operation.waited.0 |= vm == 0;
                operation.waited.1 |= lgkm == 0;
            }
            self.operations.retain(|operation| operation.waited != (true, true));
        }
        self.sum_up();
    }

    /// All but the last `n` of a class are done.
    fn leave(&mut self, class: Class, n: usize) {
        let count = self.operations.iter().filter(|operation| operation.class == class).count();
        let mut done = count.saturating_sub(n);
        if done == 0 {
            return;
        }
        self.operations.retain(|operation| {
            let goes = operation.class == class && done > 0;
            done -= usize::from(goes);
            !goes
        });
        self.sum_up();
    }

    /// Some registers of an operation are not looked at again: what came of them is known.
    pub(crate) fn forget(&mut self, registers: &Mask) {
        for operation in &mut self.operations {
            operation.registers = operation.registers.without(registers);
        }
        self.sum_up();
    }

    fn sum_up(&mut self) {
        self.pending = self.operations.iter().fold(Mask::default(), |all, one| all.or(&one.registers));
    }

    /// The wait that an operation needs, as an assembler writes it.
    pub(crate) fn needed(&self, operation: &Operation) -> String {
        let behind = self.operations.iter().rev().take_while(|other| !std::ptr::eq(*other, operation));
        let younger = behind.filter(|other| other.class == operation.class).count();
        match operation.class {
            Class::Memory => format!("vmcnt({younger})"),
            Class::Lds => format!("lgkmcnt({younger})"),
            Class::Scalar | Class::Now => "lgkmcnt(0)".to_owned(),
            Class::Flat => "vmcnt(0) lgkmcnt(0)".to_owned(),
        }
    }
}

/// What `s_waitcnt` waits for: `vmcnt` and `lgkmcnt`. Source: the Vega ISA manual, S_WAITCNT.
fn counts(inst: &Inst) -> (usize, usize) {
    let imm = inst.imm as u32;
    ((imm & 15 | (imm >> 14 & 3) << 4) as usize, (imm >> 8 & 15) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_emu::Arch;
    use amdgpu_emu::isa::Decoder;

    fn register(n: usize) -> Mask {
        let mut mask = Mask::default();
        mask.insert(n);
        mask
    }

    fn waited(classes: &[Class], word: u32) -> Vec<usize> {
        let mut outstanding = Outstanding::default();
        classes.iter().enumerate().for_each(|(n, class)| outstanding.issue(4 * n as u64, *class, register(n)));
        outstanding.wait(&Decoder::new(Arch::Gfx90a).decode(&[word]).unwrap());
        (0..classes.len()).filter(|n| outstanding.pending().meets(&register(*n))).collect()
    }

    /// Words of llvm-mc.
    const VM_0: u32 = 0xbf8c_0f70;
    const VM_1: u32 = 0xbf8c_0f71;
    const LGKM_0: u32 = 0xbf8c_c07f;
    const LGKM_1: u32 = 0xbf8c_c17f;
    const BOTH_0: u32 = 0xbf8c_0070;

    #[test]
    fn operations_of_one_kind_are_done_in_order_and_scalar_loads_only_by_a_wait_for_all() {
        use Class::{Flat, Lds, Memory, Scalar};
        assert_eq!(waited(&[Memory, Memory, Memory], VM_1), [2]);
        assert_eq!(waited(&[Memory, Lds], VM_0), [1]);
        assert_eq!(waited(&[Lds, Lds], LGKM_1), [1]);
        assert_eq!(waited(&[Scalar, Scalar], LGKM_1), [0, 1]);
        assert_eq!(waited(&[Scalar, Lds], LGKM_1), [0, 1]);
        assert_eq!(waited(&[Scalar, Lds], LGKM_0), [0usize; 0]);
        // The scalar load may be the one that is left: of the LDS reads, the first is done all the same.
        assert_eq!(waited(&[Lds, Scalar, Lds], LGKM_1), [1, 2]);
        assert_eq!(waited(&[Flat], VM_0), [0]);
        assert_eq!(waited(&[Flat], LGKM_0), [0]);
        assert_eq!(waited(&[Flat], BOTH_0), [0usize; 0]);
        assert_eq!(waited(&[Flat, Memory, Memory], VM_1), [0, 2]);
    }

    #[test]
    fn a_full_counter_holds_back_what_follows() {
        let mut outstanding = Outstanding::default();
        (0..70).for_each(|n| outstanding.issue(0, Class::Memory, register(n)));
        assert_eq!((0..70).filter(|n| outstanding.pending().meets(&register(*n))).count(), 63);
        assert_eq!(outstanding.needed(outstanding.operations().next().unwrap()), "vmcnt(62)");
    }
}
