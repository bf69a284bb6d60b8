//! Basic blocks of executed code, how often waves go through them and from one to another, and how many of their lanes do.
//!
//! Exact. A block begins where jumps lead to, and behind jumps; an instruction that was not executed has counts of zero.

/// An instruction, in the order of addresses, with what was counted of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Its address.
    pub address: u64,
    /// The address behind it.
    pub end: u64,
    /// How often a wave executed it.
    pub executions: u64,
    /// Active lanes of all executions.
    pub lanes: u64,
    /// Executions without an active lane.
    pub empty: u64,
    /// Executions that went on elsewhere than behind it.
    pub taken: u64,
    /// Where it jumps to, if it says so itself.
    pub target: Option<u64>,
    /// Control may leave the order here: a jump, an end.
    pub is_jump: bool,
    /// What is behind it can run next.
    pub falls_through: bool,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The address of its first instruction.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// How many instructions it has.
    pub instructions: u64,
    /// How often waves went through it.
    pub executions: u64,
    /// Active lanes of all times, at its first instruction.
    pub lanes: u64,
    /// Times without an active lane.
    pub empty: u64,
    /// To which blocks waves went, and how often: by the addresses of these.
    pub edges: Vec<(u64, u64)>,
}

impl Block {
    /// The share of lanes that were active, of 64 in each execution.
    pub fn active(&self) -> f64 {
        share(self.lanes, self.executions)
    }
}

/// The share of so many lanes in as many executions of 64 lanes.
pub fn share(lanes: u64, executions: u64) -> f64 {
    if executions == 0 { 0.0 } else { lanes as f64 / (64 * executions) as f64 }
}

/// The blocks of instructions that are sorted by address.
pub fn blocks(code: &[Executed]) -> Vec<Block> {
    let mut leaders: Vec<u64> = code.iter().filter_map(|inst| inst.target).collect();
    leaders.extend(code.iter().filter(|inst| inst.is_jump).map(|inst| inst.end));
    leaders.sort_unstable();
    let mut blocks: Vec<Block> = Vec::new();
    let mut last_end = None;
    for inst in code {
        let follows = last_end == Some(inst.address) && leaders.binary_search(&inst.address).is_err();
        last_end = Some(inst.end);
        match blocks.last_mut().filter(|_| follows) {
            Some(block) => {
                block.end = inst.end;
                block.instructions += 1;
            }
            None => blocks.push(Block {
                start: inst.address,
                end: inst.end,
                instructions: 1,
                executions: inst.executions,
                lanes: inst.lanes,
                empty: inst.empty,
                edges: Vec::new(),
            }),
        }
        let Some(block) = blocks.last_mut() else { continue };
        if let (Some(target), 1..) = (inst.target, inst.taken) {
            block.edges.push((target, inst.taken));
        }
        let ends = inst.is_jump || leaders.binary_search(&inst.end).is_ok();
        let on = inst.executions - inst.taken.min(inst.executions);
        if ends && inst.falls_through && on > 0 {
            block.edges.push((inst.end, on));
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_at_targets_and_jumps_and_edges_add_up() {
        let inst = |address: u64, executions, taken, target| Executed {
            address,
            end: address + 4,
            executions,
            lanes: 64 * executions,
            empty: 0,
            taken,
            target,
            is_jump: target.is_some() || address == 16,
            falls_through: address != 16,
        };
        // A loop of two instructions that is run ten times, and an end.
        let code = [
            inst(0, 1, 0, None),
            inst(4, 10, 0, None),
            inst(8, 10, 9, Some(4)),
            inst(12, 1, 0, None),
            inst(16, 1, 0, None),
        ];
        let blocks = blocks(&code);
        let shown: Vec<_> = blocks.iter().map(|b| (b.start, b.end, b.executions, b.edges.clone())).collect();
        assert_eq!(shown, [(0, 4, 1, vec![(4, 1)]), (4, 12, 10, vec![(4, 9), (12, 1)]), (12, 20, 1, vec![])]);
        assert_eq!(blocks[1].active(), 1.0);
    }
}
