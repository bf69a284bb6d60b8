//! Wait states that programs insert themselves: how far an instruction must be behind another that it depends on, where the hardware
//! does not check that.
//!
//! A rule is a row of [`RULES`]. An instruction takes one wait state, `s_nop n` takes `n + 1`.
//!
//! Source: LLVM's `GCNHazardRecognizer`, and its scheduling models for the passes of matrix instructions. The ISA manuals have the same
//! matter under "Manually Inserted Wait States (NOPs)"; the rows were not compared with them.

mod rules;
mod sides;

pub use rules::{RULES, Rule};
pub use sides::{First, Meets, Second, passes};

use amdgpu_isa::Arch;
use amdgpu_isa::action::Action;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::uses::Registers;

/// The most wait states that a rule asks for.
pub const MOST: u32 = 20;

/// What of an instruction a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// These registers; both sides have some in common.
    Registers(Vec<Registers>),
    /// The hardware register of this number.
    Hardware(u32),
    /// The instruction itself.
    Itself,
}

/// An instruction as the earlier side of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The rule's number in [`RULES`].
    pub rule: usize,
    /// Wait states that must lie between.
    pub states: u32,
    /// What of it.
    pub about: About,
}

/// An instruction as the later side of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The rule's number in [`RULES`].
    pub rule: usize,
    /// What of it.
    pub about: About,
}

/// What the rules say of an instruction.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The operation's name.
    pub name: &'static str,
    /// Wait states that it takes.
    pub states: u32,
    /// Rules in which it is the earlier side.
    pub offers: Vec<Offer>,
    /// Rules in which it is the later side.
    pub needs: Vec<Need>,
    /// Rules for which it counts as what lies between.
    pub between: u128,
}

impl Sides {
    /// Of an instruction on a processor.
    pub fn of(arch: Arch, inst: &Inst) -> Sides {
        let mut sides =
            Sides { name: inst.op.name, states: states(inst), offers: Vec::new(), needs: Vec::new(), between: 0 };
        for (n, rule) in RULES.iter().enumerate().filter(|(_, rule)| rule.archs.contains(arch)) {
            if let Some(about) = rule.first.about(inst, arch).filter(|about| !about.is_nothing()) {
                let states = rule.states.of(passes(arch, inst).unwrap_or_default());
                if states > 0 {
                    sides.offers.push(Offer { rule: n, states, about });
                }
            }
            if let Some(about) = rule.second.about(inst, arch).filter(|about| !about.is_nothing()) {
                sides.needs.push(Need { rule: n, about });
            }
            if rule.between.is_some_and(|between| between.about(inst, arch).is_some()) {
                sides.between |= 1 << n;
            }
        }
        sides
    }
}

impl About {
    /// True for no register at all.
    fn is_nothing(&self) -> bool {
        matches!(self, About::Registers(registers) if registers.is_empty())
    }
}

/// Wait states that an instruction takes at least.
fn states(inst: &Inst) -> u32 {
    if inst.op.action == Action::Nop { (inst.imm as u32 & 15) + 1 } else { 1 }
}
