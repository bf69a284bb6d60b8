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

use amdgpu_emu::isa::access::{Parts, Space};
use amdgpu_emu::isa::action::Action;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::observer::Step;

use crate::registers::{Class, Mask, Touch};

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
    /// Its number among the wave's, from 1 on.
    number: u32,
    /// It accesses memory, and LDS.
    accesses: [bool; 2],
}

/// An instruction, and the operations before it that its wave has not waited for.
pub(crate) struct Operations<'a> {
    pub(crate) touch: &'a Touch,
    pub(crate) outstanding: &'a mut Outstanding,
}

impl Operations<'_> {
    /// The instruction is issued: what it will write is outstanding from now on, or what was outstanding is waited for.
    #[inline]
    pub(crate) fn issue(&mut self, step: &Step<'_>, parts: Option<&Parts>) {
        let Operations { touch, outstanding } = self;
        if is_wait(step.inst) {
            return outstanding.wait(step.inst);
        }
        if touch.class != Class::Now {
            // A vector operation without active lanes writes nothing.
            let writes_something = touch.class == Class::Scalar || step.wave.exec() != 0;
            let registers = if writes_something { touch.writes } else { Mask::default() };
            outstanding.issue(step.pc, touch.class, registers);
        }
        parts.into_iter().flat_map(Parts::iter).for_each(|part| outstanding.accesses(part.space));
    }
}

/// The operations of a wave that may not be done, in the order in which they were issued.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    operations: VecDeque<Operation>,
    /// The registers of all of them.
    pending: Mask,
    /// Operations so far.
    issued: u32,
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
        self.issued += 1;
        let (waited, number, accesses) = ((false, false), self.issued, [false; 2]);
        self.operations.push_back(Operation { pc, class, registers, waited, number, accesses });
        match class {
            Class::Memory => self.leave(Class::Memory, VM_MOST),
            Class::Lds => self.leave(Class::Lds, LGKM_MOST),
            Class::Now | Class::Scalar | Class::Flat => {}
        }
    }

    /// The last operation accesses memory or LDS.
    fn accesses(&mut self, space: Space) {
        let number = self.issued;
        if let Some(last) = self.operations.back_mut().filter(|last| last.number == number) {
            last.accesses[usize::from(space == Space::Lds)] = true;
        }
    }

    /// The number of the last operation.
    pub(crate) fn issued(&self) -> u32 {
        self.issued
    }

    /// The operation with this number may not be done.
    pub(crate) fn is_pending(&self, number: u32) -> bool {
        self.operations.iter().any(|operation| operation.number == number)
    }

    /// All operations up to this number have done their accesses to memory or to LDS.
    pub(crate) fn done(&self, space: Space) -> u32 {
        self.done_before(space, self.issued + 1)
    }

    /// The same of operations before one with a number.
    pub(crate) fn done_before(&self, space: Space, number: u32) -> u32 {
        let mut before = self.operations.iter().take_while(|operation| operation.number < number);
        let first = before.find(|operation| operation.accesses[usize::from(space == Space::Lds)]);
        first.map_or(number, |operation| operation.number) - 1
    }

    /// The wave waits.
    fn wait(&mut self, inst: &Inst) {
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

/// True for the instruction by which a wave waits for operations.
#[inline]
pub(crate) fn is_wait(inst: &Inst) -> bool {
    inst.op.action == Action::Wait
}

/// What `s_waitcnt` waits for: `vmcnt` and `lgkmcnt`. Source: the Vega ISA manual, S_WAITCNT.
pub(crate) fn counts(inst: &Inst) -> (usize, usize) {
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
