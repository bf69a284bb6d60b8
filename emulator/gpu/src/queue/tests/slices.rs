//! With one seed, waves execute the same slices whether a workgroup is observed or not.

use std::sync::atomic::AtomicBool;

use amdgpu_isa::op::Flow;
use amdgpu_isa::{Arch, Decoder};
use hsa_sys::abi::aql::Packet;

use super::*;
use crate::code::Fetch;
use crate::fill::Fill;
use crate::launch::Launch;
use crate::observer::{Group, Notes, Observer, Step};
use crate::units::Units;
use crate::workgroup::{ExecContext, SliceOutcome, Spares, Workgroup};

// The words are llvm-mc's.
/// The wave's number into `s4` and, where it counts its tickets, `s14`; how often it goes round into `s6`.
const BEGIN: &[u32] = &[
    0x7e08_0500, // v_readfirstlane_b32 s4, v0
    0x8f04_8604, // s_lshr_b32 s4, s4, 6
    0x8e0e_9004, // s_lshl_b32 s14, s4, 16
    0xb006_0010, // s_movk_i32 s6, 0x10
];
/// Takes a ticket, and writes to the place that it names: memory has the order in which waves were there.
const TICKET: &[u32] = &[
    0xbe8c_0084, // s_mov_b32 s12, 4
    0xc20b_0300,
    0,           // s_atomic_add s12, s[0:1], 0x0 glc
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0x800e_810e, // s_add_u32 s14, s14, 1
    0xc040_0380,
    12, // s_store_dword s14, s[0:1], s12
];
/// One round less; the jump to the beginning of the rounds is behind it.
const ROUND: &[u32] = &[
    0x8086_8106, // s_sub_u32 s6, s6, 1
    0xbf07_8006, // s_cmp_lg_u32 s6, 0
];
const JUMP: u32 = 0xbf85_0000; // s_cbranch_scc1
/// The registers of each lane, `v4` to `v11`, then scalar ones.
const ADDRESS: &[u32] = &[0x2402_0082, 0x6802_02ff, 0x4000]; // v_lshlrev_b32 v1, 2, v0; v_add_u32 v1, 0x4000, v1
const STORE: [u32; 2] = [0xdc70_8000, 1]; // global_store_dword v1, v0, s[0:1]
const NEXT: &[u32] = &[0x6802_02ff, 0x400]; // v_add_u32 v1, 0x400, v1
const MOVE: u32 = 0x7e04_0200; // v_mov_b32 v2, s0
const END: u32 = 0xbf81_0000; // s_endpgm

const VECTORS: std::ops::Range<u32> = 4..12;
const SCALARS: std::ops::Range<u32> = 16..32;
/// The log of tickets begins here.
const LOG: u32 = 64;
const WAVES: u32 = 4;

fn below(fill: &mut Fill, n: u64) -> u32 {
    (fill.next() % n) as u32
}

/// An instruction of the scalar or the vector ALU between registers that [`STORE`] and [`MOVE`] show.
fn instruction(fill: &mut Fill, decoder: &Decoder) -> u32 {
    loop {
        let bits = fill.next();
        let mut scalar = |shift: u32| match bits >> shift & 1 {
            0 => SCALARS.start + below(fill, 16),
            _ => 128 + below(fill, 65),
        };
        let sources = [scalar(40), scalar(41)];
        let word = if bits & 1 == 0 {
            0x8000_0000
                | ((bits >> 8) as u32 % 0x60) << 23
                | (16 + (bits >> 16 & 15) as u32) << 16
                | sources[1] << 8
                | sources[0]
        } else {
            let source = if bits >> 42 & 1 == 0 { sources[0] } else { 256 + (bits >> 20 & 15) as u32 };
            ((bits >> 8 & 0x3f) as u32) << 25
                | (4 + (bits >> 16 & 7) as u32) << 17
                | ((bits >> 24 & 15) as u32) << 9
                | source
        };
        if decoder.decode(&[word]).is_ok_and(|inst| inst.size == 4) {
            return word;
        }
    }
}

/// A program of random chains of instructions, with tickets between them, that goes round some times.
fn program(fill: &mut Fill, decoder: &Decoder) -> Vec<u32> {
    let mut code = BEGIN.to_vec();
    let start = code.len();
    for _ in 0..3 + below(fill, 4) {
        for _ in 0..below(fill, 50) {
            code.push(instruction(fill, decoder));
        }
        code.extend(TICKET);
    }
    code.extend(ROUND);
    code.push(JUMP | (start as i64 - code.len() as i64 - 1) as u32 & 0xffff);
    code.extend(ADDRESS);
    for register in VECTORS {
        code.extend([STORE[0], STORE[1] | register << 8]);
        code.extend(NEXT);
    }
    for register in SCALARS {
        code.push(MOVE | register);
        code.extend([STORE[0], STORE[1] | 2 << 8]);
        code.extend(NEXT);
    }
    code.push(END);
    code
}

/// Sees everything, and counts it.
#[derive(Default)]
struct Counter(u64);

impl Observer for Counter {
    fn begin(&mut self, _: &Group<'_>) -> Option<Notes> {
        Some(Box::new(()))
    }
    fn before(&mut self, _: &mut Notes, _: &Step<'_>) {
        self.0 += 1;
    }
    fn after(&mut self, _: &mut Notes, _: &Step<'_>, _: Flow) {}
    fn barrier(&mut self, _: &mut Notes) {}
    fn end(&mut self, _: Notes) {}
}

/// Who looks at the workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Nobody,
    AnObserver,
    /// That which finds dispatches that make no progress.
    TheWatch,
}

/// What memory holds in the end, and how many instructions each turn of the workgroup had.
fn run(code: &[u32], seed: u32, looks: Looks) -> (Vec<u8>, Vec<u64>) {
    let mut rig = Rig::new(Arch::Gfx90a);
    let mut descriptor = [0; 16];
    descriptor[4] = 64;
    // Two user SGPRs, which hold the address of the kernel's arguments; accumulation registers behind sixteen others.
    descriptor[11] = 3;
    descriptor[13] = 2 << 1;
    descriptor[14] = 1 << 3;
    rig.put(LARGE + 0x10_0000, &descriptor);
    rig.put(LARGE + 0x10_0040, code);
    rig.put(LARGE, &[LOG]);
    let mut packet = Packet([0; 16]);
    packet.0[0] = 2 | 1 << 16;
    (packet.0[1], packet.0[2], packet.0[3]) = (1 << 16 | (64 * WAVES), 1, 64 * WAVES);
    packet.0[8] = (LARGE + 0x10_0000) as u32;
    packet.0[10] = LARGE as u32;
    let launch = Launch::new(&packet, 0, 0, 0, Arch::Gfx90a, &mut rig.view).expect("a launch");
    let (mut fetch, mut spares, mut observer) =
        (Fetch::new(rig.gpu.code.clone()), Spares::default(), Counter::default());
    let driver: Arc<dyn Driver> = rig.told.clone();
    let cancelled = AtomicBool::new(false);
    let mut view = View::new(rig.gpu.space.clone());
    let mut context = ExecContext {
        view: &mut view,
        fetch: &mut fetch,
        spares: &mut spares,
        shape: rig.gpu.shape,
        gws: &rig.gpu.gws,
        driver: &driver,
        clock: &rig.gpu.clock,
        start: 0,
        cancelled: &cancelled,
        watched: u64::from(looks == Looks::TheWatch),
        observer: if looks == Looks::AnObserver { Some(&mut observer) } else { None },
        counters: None,
    };
    let fill = [Fill::new(seed, 1, 0), Fill::of_place(seed, 1, 0)];
    let mut workgroup = Workgroup::start(&launch, 0, &Units::all(rig.gpu.shape.dies), Some(fill), &mut context);
    let mut turns = Vec::new();
    loop {
        let outcome = workgroup.run(&launch, &mut context, 1000);
        turns.push(workgroup.take_executed());
        match outcome {
            SliceOutcome::Finished => break,
            SliceOutcome::Preempted => {}
            SliceOutcome::Failed(error) => panic!("{error:?}"),
        }
    }
    if looks == Looks::AnObserver {
        assert_eq!(observer.0, turns.iter().sum::<u64>());
    }
    (rig.bytes(LARGE, 0x1_0000), turns)
}

#[test]
fn with_one_seed_waves_have_the_same_slices_whoever_looks() {
    let decoder = Decoder::new(Arch::Gfx90a);
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..24 {
        let mut fill = Fill::new(seed, 0, 0);
        let code = program(&mut fill, &decoder);
        let alone = run(&code, seed, Looks::Nobody);
        let logged = |n: usize| u32::from_le_bytes(std::array::from_fn(|byte| alone.0[LOG as usize + 4 * n + byte]));
        assert_eq!(logged(0) & 0xffff, 1, "the first ticket of a wave");
        orders.insert((0..64).map(logged).map(|ticket| ticket >> 16).collect::<Vec<_>>());
        for looks in [Looks::AnObserver, Looks::TheWatch] {
            let (memory, turns) = run(&code, seed, looks);
            assert_eq!(turns, alone.1, "seed {seed}, {looks:?}");
            let differs = memory.iter().zip(&alone.0).position(|(one, other)| one != other);
            assert_eq!(differs, None, "seed {seed}, {looks:?}");
        }
    }
    assert!(orders.len() > 12, "seeds give different slices");
}
