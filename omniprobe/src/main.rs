//! `omniprobe`: the command line around `liblogdur.so`. Arguments, a library call, printing; no algorithms.

mod cmd;
mod environment;
mod exit;
mod find;
mod private_folder;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use logdur_replay::Exit;

/// Log the duration of every kernel that an application dispatches to an AMD GPU.
#[derive(Parser)]
#[command(
    name = "omniprobe",
    version,
    override_usage = "omniprobe [OPTIONS] -- APP [ARGS]...\n       omniprobe doctor [--rocm DIR] [--emulate ARCH]\n       omniprobe log FILE... [-l WHERE] [-t FORMAT]\n       omniprobe cache ls|check|add ...\n       omniprobe info|dump|extract|fsck|replay|verify|bench|tune CAPTURE [OPTIONS]\n       omniprobe diff CAPTURE CAPTURE [OPTIONS]\n       omniprobe isa CODE-OBJECT [KERNEL] [OPTIONS]"
)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunOptions,
    /// Print a page on how scripts and agents use this program.
    #[arg(long, global = true)]
    agents_md: bool,
    /// The application and its arguments.
    #[arg(last = true, value_name = "APP")]
    app: Vec<OsString>,
}

#[derive(Subcommand)]
enum Command {
    /// Say what there is: ROCm, devices, and whether the library would be loaded.
    Doctor(PlaceOptions),
    /// Write the rows that processes could not write because they were killed.
    Log(LogOptions),
    /// Say what is in a capture, and whether it can be replayed.
    Info(cmd::info::Options),
    /// Show every record of a capture.
    Dump(cmd::dump::Options),
    /// Write code objects and buffers of a capture to files.
    Extract(cmd::extract::Options),
    /// Look at every byte of a capture, and write what is whole of a damaged one.
    Fsck(cmd::fsck::Options),
    /// Run captured dispatches again, alone, at the addresses that they had.
    Replay(cmd::replay::Unverified),
    /// Replay, and compare what is written with what the application got.
    Verify(cmd::replay::Options),
    /// Measure how long captured dispatches take, alone or against another kernel.
    Bench(cmd::bench::Options),
    /// Run a captured dispatch with other workgroups, grids and code, compare each, and find the best.
    Tune(Box<cmd::tune::Options>),
    /// Say what is different between dispatches of two captures, or of one.
    Diff(cmd::diff::Options),
    /// Show the instructions of a kernel, with source lines where its code object has them.
    Isa(cmd::isa::Options),
    /// Folders of code objects: what is in them, and whether it would be used.
    Cache(cmd::cache::CacheOptions),
    /// What `doctor` runs in a process of its own.
    #[command(hide = true)]
    Probe(cmd::doctor::ProbeOptions),
}

/// Which records, and where their rows go.
#[derive(Args, Clone, Debug)]
struct LogOptions {
    /// Files of records (`logdur.PID.records`): a log says at its beginning where they are.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Append to a log what it does not have, instead of printing it.
    #[arg(short, long, value_name = "WHERE")]
    log_location: Option<PathBuf>,
    /// How rows are written, if not as the process wrote them.
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = ["csv", "csv-safe", "json"])]
    log_format: Option<String>,
}

/// Which ROCm and which device.
#[derive(Args, Clone, Debug, Default)]
struct PlaceOptions {
    /// Run on emulated GPUs: names of processors like gfx90a or gfx906, `2*gfx90a` for two of a kind.
    #[arg(long, value_name = "ARCH")]
    emulate: Option<String>,
    /// Use the ROCm in this folder.
    #[arg(long, value_name = "DIR")]
    rocm: Option<PathBuf>,
}

/// logduration's options, and ours.
#[derive(Args, Clone, Debug, Default)]
struct RunOptions {
    /// Say what is set and what is run, on stderr.
    #[arg(short, long)]
    verbose: bool,
    /// Kernels that swapping acts on: a regular expression for one of their names, mangled, demangled, or without arguments.
    #[arg(short, long, value_name = "REGEX")]
    kernels: Option<String>,
    /// Run instrumented clones (still to come).
    #[arg(short, long, overrides_with = "no_instrumented")]
    instrumented: bool,
    /// Do not run instrumented clones (the default).
    #[arg(long)]
    no_instrumented: bool,
    /// Print the variables that would be set, and run nothing.
    #[arg(short, long, overrides_with = "no_env_dump")]
    env_dump: bool,
    /// Run the application (the default).
    #[arg(long)]
    no_env_dump: bool,
    /// Which dispatches are instrumented (still to come).
    #[arg(short, long, value_name = "all|random|1")]
    dispatches: Option<String>,
    /// Folder of code objects whose kernels replace those of the same name and arguments; may be given several times.
    #[arg(short, long, value_name = "DIR")]
    cache_location: Vec<PathBuf>,
    /// When kernels are replaced: always, in turns with the original, or for N dispatches. The last two compare both.
    #[arg(long, value_name = "swap|alternate[:N]|off-after:N")]
    cache_mode: Option<String>,
    /// Which of several kernels that fit is taken.
    #[arg(long, value_name = "newest|HASH[,HASH]")]
    cache_pick: Option<String>,
    /// Where rows go: console, a file (%p is the process id), /dev/null.
    #[arg(short, long, value_name = "WHERE")]
    log_location: Option<OsString>,
    /// How rows are written.
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = ["csv", "csv-safe", "json"])]
    log_format: Option<String>,
    /// The same as -t csv-safe: texts that a spreadsheet would take for formulas get an apostrophe.
    #[arg(long, conflicts_with = "log_format")]
    csv_safe: bool,
    /// Only kernels one of whose names matches get rows: mangled, demangled, or without arguments.
    #[arg(long, value_name = "REGEX")]
    log_filter: Option<String>,
    /// Handlers of instrumented kernels' messages (still to come).
    #[arg(short, long, value_name = "NAME", num_args = 1..)]
    analyzers: Vec<String>,
    #[command(flatten)]
    capture: CaptureOptions,
    #[command(flatten)]
    place: PlaceOptions,
}

/// What is captured. The library reads the values; what it cannot is a notice in the log.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Captures")]
struct CaptureOptions {
    /// Capture dispatches, with memory before and after them, into a file (%p is the process id, %r the rank).
    #[arg(long, value_name = "FILE|DIR")]
    capture: Option<OsString>,
    /// Replace a capture that is there. The processes of one job number their files all the same.
    #[arg(long, requires = "capture")]
    force: bool,
    /// Kernels that are captured, by one of their names: mangled, demangled, or without arguments.
    #[arg(long, value_name = "REGEX", requires = "capture")]
    capture_kernels: Option<OsString>,
    /// Which dispatches of each kernel and geometry; without it, the first.
    #[arg(long, value_name = "1,3-7|every:N|random:P%", requires = "capture")]
    capture_dispatches: Option<OsString>,
    /// Only dispatches of this grid, in work-items.
    #[arg(long, value_name = "X[xY[xZ]]", requires = "capture")]
    capture_grid: Option<OsString>,
    /// Only dispatches to this GPU, by its place among the GPUs.
    #[arg(long, value_name = "N", requires = "capture")]
    capture_device: Option<OsString>,
    /// How much memory is captured; without it, all.
    #[arg(long, value_name = "SCOPE", requires = "capture", value_parser = ["kernarg", "args", "reachable", "all"])]
    capture_scope: Option<String>,
    /// Whether memory is captured after the kernel, too; without it, yes.
    #[arg(long, value_name = "0|1", requires = "capture", value_parser = ["0", "1"])]
    capture_after: Option<String>,
    /// Stop when the file has so many bytes; without it, 8G.
    #[arg(long, value_name = "BYTES", requires = "capture")]
    capture_max_bytes: Option<OsString>,
    /// Stop after so many seconds that were spent on captures; without it, 60.
    #[arg(long, value_name = "N", requires = "capture")]
    capture_max_seconds: Option<OsString>,
    /// End the application when so many dispatches are captured.
    #[arg(long, value_name = "N", requires = "capture")]
    capture_quit: Option<OsString>,
    /// How memory is compressed in the file.
    #[arg(long, value_name = "HOW", requires = "capture", value_parser = ["auto", "none", "lz4", "zstd"])]
    capture_compress: Option<String>,
    /// What has to be at rest while memory is read; without it, the whole process.
    #[arg(long, value_name = "WHAT", requires = "capture", value_parser = ["queue", "device", "process"])]
    capture_quiesce: Option<String>,
}

impl RunOptions {
    /// The option whose feature is still to come, if one is used.
    fn still_to_come(&self) -> Option<&'static str> {
        let options = [
            (self.instrumented, "-i/--instrumented"),
            (self.dispatches.is_some(), "-d/--dispatches"),
            (!self.analyzers.is_empty(), "-a/--analyzers"),
        ];
        options.into_iter().find(|(used, _)| *used).map(|(_, name)| name)
    }
}

/// What `--agents-md` prints.
const AGENTS_MD: &str = include_str!("../../docs/agents.md");

/// True for `--agents-md` anywhere but among the application's arguments, also where something is missing that a command needs.
fn wants_agents_md(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.skip(1).take_while(|word| word != "--").any(|word| word == "--agents-md")
}

fn main() -> ExitCode {
    if wants_agents_md(std::env::args_os()) {
        let printed = cmd::lines(AGENTS_MD.lines().map(str::to_owned));
        return if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    exit::end(match cli.command {
        Some(Command::Doctor(place)) => cmd::doctor::run(&place),
        Some(Command::Log(options)) => cmd::log::run(&options),
        Some(Command::Info(options)) => cmd::info::run(&options),
        Some(Command::Dump(options)) => cmd::dump::run(&options),
        Some(Command::Extract(options)) => cmd::extract::run(&options),
        Some(Command::Fsck(options)) => cmd::fsck::run(&options),
        Some(Command::Replay(options)) => cmd::replay::run(&options),
        Some(Command::Verify(options)) => cmd::replay::verify(&options),
        Some(Command::Bench(options)) => cmd::bench::run(&options),
        Some(Command::Tune(options)) => cmd::tune::run(&options),
        Some(Command::Diff(options)) => cmd::diff::run(&options),
        Some(Command::Isa(options)) => cmd::isa::run(&options),
        Some(Command::Cache(options)) => cmd::cache::run(&options),
        Some(Command::Probe(options)) => cmd::doctor::probe(&options),
        None => match run(&cli.run, &cli.app) {
            Ok(application) => return application,
            Err(error) => Err(error),
        },
    })
}

/// The command line as clap knows it, with the statuses at the end of each page of help.
fn command() -> clap::Command {
    fn with_statuses(command: clap::Command) -> clap::Command {
        command.after_help(Exit::help()).mut_subcommands(with_statuses)
    }
    let own = format!("The status of `omniprobe -- APP` is the application's, if it was started.\n\n{}", Exit::help());
    Cli::command().mut_subcommands(with_statuses).after_help(own)
}

fn run(options: &RunOptions, app: &[OsString]) -> anyhow::Result<ExitCode> {
    if let Some(option) = options.still_to_come() {
        anyhow::bail!("{option}: this feature is still to come");
    }
    cmd::run::run(options, app)
}

/// Prints what clap has to say; words that are no option and have no `--` before them are most likely the application.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_command = |word: &OsStr| Cli::command().find_subcommand(word).is_some();
    if matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument)
        && !std::env::args_os().nth(1).is_some_and(|word| is_command(&word))
        && let Some(word) = std::env::args_os().skip(1).find(|a| !a.as_encoded_bytes().starts_with(b"-"))
        && !std::env::args_os().any(|a| a == "--")
    {
        eprintln!(
            "omniprobe: expected `--` before the application, found none: omniprobe [OPTIONS] -- {} ...",
            word.to_string_lossy()
        );
        return Exit::Usage.into();
    }
    // Help and version are no errors; clap knows where each goes.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Success }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The subcommands that are not hidden.
    fn shown() -> impl Iterator<Item = clap::Command> {
        let all: Vec<clap::Command> = command().get_subcommands().filter(|tool| !tool.is_hide_set()).cloned().collect();
        all.into_iter()
    }

    #[test]
    fn the_help_of_every_subcommand_has_every_status() {
        let nested = |tool: clap::Command| {
            let below: Vec<clap::Command> = tool.get_subcommands().cloned().collect();
            std::iter::once(tool).chain(below)
        };
        let all: Vec<clap::Command> = std::iter::once(command()).chain(shown().flat_map(nested)).collect();
        assert!(all.len() > 15, "only {}", all.len());
        for mut tool in all {
            let help = tool.render_long_help().to_string();
            for status in Exit::ALL {
                let line = format!("  {:>2}  {}", *status as u8, status.means());
                assert!(help.contains(&line.replace('`', "")), "{}: {line} is not in\n{help}", tool.get_name());
            }
        }
    }

    #[test]
    fn options_after_the_dashes_are_the_applications() {
        let cli = Cli::parse_from(["omniprobe", "-l", "a.csv", "--", "./app", "-l", "b"]);
        assert_eq!(cli.run.log_location, Some("a.csv".into()));
        assert_eq!(cli.app, ["./app", "-l", "b"]);
    }

    #[test]
    fn the_page_for_agents_is_printed_for_every_command_and_not_for_the_application() {
        let wants = |line: &str| wants_agents_md(line.split(' ').map(OsString::from));
        assert!(wants("omniprobe --agents-md") && wants("omniprobe verify --agents-md"));
        assert!(!wants("omniprobe -v -- ./app --agents-md"));
        let tools: Vec<String> = shown().map(|tool| tool.get_name().to_owned()).collect();
        let unknown = tools.iter().filter(|tool| !AGENTS_MD.contains(&format!("omniprobe {tool}")));
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
    }

    #[test]
    fn what_is_still_to_come_is_named_and_its_negation_is_not() {
        let option = |args: &[&str]| Cli::parse_from([&["omniprobe"], args, &["--", "x"]].concat()).run.still_to_come();
        assert_eq!(option(&["-a", "Heatmap", "MemoryAnalysis"]), Some("-a/--analyzers"));
        assert_eq!(option(&["-i"]), Some("-i/--instrumented"));
        assert_eq!(option(&["-i", "--no-instrumented"]), None);
        assert_eq!(option(&["-e", "-v", "-t", "json"]), None);
    }
}
