//! Random numbers that are the same in every run.

/// A generator (SplitMix64, by Vigna).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.next() as u32
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Encoding prefixes: bits that are fixed, their values.
const PREFIXES: &[(u32, u32)] = &[
    (0xc000_0000, 0x8000_0000), // SOP2, or one of those below
    (0xf000_0000, 0xb000_0000), // SOPK
    (0xff80_0000, 0xbe80_0000), // SOP1
    (0xff80_0000, 0xbf00_0000), // SOPC
    (0xff80_0000, 0xbf80_0000), // SOPP
    (0xfc00_0000, 0xc000_0000), // SMEM
    (0x8000_0000, 0x0000_0000), // VOP2
    (0xfe00_0000, 0x7e00_0000), // VOP1
    (0xfe00_0000, 0x7c00_0000), // VOPC
    (0x8000_01ff, 0x0000_00f9), // VOP2 with a sub-dword word
    (0xfe00_01ff, 0x7e00_00f9),
    (0xfe00_01ff, 0x7c00_00f9),
    (0x8000_01ff, 0x0000_00fa), // VOP2 with a data-parallel word
    (0xfe00_01ff, 0x7e00_00fa),
    (0xfe00_01ff, 0x7c00_00fa),
    (0xfc00_0000, 0xd000_0000), // VOP3
    (0xff80_0000, 0xd380_0000), // VOP3P
    (0xfc00_0000, 0xd800_0000), // DS
    (0xfc00_0000, 0xdc00_0000), // FLAT, SCRATCH, GLOBAL
    (0xfc00_0000, 0xe000_0000), // MUBUF
    (0x0000_0000, 0x0000_0000), // anything
];

/// Two words that begin like an instruction. Fields are often zero: encodings with reserved bits would otherwise
/// hardly ever be met.
pub(crate) fn words(random: &mut Seeded) -> [u32; 2] {
    let (mask, value) = PREFIXES[random.below(PREFIXES.len())];
    let [first, second] = match random.below(4) {
        0 => [random.word(), random.word() & random.word() & random.word()],
        1 => [random.word() & random.word(), random.word() & random.word()],
        _ => [random.word(), random.word()],
    };
    [first & !mask | value, second]
}

/// True for words whose sub-dword selection does not exist: LLVM 19 crashes on those.
pub(crate) fn crashes_llvm([first, second]: [u32; 2]) -> bool {
    let selects_7 = |shift: u32| second >> shift & 7 == 7;
    first & 0x8000_01ff == 0xf9 && (selects_7(8) || second >> 11 & 3 == 3 || selects_7(16) || selects_7(24))
}
