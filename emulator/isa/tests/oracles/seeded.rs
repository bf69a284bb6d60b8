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

/// The words of a product of matrices in the formats that it names, with its scales in front. Most bits that must be zero are.
pub(crate) fn scaled_product(random: &mut Seeded) -> [u32; 4] {
    let mut sparse = || random.word() & random.word() & random.word() & random.word();
    let (unused, used) = ([sparse() & sparse() & 0xa7ff, sparse() & sparse() & 0xe7fc_0000], [0x1800, 0x1803_ffff]);
    let code = 0x2d + random.below(2) as u32;
    // Both scales are in registers, and so are both factors.
    let first = 0xd3ac_0000 | random.word() & 0x5800 & (used[0] | 0x4000) | unused[0];
    let second = random.word() & used[1] | 0x100 | 0x100 << 9 | unused[1];
    let formats = [random.below(6) as u32, random.below(6) as u32];
    // The result, and whether it is in accumulation registers; ABID is 1.
    let product = 0xd380_0000 | code << 16 | random.word() & 0x80fe | formats[0] << 8 | 1 << 11;
    let factors = random.word() & 0x1fff_fdfe | 0x100 | 0x100 << 9 | formats[1] << 29;
    let factors = if random.below(2) == 0 { factors & !(0x1ff << 18) | 128 << 18 } else { factors };
    [first, second, product, factors & !0x0000_0201]
}

/// As many words as an instruction can have, which begin like one.
pub(crate) fn instruction(random: &mut Seeded) -> [u32; 4] {
    if random.below(64) == 0 {
        return scaled_product(random);
    }
    let [first, second] = words(random);
    [first, second, 0, 0]
}

/// True for words whose literal an operand code would do for: LLVM 22 marks some of them, and takes others for the operand.
pub(crate) fn has_small_literal([first, second]: [u32; 2]) -> bool {
    let short = first >> 31 == 0 || first >> 30 == 0b10;
    short && amdgpu_isa::decode::length(first) == 2 && second < 0x100
        || matches!(first >> 25, 0x17 | 0x18 | 0x24 | 0x25) && second < 0x100
}

/// True for words on which LLVM 22 crashes: a sub-dword selection that does not exist, or the code of a literal of which nothing
/// follows, also where the second word alone would be an instruction.
pub(crate) fn crashes_llvm([first, second]: [u32; 2]) -> bool {
    let selects_7 = |shift: u32| second >> shift & 7 == 7;
    let selects =
        first & 0x8000_01ff == 0xf9 && (selects_7(8) || second >> 11 & 3 == 3 || selects_7(16) || selects_7(24));
    let is_literal = |word: u32, shift: u32, bits: u32| word >> shift & ((1 << bits) - 1) == 0xff;
    let long = match first >> 26 {
        0b110100 => is_literal(first, 0, 8) || [0, 9, 18].iter().any(|shift| is_literal(second, *shift, 9)),
        0b111000 | 0b111010 => is_literal(second, 24, 8),
        _ => false,
    };
    let alone = match second >> 30 {
        0b10 => is_literal(second, 0, 8) || is_literal(second, 8, 8),
        0b11 => false,
        // Sums of products with a constant always have one.
        _ => is_literal(second, 0, 9) || matches!(second >> 25, 0x17 | 0x18 | 0x24 | 0x25),
    };
    selects || long || alone
}
