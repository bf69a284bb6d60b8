//! `omniprobe`: the command line around `liblogdur.so`. Arguments, a library call, printing; no algorithms.

mod application;
mod cmd;
mod environment;
mod exit;
mod find;
mod foreign;
mod help;
mod private_folder;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, FromArgMatches, Parser, Subcommand};
use logdur_journal::names;
use logdur_replay::Exit;
use logdur_settings::Interceptor;

/// Log, swap and capture the kernels that an application dispatches to AMD GPUs, and replay captured dispatches.
#[derive(Parser)]
#[command(name = "omniprobe", version, override_usage = help::USAGE)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunOptions,
    /// Print a page for scripts and agents.
    #[arg(long, global = true, help_heading = help::GENERAL)]
    agents_md: bool,
    /// Show no progress: neither a bar nor a line each minute.
    #[arg(short, long, global = true, help_heading = help::GENERAL)]
    quiet: bool,
    /// The application and its arguments.
    #[arg(last = true, value_name = "APP", help_heading = "Arguments")]
    app: Vec<OsString>,
}

#[derive(Subcommand)]
enum Command {
    /// List ROCm and GPUs, and check that the runtime loads the library.
    Doctor(cmd::doctor::DoctorOptions),
    /// Write the rows of processes that were killed, from their files of records.
    Log(LogOptions),
    /// Add up the durations of logs by kernel, and compare two runs.
    Summary(cmd::summary::Options),
    /// Write a timeline of logs for ui.perfetto.dev or Chrome.
    Trace(cmd::trace::Options),
    /// Write one HTML page about logs, searches and verifications: totals, timeline, plots.
    Report(cmd::report::Options),
    /// Write the rows of logs as columns with types, in Apache Parquet's format.
    Export(cmd::export::Options),
    /// List the content of a capture, and whether each dispatch can be replayed.
    Info(cmd::info::Options),
    /// Print every record of a capture.
    Dump(cmd::dump::Options),
    /// Write code objects and buffers of a capture to files.
    Extract(cmd::extract::Options),
    /// Check every byte of a capture, and copy the undamaged part.
    Fsck(cmd::fsck::Options),
    /// Run captured dispatches again, alone, at their captured addresses.
    Replay(cmd::replay::Unverified),
    /// Replay captured dispatches, and compare every byte that they write with the captured results.
    Verify(cmd::replay::Options),
    /// Measure how long captured dispatches take, or compare two kernels.
    Bench(cmd::bench::Options),
    /// Run a captured dispatch with other workgroups, grids and code, verify each, and find the best.
    Tune(Box<cmd::tune::Options>),
    /// Compare dispatches of two captures, or of one capture.
    Diff(cmd::diff::Options),
    /// Run captured dispatches on the emulated GPU, and show what each instruction does: lanes, cache lines, bank conflicts, errors.
    Analyze(cmd::analyze::Options),
    /// Print the instructions of a kernel, with source lines if it was compiled with -g.
    Isa(cmd::isa::Options),
    /// List, check or fill folders of code objects for swapping.
    Cache(cmd::cache::CacheOptions),
    /// Print the completions of a shell.
    Completions(cmd::manual::Completions),
    /// Print the manual page, or write the pages of all subcommands into a folder.
    Man(cmd::manual::Pages),
    /// What `doctor` runs in a process of its own.
    #[command(hide = true)]
    Probe(cmd::doctor::ProbeOptions),
}

/// Which records, and where their rows go.
#[derive(Args, Clone, Debug)]
struct LogOptions {
    /// Files of records (`logdur.PID.records`). The line `# records:` of a log names its file.
    #[arg(required_unless_present_any = ["list", "clean"], value_name = "FILE")]
    files: Vec<PathBuf>,
    /// List this user's files of records: the process, whether it still runs, and how many rows its log lacks.
    #[arg(long, conflicts_with_all = ["files", "log_location", "log_format", "clean"])]
    list: bool,
    /// Remove the files of records of processes that have ended and whose logs are complete. Name the others.
    #[arg(long, conflicts_with_all = ["files", "log_location", "log_format"])]
    clean: bool,
    /// Append the missing rows to this log [default: print them].
    #[arg(short, long, value_name = "WHERE")]
    log_location: Option<PathBuf>,
    /// How rows are written [default: as the process wrote them].
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = ["csv", "csv-safe", "json"])]
    log_format: Option<String>,
}

/// Which ROCm and which device.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = help::PLACE)]
struct PlaceOptions {
    /// Run on emulated GPUs: gfx90a, gfx906 or another processor; `2*gfx90a` is two of them. Sets KFDEMU_GPUS.
    #[arg(long, value_name = "ARCH")]
    emulate: Option<String>,
    /// Use the ROCm in this folder. Sets ROCM_PATH and LD_LIBRARY_PATH.
    #[arg(long, value_name = "DIR")]
    rocm: Option<PathBuf>,
}

/// logduration's options, and ours.
#[derive(Args, Clone, Debug, Default)]
struct RunOptions {
    /// Where rows go: console (standard output), a file (%p is the process id, %r the rank, %h the host), /dev/null. Sets LOGDUR_LOG_LOCATION [default: console].
    #[arg(short, long, value_name = "WHERE", alias = "output-file", help_heading = help::LOG)]
    log_location: Option<OsString>,
    /// How rows are written. Sets LOGDUR_LOG_FORMAT [default: csv].
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = ["csv", "csv-safe", "json"], help_heading = help::LOG)]
    log_format: Option<String>,
    /// The same as -t csv-safe: an apostrophe goes before text that a spreadsheet would take for a formula.
    #[arg(long, conflicts_with = "log_format", help_heading = help::LOG)]
    csv_safe: bool,
    /// At the end, print totals per kernel on standard error. Without -l, the rows are not kept.
    #[arg(long, alias = "summary", help_heading = help::LOG)]
    stats: bool,
    /// At the end, write a timeline: NAME.pftrace for ui.perfetto.dev, NAME.json for Chrome. Without -l, the rows are not kept.
    #[arg(long, value_name = "FILE", value_parser = cmd::trace::output, help_heading = help::LOG)]
    trace: Option<PathBuf>,
    /// Log only kernels with a matching name: mangled, demangled, or without arguments. Sets LOGDUR_LOG_FILTER [default: all].
    #[arg(long, value_name = "REGEX", alias = "kernel-include-regex", help_heading = help::LOG)]
    log_filter: Option<String>,
    /// Log and capture in these ranks of a parallel job only, like 0,8-15. Sets LOGDUR_RANKS [default: all].
    #[arg(long, value_name = "RANKS", help_heading = help::LOG)]
    ranks: Option<String>,
    /// Log copies, too. Sets LOGDUR_COPIES [default: 0].
    #[arg(long, alias = "memory-copy-trace", help_heading = help::LOG)]
    copies: bool,
    /// Log ranges and marks of ROCTx (roctxRangePush, roctxMark), too: the application calls the library's functions.
    #[arg(long, alias = "marker-trace", help_heading = help::LOG)]
    markers: bool,
    /// rocprofv3's option: kernels are always logged.
    #[arg(long, hide = true)]
    kernel_trace: bool,
    /// Run kernels of the code objects in this folder in place of kernels with the same name and arguments. Repeat it for more
    /// folders. Sets LOGDUR_KERNEL_CACHE.
    #[arg(short, long, value_name = "DIR", help_heading = help::SWAP)]
    cache_location: Vec<PathBuf>,
    /// Swap or instrument only kernels with a matching name: mangled, demangled, or without arguments. Sets LOGDUR_FILTER [default: all].
    #[arg(short, long, value_name = "REGEX", help_heading = help::SWAP)]
    kernels: Option<String>,
    /// When to swap: always; in alternation with the original, N dispatches each; for the first N dispatches. The last two
    /// compare both kernels. Sets LOGDUR_KERNEL_CACHE_MODE [default: swap].
    #[arg(long, value_name = "swap|alternate[:N]|off-after:N", help_heading = help::SWAP)]
    cache_mode: Option<String>,
    /// Which of several kernels that fit: the newest file's, or that of a code object's hash. Sets LOGDUR_KERNEL_CACHE_PICK
    /// [default: none].
    #[arg(long, value_name = "newest|HASH[,HASH]", help_heading = help::SWAP)]
    cache_pick: Option<String>,
    /// Use folders and files, too, that belong to other users or that others may write. Sets LOGDUR_KERNEL_CACHE_TRUST
    /// [default: refused].
    #[arg(long, help_heading = help::SWAP)]
    cache_trust: bool,
    #[command(flatten)]
    capture: CaptureOptions,
    #[command(flatten)]
    place: PlaceOptions,
    /// Print the variables that would be set, and run nothing.
    #[arg(short, long, overrides_with = "no_env_dump", help_heading = help::GENERAL)]
    env_dump: bool,
    /// Run the application (the default).
    #[arg(long, help_heading = help::GENERAL)]
    no_env_dump: bool,
    /// Print the variables that are set, on stderr.
    #[arg(short, long, help_heading = help::GENERAL)]
    verbose: bool,
    /// Run instrumented clones of kernels, which send messages to analyzers. The application's code and the folders of -c have
    /// them; nothing is swapped then. Sets LOGDUR_INSTRUMENTED [default: false].
    #[arg(short, long, overrides_with = "no_instrumented", help_heading = help::INSTRUMENTED)]
    instrumented: bool,
    /// Do not run instrumented clones (the default).
    #[arg(long, help_heading = help::INSTRUMENTED)]
    no_instrumented: bool,
    /// Which dispatches are instrumented: all, a random hundredth, the first N of each kernel, a random share, or the N-th to M-th.
    /// Sets LOGDUR_DISPATCHES [default: all].
    #[arg(short, long, value_name = "all|random|N|N%|N-M", help_heading = help::INSTRUMENTED)]
    dispatches: Option<String>,
    /// Analyzers of the messages, by name, or libraries of handlers, by path. Repeat it for more, or separate them by commas. Sets
    /// LOGDUR_HANDLERS [default: messages are counted only]. Without -i, with --emulate: exact analyses by the same names, or by the
    /// words of `omniprobe analyze`, of a dispatch of each kernel and geometry, or of those of -d.
    #[arg(short, long, value_name = "NAME|LIBRARY", num_args = 1.., value_delimiter = ',', help_heading = help::INSTRUMENTED)]
    analyzers: Vec<OsString>,
    /// An option of the analyzers. Sets LOGDUR_HANDLER_OPTIONS [default: none].
    #[arg(long, value_name = "KEY=VALUE", requires = "analyzers", help_heading = help::INSTRUMENTED)]
    analyzer_option: Vec<String>,
    /// Where analyzers write: console, a file (%p is the process id), /dev/null. Sets LOGDUR_HANDLER_OUTPUT [default: console].
    #[arg(long, value_name = "WHERE", help_heading = help::INSTRUMENTED)]
    analyzer_output: Option<OsString>,
    /// How analyzers write. Sets LOGDUR_HANDLER_FORMAT [default: text].
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "csv", "json"], help_heading = help::INSTRUMENTED)]
    analyzer_format: Option<String>,
    /// A JSON file with libraries that are searched for clones, and with those that are not. Sets LOGDUR_LIBRARY_FILTER
    /// [default: the application's code and -c].
    #[arg(long, value_name = "FILE", help_heading = help::INSTRUMENTED)]
    library_filter: Option<PathBuf>,
    /// Most memory for messages. Sets LOGDUR_INSTRUMENT_BUFFERS [default: 64M].
    #[arg(long, value_name = "BYTES", help_heading = help::INSTRUMENTED)]
    instrument_buffers: Option<OsString>,
}

impl RunOptions {
    /// True if clones run: by an option, or by the variable.
    fn is_instrumented(&self) -> bool {
        let by_variable = || Interceptor::from(|name| std::env::var_os(name)).0.instrumented.0;
        self.instrumented || !self.no_instrumented && by_variable()
    }
}

/// What is captured. The library reads the values; what it cannot is a notice in the log.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = help::CAPTURE)]
struct CaptureOptions {
    /// Capture dispatches, with memory before and after them, into a file (%p is the process id, %r the rank, %h the host) or a new file of a
    /// folder. Sets LOGDUR_CAPTURE.
    #[arg(long, value_name = "FILE|DIR")]
    capture: Option<OsString>,
    /// Replace an existing capture. Processes of one job still number their files.
    #[arg(long, requires = "capture")]
    force: bool,
    /// Capture only kernels with a matching name: mangled, demangled, or without arguments. Sets LOGDUR_CAPTURE_KERNELS [default:
    /// all].
    #[arg(long, value_name = "REGEX", requires = "capture")]
    capture_kernels: Option<OsString>,
    /// Which dispatches of each kernel and geometry. Sets LOGDUR_CAPTURE_DISPATCHES [default: 1].
    #[arg(long, value_name = "1,3-7|every:N|random:P%", requires = "capture")]
    capture_dispatches: Option<OsString>,
    /// Capture only dispatches of this grid, in work-items. Sets LOGDUR_CAPTURE_GRID [default: any].
    #[arg(long, value_name = "X[xY[xZ]]", requires = "capture")]
    capture_grid: Option<OsString>,
    /// Capture only dispatches to this GPU: its number in the column `agent` of the log, which HIP_VISIBLE_DEVICES does not change.
    /// Sets LOGDUR_CAPTURE_DEVICE [default: any].
    #[arg(long, value_name = "N", requires = "capture")]
    capture_device: Option<OsString>,
    /// How much memory: none, what arguments point to, what can be reached from there, all. Sets LOGDUR_CAPTURE_SCOPE [default: all].
    #[arg(long, value_name = "SCOPE", requires = "capture", value_parser = ["kernarg", "args", "reachable", "all"])]
    capture_scope: Option<String>,
    /// Whether memory is also captured after the kernel, for comparisons. Sets LOGDUR_CAPTURE_AFTER [default: 1].
    #[arg(long, value_name = "0|1", requires = "capture", value_parser = ["0", "1"])]
    capture_after: Option<String>,
    /// Stop capturing when the file has this size. Sets LOGDUR_CAPTURE_MAX_BYTES [default: 8G].
    #[arg(long, value_name = "BYTES", requires = "capture")]
    capture_max_bytes: Option<OsString>,
    /// Stop capturing when it has taken this many seconds in total. Sets LOGDUR_CAPTURE_MAX_SECONDS [default: 60].
    #[arg(long, value_name = "N", requires = "capture")]
    capture_max_seconds: Option<OsString>,
    /// Hold no dispatch for more than this many seconds; what takes longer is not captured. Sets LOGDUR_CAPTURE_MAX_HOLD [default: 30].
    #[arg(long, value_name = "N", requires = "capture")]
    capture_max_hold: Option<OsString>,
    /// Give up a capture after this many seconds without progress, if work that is held may be waited for. Sets
    /// LOGDUR_CAPTURE_MAX_STALL [default: 5].
    #[arg(long, value_name = "N", requires = "capture")]
    capture_max_stall: Option<OsString>,
    /// End the application with SIGTERM after this many captured dispatches. Sets LOGDUR_CAPTURE_QUIT.
    #[arg(long, value_name = "N", requires = "capture")]
    capture_quit: Option<OsString>,
    /// How memory is compressed in the file. Sets LOGDUR_CAPTURE_COMPRESS [default: auto].
    #[arg(long, value_name = "HOW", requires = "capture", value_parser = ["auto", "none", "lz4", "zstd"])]
    capture_compress: Option<String>,
    /// What must be idle while memory is read. Sets LOGDUR_CAPTURE_QUIESCE [default: process].
    #[arg(long, value_name = "WHAT", requires = "capture", value_parser = ["queue", "device", "process"])]
    capture_quiesce: Option<String>,
    /// Permissions of the file, an octal mode. Sets LOGDUR_CAPTURE_MODE [default: 600].
    #[arg(long, value_name = "MODE", requires = "capture")]
    capture_mode: Option<OsString>,
    /// What the file says about the process. Sets LOGDUR_CAPTURE_TELL [default: environment].
    #[arg(long, value_name = "WHAT", requires = "capture", value_parser = ["none", "command", "environment"])]
    capture_tell: Option<String>,
}

/// What `--agents-md` prints.
const AGENTS_MD: &str = include_str!("../../docs/agents.md");

/// True for `--agents-md` anywhere but among the application's arguments, also where something is missing that a command needs.
fn wants_agents_md(words: &[OsString]) -> bool {
    words.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--agents-md")
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if words.len() < 2 {
        eprint!("{}", help::SHORT);
        return Exit::Usage.into();
    }
    let mut command = help::command();
    let words = application::separated(&mut command, words);
    if wants_agents_md(&words) {
        let printed = cmd::lines(AGENTS_MD.lines().map(str::to_owned));
        return if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let parsed = command.try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    if cli.quiet {
        cmd::progress::be_quiet();
    }
    exit::end(match cli.command {
        Some(Command::Doctor(options)) => cmd::doctor::run(&options),
        Some(Command::Log(options)) => cmd::log::run(&options),
        Some(Command::Summary(options)) => cmd::summary::run(&options),
        Some(Command::Trace(options)) => cmd::trace::run(&options),
        Some(Command::Report(options)) => cmd::report::run(&options),
        Some(Command::Export(options)) => cmd::export::run(&options),
        Some(Command::Info(options)) => cmd::info::run(&options),
        Some(Command::Dump(options)) => cmd::dump::run(&options),
        Some(Command::Extract(options)) => cmd::extract::run(&options),
        Some(Command::Fsck(options)) => cmd::fsck::run(&options),
        Some(Command::Replay(options)) => cmd::replay::run(&options),
        Some(Command::Verify(options)) => cmd::replay::verify(&options),
        Some(Command::Bench(options)) => cmd::bench::run(&options),
        Some(Command::Tune(options)) => cmd::tune::run(&options),
        Some(Command::Diff(options)) => cmd::diff::run(&options),
        Some(Command::Analyze(options)) => cmd::analyze::run(&options),
        Some(Command::Isa(options)) => cmd::isa::run(&options),
        Some(Command::Cache(options)) => cmd::cache::run(&options),
        Some(Command::Completions(options)) => cmd::manual::completions(&options),
        Some(Command::Man(options)) => cmd::manual::pages(&options),
        Some(Command::Probe(options)) => cmd::doctor::probe(&options),
        None => match run(&cli.run, &cli.app) {
            Ok(application) => return application,
            Err(error) => Err(error),
        },
    })
}

fn run(options: &RunOptions, app: &[OsString]) -> anyhow::Result<ExitCode> {
    cmd::run::run(options, app)
}

/// Prints the text of clap.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        if let Some(instead) = foreign::instead(error) {
            cmd::tell(instead);
            return Exit::Usage.into();
        }
        // It repeats words of the command line, which may be names of files that others have chosen.
        let words = std::env::args_os().map(|word| names::escaped(&word.to_string_lossy()).into()).collect();
        let words = application::separated(&mut help::command(), words);
        let escaped = Cli::try_parse_from(words).err().filter(clap::Error::use_stderr);
        let _ = escaped.as_ref().unwrap_or(error).print();
        return Exit::Usage.into();
    }
    // Help and version are no errors.
    let _ = error.print();
    Exit::Success.into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_after_the_dashes_are_the_applications() {
        let cli = Cli::parse_from(["omniprobe", "-l", "a.csv", "--", "./app", "-l", "b"]);
        assert_eq!(cli.run.log_location, Some("a.csv".into()));
        assert_eq!(cli.app, ["./app", "-l", "b"]);
    }

    #[test]
    fn options_of_rocprofv3_mean_the_same_here() {
        let line = "omniprobe --kernel-trace --memory-copy-trace --marker-trace --summary --kernel-include-regex f.* \
                    --output-file a.csv -- ./app";
        let run = Cli::parse_from(line.split_whitespace()).run;
        assert!(run.copies && run.markers && run.stats && run.kernel_trace);
        assert_eq!((run.log_filter.as_deref(), run.log_location), (Some("f.*"), Some("a.csv".into())));
    }

    #[test]
    fn the_page_for_agents_is_printed_for_every_command_and_not_for_the_application() {
        let wants = |line: &str| wants_agents_md(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(wants("omniprobe --agents-md") && wants("omniprobe verify --agents-md"));
        assert!(!wants("omniprobe -v -- ./app --agents-md"));
        let tools: Vec<String> = help::tests::shown().map(|tool| tool.get_name().to_owned()).collect();
        let unknown = tools.iter().filter(|tool| !AGENTS_MD.contains(&format!("omniprobe {tool}")));
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
    }

    #[test]
    fn analyzers_are_given_together_apart_or_with_commas() {
        let all = |line: &str| Cli::parse_from(line.split(' ')).run.analyzers;
        let expected = ["Heatmap", "./b.so"].map(OsString::from);
        for line in
            ["-a Heatmap ./b.so --", "-a Heatmap,./b.so", "-a Heatmap -a ./b.so --", "--analyzers=Heatmap,./b.so"]
        {
            let line = format!("omniprobe -i {line} {}x", if line.ends_with("--") { "" } else { "-- " });
            assert_eq!(all(&line), expected, "{line}");
        }
    }
}
