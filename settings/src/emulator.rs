//! The variables of `libkfdemu.so`.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::injection::Injections;
use crate::value::{Bytes, words};
use crate::{Value, settings};

/// The processors of the emulated GPUs, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuList(pub Vec<String>);

/// The most GPUs that are emulated in a process.
pub const MOST_GPUS: usize = 64;

impl Value for GpuList {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected at most {MOST_GPUS} names of processors like gfx90a, with commas between them and N* before them if wanted"
            )
        };
        let mut names = Vec::new();
        for part in text.to_str().ok_or_else(expected)?.split(',') {
            let (count, name) = match part.split_once('*') {
                Some((count, name)) => (count.trim().parse().map_err(|_| expected())?, name),
                None => (1, part),
            };
            let name = name.trim();
            if name.is_empty() || !(1..=MOST_GPUS).contains(&count) || names.len() + count > MOST_GPUS {
                return Err(expected());
            }
            names.extend(std::iter::repeat_n(name.to_owned(), count));
        }
        Ok(GpuList(names))
    }
}

/// How many compute units a board has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeUnits {
    /// So many.
    Number(u32),
    /// As many as the product.
    Product,
}

impl Value for ComputeUnits {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected product or a number from 1 to 1024".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        if text == "product" {
            return Ok(ComputeUnits::Product);
        }
        let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
        number.map(ComputeUnits::Number).ok_or_else(expected)
    }
}

words! {
    /// How much of a GPU's memory the host can be given access to.
    Bar {
        /// None of what the application allocates.
        Small = "small",
        /// Everything, as boards with a large PCI aperture have it.
        Large = "large",
    }
}

words! {
    /// Whether the driver offers shared virtual memory, and how faults end.
    Xnack {
        /// No shared virtual memory, as in kernels that were built without it.
        None = "none",
        /// Ranges of host memory that GPUs were given access to; other accesses are faults.
        Off = "off",
        /// GPUs use all memory of the process: faults are retried.
        On = "on",
    }
}

/// What the GPU's clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// Time, so many times a second.
    Real {
        /// What the GPU says of its clock: counts per second.
        hertz: u64,
        /// How much faster the clock is than it says, in millionths.
        skew: i32,
        /// By how many microseconds every third reading of both clocks is wrong.
        jump: u32,
    },
    /// What is executed.
    Deterministic,
}

impl ClockKind {
    /// As MI200 and MI300 have it.
    const REAL: ClockKind = ClockKind::Real { hertz: 100_000_000, skew: 0, jump: 0 };
}

impl Value for ClockKind {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected =
            || "expected real, deterministic, or a rate like 25MHz, 25MHz+200ppm or 100MHz~2000us".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        match text {
            "real" => return Ok(ClockKind::REAL),
            "deterministic" => return Ok(ClockKind::Deterministic),
            _ => {}
        }
        let (text, jump) = match text.split_once('~') {
            None => (text, 0),
            Some((text, jump)) => {
                let jump = jump.trim().strip_suffix("us").and_then(|jump| jump.trim().parse().ok());
                (text, jump.filter(|jump| (1..=1_000_000).contains(jump)).ok_or_else(expected)?)
            }
        };
        let (rate, skew) = text.split_once("MHz").ok_or_else(expected)?;
        let megahertz =
            rate.trim().parse::<u64>().ok().filter(|rate| (1..=10_000).contains(rate)).ok_or_else(expected)?;
        let skew = match skew.trim() {
            "" => 0,
            skew => skew.strip_suffix("ppm").and_then(|skew| skew.trim().parse().ok()).ok_or_else(expected)?,
        };
        if !(-100_000..=100_000).contains(&skew) {
            return Err(expected());
        }
        Ok(ClockKind::Real { hertz: 1_000_000 * megahertz, skew, jump })
    }
}

words! {
    /// How the times of a packet come to its completion signal.
    Times {
        /// Before the value is decremented.
        Written = "written",
        /// Never.
        Never = "none",
        /// Two milliseconds after the value is decremented.
        Late = "late",
        /// The end some time before the start.
        EndFirst = "end-first",
        /// In each other's place.
        Swapped = "swapped",
        /// By a clock that is ahead of the one that the driver reads.
        Ahead = "ahead",
        /// Never again once another queue was created or destroyed.
        UntilRemap = "until-remap",
    }
}

words! {
    /// Which packets of AMD's own a queue knows.
    Packets {
        /// Those of the processor.
        Own = "own",
        /// Dispatches in the extended format too.
        Extended = "extended",
    }
}

words! {
    /// How much scratch a dispatch gets.
    Scratch {
        /// What it asks for.
        Whole = "whole",
        /// Half of that.
        Half = "half",
    }
}

words! {
    /// What the driver reports of memory faults.
    Faults {
        /// Each, to the runtime.
        Reported = "reported",
        /// Nothing.
        Silent = "silent",
    }
}

/// What copy engines do to the completions of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdma {
    /// Each copy is completed.
    Complete,
    /// Of so many completions of a queue, the last is lost.
    Lose(u32),
}

impl Value for Sdma {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected complete or lose:N with N from 1 on".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        if text == "complete" {
            return Ok(Sdma::Complete);
        }
        let every = text.strip_prefix("lose:").and_then(|every| every.parse().ok()).filter(|&every| every > 0);
        every.map(Sdma::Lose).ok_or_else(expected)
    }
}

words! {
    /// When a queue's read index follows its packets.
    ReadIndex {
        /// When a packet is complete.
        Prompt = "prompt",
        /// Up to a quarter of the ring later, or when the queue has been idle.
        Lazy = "lazy",
        /// When a packet is complete, and the header of its slot stays valid.
        Valid = "valid",
    }
}

words! {
    /// Which packets a queue takes.
    Fetch {
        /// Those that the write index or the doorbell covers.
        Covered = "covered",
        /// Every valid one, once the doorbell was rung.
        Ahead = "ahead",
    }
}

settings! {
    /// What the emulated GPU is like.
    Emulator;

    /// The emulated GPUs, at most 64: names of processors. `2*gfx90a` is two GPUs. `gfx950:mi355x` is one of several products with that processor, `gfx942:mi300a` another. `gfx942:cpx` is a board whose dies are a GPU each: `spx`, `dpx`, `tpx`, `qpx` and `cpx` are the ways to divide MI300 and MI350, and `nps2` or `nps4` those of their memory. `gfx90a:sramecc-` has no error correction of its static memories; all processors but gfx900 have it by default.
    gpus: GpuList = "KFDEMU_GPUS" ["NAME[,NAME…]"] or (GpuList(vec!["gfx90a".to_owned()])) "`gfx90a`";
    /// Compute units of each board, or `product`: as many as it has, 304 of MI300X. The runtime's own kernels launch work for each of them, so a larger number is slower. All dies (XCCs) have the same number.
    compute_units: ComputeUnits = "KFDEMU_CUS" ["number | `product`"] or (ComputeUnits::Number(8)) "8";
    /// Memory of each board; that of MI300A is the host's. Only used memory is taken from the machine.
    memory: Bytes = "KFDEMU_VRAM" ["BYTES"] or (Bytes(16 << 30)) "`16G`";
    /// Whether the host and the other GPUs can access the memory of a GPU. `large`: the aperture shows all memory, as on the emulated products. `small`: a host access is a segmentation fault, and an access by another GPU is a memory fault.
    bar: Bar = "KFDEMU_BAR" or (Bar::Large) "`large`";
    /// Whether the driver offers shared virtual memory. `none`: not at all, so the runtime keeps managed memory in the host. `off`: for ranges that GPUs were given access to. `on`: for all memory of the process; faults are retried, as with `HSA_XNACK=1` on hardware. Memory never moves: a preferred location is stored, and the data stay in the host.
    xnack: Xnack = "KFDEMU_XNACK" or (Xnack::None) "`none`";
    /// Threads that emulate, for all GPUs together.
    threads: u32 = "KFDEMU_THREADS" ["number"] or (0) "0: as many as there are processors";
    /// What the clock of the GPUs counts. `real` and RATE: time, 100 or RATE million ticks a second, SKEW parts per million too fast. Of the driver's readings of both clocks, every third tells a system time that is JUMP microseconds too late, as if the driver was interrupted between its two clocks. `deterministic`: executed instructions; a dispatch begins when the last one ended, and takes one tick for each wave instruction. In this mode one thread emulates, packets of a queue do not overlap, and a program with one stream gets the same ticks in each run.
    clock: ClockKind = "KFDEMU_CLOCK" ["`real` | `deterministic` | RATE`MHz`[`+`SKEW`ppm`][`~`JUMP`us`]"] or (ClockKind::REAL) "`real`: 100MHz";
    /// How the times of a packet get into its completion signal. Hardware sometimes writes no times, writes them late, or writes an end before the start. `ahead`: by a clock that is 500000 ticks ahead of the one that the driver reads. `until-remap`: none once another queue of the process was created or destroyed.
    times: Times = "KFDEMU_TIMES" or (Times::Written) "`written`";
    /// Which of AMD's own packets a queue takes: those of the processor, or `extended` dispatches too, which gfx1250 takes. Their clusters are executed as workgroups without clusters.
    packets: Packets = "KFDEMU_PACKETS" or (Packets::Own) "`own`";
    /// How much scratch a dispatch gets: what it asks for, or half. An access behind that is a memory fault.
    scratch: Scratch = "KFDEMU_SCRATCH" or (Scratch::Whole) "`whole`";
    /// Whether the runtime is told of memory faults. `silent`: it is not, and the queue stands still.
    faults: Faults = "KFDEMU_FAULTS" or (Faults::Reported) "`reported`";
    /// Whether copy engines complete copies. With `lose:N`, each queue of an engine loses every Nth completion: the data are copied, and the signal is not decremented. gfx942 is known for that.
    sdma: Sdma = "KFDEMU_SDMA" ["`complete` | `lose:`N"] or (Sdma::Complete) "`complete`";
    /// When the read index of a queue advances: when packets complete, or up to a quarter of the ring later and within 20 ms of the last packet, as on hardware. Slots are released in time. With `valid`, the headers of the slots stay valid, against the HSA specification: `omniprobe doctor --self-test` finds that.
    read_index: ReadIndex = "KFDEMU_READ_INDEX" or (ReadIndex::Prompt) "`prompt`";
    /// Which packets a queue takes: those before its write index or doorbell, or each valid one (`ahead`), against the HSA specification.
    fetch: Fetch = "KFDEMU_FETCH" or (Fetch::Covered) "`covered`";
    /// Seed of random numbers, new for each dispatch. They are the content of unwritten LDS, scratch and registers, and decide in which order workgroups start and waves are scheduled. A kernel that depends on them gives different results. Without a seed, unwritten memory has the data of the last workgroup, zeros at first, and the order is by number.
    fill: Option<u32> = "KFDEMU_FILL" ["SEED"] or (None) "off";
    /// Injected faults, see below.
    inject: Injections = "KFDEMU_INJECT" ["KIND@PACKETS[,…]"] or (Injections::default()) "none";
    /// The minor version of the kernel driver's interface. From 14 on, the driver reports how often an event was signaled, and a runtime that uses this loses no wake-up when two threads wait for one event.
    kfd_minor: u32 = "KFDEMU_KFD_MINOR" ["number"] or (17) "17";
    /// Where faults and unimplemented features are reported, one line each.
    log: Option<PathBuf> = "KFDEMU_LOG" ["FILE | `stderr` | `none`"] or (None) "`stderr`";
    /// Seconds after which a kernel without progress is reported, once. Progress means that a wave ends, or that waves change memory or read new values. The report names the current instructions of the waves. 0 turns the report off.
    stuck_seconds: u32 = "KFDEMU_STUCK_SECONDS" ["number"] or (10) "10";
    /// A line of JSON for each completed packet: its sixteen dwords in hexadecimal (`words`), its times in GPU ticks, and its number of executed wave instructions.
    trace: Option<PathBuf> = "KFDEMU_TRACE" ["FILE"] or (None) "off";
    /// Folder of the device tree that the runtime reads.
    tree: Option<PathBuf> = "KFDEMU_TREE" ["DIR"] or (None) "a folder of the user's in the runtime or temporary folder";
}
