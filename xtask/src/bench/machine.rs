//! The machine that a figure is of: what a dispatch costs is instructions, cache lines and clock reads.

use std::fmt::{self, Display};
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Reads of a clock that are timed together, and how often: the fastest series is the one that was not interrupted.
const READS: u32 = 10_000;
const SERIES: usize = 20;

/// What is printed in front of figures.
pub(super) struct Machine {
    processor: String,
    processors: usize,
    caches: Vec<Cache>,
    kernel: String,
    /// Processes that want a processor, over the last minute.
    load: String,
    /// Nanoseconds of a read of the clock that the library reads at a doorbell, and of the system's clock.
    clock: [f64; 2],
}

/// A cache of the first processor.
struct Cache {
    level: String,
    kind: String,
    size: String,
}

impl Machine {
    pub(super) fn here() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field =
            |name: &str| cpuinfo.lines().find_map(|line| Some(line.strip_prefix(name)?.split_once(':')?.1.trim()));
        let rate = field("cpu MHz").map_or(String::new(), |mhz| format!(", {mhz} MHz"));
        Machine {
            processor: format!("{}{rate}", field("model name").unwrap_or("a processor without a name")),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            caches: caches(),
            kernel: word_of("/proc/sys/kernel/osrelease"),
            load: word_of("/proc/loadavg"),
            clock: [cost_of(counter), cost_of(|| Instant::now().elapsed().subsec_nanos().into()) / 2.0],
        }
    }
}

impl Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, processors, caches, kernel, load, clock: [counter, system] } = self;
        let caches: Vec<String> = caches
            .iter()
            .map(|cache| format!("L{} {} {}", cache.level, cache.kind.to_lowercase(), cache.size))
            .collect();
        writeln!(f, "{processor}; {processors} for this process; Linux {kernel}; load {load}")?;
        writeln!(f, "caches: {}", caches.join(", "))?;
        write!(f, "a read of the counter takes {counter:.1} ns, one of the system's clock {system:.1} ns")
    }
}

/// The first word of a file.
fn word_of(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn caches() -> Vec<Cache> {
    let Ok(folder) = fs::read_dir("/sys/devices/system/cpu/cpu0/cache") else { return Vec::new() };
    let mut folders: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let read = |folder: &Path, name: &str| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    let cache = |folder: &PathBuf| {
        Some(Cache { level: read(folder, "level")?, kind: read(folder, "type")?, size: read(folder, "size")? })
    };
    folders.iter().filter_map(cache).collect()
}

/// What the library reads when a doorbell is rung, where the kernel keeps time by it.
#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// What the library reads when a doorbell is rung.
#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    Instant::now().elapsed().subsec_nanos().into()
}

/// Nanoseconds that a call takes.
fn cost_of(read: impl Fn() -> u64) -> f64 {
    let series = || {
        let start = Instant::now();
        for _ in 0..READS {
            black_box(read());
        }
        start.elapsed().as_nanos() as f64 / f64::from(READS)
    };
    (0..SERIES).map(|_| series()).fold(f64::INFINITY, f64::min)
}
