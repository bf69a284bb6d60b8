//! Dispatches of random accesses: of each wave other code.

use amdgpu_emu::isa::access::Space;

use crate::rig::{DATA, ENTRY};

/// Bytes between the programs of waves.
const DISTANCE: u64 = 4096;

/// The wave of an instruction.
pub(crate) fn wave_of(pc: u64) -> u64 {
    pc / DISTANCE - ENTRY / DISTANCE - 1
}

/// Dwords of memory, and of LDS, that are accessed: plain ones, then those that atomics access.
pub(crate) const PLAIN: u64 = 4;
pub(crate) const ATOMICS: u64 = 3;

/// Numbers that follow from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Reads,
    ReadsCoherently,
    Stores,
    Adds,
    AddsAndReturns,
}

/// What an instruction does that the order of accesses depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Access {
        space: Space,
        does: Does,
        at: u64,
        bytes: u64,
        value: u32,
    },
    /// Waits for memory, for LDS.
    Waits(bool, bool),
    Invalidates,
    Barrier,
}

/// The program of a wave: addresses of instructions, and what they do.
pub(crate) type Program = Vec<(u64, Action)>;

/// A dispatch.
pub(crate) struct Dispatch {
    pub(crate) groups: u32,
    pub(crate) waves: u32,
    pub(crate) code: Vec<u32>,
    /// By wave, those of the first workgroup first.
    pub(crate) programs: Vec<Program>,
}

/// Source of the words: `llvm-mc -mcpu=gfx90a`.
fn words(action: &Action) -> Vec<u32> {
    match *action {
        Action::Waits(true, true) => vec![0xbf8c_0070],
        Action::Waits(true, false) => vec![0xbf8c_0f70],
        Action::Waits(..) => vec![0xbf8c_c07f],
        Action::Invalidates => vec![0xe0fc_0000, 0],
        Action::Barrier => vec![0xbf8a_0000],
        Action::Access { space, does, at, bytes, value } => {
            // v_mov_b32 v2, at; v_mov_b32 v5, value
            let mut all = vec![0x7e04_02ff, at as u32, 0x7e0a_02ff, value];
            all.extend(match (space, does, bytes) {
                (Space::Memory, Does::Reads, 4) => [0xdc50_8000, 0x0408_0002],
                (Space::Memory, Does::Reads, _) => [0xdc40_8000, 0x0408_0002],
                (Space::Memory, Does::ReadsCoherently, _) => [0xdc51_8000, 0x0408_0002],
                (Space::Memory, Does::Stores, 4) => [0xdc70_8000, 0x0008_0502],
                (Space::Memory, Does::Stores, _) => [0xdc60_8000, 0x0008_0502],
                (Space::Memory, Does::Adds, _) => [0xdd08_8000, 0x0008_0502],
                (Space::Memory, Does::AddsAndReturns, _) => [0xdd09_8000, 0x0408_0502],
                (Space::Lds, Does::Reads | Does::ReadsCoherently, 4) => [0xd86c_0000, 0x0400_0002],
                (Space::Lds, Does::Reads | Does::ReadsCoherently, _) => [0xd874_0000, 0x0400_0002],
                (Space::Lds, Does::Stores, 4) => [0xd81a_0000, 0x0000_0502],
                (Space::Lds, Does::Stores, _) => [0xd83c_0000, 0x0000_0502],
                (Space::Lds, Does::Adds, _) => [0xd800_0000, 0x0000_0502],
                (Space::Lds, Does::AddsAndReturns, _) => [0xd840_0000, 0x0400_0502],
            });
            all
        }
    }
}

impl Dispatch {
    pub(crate) fn random(seed: u64) -> Dispatch {
        let mut random = Random::new(seed);
        let groups = 1 + random.below(8) as u32;
        let waves = 1 + random.below(4) as u32;
        let mut programs = Vec::new();
        // Of a value that is stored, some locations have always the same.
        let mut value = 0;
        for _ in 0..groups {
            let phases: Vec<u64> = (0..1 + random.below(3)).map(|_| 1 + random.below(4)).collect();
            for _ in 0..waves {
                let mut actions = Vec::new();
                for (n, most) in phases.iter().enumerate() {
                    if n > 0 {
                        actions.push(Action::Barrier);
                    }
                    (0..random.below(2 * most + 1)).for_each(|_| some(&mut random, &mut value, &mut actions));
                }
                programs.push(actions);
            }
        }
        Dispatch::of(groups, waves, &programs)
    }

    /// Of what each wave does, those of the first workgroup first.
    pub(crate) fn of(groups: u32, waves: u32, programs: &[Vec<Action>]) -> Dispatch {
        // s2: the wave's number; s[4:5]: its program; s[8:9]: the memory. Only lane 0 is active.
        let mut code = vec![0x7e04_0500, 0x8f02_8602, 0, 0x8002_0302, 0x8e02_8c02, 0xbe84_1c00];
        code[2] = 0x9203_8000 | waves << 8;
        let here = ENTRY + 4 * code.len() as u64;
        let first = (ENTRY / DISTANCE + 1) * DISTANCE;
        // s_add_u32 s4, s4, literal; s_addc_u32 s5, s5, 0; s_add_u32 s4, s4, s2; s_addc_u32 s5, s5, 0
        code.extend([0x8004_ff04, (first - here) as u32, 0x8205_8005, 0x8004_0204, 0x8205_8005]);
        code.extend([0xbe88_00ff, DATA as u32, 0xbe89_00ff, (DATA >> 32) as u32, 0xbefe_0181, 0xbe80_1d04]);
        let mut placed = Vec::new();
        for (n, actions) in programs.iter().enumerate() {
            let start = first + DISTANCE * n as u64;
            code.resize(((start - ENTRY) / 4) as usize, 0xbf80_0000);
            let mut program = Vec::new();
            for action in actions {
                let words = words(action);
                code.extend(&words);
                let last = if matches!(action, Action::Access { .. } | Action::Invalidates) { 2 } else { 1 };
                program.push((ENTRY + 4 * (code.len() - last) as u64, *action));
            }
            // s_waitcnt 0; s_endpgm
            code.extend([0xbf8c_0070, 0xbf81_0000]);
            placed.push(program);
        }
        Dispatch { groups, waves, code, programs: placed }
    }
}

/// Adds one of the things that programs do, mostly as compilers write them.
fn some(random: &mut Random, value: &mut u32, actions: &mut Vec<Action>) {
    let space = if random.below(3) == 0 { Space::Lds } else { Space::Memory };
    let plain = |random: &mut Random, value: &mut u32, does: Does| {
        *value += 1;
        let at = 4 * random.below(PLAIN);
        // The last plain dword gets always the same value.
        let value = if at == 4 * (PLAIN - 1) { 7 } else { *value };
        let bytes = if random.below(6) == 0 { 1 } else { 4 };
        let at = if bytes == 1 { at + random.below(4) } else { at };
        let value = if bytes == 1 && at >= 4 * (PLAIN - 1) { 7 >> (8 * (at % 4)) } else { value };
        Action::Access { space, does, at, bytes, value }
    };
    let atomic = |random: &mut Random, does: Does| {
        let at = 4 * (PLAIN + random.below(ATOMICS));
        Action::Access { space, does, at, bytes: 4, value: 1 }
    };
    match random.below(16) {
        0..=2 => actions.push(plain(random, value, Does::Reads)),
        3..=5 => actions.push(plain(random, value, Does::Stores)),
        6 => {
            let memory = random.below(2) == 0;
            actions.push(Action::Waits(memory, !memory));
        }
        7 => actions.push(Action::Waits(true, true)),
        8 => actions.push(Action::Invalidates),
        // A release, with or without the wait.
        9 | 10 => {
            if random.below(4) > 0 {
                actions.push(Action::Waits(true, true));
            }
            let does = if random.below(2) == 0 { Does::Adds } else { Does::AddsAndReturns };
            actions.push(atomic(random, does));
        }
        // An acquire, with or without waiting and invalidating.
        11 | 12 => {
            let does =
                if random.below(2) == 0 || space == Space::Lds { Does::AddsAndReturns } else { Does::ReadsCoherently };
            actions.push(atomic(random, does));
            if random.below(5) > 0 {
                actions.push(Action::Waits(true, true));
            }
            if random.below(4) > 0 {
                actions.push(Action::Invalidates);
            }
        }
        // A plain store into what atomics access: a flag.
        13 => {
            if random.below(4) > 0 {
                actions.push(Action::Waits(true, true));
            }
            *value += 1;
            let at = 4 * (PLAIN + random.below(ATOMICS));
            actions.push(Action::Access { space, does: Does::Stores, at, bytes: 4, value: *value });
        }
        14 => actions.push(atomic(random, Does::Reads)),
        _ => actions.push(atomic(random, Does::Adds)),
    }
}
