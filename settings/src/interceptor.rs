//! The variables of `liblogdur.so`. Names that logduration has keep their meaning.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use crate::instrument::{Dispatches, HandlerOptions, Handlers, Switch, Workgroups};
use crate::value::{Bytes, words};
use crate::{
    CaptureScope, CaptureTell, Compress, Devices, FileMode, Grid, Occurrences, Quiesce, Ranks, Region, Start, Value,
    When, settings,
};

/// Where rows go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLocation {
    /// The application's standard output.
    Console,
    /// A file that is appended to; `%p`, `%r` and `%h` stand for the process id, the rank and the host.
    File(PathBuf),
    /// Nowhere.
    Nowhere,
}

impl Value for LogLocation {
    fn parse(text: &OsStr) -> Result<Self, String> {
        Ok(match text.to_str() {
            Some("console") => LogLocation::Console,
            Some("" | "/dev/null") => LogLocation::Nowhere,
            _ => LogLocation::File(text.into()),
        })
    }
}

words! {
    /// How rows are written.
    Format {
        /// Comma-separated values with a header line.
        Csv = "csv",
        /// The same, with an apostrophe before texts that a spreadsheet would take for a formula.
        CsvSafe = "csv-safe",
        /// One JSON object a line.
        Json = "json",
        /// Finished records, which nobody formats while the application runs.
        Records = "records",
    }
}

words! {
    /// Which names of kernels rows have.
    Names {
        /// The demangled ones.
        Demangled = "demangled",
        /// The symbols.
        Mangled = "mangled",
        /// The demangled ones, and the symbols in a column of their own.
        Both = "both",
    }
}

words! {
    /// How handlers write their reports.
    HandlerFormat {
        /// For people.
        Text = "text",
        /// Comma-separated values with a header line.
        Csv = "csv",
        /// One JSON object a line.
        Json = "json",
    }
}

words! {
    /// How packets are seen.
    QueueMode {
        /// In place, else through the runtime's intercept queues.
        Auto = "auto",
        /// In the ring of the real queue.
        Inplace = "inplace",
        /// Through the runtime's intercept queues.
        Intercept = "intercept",
    }
}

/// What a refusal of a cache's folder or file ends with: see [`Interceptor::kernel_cache_trust`].
pub const TRUST_ALL: &str = "LOGDUR_KERNEL_CACHE_TRUST=1 uses it all the same";

/// Where the records of dispatches are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsLocation {
    /// A folder in memory that the system has.
    Default,
    /// A file in this folder.
    Folder(PathBuf),
    /// In private memory.
    Nowhere,
}

impl Value for RecordsLocation {
    fn parse(text: &OsStr) -> Result<Self, String> {
        Ok(if text.is_empty() { RecordsLocation::Nowhere } else { RecordsLocation::Folder(text.into()) })
    }
}

/// Folders, with colons in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders(pub Vec<PathBuf>);

impl Value for Folders {
    fn parse(text: &OsStr) -> Result<Self, String> {
        Ok(Folders(std::env::split_paths(text).filter(|p| !p.as_os_str().is_empty()).collect()))
    }
}

/// When a kernel that has a replacement is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// Always.
    Swap,
    /// So many dispatches of a kernel and shape as they are, so many replaced, and so on: the two are compared.
    Alternate(u32),
    /// The first dispatches of a kernel and shape; afterwards no more. The two are compared.
    OffAfter(u32),
}

impl fmt::Display for CacheMode {
    /// As it is written in the variable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheMode::Swap => f.write_str("swap"),
            CacheMode::Alternate(length) => write!(f, "alternate:{length}"),
            CacheMode::OffAfter(length) => write!(f, "off-after:{length}"),
        }
    }
}

impl Value for CacheMode {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected swap, alternate, alternate:N or off-after:N, N being 1 or more".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        let (word, number) = text.split_once(':').map_or((text, None), |(word, number)| (word, Some(number)));
        let number = number.map(|n| n.parse().ok().filter(|&n: &u32| n > 0).ok_or_else(expected)).transpose()?;
        match (word, number) {
            ("swap", None) => Ok(CacheMode::Swap),
            ("alternate", n) => Ok(CacheMode::Alternate(n.unwrap_or(1))),
            ("off-after", Some(n)) => Ok(CacheMode::OffAfter(n)),
            _ => Err(expected()),
        }
    }
}

/// Kernels whose call sites are kept: a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stacks(pub String);

impl Value for Option<Stacks> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let expression = text.to_str().and_then(|text| text.strip_prefix("kernel=")).filter(|text| !text.is_empty());
        let expected = || "expected kernel= and a regular expression".to_owned();
        expression.map(|text| Some(Stacks(text.to_owned()))).ok_or_else(expected)
    }
}

settings! {
    /// What the interceptor is asked to do.
    Interceptor;

    /// Where rows go. Rows are appended to a file, which several processes may share; `%p` is the process id, `%r` the rank of MPI or SLURM, `%h` the name of the host. A value that is set but empty means `/dev/null`.
    log_location: LogLocation = "LOGDUR_LOG_LOCATION" ["`console` | FILE | `/dev/null`"] or (LogLocation::Console) "`console`: whole lines on standard output";
    /// How rows are written. Spreadsheets take a cell that begins with `=`, `+`, `-`, `@` or a tab for a formula: `csv-safe` puts an apostrophe before it. `records` formats nothing while the application runs, and needs a file or a named pipe of its own: `omniprobe` reads it.
    log_format: Format = "LOGDUR_LOG_FORMAT" or (Format::Csv) "`csv`";
    /// Which names of kernels rows have: demangled, as `llvm-cxxfilt` spells them; the symbols of the code object; or both, the symbol in the column `symbol`.
    names: Names = "LOGDUR_NAMES" or (Names::Demangled) "`demangled`";
    /// Kernels whose rows say where in the application they are launched. The column `site` has the number of the launching thread's stack; a line `# site` has its return addresses. The expression must match one of the names of the kernel: mangled, demangled, or without arguments. Each such launch walks its stack.
    stacks: Option<Stacks> = "LOGDUR_STACKS" ["`kernel=`regular expression"] or (None) "none";
    /// When dispatches are recorded and captured, copies and ranges logged, and instrumented clones run: in a moment in which all of these are so. `dispatches:N-M`: the number of the dispatch, as the column `id` has it, is one of these (`N`, `N-M` or `N+`). `kernel:REGEX@N-M`: from the Nth dispatch of kernels whose names match to their Mth one, both included, from 1, whatever their geometry. `count:N`: fewer than N dispatches were recorded. `seconds:A-B`: the library was loaded A to B seconds ago (`A-B` or `A+`). `range:NAME`: a range of ROCTx with this name is open; with `@N-M`, only the Nth to Mth one of the process, from 1. `profiler`: the application has called `roctxProfilerResume`, and not `roctxProfilerPause` since. `file:PATH`: there is such a file, which is looked for every 20 ms. `\\,` is a comma in a name. `signal`, which only `omniprobe --when` takes: the first signal SIGUSR2 to `omniprobe` begins it, the next one ends it. Other dispatches are counted as `outside`. Kernels are swapped all the same.
    when: When = "LOGDUR_WHEN" ["TRIGGER[,TRIGGER…]"] or (When::default()) "always";
    /// What is on when the library is loaded, in a process that `omniprobe attach` and `omniprobe top` can control: all that is set, or nothing. A process that is `off` passes dispatches without records, until it is told otherwise; only rows, and the features that are named, can be turned on then: their hooks are installed, and their clones and replacements are chosen, when code is loaded. Each feature also needs its own variable. The process listens on a socket `logdur.PID.control` for its own user and root, in the folder that `LOGDUR_RECORDS` has by default.
    start: Option<Start> = "LOGDUR_START" ["`on` | `off[,capture][,instrument][,swap]`"] or (None) "all that is set is on, and nothing listens";
    /// Kernels whose dispatches get rows. The expression must match one of the names of the kernel: mangled, demangled, or without arguments. Other dispatches are counted as `filtered`.
    log_filter: Option<String> = "LOGDUR_LOG_FILTER" ["regular expression"] or (None) "every kernel";
    /// Kernels whose dispatches get no rows, of those that `LOGDUR_LOG_FILTER` wants. The expression matches as there. These dispatches are counted as `filtered`.
    log_exclude: Option<String> = "LOGDUR_LOG_EXCLUDE" ["regular expression"] or (None) "none";
    /// GPUs whose dispatches get rows: their numbers in the column `agent` of the log, which `HIP_VISIBLE_DEVICES` does not change. Other dispatches are counted as `filtered`. Copies have rows all the same.
    log_devices: Option<Devices> = "LOGDUR_LOG_DEVICES" ["`0,2-3`"] or (None) "every GPU";
    /// Whether copies have rows, too: those of `hsa_amd_memory_async_copy` and its variants, which HIP and OpenCL use.
    copies: u32 = "LOGDUR_COPIES" ["`0` | `1`"] or (0) "`0`";
    /// The ranks of a parallel job that log and capture; the others do neither, and run no instrumented clones, though they swap kernels. A process without a rank is not limited.
    ranks: Option<Ranks> = "LOGDUR_RANKS" ["`0,8-15`"] or (None) "every rank";
    /// How packets are observed: in the ring of the application's queue, or through the runtime's intercept queues. Intercept queues are slower. Some versions of the runtime fail when an intercept queue is full; there they are refused with a notice.
    queue_mode: QueueMode = "LOGDUR_QUEUE_MODE" or (QueueMode::Auto) "`auto`: in place, the other way for queues where that is impossible";
    /// Folder of the file `logdur.PID.records`, which records dispatches until their rows are written. The file is removed when the process ends in order; otherwise `omniprobe log FILE` writes the missing rows. `%r` and `%h` are as above. Use a file system in memory: a dispatch might have to wait for a disk. A folder on a network is not used; the log says where the records are then. A value that is set but empty means private memory, which is lost with the process.
    records: RecordsLocation = "LOGDUR_RECORDS" ["DIR"] or (RecordsLocation::Default) "`$XDG_RUNTIME_DIR`, else `/dev/shm`, else the folder for temporary files";
    /// Most bytes of records that wait for their rows. The application never waits: beyond this limit a log that cannot be written, as on a full disk, drops its oldest rows, counted as `unwritten`; if the log is only too slow, or more dispatches are in flight, dispatches pass unrecorded, counted as `not-recorded`.
    records_max: Bytes = "LOGDUR_RECORDS_MAX" ["BYTES"] or (Bytes(1 << 30)) "`1G`";
    /// Kernels that may be swapped or instrumented. The expression must match one of the names of the kernel: mangled, demangled, or without arguments.
    filter: Option<String> = "LOGDUR_FILTER" ["regular expression"] or (None) "every kernel";
    /// Kernels that are neither swapped nor instrumented, of those that `LOGDUR_FILTER` wants. The expression matches as there.
    filter_exclude: Option<String> = "LOGDUR_FILTER_EXCLUDE" ["regular expression"] or (None) "none";
    /// Folders of code objects whose kernels replace those of the same name and arguments, with all subfolders: `.hsaco` and `.co` files, offload bundles, programs and libraries with device code, Triton's cache. A kernel that cannot be proven to fit is not swapped, and a notice gives the reason. A file that changes takes effect with the next dispatch after the notice `cache: FILE active`.
    kernel_cache: Folders = "LOGDUR_KERNEL_CACHE" ["DIR[:DIR…]"] or (Folders::default()) "nothing is replaced";
    /// Which of several kernels that fit is used, even if the running code object is one of them: that of the newest file, or that of the code object whose hash begins with these digits.
    kernel_cache_pick: Option<String> = "LOGDUR_KERNEL_CACHE_PICK" ["`newest` | HASH[,HASH…]"] or (None) "none: a notice lists them";
    /// Which of several different kernels of one name and argument list in the application is replaced: each, or those of code objects whose hash begins with these digits.
    kernel_cache_original: Option<String> = "LOGDUR_KERNEL_CACHE_ORIGINAL" ["`all` | HASH[,HASH…]"] or (None) "the one that agrees best with the replacement; a notice names the others";
    /// Whether the cache may use folders and files that belong to a user other than the process's user and root, or that others may write. Otherwise they are refused; a notice gives owner and mode.
    kernel_cache_trust: u32 = "LOGDUR_KERNEL_CACHE_TRUST" ["`0` | `1`"] or (0) "`0`";
    /// When kernels are swapped: always; in alternation with the original, N dispatches each; or for the first N dispatches of each kernel and geometry. The last two compare both kernels, in lines at the end of the log.
    kernel_cache_mode: CacheMode = "LOGDUR_KERNEL_CACHE_MODE" ["`swap` | `alternate[:N]` | `off-after:N`"] or (CacheMode::Swap) "`swap`";
    /// Whether instrumented clones of kernels run, in the application's code objects or in the kernel cache: `__amd_crk_NAMEPv`, or a kernel of the same name and arguments with one pointer more. Then the cache is searched for clones only, and no kernel is swapped.
    instrumented: Switch = "LOGDUR_INSTRUMENTED" ["`true` | `false`"] or (Switch(false)) "`false`";
    /// Which dispatches are instrumented, of kernels that have a clone: all; a random hundredth; the first N of each kernel; a random share; the N-th to M-th of each kernel.
    dispatches: Dispatches = "LOGDUR_DISPATCHES" ["`all` | `random` | `N` | `N%` | `N-M`"] or (Dispatches::All) "`all`";
    /// Of which workgroups handlers get messages, whatever made the clone: their numbers in X, Y and Z, each `N`, `N:M` (without M) or nothing. Numbers of larger grids begin anew at 65536.
    workgroups: Workgroups = "LOGDUR_WORKGROUPS" ["[X][,[Y][,[Z]]]"] or (Workgroups::default()) "all";
    /// Handlers of the messages of instrumented kernels: names of `liblogdur_analyzers.so`, which lies beside `liblogdur.so`, or paths of libraries.
    handlers: Handlers = "LOGDUR_HANDLERS" ["NAME or LIBRARY[:…]"] or (Handlers::default()) "messages are counted only";
    /// Options of the handlers, given to each of them.
    handler_options: HandlerOptions = "LOGDUR_HANDLER_OPTIONS" ["KEY=VALUE[:…]"] or (HandlerOptions::default()) "none";
    /// Where handlers write their reports. A file is appended to; `%p`, `%r` and `%h` are as above.
    handler_output: LogLocation = "LOGDUR_HANDLER_OUTPUT" ["`console` | FILE | `/dev/null`"] or (LogLocation::Console) "`console`: standard output";
    /// How handlers write their reports.
    handler_format: HandlerFormat = "LOGDUR_HANDLER_FORMAT" or (HandlerFormat::Text) "`text`";
    /// A JSON file with libraries that are searched for clones, besides the application's code and the cache, and with those that are not: lists of paths `include`, `include_with_deps` and `exclude`. Kernels of excluded libraries are not instrumented.
    library_filter: Option<PathBuf> = "LOGDUR_LIBRARY_FILTER" ["FILE"] or (None) "the application's code and the cache";
    /// Most bytes of memory for messages, of all GPUs together. A dispatch that finds none of it free runs uninstrumented, and is counted.
    instrument_buffers: Bytes = "LOGDUR_INSTRUMENT_BUFFERS" ["BYTES"] or (Bytes(64 << 20)) "`64M`";
    /// Captures dispatches into this file, or into a new file of this folder: arguments, code, and memory before and after. `%p` is the process id, `%r` the rank of MPI or SLURM, `%h` the name of the host. Two processes never share a file.
    capture: Option<PathBuf> = "LOGDUR_CAPTURE" ["FILE | DIR"] or (None) "nothing is captured";
    /// Kernels that are captured. The expression must match one of the names of the kernel: mangled, demangled, or without arguments.
    capture_kernels: Option<String> = "LOGDUR_CAPTURE_KERNELS" ["regular expression"] or (None) "every kernel";
    /// Kernels that are not captured, of those that `LOGDUR_CAPTURE_KERNELS` wants. The expression matches as there.
    capture_exclude: Option<String> = "LOGDUR_CAPTURE_EXCLUDE" ["regular expression"] or (None) "none";
    /// Which dispatches of each kernel and geometry are captured.
    capture_dispatches: Occurrences = "LOGDUR_CAPTURE_DISPATCHES" ["`1,3-7` | `every:N` | `random:P%`"] or (Occurrences::first()) "`1`: the first";
    /// Captures only dispatches of this grid, in work-items.
    capture_grid: Option<Grid> = "LOGDUR_CAPTURE_GRID" ["X[xY[xZ]]"] or (None) "any";
    /// Captures only dispatches to this GPU: its number in the column `agent` of the log, which `HIP_VISIBLE_DEVICES` does not change.
    capture_device: Option<u32> = "LOGDUR_CAPTURE_DEVICE" ["number"] or (None) "any";
    /// A stretch of the application that is captured as a whole, instead of single dispatches: its dispatches in their order, with the memory that the host and copies change between them. `A..B`: from the first dispatch that A selects to the first later one that B selects, both included; `A`: from the first dispatch that A selects for as long as A does. A and B are triggers of `LOGDUR_WHEN`, but for `count` and `signal`; `kernel:REGEX` alone selects each dispatch of such kernels. One dispatch runs at a time. Memory is read when the region reaches it first. Variables that choose single dispatches, their scope, whether memory is captured after them and what is idle have no effect; a notice names them.
    capture_region: Option<Region> = "LOGDUR_CAPTURE_REGION" ["TRIGGER | TRIGGER..TRIGGER"] or (None) "single dispatches";
    /// In a region, all memory that it has reached is captured after this many steps each, so that a replay can begin there.
    capture_checkpoints: Option<u32> = "LOGDUR_CAPTURE_CHECKPOINTS" ["number"] or (None) "none";
    /// In a region, whether a hash of each allocation that has changed is kept for each dispatch, so that a replay can name the first dispatch that differs. All memory that was reached is read after each dispatch.
    region_hashes: u32 = "LOGDUR_REGION_HASHES" ["`0` | `1`"] or (0) "`0`";
    /// How much memory is captured: only the arguments; the allocations that arguments point to; those that can be reached from there; all.
    capture_scope: CaptureScope = "LOGDUR_CAPTURE_SCOPE" or (CaptureScope::All) "`all`";
    /// Whether memory is also captured after the kernel. A replay needs it for its comparison.
    capture_after: u32 = "LOGDUR_CAPTURE_AFTER" ["`0` | `1`"] or (1) "`1`";
    /// Capturing stops when the file, and what the process has added to a store, have this size. Memory that is larger than what is left is not begun: the scope `all` is reduced to `reachable`.
    capture_max_bytes: Bytes = "LOGDUR_CAPTURE_MAX_BYTES" ["BYTES"] or (Bytes(8 << 30)) "`8G`";
    /// Capturing stops when it has taken this many seconds in total.
    capture_max_seconds: u32 = "LOGDUR_CAPTURE_MAX_SECONDS" ["number"] or (60) "`60`";
    /// Most seconds for which a capture holds a dispatch, with all queues. A dispatch that cannot be captured in this time runs uncaptured. Memory that cannot be read in this time is not begun: the scope `all` is reduced to `reachable`.
    capture_max_hold: u32 = "LOGDUR_CAPTURE_MAX_HOLD" ["number"] or (30) "`30`";
    /// Most seconds without progress while a capture holds work that may be waited for: packets of other queues, or copies. Then the dispatch runs uncaptured.
    capture_max_stall: u32 = "LOGDUR_CAPTURE_MAX_STALL" ["number"] or (5) "`5`";
    /// Ends the process with SIGTERM after this many captured dispatches. The file is complete then.
    capture_quit: Option<u32> = "LOGDUR_CAPTURE_QUIT" ["number"] or (None) "the application goes on";
    /// How memory is compressed in the file.
    capture_compress: Compress = "LOGDUR_CAPTURE_COMPRESS" or (Compress::Auto) "`auto`";
    /// Contents of memory and code go into this folder, which captures of a job share: each content is there once. The capture names it. `%p`, `%r` and `%h` as in `LOGDUR_CAPTURE`.
    capture_store: Option<PathBuf> = "LOGDUR_CAPTURE_STORE" ["DIR"] or (None) "contents are in the capture";
    /// What must be idle while memory is read.
    capture_quiesce: Quiesce = "LOGDUR_CAPTURE_QUIESCE" or (Quiesce::Process) "`process`";
    /// Permissions of the capture file, and of files that are added to a store; the umask has no effect. The file contains memory of the application.
    capture_mode: FileMode = "LOGDUR_CAPTURE_MODE" ["octal mode"] or (FileMode(0o600)) "`600`: only its owner reads and writes it";
    /// What the capture file says about the process: nothing; its program and command line; also the environment variables that begin with `HSA_`, `HIP_`, `AMD_`, `ROCR_`, `GPU_`, `LOGDUR_`, `KFDEMU_` or `OMP_`.
    capture_tell: CaptureTell = "LOGDUR_CAPTURE_TELL" or (CaptureTell::Environment) "`environment`";
    /// Diagnostics of the library, into the file `logdur.PID.log` beside the log or in the folder for temporary files.
    log: Option<String> = "LOGDUR_LOG" ["`error` | `warn` | `info` | `debug` | `trace`"] or (None) "off";
    /// Names the run that a process belongs to, in a line of its log: readers take the last run of a log, or all. `omniprobe` sets the variable.
    run: Option<String> = "LOGDUR_RUN" ["TEXT"] or (None) "no line";
    /// A pipe or a file into which the library writes lines for `omniprobe`, which sets the variable.
    hello: Option<PathBuf> = "LOGDUR_HELLO" ["PIPE"] or (None) "not written";
}
