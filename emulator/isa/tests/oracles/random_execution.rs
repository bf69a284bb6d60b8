//! Random instructions on random registers: nothing panics (tests are compiled with overflow
//! checks), and both levels of the host's vector instructions compute the same bits.

use amdgpu_isa::decode::HostLevel;
use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::wave::{Wave, vgpr_file};
use amdgpu_isa::{Arch, Decoder, step};

use crate::memory::Memory;
use crate::seeded::{Seeded, instruction};

/// Bits that floating-point operations treat in a way of their own, as singles, doubles or halves.
const SPECIAL: &[u32] = &[
    0,
    1,
    0x007f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7f80_0001,
    0x7fc0_0000,
    0x7ff0_0000,
    0x7ff0_0001,
    0x7fef_ffff,
    0x000f_ffff,
    0x0010_0000,
    0x3c00_0001,
    0x7c00_7c01,
    0x8000_0000,
    0xff80_0000,
    u32::MAX,
    0x0000_03ff,
    0x4b00_0000,
    0xcf00_0000,
    0x41e0_0000,
];

pub(crate) fn bits(random: &mut Seeded) -> u32 {
    if random.below(2) == 0 { SPECIAL[random.below(SPECIAL.len())] } else { random.word() }
}

/// A wave whose registers hold anything.
pub(crate) fn wave(arch: Arch, random: &mut Seeded) -> Wave {
    let mut w = Wave::new(arch, 0x1000, vgpr_file());
    for register in w.vgpr.iter_mut() {
        let one = bits(random);
        let same = random.below(2) == 0;
        register.fill_with(|| if same { one } else { bits(random) });
    }
    w.sgpr.fill_with(|| bits(random));
    w.accum_offset = 4 * (1 + random.below(64)) as u32;
    w.scc = random.below(2) == 0;
    w.apertures.shared = 0x0001_0000;
    w.apertures.private = 0x0002_0000;
    renew(&mut w, random);
    w
}

/// Another mode and other active lanes.
pub(crate) fn renew(w: &mut Wave, random: &mut Seeded) {
    w.trap = None;
    w.mode = Mode(random.word() & !Mode::GPR_IDX_EN | if random.below(8) == 0 { Mode::GPR_IDX_EN } else { 0 });
    let masks = [u64::MAX, 0, random.next(), random.next() & random.next(), 1 << random.below(64)];
    w.set_exec(masks[random.below(masks.len())]);
    let some = random.below(102);
    w.sgpr[some] = bits(random);
    let register = random.below(w.vgpr.len());
    w.vgpr[register].fill_with(|| bits(random));
}

pub(crate) fn copy(w: &Wave) -> Wave {
    let mut file = vgpr_file();
    file.copy_from_slice(&w.vgpr[..]);
    let mut other = Wave::new(w.arch, w.pc, file);
    other.sgpr = w.sgpr;
    other.scc = w.scc;
    other.mode = w.mode;
    other.accum_offset = w.accum_offset;
    other.apertures = w.apertures;
    other.hw_regs = w.hw_regs;
    other
}

/// True when the bits can be those of a NaN of any width: which of two NaNs survives an addition is left to the
/// compiler.
fn may_be_nan(w: &Wave, register: usize, lane: usize) -> bool {
    let word = |r: usize| w.vgpr[r % w.vgpr.len()][lane];
    let single = |x: u32| x & 0x7fff_ffff > 0x7f80_0000;
    let half = |x: u32| x & 0x7fff > 0x7c00;
    let double = |high: u32| high & 0x7ff0_0000 == 0x7ff0_0000;
    let own = word(register);
    single(own) || half(own) || half(own >> 16) || double(own) || double(word(register + 1))
}

/// Instructions executed for each processor at each level of the host.
fn count() -> usize {
    if std::env::var_os("LOGDUR_TEST_FULL").is_some() { 300_000 } else { 7_500 }
}

#[test]
fn random_instructions_execute_without_panic_and_alike_at_every_level_of_the_host() {
    let levels = HostLevel::ALL.into_iter().filter(|level| (HostLevel::V3..=HostLevel::detect()).contains(level));
    for (level, arch) in levels.flat_map(|level| Arch::ALL.into_iter().map(move |arch| (level, arch))) {
        let fast = Decoder::with_level(arch, level);
        let plain = Decoder::with_level(arch, HostLevel::Base);
        let mut random = Seeded(0x100 + arch as u64);
        let (mut one, mut other) = (wave(arch, &mut random), wave(arch, &mut random));
        let mut memories = [Memory::new(4096), Memory::new(4096)];
        let mut executed = 0;
        while executed < count() {
            let words = instruction(&mut random);
            let (Ok(a), Ok(b)) = (fast.decode(&words), plain.decode(&words)) else { continue };
            executed += 1;
            if executed % 256 == 1 {
                one = wave(arch, &mut random);
                other = copy(&one);
            }
            renew(&mut one, &mut random);
            let changed = |from: &Wave, to: &mut Wave| {
                to.sgpr = from.sgpr;
                to.mode = from.mode;
                to.trap = None;
                to.vgpr.copy_from_slice(&from.vgpr[..]);
            };
            changed(&one, &mut other);
            let text = |i: &Inst| format!("{level:?} {arch} {words:08x?} {}", Disassembly { inst: i, arch });
            let before = text(&a);
            let flows =
                (step::execute(&mut one, &a, &mut memories[0]), step::execute(&mut other, &b, &mut memories[1]));
            assert_eq!(flows.0, flows.1, "{before}");
            assert_eq!((one.pc, one.scc, one.trap), (other.pc, other.scc, other.trap), "{before}");
            assert_eq!(one.sgpr, other.sgpr, "{before}");
            let differs = |r: usize, l: usize| {
                one.vgpr[r][l] != other.vgpr[r][l] && !(may_be_nan(&one, r, l) && may_be_nan(&other, r, l))
            };
            let places = (0..one.vgpr.len()).flat_map(|r| (0..64).map(move |l| (r, l)));
            let same = one.vgpr == other.vgpr;
            if let Some((register, lane)) = places.filter(|_| !same).find(|&(r, l)| differs(r, l)) {
                let (x, y) = (one.vgpr[register][lane], other.vgpr[register][lane]);
                panic!("{before}: register {register} lane {lane} is {x:#x} or {y:#x}, {:?}", one.mode);
            }
            assert!(memories[0].lds == memories[1].lds, "{before}: LDS differs");
        }
        assert!(memories[0].bytes == memories[1].bytes, "{level:?} {arch}: memory differs");
    }
}

#[test]
fn random_words_decode_and_disassemble_without_panic() {
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        let mut random = Seeded(0x200 + arch as u64);
        for _ in 0..20 * count() {
            let words = instruction(&mut random);
            for given in [&words[..], &words[..1], &[]] {
                if let Ok(inst) = decoder.decode(given) {
                    assert!(usize::from(inst.size) <= 4 * given.len());
                    assert!(!Disassembly { inst: &inst, arch }.to_string().contains("<operand"));
                }
            }
        }
    }
}
