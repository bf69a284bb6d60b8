//! Boards, and the GPUs that the driver makes of them: one, or several partitions.
//!
//! Sources: of the kernel, `aqua_vanjaram.c` (which modes a number of dies allows), `kfd_device.c` and `kfd_topology.c` (what a node gets),
//! `amdgpu_amdkfd.c` (memory).

use amdgpu_emu::{Dies, Shape};
use logdur_settings::{Bar, ComputeUnits, Emulator};

use crate::host;
use crate::product::{PRODUCTS, Product};

/// A row of a table of words: its value, its word in the settings, and its name in sysfs.
macro_rules! modes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal $shown:literal $parts:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every mode.
            pub(crate) const ALL: &[$name] = &[$($name::$variant,)*];

            /// How the settings name it.
            pub(crate) fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// How sysfs names it.
            pub(crate) fn shown(self) -> &'static str {
                match self { $($name::$variant => $shown,)* }
            }

            /// The parts of a board; 0 for as many as there are dies.
            fn parts(self) -> u32 {
                match self { $($name::$variant => $parts,)* }
            }
        }
    };
}

modes! {
    /// How the dies of a board are divided: compute partition modes.
    Mode {
        /// All dies are one GPU.
        Spx = "spx" "SPX" 1,
        /// Two GPUs.
        Dpx = "dpx" "DPX" 2,
        /// Three.
        Tpx = "tpx" "TPX" 3,
        /// Four.
        Qpx = "qpx" "QPX" 4,
        /// Each die is one.
        Cpx = "cpx" "CPX" 0,
    }
}

modes! {
    /// How the memory of a board is divided.
    MemoryMode {
        /// Not at all.
        Nps1 = "nps1" "NPS1" 1,
        /// In two.
        Nps2 = "nps2" "NPS2" 2,
        /// In four.
        Nps4 = "nps4" "NPS4" 4,
    }
}

impl Mode {
    /// GPUs of a board with so many dies.
    pub(crate) fn partitions(self, xccs: u32) -> u32 {
        if self.parts() == 0 { xccs } else { self.parts() }
    }

    /// Whether a board with so many dies has it.
    fn is_of(self, xccs: u32) -> bool {
        match self {
            Mode::Spx => true,
            Mode::Dpx => matches!(xccs, 4 | 8),
            Mode::Tpx => xccs == 6,
            Mode::Qpx => xccs == 8,
            Mode::Cpx => xccs > 1,
        }
    }
}

impl MemoryMode {
    /// Whether a board has it with its dies divided so: each GPU is in one part of the memory.
    fn fits(self, product: &Product, mode: Mode) -> bool {
        let partitions = mode.partitions(product.xccs);
        self == MemoryMode::Nps1 || self.parts() == product.memory_parts && partitions.is_multiple_of(self.parts())
    }
}

/// A board.
#[derive(Clone, Copy)]
pub(crate) struct Board {
    pub(crate) product: Product,
    pub(crate) mode: Mode,
    pub(crate) memory_mode: MemoryMode,
}

impl Board {
    /// The board that a name says: a processor, and behind it, each after a colon, its model, how it is divided, and `sramecc+` or
    /// `sramecc-`, which says whether error correction is on, for those that can have it.
    ///
    /// # Errors
    /// What was expected instead of the part that is wrong.
    pub(crate) fn named(name: &str) -> Result<Board, String> {
        let mut parts = name.split(':');
        let processor = parts.next().unwrap_or_default();
        let of_processor = || PRODUCTS.iter().filter(|p| p.arch.name() == processor);
        let Some(first) = of_processor().next() else { return Err(expected_processor()) };
        let (mut model, mut mode, mut memory_mode, mut sramecc) = (None, None, None, None);
        for part in parts {
            let found_model = of_processor().find(|p| p.model() == part);
            let found_mode = Mode::ALL.iter().find(|mode| mode.word() == part);
            let found_memory = MemoryMode::ALL.iter().find(|mode| mode.word() == part);
            let twice = match (found_model, found_mode, found_memory, part) {
                (Some(product), ..) => model.replace(product).is_some(),
                (_, Some(&found), ..) => mode.replace(found).is_some(),
                (.., Some(&found), _) => memory_mode.replace(found).is_some(),
                (.., "sramecc+" | "sramecc-") if first.arch.can_correct_sram() => {
                    sramecc.replace(part == "sramecc+").is_some()
                }
                _ => return Err(expected_part(part, first)),
            };
            if twice {
                return Err(format!("{part:?} says again what another part has said"));
            }
        }
        let product = *model.unwrap_or(first);
        let product = Product { sramecc: sramecc.unwrap_or(product.sramecc), ..product };
        let (mode, memory_mode) = (mode.unwrap_or(Mode::Spx), memory_mode.unwrap_or(MemoryMode::Nps1));
        let board = Board { product, mode, memory_mode };
        if !mode.is_of(product.xccs) {
            return Err(format!(
                "{} has no mode {:?}, expected {}",
                product.name,
                mode.word(),
                words(&board.modes(), Mode::word)
            ));
        }
        if !memory_mode.fits(&product, mode) {
            let (memory, mode) = (memory_mode.word(), mode.word());
            let possible = words(&board.memory_modes(), MemoryMode::word);
            return Err(format!("{} has no mode {memory:?} with {mode:?}, expected {possible}", product.name));
        }
        Ok(board)
    }

    /// The modes that it can be divided in.
    pub(crate) fn modes(&self) -> Vec<Mode> {
        Mode::ALL.iter().copied().filter(|mode| mode.is_of(self.product.xccs)).collect()
    }

    /// The modes that its memory can be divided in as its dies are.
    pub(crate) fn memory_modes(&self) -> Vec<MemoryMode> {
        MemoryMode::ALL.iter().copied().filter(|memory| memory.fits(&self.product, self.mode)).collect()
    }

    /// Its memory in bytes.
    pub(crate) fn memory(&self, settings: &Emulator) -> u64 {
        if self.product.apu { host::memory() } else { settings.memory.0 }
    }

    /// How much of it the host can be given access to.
    pub(crate) fn bar(&self, settings: &Emulator) -> Bar {
        if self.product.apu { Bar::Large } else { settings.bar }
    }
}

/// Names of modes, with commas.
fn words<T: Copy>(modes: &[T], word: fn(T) -> &'static str) -> String {
    modes.iter().map(|&mode| word(mode)).collect::<Vec<_>>().join(", ")
}

fn expected_processor() -> String {
    let mut known: Vec<&str> = PRODUCTS.iter().map(|p| p.arch.name()).collect();
    known.dedup();
    format!("expected one of {}", known.join(", "))
}

fn expected_part(part: &str, first: &Product) -> String {
    let models = PRODUCTS.iter().filter(|p| p.arch == first.arch).map(Product::model);
    let modes = Mode::ALL.iter().map(|mode| mode.word().to_owned());
    let memory = MemoryMode::ALL.iter().map(|mode| mode.word().to_owned());
    let sramecc = ["sramecc+", "sramecc-"].map(str::to_owned).into_iter().filter(|_| first.arch.can_correct_sram());
    let all: Vec<String> = models.chain(modes).chain(memory).chain(sramecc).collect();
    format!("found {part:?}, expected of {} one of {}", first.arch.name(), all.join(", "))
}

/// A GPU as the driver shows it: a board, or a partition of one.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    pub(crate) board: Board,
    /// The number of the board among all.
    pub(crate) board_index: usize,
    /// The number of the partition on its board.
    pub(crate) partition: u32,
}

impl Node {
    /// The GPUs of a board.
    pub(crate) fn of(board: Board, board_index: usize) -> impl Iterator<Item = Node> {
        (0..board.mode.partitions(board.product.xccs)).map(move |partition| Node { board, board_index, partition })
    }

    /// The product of its board.
    pub(crate) fn product(&self) -> &Product {
        &self.board.product
    }

    /// GPUs of its board.
    pub(crate) fn partitions(&self) -> u32 {
        self.board.mode.partitions(self.product().xccs)
    }

    /// Its dies with compute units.
    pub(crate) fn xccs(&self) -> u32 {
        self.product().xccs / self.partitions()
    }

    /// What it is made of.
    pub(crate) fn shape(&self, settings: &Emulator) -> Shape {
        let product = self.product();
        let of_board = match settings.compute_units {
            ComputeUnits::Number(number) => number.clamp(1, 1024),
            ComputeUnits::Product => product.compute_units,
        };
        let units = of_board.div_ceil(product.xccs);
        let count = self.xccs();
        let dies = Dies { first: self.partition * count, count, engines: product.engines.min(units), units };
        Shape { arch: product.arch, sramecc: product.sramecc, compute_units: units * count, dies }
    }

    /// Its memory in bytes: partitions of a board have equal parts.
    pub(crate) fn memory(&self, settings: &Emulator) -> u64 {
        self.board.memory(settings) / u64::from(self.partitions())
    }

    /// Its copy engines: those that are meant for the host, and those for other GPUs.
    pub(crate) fn copy_engines(&self) -> (u32, u32) {
        let product = self.product();
        let engines = (product.sdma_engines + product.sdma_xgmi_engines) / self.partitions();
        let host = engines.min(product.sdma_engines);
        (host, engines - host)
    }

    /// The serial number of the board at a place in the list, as PCI shows it.
    pub(crate) fn board_id(&self) -> u64 {
        0x5ee0_0000_0000_0001 + self.board_index as u64
    }

    /// The serial number of the GPU: partitions have that of their first die.
    pub(crate) fn unique_id(&self) -> u64 {
        match self.board.mode {
            Mode::Spx => self.board_id(),
            Mode::Dpx | Mode::Tpx | Mode::Qpx | Mode::Cpx => {
                self.board_id() | u64::from(1 + self.partition * self.xccs()) << 32
            }
        }
    }
}

/// The number by which the driver knows the GPU at a place in the list; never 0.
pub(crate) fn gpu_id(index: usize) -> u32 {
    0x4d00 + index as u32 * 0x11 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_correction_is_what_the_name_says_or_what_boards_come_with() {
        let sramecc = |name: &str| Board::named(name).ok().map(|board| board.product.sramecc);
        for product in PRODUCTS {
            let name = product.arch.name();
            assert_eq!(sramecc(name), Some(product.arch.can_correct_sram()), "{name}");
            for (feature, on) in [("sramecc+", true), ("sramecc-", false)] {
                let expected = product.arch.can_correct_sram().then_some(on);
                assert_eq!(sramecc(&format!("{name}:{feature}")), expected, "{name}:{feature}");
            }
            assert_eq!(sramecc(&format!("{name}:xnack+")), None);
        }
    }

    #[test]
    fn a_product_is_chosen_by_its_processor_and_its_model() {
        let name =
            |text: &str| Board::named(text).ok().map(|b| (b.product.name, b.product.device_id, b.product.sramecc));
        assert_eq!(name("gfx950"), Some(("AMD Instinct MI350X (emulated)", 0x75a0, true)));
        assert_eq!(name("gfx950:mi350x"), name("gfx950"));
        assert_eq!(name("gfx950:mi355x"), Some(("AMD Instinct MI355X (emulated)", 0x75a3, true)));
        assert_eq!(name("gfx950:mi355x:sramecc-"), Some(("AMD Instinct MI355X (emulated)", 0x75a3, false)));
        assert_eq!(
            ["gfx942:mi355x", "gfx950:mi300x", "gfx950:", "mi355x", "gfx950:sramecc+:sramecc-", "gfx942:cpx:spx"]
                .map(name),
            [None; 6]
        );
        for product in PRODUCTS {
            let text = format!("{}:{}", product.arch.name(), product.model());
            assert_eq!(name(&text).map(|(_, device, _)| device), Some(product.device_id), "{text}");
        }
    }

    #[test]
    fn partitions_share_dies_engines_and_memory_of_their_board() {
        let settings = Emulator { compute_units: ComputeUnits::Product, ..Emulator::from(|_| None).0 };
        for (name, count, xccs, units, engines) in [
            ("gfx942:mi300x", 1, 8, 304, (2, 14)),
            ("gfx942:dpx", 2, 4, 152, (2, 6)),
            ("gfx942:qpx:mi300x", 4, 2, 76, (2, 2)),
            ("gfx942:cpx:nps4", 8, 1, 38, (2, 0)),
            ("gfx942:mi300a", 1, 6, 228, (2, 14)),
            ("gfx942:mi300a:tpx", 3, 2, 76, (2, 3)),
            ("gfx942:mi300a:cpx", 6, 1, 38, (2, 0)),
            ("gfx950:mi355x:cpx:nps2", 8, 1, 32, (2, 0)),
            ("gfx90a", 1, 1, 104, (2, 3)),
        ] {
            let nodes: Vec<Node> = Node::of(Board::named(name).expect(name), 0).collect();
            assert_eq!(nodes.len(), count, "{name}");
            let mut dies = 0;
            for node in &nodes {
                let shape = node.shape(&settings);
                assert_eq!((node.xccs(), shape.compute_units, node.copy_engines()), (xccs, units, engines), "{name}");
                assert_eq!(shape.dies.first, dies, "{name}");
                dies += xccs;
            }
            let ids: std::collections::BTreeSet<u64> = nodes.iter().map(Node::unique_id).collect();
            assert_eq!(ids.len(), count, "{name}");
            let memory: u64 = nodes.iter().map(|node| node.memory(&settings)).sum();
            assert!(nodes[0].board.memory(&settings) - memory < 8, "{name}");
        }
    }

    #[test]
    fn a_mode_that_a_board_does_not_have_is_refused_by_name() {
        for (name, said) in [
            ("gfx90a:cpx", "\"cpx\", expected spx"),
            ("gfx942:tpx", "\"tpx\", expected spx, dpx, qpx, cpx"),
            ("gfx942:mi300a:dpx", "\"dpx\", expected spx, tpx, cpx"),
            ("gfx942:nps4", "\"nps4\" with \"spx\", expected nps1"),
            ("gfx950:cpx:nps4", "\"nps4\" with \"cpx\", expected nps1, nps2"),
            ("gfx942:mi355x", "found \"mi355x\", expected of gfx942 one of mi300x, mi300a, spx"),
            ("gfx1100", "expected one of gfx900, gfx906"),
        ] {
            let error = Board::named(name).err().expect(name);
            assert!(error.contains(said), "{name}: {error}");
        }
    }
}
